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

// mostPairs is how many pairs of operations with an open order a model is built for.
const mostPairs = 30_000

// op is an operation: an operation of a stage and the number of a micro-batch.
type op struct {
	letter flush.Operation
	job    int
}

// pair is two operations on a GPU whose order is open.
type pair struct{ a, b op }

// orders is the model with an order of every pair of operations on a GPU: t is when an
// operation starts, y of a pair that a is before b, T the objective.
type orders struct {
	*instance
	m     *milp.Model
	T     milp.Var
	t     milp.Family[op]
	y     milp.Family[pair]
	q     milp.Family[op] // places; none where every operation has a length
	last  milp.List       // by GPU: no operation on it ends later
	ops   [][]op          // by GPU
	pairs []pair
}

// Orders is the MILP of Qi et al. 2024, appendix G, but that micro-batches are taken in
// the order of their numbers (package flush of the model says why that is no loss), and
// that memory is exact:
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
// [a before b] is y_ab, 1 − y_ba, or known: a is before b if it is in the way of one
// micro-batch and b's is no earlier. H is a horizon.
//
// With copies to the host, memory rows are there for every P, too, and of an operation of the GPU and a copy
// of its link the order is that of the instants at which they change what is held: there is a pair
// where one of them takes memory, and
//
//	t_b ≥ t_a + d_a  if a before b, a gives memory back and b takes some
//	t_b ≥ t_a        if a before b, both take some
//	t_b + d_b ≥ t_a  if a before b, a takes some and b gives some back
//
// Operations of no length may meet at one instant, where times allow a circle of orders in which no operation
// counts all that the others hold. Where there are some, every operation has a place q as well,
//
//	q_b ≥ q_a + 1  if b needs a, or y_ab = 1; q_a ≥ q_b + 1 if y_ab = 0
//
// as in Miller, Tucker and Zemlin, Integer Programming Formulation of Traveling Salesman Problems, 1960. A schedule
// has such places, one operation after the other; and with them all orders are a part of one. Where every
// operation has a length, an instant has one F and one P of a GPU at most, and what gives memory back there
// goes first: it needs none of both, and F and P hold no more than the rows count, whatever y says.
//
// O(micro-batches²) columns and rows a GPU. Its relaxation knows the way of one
// micro-batch only: y = 1/2 switches the pairs off.
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

// pair finds the pairs of a GPU whose order is open.
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

// onDifferentEngines reports whether one runs on the GPU and the other on its link.
func (o *orders) onDifferentEngines(a, b op) bool { return a.letter.Copies() != b.letter.Copies() }

// isFixed reports whether a is before b in every schedule: the micro-batch of b is no
// earlier, and a comes before b in the way of one.
func (o *orders) isFixed(a, b op) bool {
	if a.letter == b.letter {
		return a.job < b.job
	}
	return a.job <= b.job && o.leads(a.letter, b.letter)
}

// leads reports whether the way from a leads to b: F forward, then B back, then W of the
// same stage; beside that O and P, between F and B of a stage.
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

// addOrder adds c·[a before b].
func (o *orders) addOrder(e *milp.Expr, c float64, a, b op) {
	if y, ok := o.y.At(pair{a, b}); ok {
		e.Add(c, y)
	} else if y, ok := o.y.At(pair{b, a}); ok {
		e.Add(-c, y).AddConst(c)
	} else if o.isFixed(a, b) {
		e.AddConst(c)
	}
}

// first is the first operation of a GPU.
func (o *orders) first(g int) op { return op{flush.OperationOf(o.On[g][0], flush.F), 0} }

// times adds the objective, and what needs what.
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

// needed is an operation that another needs, and by how much the other starts later at least.
type needed struct {
	op
	wait float64
}

// needed returns what an operation needs.
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

// noCircles adds the places of operations, if some have no length.
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

// addDisjunctions adds that operations of a GPU, or of its link, do not overlap, and of one of each that they change
// what is held in their order.
func (o *orders) addDisjunctions() {
	g := o.m.Group("apart", "Qi et al. 2024")
	behind := func(row milp.Conditional, a, b op) { // b behind a
		wait := o.time(a)
		if o.onDifferentEngines(a, b) {
			switch {
			case !b.letter.Takes(): // a does
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

// memory adds that every F and P has room.
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

// program returns the model with its plans.
func (o *orders) program() (*formulation.Program, error) {
	return &formulation.Program{
		Model: o.m, Promise: formulation.Equal, Formulation: o.m.Name(), Unit: 1 / o.scale,
		Start: o.start, Plan: o.plan,
	}, o.m.Err()
}

// plan returns the schedule of the orders in a solution, timed anew.
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

// order returns the words of a solution, one operation after the other: of those that have what they need, one
// that no other on its GPU goes before; where all of these have one, since at one instant y may order
// F, P and what gives memory back in a circle, the earliest, and of equal ones one that gives memory back.
func (o *orders) order(x []float64) flush.Order {
	order, count := make(flush.Order, o.GPUs), make([]int, flush.Kinds*o.Stages)
	left := make([][]op, o.GPUs)
	for g := range left {
		left[g] = slices.Clone(o.ops[g])
	}
	type candidate struct {
		op     op
		behind bool // another one that is left
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

// ready reports whether an operation has what it needs when so many of each letter have run.
func (o *orders) ready(a op, count []int) bool {
	from, _ := o.Needs(a.letter)
	before := o.Predecessor(a.letter)
	return a.job < o.Jobs && (from < 0 || count[from] > a.job) && (before < 0 || count[before] > a.job)
}

// goes reports whether a is before b in a solution.
func (o *orders) goes(x []float64, a, b op) bool {
	if y, ok := o.y.At(pair{a, b}); ok {
		return x[y.Index()] > 0.5
	}
	if y, ok := o.y.At(pair{b, a}); ok {
		return x[y.Index()] <= 0.5
	}
	return o.isFixed(a, b)
}

// start returns the values of a plan.
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
	for _, timed := range o.Plan(o.m.Name(), s).Ops { // of each GPU in the order of the instants
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
		return nil, fmt.Errorf("%w: operations at one instant wait for each other", formulation.ErrStart)
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

// merge returns the places of operations, each behind what it needs and those before it on its GPU: fewer than there are
// if some wait for each other. O(operations · GPUs).
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
