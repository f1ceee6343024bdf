package activationoffload

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/ilp/timing"
	"workbench/model/cycleratio"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// ExactLayers is the maximum length of a chain for Exact: its large constants make the relaxation
// too weak for more.
const ExactLayers = 8

// offloadExact is our own exact MILP of activation offloading: its optimum is the minimum makespan,
// and its decisions determine a plan that attains it.
//
// Plans are in the first two normal forms of offload: F_1 starts at 0, and there is at most one
// offload and one prefetch of each tensor. Events are the starts of computations, offloads and
// prefetches. All timing is by precedences between two events that hold if certain binaries have
// certain values, as in weightoffload's exact.
//
// Memory grows when a computation or a prefetch starts, so it is checked there. A prefetch starts
// between two computations, or during one (see from and past); what is on the host at its start
// follows from the order on the link.
type offloadExact struct {
	*instance
	m     *milp.Model
	e     milp.Expr         // scratch
	cover formulation.Cover // scratch

	tensor []int // those that are movable
	t      milp.List
	latest float64
	moves  milp.List
	rules  []timing.Rule

	offs, backs, mixed milp.Grid // by the numbers of two tensors: which one is first
	from, past         milp.Grid // by tensor and computation: its prefetch starts at the start or later, at the end or later
	gone               milp.Grid // by tensor and computation: on the host when it starts
	beside             milp.Grid // by two tensors: the first is on the host when the prefetch of the second starts
}

// Events: computation k is event k.
func (f *offloadExact) off(q int) int  { return 2*f.N + q }
func (f *offloadExact) back(q int) int { return 2*f.N + len(f.tensor) + q }
func (f *offloadExact) events() int    { return 2*f.N + 2*len(f.tensor) }

// Exact builds our own MILP whose optimum is the minimum makespan: see offloadExact. O(N²)
// binaries, by pairs of tensors and by tensor and computation, and as many rows with a large
// constant. The error wraps ErrInstance, is ErrTooLong for chains of more than ExactLayers, or a
// *plan.Infeasible.
func Exact(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	if in.N > ExactLayers {
		return nil, fmt.Errorf("%w: %d layers, offload-exact takes %d at most", formulation.ErrTooLong, in.N, ExactLayers)
	}
	return buildOffloadExact(in).program(), nil
}

func (f *offloadExact) program() *formulation.Program {
	return &formulation.Program{
		Model: f.m, Promise: formulation.Equal, Formulation: f.m.Name(), Unit: f.unit, Start: f.start, Plan: f.plan,
	}
}

func buildOffloadExact(in *instance) *offloadExact {
	f := &offloadExact{instance: in, m: milp.New("offload-exact")}
	for f.latest = 1; f.latest < f.cutoff(); {
		f.latest *= 2
	}
	for i := range in.tensors() {
		if in.movable(i) && in.move[i] <= f.latest { // else the best plan has no time for it
			f.tensor = append(f.tensor, i)
		}
	}
	f.columns()
	f.computations()
	f.transfers()
	f.link()
	f.places()
	f.addHostState()
	f.memory()
	f.precedences()
	f.m.Minimize(f.e.Reset().AddConst(f.u[2*f.N-1]).Add(1, f.t.At(2*f.N-1)))
	return f
}

// columns adds times and choices. latest is a power of two that some plan takes no
// longer than, and so the best one: the large constants made of it are exact.
func (f *offloadExact) columns() {
	q := len(f.tensor)
	f.t = f.m.List("t", f.events(), milp.Continuous, 0, f.latest)
	f.moves = f.m.List("moves", q, milp.Binary, 0, 1)
	grid := func(name string, n int) milp.Grid { return f.m.Grid(name, q, n, milp.Binary, 0, 1) }
	f.offs, f.backs, f.mixed = grid("O,O", q), grid("P,P", q), grid("O,P", q)
	f.from, f.past = grid("from", 2*f.N), grid("past", 2*f.N)
	f.gone, f.beside = grid("away", 2*f.N), grid("beside", q)
	f.m.Fix(f.t.At(0), 0)
}

// cutoff returns slightly more than the makespan of the shortest plan that offloads ā_0..ā_k for
// some k; one exists.
func (f *offloadExact) cutoff() float64 {
	w, best := view.NewNoWait(f.Instance), math.Inf(1)
	away := make([]bool, f.N)
	for k := range f.N {
		w.Choose(away)
		best = min(best, w.Evaluate())
		away[k] = true
	}
	return best / f.unit * (1 + plan.Tolerance)
}

// precede adds that event to comes wait or more after event from, when all
// literals hold.
func (f *offloadExact) precede(from, to int, wait float64, when ...milp.Literal) {
	f.rules = append(f.rules, timing.Rule{Precedence: cycleratio.Precedence{From: from, To: to, Wait: wait}, When: when})
}

// precedences makes rows of the rules.
func (f *offloadExact) precedences() {
	g := f.m.Group("precedences", "the rules")
	for i := range f.rules {
		r := &f.rules[i]
		f.e.Reset().Add(1, f.t.At(r.To)).Add(-1, f.t.At(r.From))
		g.When(r.When...).AtLeast(&f.e, formulation.Waits(r.Wait))
	}
}

// computations follow each other in their order.
func (f *offloadExact) computations() {
	for k := range 2*f.N - 1 {
		f.precede(k, k+1, f.u[k])
	}
}

// transfers of a tensor that moves lie between the computations that produce
// and use it.
func (f *offloadExact) transfers() {
	for q, i := range f.tensor {
		moves := milp.Is(f.moves.At(q))
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
		f.precede(a, b, wa, milp.Is(first), milp.Is(f.moves.At(q)), milp.Is(f.moves.At(r)))
		f.precede(b, a, wb, milp.IsNot(first), milp.Is(f.moves.At(q)), milp.Is(f.moves.At(r)))
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
		moves := milp.Is(f.moves.At(q))
		for k := range 2 * f.N {
			from, past := f.from.At(q, k), f.past.At(q, k)
			f.precede(k, f.back(q), 0, milp.Is(from), moves)
			f.precede(f.back(q), k, 0, milp.IsNot(from), moves)
			f.precede(k, f.back(q), f.u[k], milp.Is(past), moves)
			f.precede(f.back(q), k, -f.u[k], milp.IsNot(past), moves)
			g.AtMost(f.e.Reset().Add(1, past).Add(-1, from), 0)
			if k > 0 {
				g.AtMost(f.e.Reset().Add(1, from).Add(-1, f.past.At(q, k-1)), 0)
			}
		}
	}
}

// addHostState adds what is on the host when a computation or a prefetch starts: the offload and
// the forward that uses the tensor have ended, and the prefetch starts later.
func (f *offloadExact) addHostState() {
	g := f.m.Group("away", "[004] O.7")
	atMost := func(v, w milp.Var) { g.AtMost(f.e.Reset().Add(1, v).Add(-1, w), 0) }
	for q, i := range f.tensor {
		for k := range 2 * f.N {
			gone := f.gone.At(q, k)
			if k < f.first(i) || k > f.last(i) {
				f.m.Fix(gone, 0)
				continue
			}
			atMost(gone, f.moves.At(q))
			atMost(gone, f.from.At(q, k))
			f.precede(f.off(q), k, f.move[i], milp.Is(gone))
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

// memory adds that what does not fit is on the host when a computation starts, and when a prefetch
// starts while it runs or after the previous one.
func (f *offloadExact) memory() {
	g := f.m.Group("memory", "the rules")
	for k := range 2 * f.N {
		if f.excess[k] > 0 {
			f.cover.Reset()
			for q, i := range f.tensor {
				if f.first(i) <= k && k <= f.last(i) {
					f.cover.AddOffloaded(f.Abar[i], f.gone.At(q, k))
				}
			}
			f.cover.AtLeast(g, f.excess[k], 1)
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

// during adds that at least excess is on the host if the prefetch of r starts where after is 1 and
// before is 0.
func (f *offloadExact) during(g milp.Group, r int, excess float64, after, before milp.Var) {
	if excess <= 0 {
		return
	}
	f.cover.Reset()
	for q, i := range f.tensor {
		if q != r {
			f.cover.AddOffloaded(f.Abar[i], f.beside.At(q, r))
		}
	}
	f.cover.AtLeast(g, excess, -1, formulation.Case{Value: 1, Var: after}, formulation.Case{Value: -1, Var: before},
		formulation.Case{Value: 1, Var: f.moves.At(r)})
}

// idleExcess returns what must be on the host between computations k−1 and k.
func (f *offloadExact) idleExcess(k int) float64 {
	alive := f.Abar[0]
	top := min(k, 2*f.N-k)
	for i := 1; i <= top; i++ {
		alive += f.Abar[i]
	}
	if k > f.N { // δ of the next backward
		alive += f.Delta[top]
	}
	return alive - f.Memory
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
	before := func(a, b float64) bool { return a <= b+t.near }
	// Transfers are one after the other, however short.
	precedes := func(a, b [2]float64) bool { return a[0]+a[1] <= b[0]+b[1] }
	for k, s := range t.s {
		x[f.t.At(k).Index()] = s
	}
	for i := range t.moves { // F_{i+1} still uses ā_i: it is never on the host then
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
			later := !precedes(m.back, n.back)
			if q < r {
				set(f.offs.At(q, r), precedes(m.off, n.off))
				set(f.backs.At(q, r), !later)
			} else {
				later = precedes(n.back, m.back)
			}
			set(f.mixed.At(q, r), precedes(m.off, n.back))
			set(f.beside.At(q, r), precedes(m.off, n.back) && before(t.s[i]+f.u[i], n.back[0]) && later)
		}
	}
	return x, nil
}

// plan times the decisions of a solution anew: in the order of starts that they
// make, each event as early as it can be.
func (f *offloadExact) plan(x []float64) (*plan.Plan, error) {
	ps := timing.Binding(f.rules, x)
	_, at, err := cycleratio.Least(f.events(), ps, 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", f.m.Name(), plan.ErrNoPlan, err) // within a solver's tolerance only
	}
	order, err := f.order(x, ps, at)
	if err != nil {
		return nil, err
	}
	m := view.NewMachine(f.Instance)
	T := m.Run(order)
	if math.IsInf(T, 1) {
		return nil, fmt.Errorf("%s: %w: the order of a solution does not fit", f.m.Name(), plan.ErrNoPlan)
	}
	return m.Plan(Method, order, T), nil
}

// order returns the events of the machine in an order of starts that respects every precedence, by
// time where they are unordered.
func (f *offloadExact) order(x []float64, ps []cycleratio.Precedence, at []float64) ([]int, error) {
	number := make([]int, f.events()) // of the machine; −1: does not happen
	for k := range 2 * f.N {
		number[k] = k
	}
	left := 2 * f.N
	for q, i := range f.tensor {
		number[f.off(q)], number[f.back(q)] = -1, -1
		if x[f.moves.At(q).Index()] > 0.5 {
			number[f.off(q)], number[f.back(q)] = 2*f.N+i, 3*f.N+i
			left += 2
		}
	}
	before := make([]int, f.events()) // events that must start first
	for _, r := range ps {
		if ordered(r) && number[r.From] >= 0 {
			before[r.To]++
		}
	}
	order := make([]int, 0, left)
	for ; left > 0; left-- {
		next := -1
		for e, v := range number {
			if v >= 0 && before[e] == 0 && (next < 0 || at[e] < at[next]) {
				next = e
			}
		}
		if next < 0 {
			return nil, fmt.Errorf("%s: %w: the order of a solution is cyclic", f.m.Name(), plan.ErrNoPlan)
		}
		order = append(order, number[next])
		number[next] = -1
		for _, r := range ps {
			if ordered(r) && r.From == next {
				before[r.To]--
			}
		}
	}
	return order, nil
}

// ordered says whether a precedence is one of starts. A prefetch that starts
// before the end of a computation (the wait is −u, −0 of none) may start before
// or after it.
func ordered(r cycleratio.Precedence) bool { return !math.Signbit(r.Wait) }
