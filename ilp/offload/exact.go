package offload

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/ilp/timing"
	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ExactLayers is the length of the longest chain that Exact takes:
// its large constants prove too little for more.
const ExactLayers = 8

// offloadExact is a MILP of activation offloading as it is, of our own: its
// optimum is the least makespan, and its decisions make a plan that has it.
//
// Plans are in the first normal form of offload: at most one offload and one
// prefetch of each tensor. Events are the starts of computations, offloads and
// prefetches. All that concerns time is a precedence between two events on
// condition that certain binaries have certain values, as in exact.
//
// Memory grows when a computation or a prefetch starts, so it is checked there.
// A prefetch lies between two computations, or during one (from and past say
// which); what is away at its start is known from the order on the link.
type offloadExact struct {
	*offloadInstance
	m *milp.Model
	e milp.Expr // scratch

	tensor []int // those that are movable
	t      milp.List
	latest float64
	moves  milp.List
	rules  []timing.Rule

	offs, backs, mixed milp.Grid // by the numbers of two tensors: which one is first
	from, past         milp.Grid // by tensor and computation: its prefetch starts at the start or later, at the end or later
	gone               milp.Grid // by tensor and computation: away when it starts
	beside             milp.Grid // by two tensors: the first is away when the prefetch of the second starts
}

// Events: computation k is event k.
func (f *offloadExact) off(q int) int  { return 2*f.n + q }
func (f *offloadExact) back(q int) int { return 2*f.n + len(f.tensor) + q }
func (f *offloadExact) events() int    { return 2*f.n + 2*len(f.tensor) }

// Exact builds the exact MILP. The error wraps ErrInstance, is ErrTooLong
// for chains of more than ExactLayers, or a *plan.Infeasible.
func Exact(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newOffloadInstance(c, p)
	if err != nil {
		return nil, err
	}
	if in.n > ExactLayers {
		return nil, fmt.Errorf("%w: %d layers, offload-exact takes %d at most", formulation.ErrTooLong, in.n, ExactLayers)
	}
	return buildOffloadExact(in, in.unit).program(), nil
}

func (f *offloadExact) program() *formulation.Program {
	return &formulation.Program{Model: f.m, Start: f.start, Plan: f.plan}
}

func buildOffloadExact(in *offloadInstance, second float64) *offloadExact {
	f := &offloadExact{offloadInstance: in, m: milp.New("offload-exact")}
	for i := range in.tensors() {
		if in.movable(i) {
			f.tensor = append(f.tensor, i)
		}
	}
	f.columns()
	f.computations()
	f.transfers()
	f.link()
	f.places()
	f.away()
	f.memory()
	f.precedences()
	f.m.Minimize(f.e.Reset().AddConst(second*f.u[2*f.n-1]).Add(second, f.t.At(2*f.n-1)))
	return f
}

// columns adds times and choices. Everything one after the other takes 1000
// units.
func (f *offloadExact) columns() {
	q := len(f.tensor)
	f.latest = 1000
	f.t = f.m.List("t", f.events(), milp.Continuous, 0, f.latest)
	f.moves = f.m.List("moves", q, milp.Binary, 0, 1)
	grid := func(name string, n int) milp.Grid { return f.m.Grid(name, q, n, milp.Binary, 0, 1) }
	f.offs, f.backs, f.mixed = grid("O,O", q), grid("P,P", q), grid("O,P", q)
	f.from, f.past = grid("from", 2*f.n), grid("past", 2*f.n)
	f.gone, f.beside = grid("away", 2*f.n), grid("beside", q)
	f.m.Fix(f.t.At(0), 0)
}

// precede adds that event to comes wait or more after event from, when all
// literals hold.
func (f *offloadExact) precede(from, to int, wait float64, when ...timing.Literal) {
	f.rules = append(f.rules, timing.Rule{Precedence: timing.Precedence{From: from, To: to, Wait: wait}, When: when})
}

// precedences makes rows of the rules.
func (f *offloadExact) precedences() {
	g := f.m.Group("precedences", "the rules")
	for i := range f.rules {
		r := &f.rules[i]
		f.e.Reset().Add(1, f.t.At(r.To)).Add(-1, f.t.At(r.From))
		off := r.Wait + f.latest
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

// computations follow each other in their order.
func (f *offloadExact) computations() {
	for k := range 2*f.n - 1 {
		f.precede(k, k+1, f.u[k])
	}
}

// transfers of a tensor that moves lie between the computations that produce
// and use it.
func (f *offloadExact) transfers() {
	for q, i := range f.tensor {
		moves := timing.Is(f.moves.At(q))
		if i > 0 {
			f.precede(i-1, f.off(q), f.u[i-1], moves)
		}
		f.precede(f.off(q), f.back(q), f.move[i], moves)
		f.precede(i, f.back(q), f.u[i], moves)
		f.precede(f.back(q), f.last(i)+1, f.move[i], moves)
	}
}

// link carries one transfer at a time.
func (f *offloadExact) link() {
	pair := func(first milp.Var, a, b int, wa, wb float64, q, r int) {
		f.precede(a, b, wa, timing.Is(first), timing.Is(f.moves.At(q)), timing.Is(f.moves.At(r)))
		f.precede(b, a, wb, timing.IsNot(first), timing.Is(f.moves.At(q)), timing.Is(f.moves.At(r)))
	}
	for q, i := range f.tensor {
		for r, j := range f.tensor {
			if q < r {
				pair(f.offs.At(q, r), f.off(q), f.off(r), f.move[i], f.move[j], q, r)
				pair(f.backs.At(q, r), f.back(q), f.back(r), f.move[i], f.move[j], q, r)
			}
			if q != r {
				pair(f.mixed.At(q, r), f.off(q), f.back(r), f.move[i], f.move[j], q, r)
			}
		}
	}
}

// places says between which starts and ends of computations a prefetch starts.
func (f *offloadExact) places() {
	g := f.m.Group("one after the other", "the order of computations")
	for q := range f.tensor {
		moves := timing.Is(f.moves.At(q))
		for k := range 2 * f.n {
			from, past := f.from.At(q, k), f.past.At(q, k)
			f.precede(k, f.back(q), 0, timing.Is(from), moves)
			f.precede(f.back(q), k, 0, timing.IsNot(from), moves)
			f.precede(k, f.back(q), f.u[k], timing.Is(past), moves)
			f.precede(f.back(q), k, -f.u[k], timing.IsNot(past), moves)
			g.AtMost(f.e.Reset().Add(1, past).Add(-1, from), 0)
			if k > 0 {
				g.AtMost(f.e.Reset().Add(1, from).Add(-1, f.past.At(q, k-1)), 0)
			}
		}
	}
}

// away says what is away when a computation or a prefetch starts: the offload
// and the forward that uses the tensor have ended, the prefetch starts later.
func (f *offloadExact) away() {
	g := f.m.Group("away", "[004] O.7")
	atMost := func(v, w milp.Var) { g.AtMost(f.e.Reset().Add(1, v).Add(-1, w), 0) }
	for q, i := range f.tensor {
		for k := range 2 * f.n {
			gone := f.gone.At(q, k)
			if k < f.first(i) || k > f.last(i) {
				f.m.Fix(gone, 0)
				continue
			}
			atMost(gone, f.moves.At(q))
			atMost(gone, f.from.At(q, k))
			f.precede(f.off(q), k, f.move[i], timing.Is(gone))
		}
		for r := range f.tensor {
			beside := f.beside.At(q, r)
			if q == r {
				f.m.Fix(beside, 0)
				continue
			}
			atMost(beside, f.moves.At(q))
			atMost(beside, f.moves.At(r))
			atMost(beside, f.mixed.At(q, r))
			atMost(beside, f.past.At(r, i)) // F_{i+1} has ended
			f.e.Reset().Add(1, beside)      // the prefetch of r comes before that of q
			if q < r {
				g.AtMost(f.e.Add(1, f.backs.At(q, r)), 1)
			} else {
				g.AtMost(f.e.Add(-1, f.backs.At(r, q)), 0)
			}
		}
	}
}

// memory says that what does not fit is away when a computation starts, and when
// a prefetch starts while it runs or after the one before.
func (f *offloadExact) memory() {
	g := f.m.Group("memory", "the rules")
	for k := range 2 * f.n {
		if f.excess[k] > 0 {
			f.e.Reset()
			for q, i := range f.tensor {
				f.e.Add(f.abar[i], f.gone.At(q, k))
			}
			g.AtLeast(&f.e, f.excess[k])
		}
		for r := range f.tensor {
			// past < from: during k; from_k < past_{k-1}: between k−1 and k.
			f.during(g, r, f.excess[k], f.from.At(r, k), f.past.At(r, k))
			if k > 0 {
				f.during(g, r, f.idleExcess(k), f.past.At(r, k-1), f.from.At(r, k))
			}
		}
	}
}

// during says that so much is away if the prefetch of r starts where after is 1
// and before is 0.
func (f *offloadExact) during(g milp.Group, r int, excess float64, after, before milp.Var) {
	if excess <= 0 {
		return
	}
	f.e.Reset()
	for q, i := range f.tensor {
		if q != r {
			f.e.Add(f.abar[i], f.beside.At(q, r))
		}
	}
	f.e.Add(-excess, after).Add(excess, before).Add(-excess, f.moves.At(r))
	g.AtLeast(&f.e, -excess)
}

// idleExcess is what must be away between computations k−1 and k.
func (f *offloadExact) idleExcess(k int) float64 {
	alive := f.abar[0]
	top := min(k, 2*f.n-k)
	for i := 1; i <= top; i++ {
		alive += f.abar[i]
	}
	if k > f.n { // δ of the next backward
		alive += f.c.Layers[top-1].Gradient / f.size
	}
	return alive - 1000
}

// start gives every column its value in the plan.
func (f *offloadExact) start(p *plan.Plan) ([]float64, error) {
	t, err := f.times(p)
	if err != nil {
		return nil, err
	}
	x := make([]float64, f.m.NumCols())
	set := func(v milp.Var, yes bool) {
		if _, up := f.m.Bounds(v); yes && up > 0 {
			x[v.Index()] = 1
		}
	}
	before := func(a, b float64) bool { return a <= b+Instantly }
	for k, s := range t.s {
		x[f.t.At(k).Index()] = s
	}
	for i := range t.moves { // F_{i+1} still uses ā_i: it is never away
		m := &t.moves[i]
		m.is = m.is && before(t.s[i]+f.u[i], m.back[0])
	}
	for q, i := range f.tensor {
		m := &t.moves[i]
		if !m.is {
			continue
		}
		set(f.moves.At(q), true)
		x[f.t.At(f.off(q)).Index()], x[f.t.At(f.back(q)).Index()] = m.off[0], m.back[0]
		for k, s := range t.s {
			set(f.from.At(q, k), before(s, m.back[0]))
			set(f.past.At(q, k), before(s+f.u[k], m.back[0]))
			set(f.gone.At(q, k), before(m.off[1], s) && before(s, m.back[0]))
		}
		for r, j := range f.tensor {
			n := &t.moves[j]
			if !n.is || q == r {
				continue
			}
			if q < r {
				set(f.offs.At(q, r), before(m.off[1], n.off[0]))
				set(f.backs.At(q, r), before(m.back[1], n.back[0]))
			}
			set(f.mixed.At(q, r), before(m.off[1], n.back[0]))
			set(f.beside.At(q, r), before(m.off[1], n.back[0]) && before(t.s[i]+f.u[i], n.back[0]) && before(n.back[1], m.back[0]))
		}
	}
	return x, nil
}

// plan times the decisions of a solution anew: each event as early as they
// allow.
func (f *offloadExact) plan(x []float64) (*plan.Plan, error) {
	var ps []timing.Precedence
rules:
	for _, r := range f.rules {
		for _, l := range r.When {
			if (x[l.V.Index()] > 0.5) != (l.Value == 1) {
				continue rules
			}
		}
		ps = append(ps, r.Precedence)
	}
	_, at, err := timing.Retime(f.events(), ps, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	t := &offloadTimes{s: at[:2*f.n], moves: make([]moved, f.tensors())}
	for q, i := range f.tensor {
		if x[f.moves.At(q).Index()] > 0.5 {
			off, back := at[f.off(q)], at[f.back(q)]
			t.moves[i] = moved{[2]float64{off, off + f.move[i]}, [2]float64{back, back + f.move[i]}, true}
		}
	}
	return f.write(t, "offload-milp"), nil
}

// exact solves the exact MILP for what the bound leaves open.
func (s *offloadSolver) exact() error {
	f := buildOffloadExact(s.in, 1)
	// A little less than the bound, so that rounding cuts nothing off.
	last := f.t.At(2*f.n - 1)
	f.m.SetBounds(last, max(0, s.r.Bound/s.in.unit*(1-1e-6)-f.u[2*f.n-1]-1e-6), f.latest)
	x, err := s.solve(f.m.Name(), f.program())
	if err != nil || x == nil {
		return err
	}
	p, err := f.plan(x)
	if err != nil {
		return err
	}
	s.r.Keep(p)
	s.r.Raise(0, "")
	return nil
}
