package flush

import (
	"fmt"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/instance/stages"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
)

// mostPairs limits the number of pairs of operations with an open order for which a model is built.
const mostPairs = 30_000

// op is an operation of a stage on one micro-batch.
type op struct {
	letter flush.Operation
	job    int
}

// pair is two operations of one GPU whose order is open.
type pair struct{ a, b op }

// orders is the disjunctive model: t is the start time of an operation, y of a pair is 1 if a precedes b, T is the
// objective.
type orders struct {
	*instance
	m     *milp.Model
	T     milp.Var
	t     milp.Family[op]
	y     milp.Family[pair]
	q     milp.Family[op] // sequence numbers; empty where every operation has a positive duration
	last  milp.List       // by GPU: upper bound on the completion times of its operations
	ops   [][]op          // by GPU
	pairs []pair
}

// Orders returns the MILP of Qi et al. 2024, appendix G, with two changes. Micro-batches are processed in the
// order of their numbers (package flush of the model proves that this loses nothing), and memory is exact:
//
//	min T
//	T ≥ last_g − t of its first operation     every GPU (the makespan: T ≥ last_g)
//	last_g ≥ t_a + d_a                        every operation of it
//	t_b ≥ t_a + d_a + delay                   b needs a
//	t_b ≥ t_a + d_a  if y_ab = 1              every pair on a GPU with an open order
//	t_a ≥ t_b + d_b  if y_ab = 0              the same
//	Σ mem_a [a before b] + mem_b ≤ room       every F b, over all a of its GPU
//	t ≥ 0, y binary
//
// [a before b] is y_ab, 1 − y_ba, or a constant: a precedes b if the operation of a precedes that of b for each
// micro-batch and the micro-batch of b is not earlier. H is a horizon.
//
// With copies to the host, every P has a memory row, too. An operation of the GPU and a copy of its link are
// ordered by the times at which they change the occupied memory. A pair exists where one of the two allocates
// memory, and
//
//	t_b ≥ t_a + d_a  if a before b, a frees memory and b allocates
//	t_b ≥ t_a        if a before b, both allocate
//	t_b + d_b ≥ t_a  if a before b, a allocates and b frees
//
// Operations of zero duration may start at the same time. The order variables could then form a cycle, in which no
// operation counts all the memory that the others hold. Instances with such operations therefore get a sequence
// number q for every operation,
//
//	q_b ≥ q_a + 1  if b needs a, or y_ab = 1; q_a ≥ q_b + 1 if y_ab = 0
//
// as in Miller, Tucker and Zemlin, Integer Programming Formulation of Traveling Salesman Problems, 1960. Every
// schedule has sequence numbers (any linear extension), and with them the orders of all GPUs extend to one total
// order.
//
// Where every operation has a positive duration, at most one F and one P of a GPU start at any one time, and
// operations that free memory at that time come first. They depend on neither, and F and P hold no more than the
// rows count, whatever the value of y.
//
// The model has O(micro-batches²) columns and rows per GPU. Its relaxation bounds the step time only by the
// critical path of one micro-batch: y = 1/2 relaxes the rows of a pair.
func Orders(in *stages.Partition, p platform.Platform) (*formulation.Program, error) {
	o, err := newOrders("flush-orders", in, p)
	if err != nil {
		return nil, err
	}
	return o.program()
}

func newOrders(name string, in *stages.Partition, p platform.Platform) (*orders, error) {
	x, err := newInstance(in, p)
	if err != nil {
		return nil, err
	}
	o := &orders{instance: x, m: milp.New(name), ops: make([][]op, x.GPUs)}
	var all []op
	for g := range o.ops {
		for _, s := range x.On[g] {
			for _, kind := range x.Kinds(s) {
				for j := range x.Jobs {
					o.ops[g] = append(o.ops[g], op{flush.OperationOf(s, kind), j})
				}
			}
		}
		all = append(all, o.ops[g]...)
		if err := o.pair(g); err != nil {
			return nil, err
		}
	}
	H := x.seconds(x.horizon)
	o.T = o.m.Var("T", milp.Continuous, 0, H)
	o.t = milp.Vars(o.m, "t", all, milp.Continuous, 0, H)
	for a, t := range o.t.All() {
		o.m.SetBounds(t, 0, H-o.time(a))
	}
	o.last = o.m.List("last", x.GPUs, milp.Continuous, 0, H)
	o.y = milp.Vars(o.m, "y", o.pairs, milp.Binary, 0, 1)
	o.times()
	o.addDisjunctions()
	o.noCircles(all)
	o.memory()
	o.m.Minimize(new(milp.Expr).Add(1, o.T))
	return o, nil
}

// pair adds the open pairs of a GPU.
func (o *orders) pair(g int) error {
	for i, a := range o.ops[g] {
		for _, b := range o.ops[g][i+1:] {
			if o.isFixed(a, b) || o.isFixed(b, a) || o.onDifferentEngines(a, b) && !a.letter.Takes() && !b.letter.Takes() {
				continue
			}
			if o.pairs = append(o.pairs, pair{a, b}); len(o.pairs) > mostPairs {
				return fmt.Errorf("%w: more than %d pairs of operations have an open order", formulation.ErrInstance, mostPairs)
			}
		}
	}
	return nil
}

// onDifferentEngines reports whether one operation runs on the GPU and the other on its link.
func (o *orders) onDifferentEngines(a, b op) bool { return a.letter.Copies() != b.letter.Copies() }

// isFixed reports whether a precedes b in every schedule: the micro-batch of b is not earlier, and the operation
// of a precedes that of b for each micro-batch.
func (o *orders) isFixed(a, b op) bool {
	if a.letter == b.letter {
		return a.job < b.job
	}
	return a.job <= b.job && o.leads(a.letter, b.letter)
}

// leads reports whether a precedes b for each micro-batch: F in stage order, then B in reverse order, then W of
// the same stage. O and P run between F and B of their stage.
func (o *orders) leads(a, b flush.Operation) bool {
	r, s := a.Stage(), b.Stage()
	switch {
	case a.Kind() == flush.W:
		return false
	case a.Kind() == flush.F && b.Kind() == flush.F:
		return r < s
	case a.Kind() == flush.F:
		return !b.Copies() || r <= s
	case a.Kind() == flush.O && b.Kind() == flush.P:
		return r == s
	case a.Copies():
		return !b.Copies() && b.Kind() != flush.F && r >= s
	}
	return b.Kind() == flush.B && r > s || b.Kind() == flush.W && r >= s
}

func (o *orders) time(a op) float64 { return o.seconds(o.Time[a.letter.Stage()][a.letter.Kind()]) }

func (o *orders) startVar(a op) milp.Var {
	t, _ := o.t.At(a)
	return t
}

// addOrder adds the term c·[a before b].
func (o *orders) addOrder(e *milp.Expr, c float64, a, b op) {
	if y, ok := o.y.At(pair{a, b}); ok {
		e.Add(c, y)
	} else if y, ok := o.y.At(pair{b, a}); ok {
		e.Add(-c, y).AddConst(c)
	} else if o.isFixed(a, b) {
		e.AddConst(c)
	}
}

// first returns the first operation of a GPU.
func (o *orders) first(g int) op { return op{flush.OperationOf(o.On[g][0], flush.F), 0} }

// times adds the objective and the precedence rows.
func (o *orders) times() {
	span, end, needs := o.m.Group("objective", "Qi et al. 2024"), o.m.Group("end", "Qi et al. 2024"), o.m.Group("needs", "Qi et al. 2024")
	for g, ops := range o.ops {
		e := new(milp.Expr).Add(1, o.T).Add(-1, o.last.At(g))
		if o.Span() {
			e.Add(1, o.startVar(o.first(g)))
		}
		span.AtLeast(e, 0)
		for _, b := range ops {
			end.AtLeast(new(milp.Expr).Add(1, o.last.At(g)).Add(-1, o.startVar(b)), o.time(b))
			for _, a := range o.needed(b) {
				needs.AtLeast(new(milp.Expr).Add(1, o.startVar(b)).Add(-1, o.startVar(a.op)), a.wait)
			}
		}
	}
}

// needed is a predecessor of an operation with the minimum difference of their start times.
type needed struct {
	op
	wait float64
}

// needed returns the direct predecessors of an operation.
func (o *orders) needed(b op) []needed {
	var all []needed
	if from, delay := o.Needs(b.letter); from >= 0 {
		a := op{from, b.job}
		all = append(all, needed{a, milp.Down.Add(o.time(a), o.seconds(delay))})
	}
	if own := o.Predecessor(b.letter); o.Moves[o.GPU[b.letter.Stage()]] && own >= 0 {
		a := op{own, b.job}
		all = append(all, needed{a, o.time(a)})
	}
	if b.job > 0 {
		a := op{b.letter, b.job - 1}
		all = append(all, needed{a, o.time(a)})
	}
	return all
}

// noCircles adds sequence numbers if some operation has zero duration.
func (o *orders) noCircles(all []op) {
	if !slices.ContainsFunc(all, func(a op) bool { return o.time(a) == 0 }) {
		return
	}
	o.q = milp.Vars(o.m, "q", all, milp.Continuous, 0, float64(len(all)-1))
	g := o.m.Group("no circles", "Miller, Tucker and Zemlin 1960")
	behind := func(a, b op) *milp.Expr {
		from, _ := o.q.At(a)
		to, _ := o.q.At(b)
		return new(milp.Expr).Add(1, to).Add(-1, from)
	}
	for _, b := range all {
		for _, a := range o.needed(b) {
			g.AtLeast(behind(a.op, b), 1)
		}
	}
	for _, p := range o.pairs {
		y, _ := o.y.At(p)
		g.When(milp.Is(y)).AtLeast(behind(p.a, p.b), 1)
		g.When(milp.IsNot(y)).AtLeast(behind(p.b, p.a), 1)
	}
}

// addDisjunctions adds rows that keep the operations of a GPU, and those of its link, from overlapping. Between a
// GPU and its link, the rows order the changes of occupied memory.
func (o *orders) addDisjunctions() {
	g := o.m.Group("apart", "Qi et al. 2024")
	behind := func(row milp.Conditional, a, b op) { // b after a
		wait := o.time(a)
		if o.onDifferentEngines(a, b) {
			switch {
			case !b.letter.Takes(): // a allocates
				wait = -o.time(b)
			case a.letter.Takes():
				wait = 0
			}
		}
		row.AtLeast(new(milp.Expr).Add(1, o.startVar(b)).Add(-1, o.startVar(a)), wait)
	}
	for _, q := range o.pairs {
		y, _ := o.y.At(q)
		behind(g.When(milp.Is(y)), q.a, q.b)
		behind(g.When(milp.IsNot(y)), q.b, q.a)
	}
}

// memory adds the memory row of every F and every P.
func (o *orders) memory() {
	group := o.m.Group("memory", "Qi et al. 2024")
	for g, ops := range o.ops {
		all := int64(0)
		for _, s := range o.On[g] {
			all += int64(o.Jobs) * o.Memory[s][flush.F]
		}
		if all <= o.Room[g] {
			continue
		}
		scale := milp.PowerOfTwo(float64(o.Room[g]), target)
		for _, b := range ops {
			if !b.letter.Takes() {
				continue
			}
			e := new(milp.Expr)
			for _, a := range ops {
				if change := o.Memory[a.letter.Stage()][a.letter.Kind()]; a != b && change != 0 {
					o.addOrder(e, scale*float64(change), a, b)
				}
			}
			group.AtMost(e, scale*float64(o.Room[g]-o.Memory[b.letter.Stage()][b.letter.Kind()]))
		}
	}
}

// program returns the model with its conversions from and to plans.
func (o *orders) program() (*formulation.Program, error) {
	return &formulation.Program{
		Model: o.m, Promise: formulation.Equal, Formulation: o.m.Name(), Unit: 1 / o.scale,
		Start: o.start, Plan: o.plan,
	}, o.m.Err()
}

// plan returns the earliest schedule with the orders of a solution.
func (o *orders) plan(x []float64) (*plan.Plan, error) {
	order := o.order(x)
	if !o.Complete(order) || !o.KeepsMemory(order) {
		return nil, fmt.Errorf("%w: the orders of %s contradict each other", plan.ErrNoPlan, o.m.Name())
	}
	s, err := o.Schedule(order)
	if err != nil {
		return nil, err
	}
	return o.Plan(o.m.Name(), s), nil
}

// order returns the sequences of operations of a solution. It repeatedly appends an operation whose predecessors
// have all run and which no other remaining operation of its GPU precedes. At a tie, y may order F, P and
// operations that free memory in a cycle, so that no operation qualifies. It then takes the earliest one, and of
// equally early ones one that frees memory.
func (o *orders) order(x []float64) flush.Order {
	order, count := make(flush.Order, o.GPUs), make([]int, flush.Kinds*o.Stages)
	left := make([][]op, o.GPUs)
	for g := range left {
		left[g] = slices.Clone(o.ops[g])
	}
	type candidate struct {
		op     op
		behind bool // another remaining operation precedes it
		at     float64
	}
	for range o.Ops() {
		var best *candidate
		for s := range o.Stages {
			for _, kind := range o.Kinds(s) {
				a := op{flush.OperationOf(s, kind), count[flush.OperationOf(s, kind)]}
				if !o.ready(a, count) {
					continue
				}
				c := &candidate{a, slices.ContainsFunc(left[o.GPU[s]], func(b op) bool { return b != a && o.goes(x, b, a) }), x[o.startVar(a).Index()]}
				if !a.letter.Takes() {
					c.at += o.time(a)
				}
				if best == nil || best.behind && !c.behind || best.behind == c.behind &&
					(c.at < best.at || c.at == best.at && best.op.letter.Takes() && !a.letter.Takes()) {
					best = c
				}
			}
		}
		l := best.op.letter
		g := o.GPU[l.Stage()]
		order[g] = append(order[g], l)
		count[l]++
		left[g] = slices.DeleteFunc(left[g], func(b op) bool { return b == best.op })
	}
	return order
}

// ready reports whether the predecessors of an operation have run, given the number of completed operations of
// each kind.
func (o *orders) ready(a op, count []int) bool {
	from, _ := o.Needs(a.letter)
	before := o.Predecessor(a.letter)
	return a.job < o.Jobs && (from < 0 || count[from] > a.job) && (before < 0 || count[before] > a.job)
}

// goes reports whether a precedes b in a solution.
func (o *orders) goes(x []float64, a, b op) bool {
	if y, ok := o.y.At(pair{a, b}); ok {
		return x[y.Index()] > 0.5
	}
	if y, ok := o.y.At(pair{b, a}); ok {
		return x[y.Index()] <= 0.5
	}
	return o.isFixed(a, b)
}

// start returns the values of the variables for a plan.
func (o *orders) start(p *plan.Plan) ([]float64, error) {
	if p.Problem != plan.Flush {
		return nil, fmt.Errorf("%w: a plan of %s", formulation.ErrStart, p.Problem)
	}
	order, ok := o.OrderOf(p)
	if !ok {
		return nil, fmt.Errorf("%w: its order is not complete", formulation.ErrStart)
	}
	s, err := o.Schedule(order)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrStart, err)
	}
	x, line := make([]float64, o.m.NumCols()), make([][]op, o.GPUs)
	count := make([]int, flush.Kinds*o.Stages)
	for _, timed := range o.Plan(o.m.Name(), s).Ops { // on each GPU by start time
		l := flush.OperationOf(timed.Stage-1, slices.Index(flush.Names[:], timed.Op))
		a, g := op{l, count[l]}, o.GPU[l.Stage()]
		count[l]++
		line[g] = append(line[g], a)
		x[o.startVar(a).Index()] = o.seconds(timed.Start)
		last := o.last.At(g).Index()
		x[last] = max(x[last], o.seconds(timed.Start)+o.time(a))
	}
	place := o.merge(line)
	if len(place) < o.Ops() {
		return nil, fmt.Errorf("%w: simultaneous operations wait for each other", formulation.ErrStart)
	}
	for a, q := range o.q.All() {
		x[q.Index()] = float64(place[a])
	}
	for q, y := range o.y.All() {
		if place[q.a] < place[q.b] {
			x[y.Index()] = 1
		}
	}
	x[o.T.Index()] = o.seconds(s.Objective)
	return x, nil
}

// merge returns the sequence number of each operation, greater than those of its predecessors and of the earlier
// operations on its GPU. The result is incomplete if some operations wait for each other. O(operations · GPUs).
func (o *orders) merge(line [][]op) map[op]int {
	place, next, count := map[op]int{}, make([]int, len(line)), make([]int, flush.Kinds*o.Stages)
	for before := -1; before < len(place); {
		before = len(place)
		for g := range line {
			for ; next[g] < len(line[g]) && o.ready(line[g][next[g]], count); next[g]++ {
				a := line[g][next[g]]
				place[a] = len(place)
				count[a.letter]++
			}
		}
	}
	return place
}
