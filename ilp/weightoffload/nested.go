package weightoffload

import (
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// nested is the MILP of [001] §6 with O(L) rather than O(L²) columns and the same optimum, plus
// valid inequalities that [001] §6 does not have.
//
// # The reduction
//
// Fix the gaps in which weights are evicted. (2) and (4) depend only on how much the links carry
// and how much is on the host, in total; the rest of [001] §6 requires that totals can be
// distributed among the weights. The gaps d = 0, B_i to F_i, are nested around B_1 F_1, and so are
// the gaps d = 1, F_i to B_i, around F_L B_L. In a family of nested windows such distributions are
// easy to characterise.
//
// Call a unit of a weight's gap the pair of the intervals (a, b) in which it is evicted and
// returns; (6) states a ≤ b, and a and b must lie in the gap. Given how much is evicted and how
// much returns in each interval, pair each return with the latest unpaired eviction, as parentheses
// are. No pairing has more pairs inside any window. So, the windows being nested, totals can be
// distributed if and only if inside each window n this pairing has at least W_n pairs, the amount
// demanded by the gaps within it; for each k then the innermost gap takes what it needs and leaves
// the rest to the outer ones. The number of pairs inside a window is the minimum, over all cuts of
// it, of what is evicted before the cut and what returns after it. With A the amount on the host,
// I_n what returns in window n, and N_n the minimum A at the starts of the operations in it, that
// is
//
//	I_n ≥ W_n   and   N_n ≥ A at the start of window n + W_n − I_n,
//
// one row each, and N_n and I_n follow from N_{n+1} and I_{n+1}.
//
// In the gaps d = 0 eviction is upload: w_i is discarded as it is uploaded. In the gaps d = 1, w_i
// is evicted during F_i as far as the host holds it: completely if it was evicted before F_i, too;
// else the part early_i that was uploaded before F_i, in the window of d = 0, and the rest is
// uploaded in the window of d = 1. What is evicted in the interval of F_i belongs to w_i and to no
// other weight; but every gap that contains that interval also contains the gap of w_i, so
// exchanging partners makes the innermost one use its own.
//
// Which interval of a backward counts depends on (3): w_i may be uploaded in the idle part of the
// interval of B_i, so what is uploaded there is a separate column, late.
//
// The tests compare the optimum with that of [Paper]. One thing is stronger here: the second of (6)
// lets a part of w_i that was uploaded be evicted, return and be evicted a second time in place of
// the rest; deletedOnce in the tests excludes it.
//
// # The constraints added
//
// "whole weights", "arrival", "there and back" and "in flight" are valid for plans and not implied
// by [001] §6; see there.
type nested struct {
	*instance
	m *milp.Model
	e milp.Expr // scratch

	idle  milp.List
	both  milp.List    // by layer: w_i is evicted in both gaps and uploaded once
	early milp.List    // by layer: what is uploaded before F_i to be evicted during F_i
	nests [2]nest      // d = 0, 1
	ahead transferList // uploads of early
	aheadSum,
	earlySum milp.List // by depth: ahead inside window n, early of the gaps within it
	fetching, sending milp.List // part of operation j during which a prefetch runs, an upload
	mine              milp.List // by layer: what is uploaded of w_i during F_i
	begin             milp.List // start of operation j; 2L is the period
}

// nest is the family of gaps d around B_1 F_1 or F_L B_L. Positions 0..2L-1 number the operations
// from the first of the outermost gap on, depths 0..L-1 the gaps from the outside. The gap at depth
// n lies between the operations at positions n and 2L-1-n, so its window is the intervals
// n..2L-2-n, the first one without the computation.
type nest struct {
	d, L int

	away milp.List    // by layer: the weight is evicted
	out  transferList // what is uploaded for eviction
	in   milp.List    // by position: what comes back in the interval

	level milp.List // A, by position: bytes on the host at the start of the operation
	want  milp.List // W_n
	back  milp.List // I_n
	least milp.List // N_n
}

// transferList is what is uploaded by position of a nest.
type transferList struct {
	any  milp.List // in the interval; in that of a backward at depth n, not by the gap at depth n
	late milp.List // in the idle part of the interval of a backward; empty for d = 1
}

func (t *nest) layer(depth int) int {
	if t.d == 0 {
		return t.L - 1 - depth
	}
	return depth
}

// position returns the position of operation j.
func (t *nest) position(j int) int {
	if t.d == 0 {
		return j
	}
	return (j + t.L) % (2 * t.L)
}

// Nested builds the strengthened compact MILP. Its optimum is a proven lower bound on the period;
// without the groups that Formulations lists as extra it is that of Weights, where no part of a
// weight is deleted twice. 37L columns, 45L rows; all rows have O(1) entries except those of "in
// flight", O(L).
func Nested(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	f := &nested{instance: in, m: milp.New("weights-nested")}
	f.columns()
	f.objective()
	f.links()
	f.memory()
	f.uploadOnce()
	f.uploadAhead()
	for d := range f.nests {
		f.flow(&f.nests[d])
		f.sharedOut(&f.nests[d])
	}
	f.wholeWeights()
	f.arrival()
	f.thereAndBack()
	f.inFlight()
	return &formulation.Program{
		Model: f.m, Promise: formulation.LowerBound, Formulation: f.m.Name(), Unit: f.time, Start: f.start, Hint: f.readHint,
	}, nil
}

func (f *nested) columns() {
	inf := math.Inf(1)
	list := func(name string, n int) milp.List { return f.m.List(name, n, milp.Continuous, 0, inf) }
	f.idle = list("idle", f.N)
	f.both = f.m.List("both", f.L, milp.Continuous, 0, 1)
	f.early = list("early", f.L)
	for d := range f.nests {
		t := &f.nests[d]
		name := func(s string) string { return s + "01"[d:d+1] }
		t.d, t.L = d, f.L
		t.away = f.m.List(name("D"), f.L, milp.Binary, 0, 1)
		t.out.any = list(name("out"), f.N-1)
		if d == 0 {
			t.out.late = list("late0", f.L)
		}
		t.in = list(name("in"), f.N-1)
		t.level = list(name("away"), f.N)
		t.want = list(name("want"), f.L)
		t.back = list(name("back"), f.L)
		t.least = list(name("least"), f.L)
		f.m.Fix(t.level.At(0), 0)
		f.m.Fix(t.level.At(f.N-1), 0)
		for k, w := range f.w {
			if w == 0 {
				f.m.Fix(t.away.At(k), 0)
			}
		}
	}
	f.ahead.any, f.ahead.late = list("ahead", f.N-1), list("aheadlate", f.L)
	f.aheadSum, f.earlySum = list("aheadsum", f.L), list("earlysum", f.L)
	f.fetching = f.m.List("fetching", f.N, milp.Continuous, 0, 1)
	f.sending = f.m.List("sending", f.N, milp.Continuous, 0, 1)
	f.mine = list("mine", f.L)
	f.begin = list("begin", f.N+1)
	f.m.Fix(f.begin.At(0), 0)
}

// objective sets the period as objective.
func (f *nested) objective() {
	f.e.Reset().AddConst(f.period)
	for j := range f.N {
		f.e.Add(1, f.idle.At(j))
	}
	f.m.Minimize(&f.e)
}

// links is [001] (2) and (3): what a link carries in an interval takes no
// longer than the interval, and uploads in its idle part no longer than that.
func (f *nested) links() {
	uploads, late := f.m.Group("uploads", "[001] (2)"), f.m.Group("not during B", "[001] (3)")
	prefetches := f.m.Group("prefetches", "[001] (2)")
	for j := range f.N {
		f.sent(j)
		if j < f.N-1 {
			f.e.Add(f.rate, f.ahead.any.At(j))
		}
		if f.Backward(j) {
			f.e.Add(f.rate, f.ahead.late.At(j))
		}
		uploads.AtMost(&f.e, f.u[j])

		prefetches.AtMost(f.backIn(j), f.u[j])

		if f.Backward(j) {
			f.e.Reset().Add(f.rate, f.nests[0].out.late.At(j)).Add(f.rate, f.ahead.late.At(j)).Add(-1, f.idle.At(j))
			late.AtMost(&f.e, 0)
		}
	}
}

// sent sets e to the time that uploads in interval j take, but for those ahead,
// less its idle time.
func (f *nested) sent(j int) *milp.Expr {
	f.e.Reset().Add(-1, f.idle.At(j))
	for d := range f.nests {
		if q := f.nests[d].position(j); q < f.N-1 {
			f.e.Add(f.rate, f.nests[d].out.any.At(q))
		}
	}
	if f.Backward(j) {
		f.e.Add(f.rate, f.nests[0].out.late.At(j))
	}
	return &f.e
}

// backIn sets e to the time that prefetches in interval j take less its idle
// time.
func (f *nested) backIn(j int) *milp.Expr {
	f.e.Reset().Add(-1, f.idle.At(j))
	for d := range f.nests {
		if q := f.nests[d].position(j); q < f.N-1 {
			f.e.Add(f.rate, f.nests[d].in.At(q))
		}
	}
	return &f.e
}

// atStart sets e to the amount on the host at the start of operation j.
func (f *nested) atStart(j int) *milp.Expr {
	f.e.Reset()
	for d := range f.nests {
		f.e.Add(1, f.nests[d].level.At(f.nests[d].position(j)))
	}
	return &f.e
}

// memory is [001] (4) for the weights together: at the start of operation j enough is on the host
// that the rest fits.
func (f *nested) memory() {
	g := f.m.Group("memory", "[001] (4)")
	for j := range f.N {
		f.addEviction(g, j, f.room(j))
	}
}

// addEviction adds that at the start of operation j enough is on the host that the rest fits in
// room.
func (f *nested) addEviction(g milp.Group, j int, room float64) {
	if need := f.total - room; need > 0 {
		g.AtLeast(f.atStart(j), need)
	}
}

// wholeWeights adds that memory holds complete weights: at the start of an operation a plan has
// some weights on the host and the others, or their reservations, in memory. So at least the
// minimum sum of weights that suffices is on the host; and of the gaps that are open then, the
// weights of at least the minimum sufficient number are evicted. The latter matters if sizes are of
// several magnitudes.
func (f *nested) wholeWeights() {
	g := f.m.Group("whole weights", "tightens [001] (4)")
	for j := range f.N {
		f.leaveWhole(g, j, f.room(j))
	}
}

func (f *nested) leaveWhole(g milp.Group, j int, room float64) {
	own := f.Layer(j)
	d := f.demand(own, room*f.size)
	if d.whole > f.total-room {
		g.AtLeast(f.atStart(j), d.whole)
	}
	if d.counts {
		f.e.Reset()
		for k, w := range f.w {
			if k != own && w > 0 {
				f.e.Add(1, f.leaves(f.Open(k, j)))
			}
		}
		g.AtLeast(&f.e, float64(d.count))
	}
}

// leaves returns the binary that states that the weight of gap g is evicted.
func (f *nested) leaves(g int) milp.Var { return f.nests[g&1].away.At(g >> 1) }

// arrival adds that the weights also fit just before the start of operation j, when the activations
// of the previous operation are still held. What is on the host then is there at the start, unless
// a prefetch starts in the same tie, which the model does not represent.
func (f *nested) arrival() {
	g := f.m.Group("arrival", "tightens [001] (4)")
	for j := range f.N {
		if room := f.roomBefore(j); room < f.room(j) {
			f.addEviction(g, j, room)
			f.leaveWhole(g, j, room)
		}
	}
}

// uploadOnce is the discount ([001] §3): if w_i is evicted in both gaps, both_i, its eviction
// during F_i needs no second upload. At most what is evicted in the gap at all is evicted during
// F_i: [001] (7) and (8).
func (f *nested) uploadOnce() {
	g := f.m.Group("upload once", "[001] (7)")
	for i := range f.L {
		for d := range f.nests {
			f.e.Reset().Add(1, f.both.At(i)).Add(-1, f.nests[d].away.At(i))
			g.AtMost(&f.e, 0)
		}
		f.e.Reset().Add(1, f.early.At(i)).Add(f.w[i], f.both.At(i)).Add(-f.w[i], f.nests[1].away.At(i))
		g.AtMost(&f.e, 0)
	}
}

// uploadAhead distributes what is uploaded before F_i for eviction during F_i: inside each window
// at least the demand of its gaps. Uploads alone have no order to respect.
func (f *nested) uploadAhead() {
	g := f.m.Group("upload ahead", "[001] (6)")
	for n := f.L - 1; n >= 0; n-- {
		// The window of depth n is that of depth n+1, the computation of the operation that starts
		// it, and the intervals at both ends.
		f.e.Reset().Add(-1, f.aheadSum.At(n)).Add(1, f.ahead.late.At(n))
		if n < f.L-1 {
			f.e.Add(1, f.aheadSum.At(n+1)).Add(1, f.ahead.any.At(n+1)).Add(1, f.ahead.any.At(f.N-2-n))
		}
		g.Equal(&f.e, 0)
		f.e.Reset().Add(-1, f.earlySum.At(n)).Add(1, f.early.At(f.nests[0].layer(n)))
		if n < f.L-1 {
			f.e.Add(1, f.earlySum.At(n+1))
		}
		g.Equal(&f.e, 0)
		f.e.Reset().Add(1, f.aheadSum.At(n)).Add(-1, f.earlySum.At(n))
		g.AtLeast(&f.e, 0)
	}
}

// flow defines the amount on the host: the previous amount, plus evictions, less returns.
func (f *nested) flow(t *nest) {
	g := f.m.Group("away", "[001] §6, m_{i,k}")
	for q := range f.N - 1 {
		f.e.Reset().Add(1, t.level.At(q+1)).Add(-1, t.level.At(q)).Add(-1, t.out.any.At(q)).Add(1, t.in.At(q))
		if q < f.L {
			switch t.d {
			case 0:
				f.e.Add(-1, t.out.late.At(q))
			case 1: // during F, what the host holds
				f.e.Add(-f.w[q], f.both.At(q)).Add(-1, f.early.At(q))
			}
		}
		g.Equal(&f.e, 0)
	}
}

// sharedOut says that the flows of a nest can be shared out among its gaps.
func (f *nested) sharedOut(t *nest) {
	demand, inside := f.m.Group("demand", "[001] (8)"), f.m.Group("inside window", "definition")
	onTime, order := f.m.Group("back in time", "[001] (5)"), f.m.Group("back after leaving", "[001] (6)")
	for n := f.L - 1; n >= 0; n-- {
		k := t.layer(n)
		f.e.Reset().Add(1, t.want.At(n)).Add(-f.w[k], t.away.At(k))
		if n < f.L-1 {
			f.e.Add(-1, t.want.At(n+1))
		}
		demand.Equal(&f.e, 0)

		f.e.Reset().Add(1, t.back.At(n)).Add(-1, t.in.At(n))
		if n < f.L-1 {
			f.e.Add(-1, t.back.At(n+1)).Add(-1, t.in.At(f.N-2-n))
		}
		inside.Equal(&f.e, 0)

		f.e.Reset().Add(1, t.back.At(n)).Add(-1, t.want.At(n))
		if n > 0 {
			onTime.AtLeast(&f.e, 0)
		} else {
			onTime.Equal(&f.e, 0)
		}

		// least[n] is at most each level in the window.
		for _, q := range [2]int{n + 1, f.N - 1 - n} {
			f.e.Reset().Add(1, t.least.At(n)).Add(-1, t.level.At(q))
			inside.AtMost(&f.e, 0)
		}
		f.e.Reset().Add(1, t.least.At(n)).Add(-1, t.level.At(n)).Add(-1, t.want.At(n)).Add(1, t.back.At(n))
		if t.d == 0 {
			f.e.Add(-1, t.out.any.At(n)) // evicted before the window starts
		}
		order.AtLeast(&f.e, 0)
		if n < f.L-1 {
			f.e.Reset().Add(1, t.least.At(n)).Add(-1, t.least.At(n+1))
			inside.AtMost(&f.e, 0)
		}
	}
}

// thereAndBack adds that a gap is long enough for what happens in it one after
// the other: between B_i and F_i the upload and the prefetch of w_i; between
// F_i and B_i the prefetch after F_i, and before it what is uploaded since F_i
// began.
func (f *nested) thereAndBack() {
	define, g := f.m.Group("start of operations", "definition"), f.m.Group("there and back", "tightens [001] (6)")
	for j := range f.N {
		f.e.Reset().Add(1, f.begin.At(j+1)).Add(-1, f.begin.At(j)).Add(-1, f.idle.At(j))
		define.Equal(&f.e, f.u[j])
	}
	for i, w := range f.w {
		if w == 0 {
			continue
		}
		b, fw, t := f.B(i), f.F(i), f.moves[i]
		f.e.Reset().Add(1, f.begin.At(fw)).Add(-1, f.begin.At(b)).Add(-2*t, f.nests[0].away.At(i))
		g.AtLeast(&f.e, f.u[b])
		gap := func(moves float64) *milp.Expr {
			f.e.Reset().Add(1, f.begin.At(b)).Add(1, f.begin.At(f.N)).Add(-1, f.begin.At(fw))
			return f.e.Add(-moves*t, f.nests[1].away.At(i))
		}
		g.AtLeast(gap(1), f.u[fw])
		// Less what need not be uploaded since F_i began.
		g.AtLeast(gap(2).Add(up(milp.Up.Quo(f.W[i], f.Platform.Bandwidth)/f.time), f.both.At(i)).Add(f.slowest(), f.early.At(i)), 0)
	}
}

// slowest returns 1/β rounded up: the time that a transfer takes for a size of 1.
func (f *nested) slowest() float64 {
	return up(milp.Up.Quo(1, f.Platform.Bandwidth/f.size*f.time))
}

// inFlight adds that transfers hold their complete weight. While operation j runs, a weight that is
// being prefetched is reserved already, and one that is being uploaded for eviction is still in
// memory. So the weights that make room for the operation are others: of the open gaps at operation
// j whose weight is evicted, those in flight do not count.
//
// Let prefetches run during the fraction fetching_j of operation j, and uploads during the fraction
// sending_j. If a prefetch and an upload ever run together, the open gaps have two weights more
// than the operation needs; otherwise fetching_j + sending_j ≤ 1, and they have one more if
// anything runs. In either case they have at least fetching_j + sending_j of the smallest weight
// more. In the rest of operation j the links are idle.
//
// Uploads that do not count are those of weights that are resident in the open gap (ahead), and
// that of w_i during F_i (mine), since its gap opens only then.
func (f *nested) inFlight() {
	g := f.m.Group("in flight", "tightens [001] (2), (4)")
	for j := range f.N {
		own := f.Layer(j)
		least := math.Inf(1)
		for k, w := range f.w {
			if k != own && w > 0 {
				least = min(least, w)
			}
		}
		if math.IsInf(least, 1) {
			continue // no other weight ever moves
		}
		g.AtMost(f.backIn(j).Add(-up(f.u[j]), f.fetching.At(j)), 0)

		f.sent(j).Add(-up(f.u[j]), f.sending.At(j))
		if !f.Backward(j) {
			f.e.Add(-f.slowest(), f.mine.At(own))
		}
		g.AtMost(&f.e, 0)
		if !f.Backward(j) {
			f.e.Reset().Add(1, f.mine.At(own)).Add(1, f.early.At(own)).Add(f.w[own], f.both.At(own)).Add(-f.w[own], f.nests[1].away.At(own))
			g.AtMost(&f.e, 0)
		}

		f.e.Reset().Add(-least, f.fetching.At(j)).Add(-least, f.sending.At(j))
		for k, w := range f.w {
			if k != own {
				f.e.Add(w, f.leaves(f.Open(k, j)))
			}
		}
		g.AtLeast(&f.e, f.demand(own, f.Room(j)).whole)
	}
}

// start gives every column its value in the plan.
func (f *nested) start(p *plan.Plan) ([]float64, error) {
	s, err := f.read(p)
	if err != nil {
		return nil, err
	}
	x := make([]float64, f.m.NumCols())
	set := func(v milp.Var, value float64) { x[v.Index()] = value }
	for j := range f.N {
		set(f.idle.At(j), max(0, s.StartOf(j+1)-s.Op[j]-f.U[j])/f.time)
		set(f.begin.At(j+1), s.StartOf(j+1)/f.time)
	}
	for i := range f.w {
		for d := range f.nests {
			if s.Away[2*i+d] {
				set(f.nests[d].away.At(i), 1)
				f.startBack(s, &f.nests[d], x, i)
			}
		}
		f.startUpload(s, x, i)
	}
	f.startAhead(x)
	for d := range f.nests {
		f.startNest(&f.nests[d], x)
	}
	return x, nil
}

// startUpload shares out the upload of w_i.
func (f *nested) startUpload(s *weightoffload.Schedule, x []float64, i int) {
	set := func(v milp.Var, value float64) { x[v.Index()] = value }
	w, move := f.w[i], f.Move[i]
	// sent returns what of the upload has been sent by a time, in units of sizes.
	sent := func(until float64) float64 { return min(w, max(0, w*(until-s.Up[i])/move)) }
	switch {
	case s.Away[2*i]:
		if s.Away[2*i+1] {
			set(f.both.At(i), 1)
		}
		f.during(s, x, f.sending, s.Up[i], move)
		f.share(s, plan.OpO, f.B(i), f.F(i), s.Up[i], i, 1, f.startOut(&f.nests[0].out, x, i))
	case s.Away[2*i+1]:
		j := f.F(i)
		ahead := sent(s.Op[j])
		set(f.early.At(i), ahead)
		f.share(s, plan.OpO, f.B(i), j, s.Up[i], i, ahead/w, f.startOut(&f.ahead, x, i))
		mine := sent(s.Op[j]+f.U[j]) - ahead
		set(f.mine.At(i), mine)
		done := (ahead + mine) / w * move
		f.during(s, x, f.sending, s.Up[i]+done, move-done)
		f.share(s, plan.OpO, j, f.B(i)+f.N, s.Up[i]+ahead/w*move, i, 1-ahead/w, func(j int, part float64) {
			x[f.nests[1].out.any.At(f.nests[1].position(j)).Index()] += part * w
		})
	}
}

// startAhead sums up, from the inside, what is uploaded ahead.
func (f *nested) startAhead(x []float64) {
	get := func(v milp.Var) float64 { return x[v.Index()] }
	for n := f.L - 1; n >= 0; n-- {
		sum, early := get(f.ahead.late.At(n)), get(f.early.At(f.nests[0].layer(n)))
		if n < f.L-1 {
			sum += get(f.aheadSum.At(n+1)) + get(f.ahead.any.At(n+1)) + get(f.ahead.any.At(f.N-2-n))
			early += get(f.earlySum.At(n + 1))
		}
		x[f.aheadSum.At(n).Index()], x[f.earlySum.At(n).Index()] = sum, early
	}
}

// startBack shares out the prefetch of w_i in the gap d of s.
func (f *nested) startBack(s *weightoffload.Schedule, nest *nest, x []float64, i int) {
	g := 2*i + nest.d
	f.during(s, x, f.fetching, s.Pre[g], f.Move[i])
	f.share(s, plan.OpP, f.Last(g), f.next(g), s.Pre[g], i, 1, func(j int, part float64) {
		x[nest.in.At(nest.position(j)).Index()] += part * f.w[i]
	})
}

// during adds to each operation's part the fraction of it that a transfer of the given seconds
// starting at time at takes.
func (f *nested) during(s *weightoffload.Schedule, x []float64, part milp.List, at, seconds float64) {
	for j := range 2 * f.N {
		from, to := max(at, s.StartOf(j)), min(at+seconds, s.StartOf(j)+f.U[j%f.N])
		if v := part.At(j % f.N).Index(); to > from {
			x[v] = min(1, x[v]+(to-from)/f.U[j%f.N])
		}
	}
}

// startOut returns what adds uploads of w_i between B_i and F_i to out. In the
// interval of B_i they are in its idle part.
func (f *nested) startOut(out *transferList, x []float64, i int) func(j int, part float64) {
	return func(j int, part float64) {
		v := out.any
		if j == f.B(i) {
			v = out.late
		}
		x[v.At(j).Index()] += part * f.w[i]
	}
}

// startNest computes the columns that follow from the flows.
func (f *nested) startNest(t *nest, x []float64) {
	set := func(v milp.Var, value float64) { x[v.Index()] = value }
	get := func(v milp.Var) float64 { return x[v.Index()] }
	for q := range f.N - 2 {
		a := get(t.level.At(q)) + get(t.out.any.At(q)) - get(t.in.At(q))
		if q < f.L && t.d == 0 {
			a += get(t.out.late.At(q))
		}
		if q < f.L && t.d == 1 {
			a += f.w[q]*get(f.both.At(q)) + get(f.early.At(q))
		}
		set(t.level.At(q+1), max(0, a))
	}
	for n := f.L - 1; n >= 0; n-- {
		k := t.layer(n)
		want, back := f.w[k]*get(t.away.At(k)), get(t.in.At(n))
		least := min(get(t.level.At(n+1)), get(t.level.At(f.N-1-n)))
		if n < f.L-1 {
			want += get(t.want.At(n + 1))
			back += get(t.back.At(n+1)) + get(t.in.At(f.N-2-n))
			least = min(least, get(t.least.At(n+1)))
		}
		set(t.want.At(n), want)
		set(t.back.At(n), back)
		set(t.least.At(n), least)
	}
}

func (f *nested) readHint(x []float64) *formulation.Hint {
	h := f.hint()
	for i := range f.L {
		for d := range f.nests {
			h.Away[2*i+d] = x[f.nests[d].away.At(i).Index()] > 0.5
		}
	}
	for j := range f.N {
		h.Idle[j] = x[f.idle.At(j).Index()] * f.time
	}
	return h
}
