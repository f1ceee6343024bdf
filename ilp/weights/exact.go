package weights

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/ilp/timing"
	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ExactLayers is the length of the longest chain that Exact takes: its
// 20L² binaries are too many for more.
const ExactLayers = 8

// exact is a MILP of weight offloading as it is, of our own: its optimum is the
// least period, and its integer decisions make a plan that has it.
//
// Plans are in the normal form of timeline, which costs no time. Its events are
// the starts of the operations, of the prefetch and the discard in each gap,
// and of the upload of each layer. All that concerns time is a precedence
// between two events on condition that certain binaries have certain values:
// one list of them gives the rows, with a large constant, and, of a solution,
// the difference constraints that its plan is timed by.
//
// Times count from B_L of one cycle. Everything in the gaps d = 0 happens
// before the end of the cycle, everything in the gaps d = 1 between F_1 and
// F_1 of the next one, and everything about uploads within the cycle that
// follows their backward. That decides how two transfers on one link can lie:
// see apart.
//
// Memory only grows when an operation or a prefetch starts, so it is checked
// there. An instant can hold both: which comes first is decided by the interval
// that the prefetch is said to start in, slots. Said to start in the interval
// of operation j, it finds the activations of j held; in an earlier one,
// operation j finds its weight reserved.
type exact struct {
	*weightInstance
	m *milp.Model
	e milp.Expr // scratch

	longest float64 // upper bound on the least period
	period  milp.Var
	t       milp.List // by event
	rules   []timing.Rule

	away     milp.List // y_g, by gap
	uploaded milp.List // by layer

	slots    [][]slot    // by gap: when its prefetch may start
	absent   [][]absence // by operation: gaps whose weight may be away at its start
	others   [][]absence // by gap: other gaps whose weight may be away when its prefetch starts
	prefetch [][]order   // of the prefetches of two gaps g < h
	upload   [][]order   // of the uploads of two layers k < l
}

// Events: operation j is event j.
func (f *exact) pre(g int) int { return f.n + g }
func (f *exact) del(g int) int { return 2*f.n + g }
func (f *exact) up(k int) int  { return 3*f.n + k }
func (f *exact) events() int   { return 3*f.n + f.L }

// moves reports whether gap g has a weight that can leave.
func (f *exact) moves(g int) bool { return f.w[g>>1] > 0 }

// slot is a part of the interval of an operation: after its start or, where
// that makes a difference, after its end.
type slot struct {
	v     milp.Var
	op    int
	after bool
}

// absence says that the weight of a gap is away at some event, turns cycles
// later in the times of the event than in those of the gap.
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

// Exact builds the exact MILP. The error is ErrTooLong for chains of
// more than ExactLayers.
func Exact(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newWeightInstance(c, p)
	if err != nil {
		return nil, err
	}
	if err := in.short(); err != nil {
		return nil, err
	}
	return buildExact(in).program(), nil
}

// short returns ErrTooLong if the chain is too long for the exact MILP.
func (in *weightInstance) short() error {
	if in.L > ExactLayers {
		return fmt.Errorf("%w: %d layers, weights-exact takes %d at most", formulation.ErrTooLong, in.L, ExactLayers)
	}
	return nil
}

func (f *exact) program() *formulation.Program {
	return &formulation.Program{Model: f.m, Start: f.start, Hint: f.hint, Plan: f.plan}
}

func buildExact(in *weightInstance) *exact {
	f := &exact{weightInstance: in, m: milp.New("weights-exact")}
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
	f.e.Reset().Add(f.time, f.period)
	f.m.Minimize(&f.e)
	return f
}

// columns adds the period, the times and the choices. One layer at a time,
// nothing overlapping, needs Σu + 3Σ|w|/β and the least memory, so no optimum
// is longer.
func (f *exact) columns() {
	f.longest = 3 * f.total
	for _, u := range f.u {
		f.longest += u
	}
	f.period = f.m.Var("T", milp.Continuous, f.computation/f.time, f.longest)
	f.t = f.m.List("t", f.events(), milp.Continuous, 0, 2*f.longest)
	for j := range f.n {
		f.m.SetBounds(f.t.At(j), 0, f.longest)
	}
	f.m.Fix(f.t.At(0), 0)
	f.away = f.m.List("away", f.n, milp.Binary, 0, 1)
	f.uploaded = f.m.List("uploaded", f.L, milp.Binary, 0, 1)
	for g := range f.n {
		if !f.moves(g) {
			f.m.Fix(f.away.At(g), 0)
		}
	}
}

// precede adds that event to comes wait or more after event from of turns
// cycles before, when all literals hold.
func (f *exact) precede(from, to int, wait float64, turns int, when ...timing.Literal) {
	f.rules = append(f.rules, timing.Rule{Precedence: timing.Precedence{From: from, To: to, Wait: wait, Turns: turns}, When: when})
}

// precedences makes rows of the rules.
func (f *exact) precedences() {
	g := f.m.Group("precedences", "the rules")
	for i := range f.rules {
		r := &f.rules[i]
		f.e.Reset().Add(1, f.t.At(r.To)).Add(-1, f.t.At(r.From)).Add(float64(r.Turns), f.period)
		_, latest := f.m.Bounds(f.t.At(r.From))
		off := r.Wait + latest - float64(min(0, r.Turns))*f.longest
		for _, l := range r.When {
			if l.Value == 1 {
				f.e.AddConst(off).Add(-off, l.V)
			} else {
				f.e.Add(off, l.V)
			}
		}
		g.AtLeast(&f.e, r.Wait)
	}
}

// operations follow each other in their order, once a cycle.
func (f *exact) operations() {
	for j := range f.n {
		turns := 0
		if j == f.n-1 {
			turns = 1
		}
		f.precede(j, (j+1)%f.n, f.u[j], turns)
	}
}

// turnsTo returns 1 if operation j, which gap g holds or ends with, is one of
// the next cycle in the times of the gap.
func (f *exact) turnsTo(g, j int) int {
	if j < f.last(g) {
		return 1
	}
	return 0
}

// stays says what happens in a gap whose weight leaves: after its use it is
// discarded, once it is uploaded, and prefetched before the next use.
func (f *exact) stays() {
	chosen := f.m.Group("uploaded if away", "the rules")
	for g := range f.n {
		if !f.moves(g) {
			continue
		}
		k, y := g>>1, f.away.At(g)
		f.precede(f.last(g), f.del(g), f.u[f.last(g)], 0, timing.Is(y))
		f.precede(f.del(g), f.pre(g), 0, 0, timing.Is(y))
		f.precede(f.pre(g), f.use(g), f.w[k], f.turnsTo(g, f.use(g)), timing.Is(y))
		if g&1 == 0 {
			f.precede(f.up(k), f.del(g), f.w[k], 0, timing.Is(y))
		} else {
			f.precede(f.up(k), f.del(g), f.w[k], 0, timing.Is(y), timing.IsNot(f.away.At(g^1)))
		}
		f.e.Reset().Add(1, f.uploaded.At(k)).Add(-1, y)
		chosen.AtLeast(&f.e, 0)
	}
	for k, w := range f.w {
		if w > 0 {
			f.precede(f.B(k), f.up(k), f.u[f.B(k)], 0, timing.Is(f.uploaded.At(k)))
			f.precede(f.up(k), f.B(k), w, 1, timing.Is(f.uploaded.At(k)))
		}
	}
}

// apart makes two transfers a and b on one link not overlap. They repeat every
// T; the time of b is within a cycle before and two cycles after that of a. So
// b is before a (behind), or after a and before a of the next cycle, or after
// that (beyond). If the times are known to be less than a cycle apart whatever
// their order, turning is false, and behind is all.
func (f *exact) apart(name string, a, b int, wa, wb float64, turning bool, when ...timing.Literal) order {
	o := order{behind: f.m.Var("behind["+name+"]", milp.Binary, 0, 1), turning: turning}
	and := func(l timing.Literal) []timing.Literal { return append(slices.Clone(when), l) }
	f.precede(b, a, wb, 0, and(timing.Is(o.behind))...)
	f.precede(a, b, wa, 0, and(timing.IsNot(o.behind))...)
	if turning {
		o.beyond = f.m.Var("beyond["+name+"]", milp.Binary, 0, 1)
		f.precede(a, b, wa, -1, and(timing.Is(o.beyond))...)
		f.precede(b, a, wb, 1, and(timing.IsNot(o.beyond))...)
	}
	return o
}

// prefetchLink carries one prefetch at a time. Those of one layer are apart
// anyway.
func (f *exact) prefetchLink() {
	f.prefetch = make([][]order, f.n)
	for g := range f.n {
		f.prefetch[g] = make([]order, f.n)
		for h := g + 1; h < f.n; h++ {
			if g>>1 == h>>1 || !f.moves(g) || !f.moves(h) {
				continue
			}
			a, b := f.early(g, h)
			f.prefetch[g][h] = f.apart(fmt.Sprintf("P%d,P%d", a, b), f.pre(a), f.pre(b), f.w[a>>1], f.w[b>>1],
				g&1 != h&1, timing.Is(f.away.At(g)), timing.Is(f.away.At(h)))
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
				f.upload[k][l] = f.apart(fmt.Sprintf("O%d,O%d", l, k), f.up(l), f.up(k), f.w[l], f.w[k],
					true, timing.Is(f.uploaded.At(k)), timing.Is(f.uploaded.At(l)))
			}
		}
	}
}

// slotTimes says in which interval the prefetch of each gap starts. While a
// backward runs, its gradient takes memory, too, so its interval has two slots;
// that of the use before the gap has the one after it.
func (f *exact) slotTimes() {
	group := f.m.Group("starts in one slot", "the rules")
	f.slots = make([][]slot, f.n)
	for g := range f.n {
		if !f.moves(g) {
			continue
		}
		for i := range f.inside(g) {
			j := (f.last(g) + i) % f.n
			if i > 0 {
				f.addSlot(g, j, false)
			}
			if i == 0 || f.Backward(j) {
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
func (f *exact) inside(g int) int { return (f.use(g) - f.last(g) + f.n) % f.n }

// addSlot lets the prefetch of gap g start in the interval of operation j, or
// in the part of it after the operation.
func (f *exact) addSlot(g, j int, after bool) {
	s := slot{f.m.Var(fmt.Sprintf("slot[%d,%d,%t]", g, j, after), milp.Binary, 0, 1), j, after}
	wait := 0.0
	if after {
		wait = f.u[j]
	}
	next := (j + 1) % f.n
	f.precede(j, f.pre(g), wait, -f.turnsTo(g, j), timing.Is(s.v))
	f.precede(f.pre(g), next, 0, f.turnsTo(g, next), timing.Is(s.v))
	f.slots[g] = append(f.slots[g], s)
}

// need returns how much must be away while operation j runs, or after it, and
// whole weights make room, that of layer own being here; +Inf if all the
// others are too few.
func (f *exact) need(own, j int, after bool) float64 {
	room := f.room[j]
	if after {
		room = f.roomBefore[(j+1)%f.n]
	}
	return f.mustLeave(own, f.total-room)
}

// memoryAtOperations makes room for each operation: the weights of some gaps
// are away, discarded before it and not reserved again in an interval before
// that of the operation.
func (f *exact) memoryAtOperations() {
	memory, order := f.m.Group("memory at operations", "[001] (1)"), f.m.Group("away at operations", "the rules")
	f.absent = make([][]absence, f.n)
	var sum milp.Expr
	for j := range f.n {
		own := f.Layer(j)
		sum.Reset()
		for k := range f.L {
			g := 2*k + f.open(k, j)
			if k == own || !f.moves(g) {
				continue
			}
			a := absence{v: f.m.Var(fmt.Sprintf("absent[%s,%d]", f.opName(j), g), milp.Binary, 0, 1), gap: g, turns: f.turnsTo(g, j)}
			f.absent[j] = append(f.absent[j], a)
			f.precede(f.del(g), j, 0, a.turns, timing.Is(a.v))
			f.e.Reset().Add(1, a.v)
			for _, s := range f.slots[g] {
				if f.after(g, s.op) >= f.after(g, j) {
					f.e.Add(-1, s.v)
				}
			}
			order.AtMost(&f.e, 0)
			sum.Add(f.w[k], a.v)
		}
		if need := min(f.need(own, j, false), f.total-f.w[own]); need > 0 {
			memory.AtLeast(&sum, need)
		}
	}
}

// after returns how many operations after the beginning of gap g operation j
// is.
func (f *exact) after(g, j int) int { return (j - f.last(g) + f.n) % f.n }

// memoryAtPrefetches makes room for each prefetch at its start: the weights of
// some other gaps are away, discarded before it, and prefetched after it.
func (f *exact) memoryAtPrefetches() {
	memory, order := f.m.Group("memory at prefetches", "[001] (1)"), f.m.Group("away at prefetches", "the rules")
	f.others = make([][]absence, f.n)
	var sum milp.Expr
	for h := range f.n {
		if !f.moves(h) {
			continue
		}
		sum.Reset()
		for g := range f.n {
			if g>>1 == h>>1 || !f.moves(g) {
				continue
			}
			f.e.Reset().Add(-1, f.away.At(g))
			var once milp.Expr
			once.AddExpr(1, &f.e)
			for _, turns := range turnsBetween(h, g) {
				a := absence{f.m.Var(fmt.Sprintf("absent[P%d,%d,%d]", h, g, turns), milp.Binary, 0, 1), g, turns}
				f.others[h] = append(f.others[h], a)
				f.precede(f.del(g), f.pre(h), 0, turns, timing.Is(a.v))
				f.before(h, g, turns, a.v, order)
				f.e.Reset().Add(1, a.v).Add(-1, f.away.At(h))
				order.AtMost(&f.e, 0)
				once.Add(1, a.v)
				sum.Add(f.w[g>>1], a.v)
			}
			order.AtMost(&once, 0)
		}
		for _, s := range f.slots[h] {
			switch need := f.need(h>>1, s.op, s.after); {
			case math.IsInf(need, 1):
				f.m.Fix(s.v, 0)
			default:
				sum.Add(-need, s.v)
			}
		}
		memory.AtLeast(&sum, 0)
	}
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

// before adds that v needs the prefetch of gap h, turns cycles later, to be
// before that of gap g.
func (f *exact) before(h, g, turns int, v milp.Var, group milp.Group) {
	a, b := f.early(min(g, h), max(g, h))
	o := f.prefetch[min(g, h)][max(g, h)]
	var l timing.Literal
	switch {
	case h == b && turns == 0:
		l = timing.Is(o.behind)
	case h == b:
		l = timing.IsNot(o.beyond)
	case h == a && turns == 0:
		l = timing.IsNot(o.behind)
	default:
		l = timing.Is(o.beyond)
	}
	f.e.Reset().Add(1, v)
	if l.Value == 1 {
		f.e.Add(-1, l.V)
		group.AtMost(&f.e, 0)
	} else {
		f.e.Add(1, l.V)
		group.AtMost(&f.e, 1)
	}
}

// loads adds that each link carries all its transfers within the period: the
// precedences say so only of orders that are decided.
func (f *exact) loads() {
	g := f.m.Group("loads", "tightens the rules")
	f.e.Reset().Add(1, f.period)
	for h := range f.n {
		f.e.Add(-f.w[h>>1], f.away.At(h))
	}
	g.AtLeast(&f.e, 0)
	f.e.Reset().Add(1, f.period)
	for k, w := range f.w {
		f.e.Add(-w, f.uploaded.At(k))
	}
	g.AtLeast(&f.e, 0)
}

// timeline times the decisions of the solution x.
func (f *exact) timeline(x []float64) (*timeline, error) {
	active := make([]timing.Precedence, 0, len(f.rules))
	for i := range f.rules {
		r := &f.rules[i]
		if !slices.ContainsFunc(r.When, func(l timing.Literal) bool { return !l.Holds(x) }) {
			active = append(active, r.Precedence)
		}
	}
	period, at, err := timing.Retime(f.events(), active, f.computation/f.time)
	if err != nil {
		return nil, fmt.Errorf("weights-exact: decisions of the solution: %w", err)
	}
	t := newTimeline(f.weightInstance)
	t.T = period
	for j := range f.n {
		t.s[j] = at[j] - at[0]
	}
	for g := range f.n {
		t.away[g] = timing.Is(f.away.At(g)).Holds(x)
		t.del[g], t.pre[g] = at[f.del(g)]-at[0], at[f.pre(g)]-at[0]
	}
	for k := range f.L {
		t.up[k] = at[f.up(k)] - at[0]
	}
	return t, nil
}

// plan makes a plan of the solution x.
func (f *exact) plan(x []float64) (*plan.Plan, error) {
	t, err := f.timeline(x)
	if err != nil {
		return nil, err
	}
	period := t.T * f.time
	p := &plan.Plan{
		Format: plan.Format, Problem: plan.WeightOffload, Method: f.m.Name(),
		Instance: plan.InstanceRef{Name: f.chain.Name}, Platform: f.platform, Period: &period,
	}
	add := func(kind, tensor string, k int, start, duration float64) {
		start = t.wrap(start) * f.time
		p.Ops = append(p.Ops, plan.Op{Op: kind, Tensor: tensor, Layer: k + 1, Start: start, End: start + duration})
	}
	for j := range f.n {
		kind := plan.OpF
		if f.Backward(j) {
			kind = plan.OpB
		}
		add(kind, "", f.Layer(j), t.s[j], f.U[j])
	}
	for k, w := range f.W {
		if t.uploads(k) {
			add(plan.OpO, plan.TensorW, k, t.up[k], w/f.platform.Bandwidth)
		}
		for g := 2 * k; g <= 2*k+1; g++ {
			if t.away[g] {
				add(plan.OpD, plan.TensorW, k, t.del[g], 0)
				add(plan.OpP, plan.TensorW, k, t.pre[g], w/f.platform.Bandwidth)
			}
		}
	}
	slices.SortStableFunc(p.Ops, func(a, b plan.Op) int { return cmp.Compare(a.Start, b.Start) })
	p.Claims = plan.Claims{Makespan: period, PeakMemory: f.peak(t)}
	return p, nil
}

// start gives every column its value in the plan.
func (f *exact) start(p *plan.Plan) ([]float64, error) {
	t, err := f.readTimeline(p)
	if err != nil {
		return nil, err
	}
	x := make([]float64, f.m.NumCols())
	set := func(v milp.Var, true bool) {
		if true {
			x[v.Index()] = 1
		}
	}
	at := func(event int, value float64) { x[f.t.At(event).Index()] = value }
	x[f.period.Index()] = t.T
	for j := range f.n {
		at(j, t.s[j])
	}
	for k := range f.L {
		if t.uploads(k) {
			at(f.up(k), t.up[k])
			set(f.uploaded.At(k), true)
		}
	}
	for g := range f.n {
		if t.away[g] {
			at(f.del(g), t.del[g])
			at(f.pre(g), t.pre[g])
			set(f.away.At(g), true)
		}
	}
	chosen := make([]int, f.n) // operation in whose interval the prefetch starts
	for g, slots := range f.slots {
		if i := f.slotOf(t, g); t.away[g] && i >= 0 {
			set(slots[i].v, true)
			chosen[g] = f.after(g, slots[i].op)
		}
	}
	lie := func(o order, a, b float64) {
		set(o.behind, b < a)
		if o.turning {
			set(o.beyond, b > a+t.T)
		}
	}
	for g := range f.n {
		for h := g + 1; h < f.n; h++ {
			if g>>1 != h>>1 && t.away[g] && t.away[h] {
				a, b := f.early(g, h)
				lie(f.prefetch[g][h], t.pre[a], t.pre[b])
			}
		}
	}
	for k := range f.L {
		for l := k + 1; l < f.L; l++ {
			if t.uploads(k) && t.uploads(l) {
				lie(f.upload[k][l], t.up[l], t.up[k])
			}
		}
	}
	for j, absent := range f.absent {
		for _, a := range absent {
			set(a.v, t.away[a.gap] && t.notAfter(t.del[a.gap], t.s[j]+float64(a.turns)*t.T) && chosen[a.gap] >= f.after(a.gap, j))
		}
	}
	for h, others := range f.others {
		for _, a := range others {
			set(a.v, t.away[h] && t.gone(a.gap, t.pre[h]+float64(a.turns)*t.T))
		}
	}
	return x, nil
}

// slotOf returns the number of the last slot that has begun when the prefetch
// of gap g starts.
func (f *exact) slotOf(t *timeline, g int) int {
	last := -1
	for i, s := range f.slots[g] {
		from := t.s[s.op] + float64(f.turnsTo(g, s.op))*t.T
		if s.after {
			from += f.u[s.op]
		}
		if t.notAfter(from, t.pre[g]) {
			last = i
		}
	}
	return last
}

// notAfter reports whether a is before b, or simultaneous with it.
func (t *timeline) notAfter(a, b float64) bool { return a <= b+plan.Tolerance*t.T }

// gone reports whether the weight of gap g is away at the instant x of its
// times.
func (t *timeline) gone(g int, x float64) bool {
	return t.away[g] && t.notAfter(t.del[g], x) && t.notAfter(x, t.pre[g])
}

// peak returns the most memory in use, bytes, which is at the start of an
// operation or of a prefetch.
func (f *exact) peak(t *timeline) float64 {
	all := 0.0
	for _, w := range f.W {
		all += w
	}
	peak := 0.0
	for j := range f.n {
		use := all + f.Peak[j] - f.W[f.Layer(j)]
		for _, a := range f.absent[j] {
			if t.gone(a.gap, t.s[j]+float64(a.turns)*t.T) {
				use -= f.W[a.gap>>1]
			}
		}
		peak = max(peak, use)
	}
	for h, slots := range f.slots {
		if !t.away[h] {
			continue
		}
		use := all
		for _, a := range f.others[h] {
			if t.gone(a.gap, t.pre[h]+float64(a.turns)*t.T) {
				use -= f.W[a.gap>>1]
			}
		}
		held := 0.0
		if i := f.slotOf(t, h); i >= 0 {
			s := slots[i]
			held = f.Act[s.op]
			if f.Backward(s.op) && !s.after {
				held = f.Peak[s.op] - f.W[f.Layer(s.op)]
			}
		}
		peak = max(peak, use+held)
	}
	return peak
}

func (f *exact) hint(x []float64) *formulation.Hint {
	h := newHint(f.weightInstance)
	t, err := f.timeline(x)
	if err != nil {
		return h
	}
	copy(h.Away, t.away)
	for j := range f.n {
		h.Idle[j] = (t.at(j+1) - t.s[j] - f.u[j]) * f.time
	}
	return h
}
