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

// paper is the MILP of [001] §6, "lower bound". Interval j is the time from
// the start of operation j to the start of the next one, cyclically; the
// paper's operation j is j-1 here and its layer i is i-1. Sizes and times are
// in the units of instance,
// and amounts of a weight are parts of it, so that (5) to (8) have coefficients
// of 1 whatever the sizes.
//
// # Why it is a lower bound
//
// Take a valid plan of period T in the normal form of weightoffload.Schedule, which costs no
// time. Let O_{i,j} and P_{i,j} be the parts of w_i that its transfers carry in
// interval j, let D_{i,j} = 1 if w_i is discarded in interval j, at the
// start of operation j+1 at the latest, and let idle_j be the time in interval
// j without computation. Then
//
//   - Σ_j u_j + idle_j = T;
//   - (2) and (3) hold since a link carries one transfer at a time, and since
//     an upload of w_i does not overlap B_i;
//   - at the start of operation k the weight w_i occupies at least m_{i,k} of
//     memory: just that if it is here or away, and |w_i|, reserved as a whole,
//     while a prefetch has brought a part of it. So (4), with the activations and
//     the gradient of operation k, holds in its corrected form. Transfers that
//     go over the end of the cycle are no exception: (4) to (6) follow w_i
//     around the circle from B_i on;
//   - (5) to (8) say that w_i is here at B_i and F_i, that a prefetch follows
//     a discard, that a discard follows the upload of the amount discarded or,
//     in the second gap, the prefetch of a value that the host still holds,
//     that an upload happens once or not at all, and that a gap is with or
//     without w_i.
//
// A plan that prefetches a weight twice between two uses, or uploads it twice,
// is cut off by (5) to (8), but its normal form is not, and has the same T.
type paper struct {
	*instance
	m *milp.Model
	e milp.Expr // scratch

	O, P, D milp.Grid // [001] §6: parts of w_i by layer and interval
	idle    milp.List
	D1, D0  milp.List // w_i leaves between F_i and B_i, between B_i and F_i
	Ostar   milp.List // w_i is uploaded

	// The sums of the paper as columns, by layer and operation k: with a chain
	// of 144 layers, rows of sums from B_i to k−1 would have 10⁷ entries.
	here milp.Grid // m_{i,k}: the part of w_i that memory holds at the start of operation k
	host milp.Grid // Σ_{B_i}^{k-1} O+P−D: what else could be deleted
}

// Paper builds the MILP of [001] §6 with (4) and (6) corrected. Its optimum
// is a lower bound on the period. 10L² columns, 8L² rows.
func Paper(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	f, err := newPaper("weights", c, p)
	if err != nil {
		return nil, err
	}
	f.shared()
	f.memory()
	f.noMoreThanDeleted()
	return f.program(formulation.LowerBound), nil
}

// newPaper adds the columns of [001] §6.
func newPaper(name string, c *chain.Chain, p platform.Platform) (*paper, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	f := &paper{instance: in, m: milp.New(name)}
	inf := math.Inf(1)
	f.m.Grow(5*in.L*in.N+in.N+3*in.L, 4*in.L*in.N+5*in.N, 16*in.L*in.N)
	f.O = f.m.Grid("O", in.L, in.N, milp.Continuous, 0, inf)
	f.P = f.m.Grid("P", in.L, in.N, milp.Continuous, 0, inf)
	f.D = f.m.Grid("D", in.L, in.N, milp.Continuous, 0, inf)
	f.idle = f.m.List("idle", in.N, milp.Continuous, 0, inf)
	f.D1 = f.m.List("D1", in.L, milp.Binary, 0, 1)
	f.D0 = f.m.List("D0", in.L, milp.Binary, 0, 1)
	f.Ostar = f.m.List("O*", in.L, milp.Binary, 0, 1)
	f.here = f.m.Grid("m", in.L, in.N, milp.Continuous, 0, inf)
	f.host = f.m.Grid("host", in.L, in.N, milp.Continuous, -inf, inf)
	return f, nil
}

// shared adds what [001] §6 prints and means: all but (4) and the first of (6).
func (f *paper) shared() {
	f.objective()
	f.links()
	f.ownBackward()
	f.sums()
	f.validity()
	f.nothingLost()
	f.uploadedWhole()
	f.deletedWhole()
}

func (f *paper) program(promise formulation.Promise) *formulation.Program {
	return &formulation.Program{
		Model: f.m, Promise: promise, Formulation: f.m.Name(), Unit: f.time, Start: f.start, Hint: f.readHint,
	}
}

// objective sets the period as objective, min Σ_j u_j + idle_j.
func (f *paper) objective() {
	f.e.Reset().AddConst(f.period)
	for j := range f.N {
		f.e.Add(1, f.idle.At(j))
	}
	f.m.Minimize(&f.e)
}

// links is [001] (2): what a link carries in an interval takes no longer than
// the interval.
func (f *paper) links() {
	uploads, prefetches := f.m.Group("uploads", "[001] (2)"), f.m.Group("prefetches", "[001] (2)")
	for j := range f.N {
		f.e.Reset().Add(-1, f.idle.At(j))
		for i := range f.L {
			f.e.Add(f.moves[i], f.O.At(i, j))
		}
		uploads.AtMost(&f.e, f.u[j])
		f.e.Reset().Add(-1, f.idle.At(j))
		for i := range f.L {
			f.e.Add(f.moves[i], f.P.At(i, j))
		}
		prefetches.AtMost(&f.e, f.u[j])
	}
}

// ownBackward is [001] (3): w_i is not uploaded while B_i changes it, so in
// the interval of B_i only during its idle time.
func (f *paper) ownBackward() {
	g := f.m.Group("not during B", "[001] (3)")
	for i := range f.L {
		j := f.B(i)
		f.e.Reset().Add(f.moves[i], f.O.At(i, j)).Add(-1, f.idle.At(j))
		g.AtMost(&f.e, 0)
	}
}

// sums defines m_{i,k} and host_{i,k} by following the cycle from B_i, at which w_i is completely
// in memory and the host has none of it.
func (f *paper) sums() {
	use, host := f.m.Group("memory of weights", "[001] §6, m_{i,k}"), f.m.Group("host holds", "[001] §6, sums of (6)")
	for i := range f.L {
		b := f.B(i)
		f.e.Reset().Add(1, f.here.At(i, b))
		use.Equal(&f.e, 1)
		f.e.Reset().Add(1, f.host.At(i, b))
		host.Equal(&f.e, 0)
		for j := b; j < b+f.N-1; j++ {
			f.change(&f.e, f.here, i, j)
			use.Equal(&f.e, 0)
			f.change(&f.e, f.host, i, j)
			f.e.Add(-1, f.O.At(i, j%f.N))
			host.Equal(&f.e, 0)
		}
	}
}

// change sets e to x_{i,j+1} − x_{i,j} − P_{i,j} + D_{i,j}.
func (f *paper) change(e *milp.Expr, x milp.Grid, i, j int) {
	now, next := j%f.N, (j+1)%f.N
	e.Reset().Add(1, x.At(i, next)).Add(-1, x.At(i, now)).Add(-1, f.P.At(i, now)).Add(1, f.D.At(i, now))
}

// memory is [001] (4): at the start of operation k the other weights fit next to its own, its
// activations and its gradient, Σ_{i≠own} m_{i,k} ≤ M − M_k. The sum in the paper includes the own
// weight, which M_k counts already: see printedMemory.
func (f *paper) memory() {
	g := f.m.Group("memory", "[001] (4)")
	for k := range f.N {
		f.fit(g, k, func(i int) bool { return i != f.Layer(k) })
	}
}

// fit adds that some weights fit next to M_k at the start of operation k. The row has a scale of
// its own, since the remaining memory may have any magnitude. Weights that are negligible in it are
// omitted, which makes it weaker.
func (f *paper) fit(g milp.Group, k int, counts func(i int) bool) {
	room := f.Memory - f.Peak[k]
	most := room
	for i, w := range f.W {
		if counts(i) {
			most = max(most, w)
		}
	}
	unit := milp.PowerOfTwo(most, scale)
	f.e.Reset()
	for i, w := range f.W {
		if counts(i) && w*unit >= lost {
			f.e.Add(w*unit, f.here.At(i, k))
		}
	}
	g.AtMost(&f.e, room*unit)
}

// validity is [001] (5): after a cycle w_i is as before it, and it is completely in memory at the
// start of F_i.
func (f *paper) validity() {
	cycle, forward := f.m.Group("stable cycle", "[001] (5)"), f.m.Group("here at F", "[001] (5)")
	for i := range f.L {
		f.change(&f.e, f.here, i, f.B(i)+f.N-1)
		cycle.Equal(&f.e, 0)
		f.e.Reset().Add(1, f.here.At(i, f.F(i)))
		forward.Equal(&f.e, 1)
	}
}

// noMoreThanDeleted is the first of [001] (6): since B_i, no more was prefetched than deleted, Σ P
// − D ≤ 0. The paper prints ≥, see printedSign.
func (f *paper) noMoreThanDeleted() {
	g := f.m.Group("no more than deleted", "[001] (6)")
	for i := range f.L {
		for k := range f.N {
			f.e.Reset().Add(1, f.here.At(i, k))
			g.AtMost(&f.e, 1)
		}
	}
}

// nothingLost is the second of [001] (6): since B_i, no more was deleted than
// uploaded and prefetched, Σ O + P − D ≥ 0.
func (f *paper) nothingLost() {
	g := f.m.Group("nothing lost", "[001] (6)")
	for i := range f.L {
		for k := range f.N {
			f.e.Reset().Add(1, f.host.At(i, k))
			g.AtLeast(&f.e, 0)
		}
	}
}

// uploadedWhole is [001] (7): a weight is uploaded completely or not at all.
func (f *paper) uploadedWhole() {
	g := f.m.Group("uploaded whole", "[001] (7)")
	for i := range f.L {
		f.e.Reset().Add(-1, f.Ostar.At(i))
		for j := range f.N {
			f.e.Add(1, f.O.At(i, j))
		}
		g.Equal(&f.e, 0)
	}
}

// deletedWhole is [001] (8): in each gap a weight is deleted completely or not at all.
func (f *paper) deletedWhole() {
	g := f.m.Group("deleted whole", "[001] (8)")
	for i := range f.L {
		f.e.Reset().Add(-1, f.D1.At(i))
		for j := f.F(i); j < f.B(i)+f.N; j++ {
			f.e.Add(1, f.D.At(i, j%f.N))
		}
		g.Equal(&f.e, 0)
		f.e.Reset().Add(-1, f.D0.At(i))
		for j := f.B(i); j < f.F(i); j++ {
			f.e.Add(1, f.D.At(i, j))
		}
		g.Equal(&f.e, 0)
	}
}

// start gives every column the value that the argument above gives it.
func (f *paper) start(p *plan.Plan) ([]float64, error) {
	s, err := f.read(p)
	if err != nil {
		return nil, err
	}
	x := make([]float64, f.m.NumCols())
	add := func(g milp.Grid, i int) func(int, float64) {
		return func(j int, amount float64) { x[g.At(i, j).Index()] += amount }
	}
	for j := range f.N {
		x[f.idle.At(j).Index()] = max(0, s.StartOf(j+1)-s.Op[j]-f.U[j]) / f.time
	}
	for i := range f.L {
		if s.Uploads(i) {
			x[f.Ostar.At(i).Index()] = 1
			f.share(s, plan.OpO, f.B(i), f.B(i)+f.N, s.Up[i], i, 1, add(f.O, i))
		}
		for d, chosen := range [2]milp.List{f.D0, f.D1} {
			g := 2*i + d
			if !s.Away[g] {
				continue
			}
			x[chosen.At(i).Index()] = 1
			a, b := f.Last(g), f.next(g)
			f.share(s, plan.OpP, a, b, s.Pre[g], i, 1, add(f.P, i))
			x[f.D.At(i, f.interval(s, a, b, s.Deleted(f.Instance, g))).Index()]++
		}
		m, host := 1.0, 0.0
		for j := f.B(i); j < f.B(i)+f.N; j++ {
			j := j % f.N
			x[f.here.At(i, j).Index()], x[f.host.At(i, j).Index()] = m, host
			change := x[f.P.At(i, j).Index()] - x[f.D.At(i, j).Index()]
			m += change
			host += change + x[f.O.At(i, j).Index()]
		}
	}
	return x, nil
}

// interval returns the last interval from operation a to before operation b that starts before time
// x: what is discarded at the start of an operation is not in memory when it starts.
func (f *paper) interval(s *weightoffload.Schedule, a, b int, x float64) int {
	j := a
	for j+1 < b && s.StartOf(j+1) < x-plan.Tolerance*s.T {
		j++
	}
	return j % f.N
}

func (f *paper) readHint(x []float64) *formulation.Hint {
	h := f.hint()
	for i := range f.L {
		h.Away[2*i] = x[f.D0.At(i).Index()] > 0.5
		h.Away[2*i+1] = x[f.D1.At(i).Index()] > 0.5
	}
	for j := range f.N {
		h.Idle[j] = x[f.idle.At(j).Index()] * f.time
	}
	return h
}
