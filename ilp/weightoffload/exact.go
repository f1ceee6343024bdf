package weightoffload

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/ilp/timing"
	"workbench/model/cycleratio"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// ExactLayers is the maximum length of a chain for Exact: its O(L²) binaries (880 for 8 layers) are too many for more.
const ExactLayers = 8

// exact is our own exact MILP of weight offloading: its optimum is the minimum period, and its
// integer decisions determine a plan that attains it.
//
// Plans are in the normal form of weightoffload.Schedule, which loses nothing. Its events are the
// starts of the operations, of the prefetch and the discard in each gap, and of the upload of each
// layer. All timing is by precedences between two events that hold if certain binaries have certain
// values. One list of them yields the rows, with a large constant, and, for a solution, the
// difference constraints by which its plan is timed.
//
// Times count from B_L of one cycle. Everything in the gaps d = 0 happens before the end of the
// cycle, everything in the gaps d = 1 between F_1 and F_1 of the next one, and everything about
// uploads within the cycle that follows their backward. That determines the possible orders of two
// transfers on one link: see addDisjunction.
//
// Memory only grows when an operation or a prefetch starts, so it is checked there. In a tie of
// both, the interval to which the start of the prefetch is assigned determines which comes first,
// see slots. Assigned to the interval of operation j, it finds the activations of j held; in an
// earlier one, operation j finds its weight reserved.
type exact struct {
	*instance
	m *milp.Model
	e milp.Expr // scratch

	T     milp.Var
	t     milp.List // by event
	rules []timing.Rule

	away     milp.List // y_g, by gap
	uploaded milp.List // by layer

	slots    [][]slot    // by gap: when its prefetch may start
	absent   [][]absence // by operation: gaps whose weight may be on the host at its start
	others   [][]absence // by gap: other gaps whose weight may be on the host when its prefetch starts
	prefetch [][]order   // of the prefetches of two gaps g < h
	upload   [][]order   // of the uploads of two layers k < l
}

// Events: operation j is event j.
func (f *exact) pre(g int) int { return f.N + g }
func (f *exact) del(g int) int { return 2*f.N + g }
func (f *exact) up(k int) int  { return 3*f.N + k }
func (f *exact) events() int   { return 3*f.N + f.L }

// heavy reports whether the weight of gap g has bytes and so can be evicted.
func (f *exact) heavy(g int) bool { return f.w[g>>1] > 0 }

// slot is a part of the interval of an operation: after its start or, where that makes a
// difference, after its end.
type slot struct {
	v     milp.Var
	op    int
	after bool
}

// absence states that the weight of a gap is on the host at some event, turns cycles later in the
// times of the event than in those of the gap.
type absence struct {
	v     milp.Var
	gap   int
	turns int
}

// order says how two transfers lie. See apart.
type order struct {
	behind, beyond milp.Var
	turning        bool // beyond exists
}

// Exact builds our own MILP whose optimum is the minimum period: see exact. 15L² − 10L binaries in the paper's model of memory. The
// error is ErrTooLong for chains of more than ExactLayers.
func Exact(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	if in.L > ExactLayers {
		return nil, fmt.Errorf("%w: %d layers, weights-exact takes %d at most", formulation.ErrTooLong, in.L, ExactLayers)
	}
	f := &exact{instance: in, m: milp.New("weights-exact")}
	f.columns()
	f.operations()
	f.stays()
	f.prefetchLink()
	f.uploadLink()
	f.slotTimes()
	f.memoryAtOperations()
	f.memoryAtPrefetches()
	f.precedences()
	f.loads()
	f.e.Reset().Add(1, f.T)
	f.m.Minimize(&f.e)
	return &formulation.Program{
		Model: f.m, Promise: formulation.Equal, Formulation: f.m.Name(), Unit: f.time,
		Start: f.start, Hint: f.readHint, Plan: f.plan,
	}, nil
}

// columns adds the period, the times and the choices.
func (f *exact) columns() {
	longest := f.horizon() // upper bound on the minimum period
	f.T = f.m.Var("T", milp.Continuous, f.period, longest)
	f.t = f.m.List("t", f.events(), milp.Continuous, 0, 2*longest)
	for j := range f.N {
		f.m.SetBounds(f.t.At(j), 0, longest)
	}
	f.m.Fix(f.t.At(0), 0)
	f.away = f.m.List("away", f.N, milp.Binary, 0, 1)
	f.uploaded = f.m.List("uploaded", f.L, milp.Binary, 0, 1)
	for g := range f.N {
		if !f.heavy(g) {
			f.m.Fix(f.away.At(g), 0)
		}
	}
}

// horizon returns a period, rounded up, for which a plan exists: the largest weights that fit are
// always resident, and the others are present one at a time, without overlap. So no optimum is
// longer.
func (f *exact) horizon() float64 {
	stay, held := make([]bool, f.L), 0.0
	heaviest := make([]int, f.L)
	for k := range heaviest {
		heaviest[k] = k
	}
	slices.SortFunc(heaviest, func(a, b int) int { return cmp.Compare(f.W[b], f.W[a]) })
	fits := func() bool {
		for j := range f.N {
			own := f.W[f.Layer(j)]
			beside := held
			if stay[f.Layer(j)] {
				beside -= own
			}
			if !platform.Fits(f.Peak[j]+beside, f.Memory) || !platform.Fits(f.Act[f.Predecessor(j)]+own+beside, f.Memory) {
				return false
			}
		}
		return true
	}
	times := append([]float64{}, f.u...)
	for _, k := range heaviest {
		stay[k] = true
		held += f.W[k]
		if !fits() {
			stay[k] = false
			held -= f.W[k]
			move := milp.Up.Quo(f.W[k], f.Platform.Bandwidth) / f.time
			times = append(times, move, 2*move)
		}
	}
	return milp.Up.Sum(times...)
}

// precede adds that event to comes wait or more after event from of turns
// cycles before, when all literals hold.
func (f *exact) precede(from, to int, wait float64, turns int, when ...milp.Literal) {
	f.rules = append(f.rules, timing.Rule{Precedence: cycleratio.Precedence{From: from, To: to, Wait: wait, Turns: turns}, When: when})
}

// precedences makes rows of the rules.
func (f *exact) precedences() {
	g := f.m.Group("precedences", "the rules")
	for i := range f.rules {
		r := &f.rules[i]
		f.e.Reset().Add(1, f.t.At(r.To)).Add(-1, f.t.At(r.From)).Add(float64(r.Turns), f.T)
		g.When(r.When...).AtLeast(&f.e, r.Wait)
	}
}

// operations follow each other in their order, once a cycle.
func (f *exact) operations() {
	for j := range f.N {
		turns := 0
		if j == f.N-1 {
			turns = 1
		}
		f.precede(j, (j+1)%f.N, f.u[j], turns)
	}
}

// turnsTo returns 1 if operation j, which gap g holds or ends with, is one of
// the next cycle in the times of the gap.
func (f *exact) turnsTo(g, j int) int {
	if j < f.Last(g) {
		return 1
	}
	return 0
}

// stays adds the order of events in a gap whose weight is evicted: after its use it is discarded,
// once it is uploaded, and prefetched before the next use.
func (f *exact) stays() {
	chosen := f.m.Group("uploaded if away", "the rules")
	for g := range f.N {
		if !f.heavy(g) {
			continue
		}
		k, y := g>>1, f.away.At(g)
		f.precede(f.Last(g), f.del(g), f.u[f.Last(g)], 0, milp.Is(y))
		f.precede(f.del(g), f.pre(g), 0, 0, milp.Is(y))
		f.precede(f.pre(g), f.Use(g), f.moves[k], f.turnsTo(g, f.Use(g)), milp.Is(y))
		if g&1 == 0 {
			f.precede(f.up(k), f.del(g), f.moves[k], 0, milp.Is(y))
		} else {
			f.precede(f.up(k), f.del(g), f.moves[k], 0, milp.Is(y), milp.IsNot(f.away.At(g^1)))
		}
		f.e.Reset().Add(1, f.uploaded.At(k)).Add(-1, y)
		chosen.AtLeast(&f.e, 0)
	}
	for k, w := range f.w {
		if w > 0 {
			f.precede(f.B(k), f.up(k), f.u[f.B(k)], 0, milp.Is(f.uploaded.At(k)))
			f.precede(f.up(k), f.B(k), f.moves[k], 1, milp.Is(f.uploaded.At(k)))
		}
	}
}

// addDisjunction adds that two transfers a and b on one link do not overlap. They repeat every T;
// the time of b is within a cycle before and two cycles after that of a. So b is before a (behind),
// or after a and before a of the next cycle, or after that (beyond). If the times are known to
// differ by less than a cycle whatever their order, turning is false, and behind suffices.
func (f *exact) addDisjunction(name string, a, b int, wa, wb float64, turning bool, when ...milp.Literal) order {
	o := order{behind: f.m.Var("behind["+name+"]", milp.Binary, 0, 1), turning: turning}
	and := func(l milp.Literal) []milp.Literal { return append(slices.Clone(when), l) }
	f.precede(b, a, wb, 0, and(milp.Is(o.behind))...)
	f.precede(a, b, wa, 0, and(milp.IsNot(o.behind))...)
	if turning {
		o.beyond = f.m.Var("beyond["+name+"]", milp.Binary, 0, 1)
		f.precede(a, b, wa, -1, and(milp.Is(o.beyond))...)
		f.precede(b, a, wb, 1, and(milp.IsNot(o.beyond))...)
	}
	return o
}

// prefetchLink carries one prefetch at a time. Those of one layer are apart
// anyway.
func (f *exact) prefetchLink() {
	f.prefetch = make([][]order, f.N)
	for g := range f.N {
		f.prefetch[g] = make([]order, f.N)
		for h := g + 1; h < f.N; h++ {
			if g>>1 == h>>1 || !f.heavy(g) || !f.heavy(h) {
				continue
			}
			a, b := f.early(g, h)
			f.prefetch[g][h] = f.addDisjunction(fmt.Sprintf("P%d,P%d", a, b), f.pre(a), f.pre(b), f.moves[a>>1], f.moves[b>>1],
				g&1 != h&1, milp.Is(f.away.At(g)), milp.Is(f.away.At(h)))
		}
	}
}

// early returns two gaps such that the one with d = 0, if there is only one,
// is the first: the roles of a and b in apart.
func (f *exact) early(g, h int) (a, b int) {
	if g&1 == 1 && h&1 == 0 {
		return h, g
	}
	return g, h
}

// uploadLink carries one upload at a time. That of the layer whose backward is
// later, which is the one nearer to the input, has the later times.
func (f *exact) uploadLink() {
	f.upload = make([][]order, f.L)
	for k := range f.L {
		f.upload[k] = make([]order, f.L)
		for l := k + 1; l < f.L; l++ {
			if f.w[k] > 0 && f.w[l] > 0 {
				f.upload[k][l] = f.addDisjunction(fmt.Sprintf("O%d,O%d", l, k), f.up(l), f.up(k), f.moves[l], f.moves[k],
					true, milp.Is(f.uploaded.At(k)), milp.Is(f.uploaded.At(l)))
			}
		}
	}
}

// slotTimes adds in which interval the prefetch of each gap starts. What an operation takes only while
// it runs, the gradient of a backward and overheads, is free again after it, so its interval has two
// slots then; that of the use before the gap has the one after it.
func (f *exact) slotTimes() {
	group := f.m.Group("starts in one slot", "the rules")
	f.slots = make([][]slot, f.N)
	for g := range f.N {
		if !f.heavy(g) {
			continue
		}
		for i := range f.inside(g) {
			j := (f.Last(g) + i) % f.N
			if i > 0 {
				f.addSlot(g, j, false)
			}
			if i == 0 || f.Backward(j) || f.Room(j) < f.RoomBefore((j+1)%f.N) {
				f.addSlot(g, j, true)
			}
		}
		f.e.Reset().Add(-1, f.away.At(g))
		for _, s := range f.slots[g] {
			f.e.Add(1, s.v)
		}
		group.Equal(&f.e, 0)
	}
}

// inside returns the number of intervals in gap g.
func (f *exact) inside(g int) int { return (f.Use(g) - f.Last(g) + f.N) % f.N }

// addSlot lets the prefetch of gap g start in the interval of operation j, or
// in the part of it after the operation.
func (f *exact) addSlot(g, j int, after bool) {
	s := slot{f.m.Var(fmt.Sprintf("slot[%d,%d,%t]", g, j, after), milp.Binary, 0, 1), j, after}
	wait := 0.0
	if after {
		wait = f.u[j]
	}
	next := (j + 1) % f.N
	f.precede(j, f.pre(g), wait, -f.turnsTo(g, j), milp.Is(s.v))
	f.precede(f.pre(g), next, 0, f.turnsTo(g, next), milp.Is(s.v))
	f.slots[g] = append(f.slots[g], s)
}

// memoryAtOperations adds that each operation fits: the weights of enough gaps are on the host,
// discarded before it and not reserved in an interval before that of the operation.
func (f *exact) memoryAtOperations() {
	memory, order := f.m.Group("memory at operations", "[001] (1)"), f.m.Group("away at operations", "the rules")
	f.absent = make([][]absence, f.N)
	for j := range f.N {
		own := f.Layer(j)
		away := make([][]milp.Var, f.L)
		for k := range f.L {
			g := f.Open(k, j)
			if k == own || !f.heavy(g) {
				continue
			}
			a := absence{v: f.m.Var(fmt.Sprintf("absent[%s,%d]", f.OpName(j), g), milp.Binary, 0, 1), gap: g, turns: f.turnsTo(g, j)}
			f.absent[j] = append(f.absent[j], a)
			f.precede(f.del(g), j, 0, a.turns, milp.Is(a.v))
			f.e.Reset().Add(1, a.v)
			for _, s := range f.slots[g] {
				if f.distance(g, s.op) >= f.distance(g, j) {
					f.e.Add(-1, s.v)
				}
			}
			order.AtMost(&f.e, 0)
			away[k] = append(away[k], a.v)
		}
		f.makeRoom(memory, own, away, []demanded{{room: f.Room(j), always: true}})
	}
}

// distance returns the number of operations from the start of gap g to operation j.
func (f *exact) distance(g, j int) int { return (j - f.Last(g) + f.N) % f.N }

// memoryAtPrefetches adds that each prefetch fits at its start: the weights of enough other gaps
// are on the host, discarded before it and prefetched after it.
func (f *exact) memoryAtPrefetches() {
	memory, order := f.m.Group("memory at prefetches", "[001] (1)"), f.m.Group("away at prefetches", "the rules")
	f.others = make([][]absence, f.N)
	for h := range f.N {
		if !f.heavy(h) {
			continue
		}
		away := make([][]milp.Var, f.L)
		for g := range f.N {
			if g>>1 == h>>1 || !f.heavy(g) {
				continue
			}
			var once milp.Expr
			once.Add(-1, f.away.At(g))
			for _, turns := range turnsBetween(h, g) {
				a := absence{f.m.Var(fmt.Sprintf("absent[P%d,%d,%d]", h, g, turns), milp.Binary, 0, 1), g, turns}
				f.others[h] = append(f.others[h], a)
				f.precede(f.del(g), f.pre(h), 0, turns, milp.Is(a.v))
				f.addOrder(h, g, turns, a.v, order)
				f.e.Reset().Add(1, a.v).Add(-1, f.away.At(h))
				order.AtMost(&f.e, 0)
				once.Add(1, a.v)
				away[g>>1] = append(away[g>>1], a.v)
			}
			order.AtMost(&once, 0)
		}
		rooms := make([]demanded, len(f.slots[h]))
		for i, s := range f.slots[h] {
			rooms[i] = demanded{room: f.Room(s.op), v: s.v}
			if s.after {
				rooms[i].room = f.RoomBefore((s.op + 1) % f.N)
			}
		}
		f.makeRoom(memory, h>>1, away, rooms)
	}
}

// demanded is room for weights, in units of sizes, that must be enough if v
// holds, or always.
type demanded struct {
	room   float64
	v      milp.Var
	always bool
}

// nearly is the fraction of the largest demand below which a solver may not notice a difference.
const nearly = 1. / (1 << 16)

// makeRoom adds that enough weights other than own are on the host for the demanded rooms. away[k]
// are the binaries that state that w_k is, at most one of which holds. Of the rooms that are not
// always demanded at most one is, and none that no weights could provide.
//
// One row adds up sizes: coefficients above the demand are reduced to it, and a power of two scales
// them. Small differences between sizes of several magnitudes are lost in it. So if some weights
// fall just short of a demand, another row with coefficients 1 states that these cannot be all that
// is on the host: one of the others is. The first row then demands slightly less, so rounding does
// not matter in it.
func (f *exact) makeRoom(g milp.Group, own int, away [][]milp.Var, rooms []demanded) {
	most := 0.0
	whole := make([]float64, len(rooms))
	for i, r := range rooms {
		whole[i] = f.demand(own, r.room).whole
		if math.IsInf(whole[i], 1) {
			f.m.Fix(r.v, 0)
			whole[i] = 0
		}
		most = max(most, whole[i])
	}
	if most == 0 {
		return
	}
	unit := milp.PowerOfTwo(most, scale)
	asked := unit
	if f.covers(g, away, rooms, whole, most) {
		asked *= 1 - nearly/2
	}
	f.e.Reset()
	for k, vs := range away {
		for _, v := range vs {
			f.e.Add(min(f.w[k], most)*unit, v)
		}
	}
	always := 0.0
	for i, r := range rooms {
		if least := milp.Down.Mul(whole[i], asked); r.always {
			always = max(always, least)
		} else {
			f.e.Add(-least, r.v)
		}
	}
	g.AtLeast(&f.e, always)
}

// covers adds the second kind of rows of makeRoom, for each set of layers that
// falls short of some demand by less than nearly the largest, and with any other
// layer would not. It reports whether there is any. O(2^L).
func (f *exact) covers(g milp.Group, away [][]milp.Var, rooms []demanded, whole []float64, most float64) (any bool) {
	for set := range 1 << f.L {
		sum, rest := 0.0, math.Inf(1) // the smallest weight that is not in the set
		for k, vs := range away {
			switch in := set>>k&1 == 1; {
			case in && len(vs) == 0:
				rest = -1 // another set says the same
			case in:
				sum += f.w[k]
			case len(vs) > 0:
				rest = min(rest, f.w[k])
			}
		}
		if rest < 0 || !slices.ContainsFunc(whole, func(x float64) bool {
			return sum < x && x <= sum+nearly*most && sum+rest >= x
		}) {
			continue
		}
		f.e.Reset()
		for k, vs := range away {
			if set>>k&1 == 0 {
				for _, v := range vs {
					f.e.Add(1, v)
				}
			}
		}
		always := 0.0
		for i, r := range rooms {
			switch {
			case whole[i] <= sum:
			case r.always:
				always = 1
			default:
				f.e.Add(-1, r.v)
			}
		}
		g.AtLeast(&f.e, always)
		any = true
	}
	return any
}

// turnsBetween returns how many cycles later the prefetch in gap h may be in
// the times of gap g than in its own.
func turnsBetween(h, g int) []int {
	switch h&1 - g&1 {
	case 1:
		return []int{0, -1}
	case -1:
		return []int{0, 1}
	}
	return []int{0}
}

// addOrder adds that v needs the prefetch of gap h, turns cycles later, to be
// before that of gap g.
func (f *exact) addOrder(h, g, turns int, v milp.Var, group milp.Group) {
	a, b := f.early(min(g, h), max(g, h))
	o := f.prefetch[min(g, h)][max(g, h)]
	var l milp.Literal
	switch {
	case h == b && turns == 0:
		l = milp.Is(o.behind)
	case h == b:
		l = milp.IsNot(o.beyond)
	case h == a && turns == 0:
		l = milp.IsNot(o.behind)
	default:
		l = milp.Is(o.beyond)
	}
	f.e.Reset().Add(1, v)
	if l.Not {
		group.AtMost(f.e.Add(1, l.Var), 1)
	} else {
		group.AtMost(f.e.Add(-1, l.Var), 0)
	}
}

// loads adds that each link carries all its transfers within the period: the
// precedences say so only of orders that are decided.
func (f *exact) loads() {
	g := f.m.Group("loads", "tightens the rules")
	f.e.Reset().Add(1, f.T)
	for h := range f.N {
		f.e.Add(-f.moves[h>>1], f.away.At(h))
	}
	g.AtLeast(&f.e, 0)
	f.e.Reset().Add(1, f.T)
	for k, t := range f.moves {
		f.e.Add(-t, f.uploaded.At(k))
	}
	g.AtLeast(&f.e, 0)
}

// schedule times the decisions of the solution x.
func (f *exact) schedule(x []float64) (*weightoffload.Schedule, error) {
	period, at, err := cycleratio.Least(f.events(), timing.Binding(f.rules, x), f.period)
	if err != nil {
		return nil, fmt.Errorf("weights-exact: decisions of the solution: %w", err)
	}
	s := weightoffload.NewSchedule(f.Instance)
	s.T = period * f.time
	copyTo := func(times []float64, event func(int) int) {
		for i := range times {
			times[i] = (at[event(i)] - at[0]) * f.time
		}
	}
	copyTo(s.Op, func(j int) int { return j })
	copyTo(s.Pre, f.pre)
	copyTo(s.Up, f.up)
	for g := range s.Away {
		s.Away[g] = milp.Is(f.away.At(g)).IsTrue(x)
	}
	return s, nil
}

// plan makes a plan of the solution x.
func (f *exact) plan(x []float64) (*plan.Plan, error) {
	s, err := f.schedule(x)
	if err != nil {
		return nil, err
	}
	return s.Plan(f.Instance, f.m.Name()), nil
}

// start gives every column its value in the plan.
func (f *exact) start(p *plan.Plan) ([]float64, error) {
	s, err := f.read(p)
	if err != nil {
		return nil, err
	}
	x := make([]float64, f.m.NumCols())
	f.startTimes(s, x)
	chosen := f.startSlots(s, x)
	f.startOrders(s, x)
	for j, absent := range f.absent {
		for _, a := range absent {
			set(x, a.v, s.Away[a.gap] && chosen[a.gap] >= f.distance(a.gap, j) &&
				notAfter(s, s.Deleted(f.Instance, a.gap), s.Op[j]+float64(a.turns)*s.T))
		}
	}
	for h, others := range f.others {
		for _, a := range others {
			set(x, a.v, s.Away[h] && f.gone(s, a.gap, s.Pre[h]+float64(a.turns)*s.T))
		}
	}
	return x, nil
}

// set gives a binary its value.
func set(x []float64, v milp.Var, true bool) {
	if true {
		x[v.Index()] = 1
	}
}

// startTimes sets the times of s and which weights are evicted.
func (f *exact) startTimes(s *weightoffload.Schedule, x []float64) {
	at := func(event int, seconds float64) { x[f.t.At(event).Index()] = seconds / f.time }
	x[f.T.Index()] = s.T / f.time
	for j := range f.N {
		at(j, s.Op[j])
	}
	for k := range f.L {
		if s.Uploads(k) {
			at(f.up(k), s.Up[k])
			set(x, f.uploaded.At(k), true)
		}
	}
	for g := range f.N {
		if s.Away[g] {
			at(f.del(g), s.Deleted(f.Instance, g))
			at(f.pre(g), s.Pre[g])
			set(x, f.away.At(g), true)
		}
	}
}

// startSlots sets the interval in which each prefetch starts, and returns by gap its distance from
// the start of the gap, in operations.
func (f *exact) startSlots(s *weightoffload.Schedule, x []float64) []int {
	chosen := make([]int, f.N)
	for g, slots := range f.slots {
		if i := f.slotOf(s, g); s.Away[g] && i >= 0 {
			set(x, slots[i].v, true)
			chosen[g] = f.distance(g, slots[i].op)
		}
	}
	return chosen
}

// startOrders sets how transfers lie on the links.
func (f *exact) startOrders(s *weightoffload.Schedule, x []float64) {
	lie := func(o order, a, b float64) {
		set(x, o.behind, b < a)
		if o.turning {
			set(x, o.beyond, b > a+s.T)
		}
	}
	for g := range f.N {
		for h := g + 1; h < f.N; h++ {
			if g>>1 != h>>1 && s.Away[g] && s.Away[h] {
				a, b := f.early(g, h)
				lie(f.prefetch[g][h], s.Pre[a], s.Pre[b])
			}
		}
	}
	for k := range f.L {
		for l := k + 1; l < f.L; l++ {
			if s.Uploads(k) && s.Uploads(l) {
				lie(f.upload[k][l], s.Up[l], s.Up[k])
			}
		}
	}
}

// slotOf returns the number of the last slot that has started when the prefetch of gap g starts.
func (f *exact) slotOf(s *weightoffload.Schedule, g int) int {
	last := -1
	for i, slot := range f.slots[g] {
		from := s.Op[slot.op] + float64(f.turnsTo(g, slot.op))*s.T
		if slot.after {
			from += f.U[slot.op]
		}
		if notAfter(s, from, s.Pre[g]) {
			last = i
		}
	}
	return last
}

// notAfter reports whether a is before b, or simultaneous with it.
func notAfter(s *weightoffload.Schedule, a, b float64) bool { return a <= b+plan.Tolerance*s.T }

// gone reports whether the weight of gap g is on the host at time x of its times.
func (f *exact) gone(s *weightoffload.Schedule, g int, x float64) bool {
	return s.Away[g] && notAfter(s, s.Deleted(f.Instance, g), x) && notAfter(s, x, s.Pre[g])
}

func (f *exact) readHint(x []float64) *formulation.Hint {
	h := f.hint()
	s, err := f.schedule(x)
	if err != nil {
		return h
	}
	copy(h.Away, s.Away)
	for j := range f.N {
		h.Idle[j] = s.StartOf(j+1) - s.Op[j] - f.U[j]
	}
	return h
}
