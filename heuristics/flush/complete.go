package flush

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/heuristics/flush/lcg"
	"workbench/model/problem/flush"
	"workbench/model/proof"
)

// mostComplete is for how many operations the complete search is tried.
const mostComplete = 600

// complete searches start times until the best schedule is proved or ctx ends: it asks whether there is one within a target, by
// lazy clause generation ([lcg]), for targets from the bound up and from the best schedule down, with a budget of conflicts that
// doubles. Times must be multiples of a common unit, and nothing may go to the host. The pairs of operations of a GPU that no
// precedence orders are decided; memory is a sum over the pairs of each operation that takes some. It returns the best schedule and
// the bound that is proved, both as given where it is of no use, and which constraints the conflicts of that proof were of. It ends
// when a budget is above most, too.
func complete(ctx context.Context, v *flush.Instance, best *flush.Schedule, bound float64, most int,
	report func(float64),
) (*flush.Schedule, float64, proof.Tally) {
	unit, ok := commonUnit(v)
	if !ok || v.Ops() > mostComplete {
		return best, bound, nil
	}
	ceil := func(x float64) int { return int(math.Ceil(x/unit - 1e-6)) }
	low, high := ceil(bound), ceil(best.Objective)
	models := map[int]*startTimes{}
	var why proof.Tally
	for budget := 1000; low < high && budget <= most && ctx.Err() == nil; budget *= 2 {
		targets := []int{low, high - 1}
		if high-low > 3 {
			targets = []int{low + (high-low)/2, high - 1}
		}
		for _, target := range slices.Compact(targets) {
			if target < low || target >= high {
				continue
			}
			m := models[target]
			if m == nil {
				m = newStartTimes(v, unit, target, best, nil)
				models[target] = m
			}
			switch m.s.Solve(ctx, budget) {
			case lcg.Infeasible:
				low, why = max(low, target+1), m.conflicts()
			case lcg.Feasible:
				o := m.order()
				if v.Fused && !v.KeepsMemory(o) {
					return best, max(bound, float64(low)*unit), why
				}
				s, err := v.Schedule(o)
				if err != nil || ceil(s.Objective) > target && !v.Fused {
					return best, bound, why // never seen
				}
				if s.Objective < best.Objective*(1-1e-12) {
					if best = s; report != nil {
						report(s.Objective)
					}
				}
				if v.Fused { // what is searched is less than what runs
					return best, max(bound, float64(low)*unit), why
				}
				high = min(high, ceil(s.Objective))
			}
			for t := range models {
				if t < low || t >= high {
					delete(models, t)
				}
			}
		}
	}
	return best, max(bound, float64(low)*unit), why
}

// conflicts counts the conflicts of a model by the constraints that failed.
func (m *startTimes) conflicts() proof.Tally {
	count := func(cause int) int64 { return int64(m.s.Causes[cause]) }
	return proof.Tally{
		"precedences within the target": count(lcg.ByDifference), "one operation at a time on a GPU": count(lcg.ByMachine),
		"memory of a GPU": count(lcg.BySum), "nogoods learned from conflicts": count(lcg.ByClause),
	}
}

// commonUnit returns the largest of 1, 0.1, 0.01 … seconds of which all times are multiples. It
// reports false if there is none, if sums are not small in it, or if some stage offloads.
func commonUnit(v *flush.Instance) (float64, bool) {
	if slices.Contains(v.Moves, true) {
		return 0, false
	}
	sum := 4 * v.Partition.CommunicationTime * float64(v.Stages)
	times := []float64{v.Partition.CommunicationTime}
	for _, t := range v.Time {
		times = append(times, t[:flush.O]...)
		sum += float64(v.Jobs) * (t[flush.F] + t[flush.B] + t[flush.W])
	}
	for scale := 1.0; 4*sum*scale < 1<<28; scale *= 10 {
		if !slices.ContainsFunc(times, func(t float64) bool { return math.Abs(t*scale-math.Round(t*scale)) > 1e-9*max(1, t*scale) }) {
			return 1 / scale, true
		}
	}
	return 0, false
}

// startTimes decides whether a schedule within a target exists.
type startTimes struct {
	v      *flush.Instance
	s      *lcg.Solver
	starts []int32            // by operation·jobs + micro-batch
	pairs  map[[2]int]lcg.Lit // of two operations, the smaller index first: that it comes first
	ops    [][]int            // by GPU
	length func(op int) int
	free   func(g, place int) bool
	fixed  map[[2]int]bool // pairs with a fixed order: whether the smaller index comes first
}

// newStartTimes builds the decision problem. Pairs neither operation of which is free, by GPU and
// position in the sequence of the best schedule, keep their order there; with free nil all
// operations are free.
func newStartTimes(v *flush.Instance, unit float64, target int, best *flush.Schedule, free func(g, place int) bool) *startTimes {
	if v.Fused {
		v = v.Resident() // some B may be one with its W and take nothing
	}
	m := &startTimes{
		v: v, free: free, s: lcg.New(), starts: make([]int32, flush.Kinds*v.Stages*v.Jobs), pairs: map[[2]int]lcg.Lit{},
		fixed: map[[2]int]bool{}, ops: make([][]int, v.GPUs),
	}
	units := func(x float64) int { return int(math.Round(x / unit)) }
	m.length = func(op int) int { return units(v.Time[op/v.Jobs/flush.Kinds][op/v.Jobs%flush.Kinds]) }
	horizon := target
	if v.Span() {
		horizon = 2 * target // each GPU works when the first one does
	}
	for s := range v.Stages {
		for _, kind := range v.Kinds(s) {
			for j := range v.Jobs {
				op := int(flush.OperationOf(s, kind))*v.Jobs + j
				m.starts[op] = m.s.Var(0, horizon)
				m.ops[v.GPU[s]] = append(m.ops[v.GPU[s]], op)
			}
		}
	}
	m.precedences(units, target)
	for g := range m.ops {
		m.machine(g, best)
	}
	return m
}

// precedences adds what comes after what, and the target.
func (m *startTimes) precedences(units func(float64) int, target int) {
	v := m.v
	after := func(op, before int, delay float64) {
		m.s.Difference(m.starts[before], m.starts[op], m.length(before)+units(delay), nil)
	}
	for g, ops := range m.ops {
		first := int(flush.OperationOf(v.On[g][0], flush.F)) * v.Jobs
		for _, op := range ops {
			l, j := flush.Operation(op/v.Jobs), op%v.Jobs
			if from, delay := v.Needs(l); from >= 0 {
				after(op, int(from)*v.Jobs+j, delay)
			}
			if from := v.Predecessor(l); from >= 0 {
				after(op, int(from)*v.Jobs+j, 0)
			}
			if j > 0 {
				after(op, op-1, 0)
			}
			if v.Span() {
				m.s.Difference(m.starts[op], m.starts[first], m.length(op)-target, nil)
			} else if j == v.Jobs-1 {
				zero := m.s.Var(target-m.length(op), target-m.length(op))
				m.s.Difference(m.starts[op], zero, 0, nil)
			}
		}
	}
}

// comesFirst reports whether every schedule has one operation before another.
func (m *startTimes) comesFirst(a, b int) bool {
	la, lb, jobs := flush.Operation(a/m.v.Jobs), flush.Operation(b/m.v.Jobs), m.v.Jobs
	switch {
	case a%jobs > b%jobs:
		return false
	case la == lb:
		return true
	case la.Kind() == flush.F:
		return lb.Kind() != flush.F || la.Stage() < lb.Stage()
	case la.Kind() == flush.B:
		return lb.Kind() != flush.F && la.Stage() >= lb.Stage()
	}
	x, y, ok := m.alike(a, b)
	return ok && m.free == nil && m.comesFirst(x, y)
}

// orderLiteral returns the literal that one operation of a GPU comes before another, or that it is known.
func (m *startTimes) orderLiteral(a, b int) (l lcg.Lit, known, value bool) {
	switch {
	case m.comesFirst(a, b):
		return l, true, true
	case m.comesFirst(b, a):
		return l, true, false
	}
	key := [2]int{min(a, b), max(a, b)}
	if first, ok := m.fixed[key]; ok {
		return l, true, first == (a < b)
	}
	if l = m.pairs[key]; a > b {
		l = l.Not()
	}
	return l, false, false
}

// machine adds that a GPU runs one operation at a time, in the order of the best schedule for a start, and its memory.
func (m *startTimes) machine(g int, best *flush.Schedule) {
	ops, at := m.ops[g], map[int]int{}
	count := make([]int, flush.Kinds*m.v.Stages)
	for i, l := range best.Order[g] {
		at[int(l)*m.v.Jobs+count[l]] = i
		count[l]++
	}
	starts, lengths := make([]int32, len(ops)), make([]int, len(ops))
	for i, a := range ops {
		starts[i], lengths[i] = m.starts[a], m.length(a)
		for _, b := range ops[i+1:] {
			if m.comesFirst(a, b) || m.comesFirst(b, a) {
				if _, _, ok := m.alike(a, b); ok {
					first, second := a, b
					if m.comesFirst(b, a) {
						first, second = b, a
					}
					m.s.Difference(m.starts[first], m.starts[second], m.length(first), nil)
				}
				continue
			}
			if m.free != nil && !m.free(g, at[a]) && !m.free(g, at[b]) {
				first, second := a, b
				if m.fixed[[2]int{a, b}] = at[a] < at[b]; at[a] > at[b] {
					first, second = b, a
				}
				m.s.Difference(m.starts[first], m.starts[second], m.length(first), nil)
				continue
			}
			if x, y, ok := m.alike(a, b); ok && m.free == nil { // W in the order of the Bs
				if l, known, _ := m.orderLiteral(x, y); !known {
					m.pairs[[2]int{a, b}] = l
					p, q := l, l.Not()
					m.s.Difference(m.starts[a], m.starts[b], m.length(a), &p)
					m.s.Difference(m.starts[b], m.starts[a], m.length(b), &q)
				}
				continue
			}
			p := m.s.Bool(at[a] < at[b], 1/float64(2+min(at[a], at[b])))
			q := p.Not()
			m.pairs[[2]int{a, b}] = p
			m.s.Difference(m.starts[a], m.starts[b], m.length(a), &p)
			m.s.Difference(m.starts[b], m.starts[a], m.length(b), &q)
		}
	}
	first := make([][]lcg.Lit, len(ops))
	for i, a := range ops {
		for _, b := range ops {
			l, known, value := lcg.Never, true, false
			if a != b {
				l, known, value = m.orderLiteral(a, b)
			}
			switch {
			case known && value:
				l = lcg.Always
			case known:
				l = lcg.Never
			}
			first[i] = append(first[i], l)
		}
	}
	m.s.Machine(starts, lengths, first)
	for _, a := range ops {
		for _, b := range ops {
			if a/m.v.Jobs == b/m.v.Jobs {
				continue
			}
			l, known, _ := m.orderLiteral(a, b)
			if known {
				continue
			}
			if a%m.v.Jobs > 0 {
				m.implies(l, a-1, b)
			}
			if b%m.v.Jobs < m.v.Jobs-1 {
				m.implies(l, a, b+1)
			}
		}
		m.memory(g, a)
	}
}

// alike reports whether two operations are W of the same length that give back the same, and returns their Bs. Some best schedule
// has such Ws in the order of the Bs: what runs first may be that of the first B.
func (m *startTimes) alike(a, b int) (x, y int, ok bool) {
	la, lb := flush.Operation(a/m.v.Jobs), flush.Operation(b/m.v.Jobs)
	ok = la.Kind() == flush.W && lb.Kind() == flush.W && m.length(a) == m.length(b) &&
		m.v.Memory[la.Stage()][flush.W] == m.v.Memory[lb.Stage()][flush.W]
	return a - m.v.Jobs, b - m.v.Jobs, ok
}

// implies adds that a literal implies that an operation comes before another.
func (m *startTimes) implies(l lcg.Lit, a, b int) {
	if other, known, _ := m.orderLiteral(a, b); !known {
		m.s.Implies(l, other)
	}
}

// memory adds that there is room for what an operation takes.
func (m *startTimes) memory(g, op int) {
	change := func(op int) int64 { return m.v.Memory[op/m.v.Jobs/flush.Kinds][op/m.v.Jobs%flush.Kinds] }
	if change(op) <= 0 {
		return
	}
	var lits []lcg.Lit
	var weights []int64
	room := m.v.Room[g] - change(op)
	for _, other := range m.ops[g] {
		l, known, value := m.orderLiteral(other, op)
		switch w := change(other); {
		case other == op || w == 0:
		case known && value:
			room -= w
		case known:
		case w > 0:
			lits, weights = append(lits, l), append(weights, w)
		default: // freed unless it comes later
			lits, weights = append(lits, l.Not()), append(weights, -w)
			room -= w
		}
	}
	m.s.AtMost(lits, weights, room)
}

// order returns the sequences of the solution.
func (m *startTimes) order() flush.Order {
	o := make(flush.Order, m.v.GPUs)
	for g, ops := range m.ops {
		sorted := slices.Clone(ops)
		slices.SortFunc(sorted, func(a, b int) int {
			if a == b {
				return 0
			}
			l, known, value := m.orderLiteral(a, b)
			if !known {
				value = m.s.Value(l.X) >= int(l.K)
			}
			if value {
				return -1
			}
			return 1
		})
		for _, op := range sorted {
			o[g] = append(o[g], flush.Operation(op/m.v.Jobs))
		}
	}
	return o
}

// neighbour looks for a better schedule that differs from the best one in a part only: the pairs of the operations that run in a
// window of time, chosen at random. nil: none is found within a budget of conflicts.
func neighbour(ctx context.Context, v *flush.Instance, unit float64, best *flush.Schedule, r *rand.Rand, budget int) *flush.Schedule {
	from := r.Float64() * best.Makespan
	to := from + best.Makespan*freeOperations*(0.5+r.Float64())/float64(v.Ops())
	gpu := r.IntN(2 * v.GPUs) // half of the time all, or all but one
	target := int(math.Ceil(best.Objective/unit-1e-6)) - 1
	m := newStartTimes(v, unit, target, best, func(g, place int) bool {
		return g != gpu && best.Start[g][place] >= from && best.Start[g][place] < to
	})
	if m.s.Solve(ctx, budget) != lcg.Feasible {
		return nil
	}
	s, err := v.Schedule(m.order())
	if err != nil || s.Objective >= best.Objective {
		return nil
	}
	return s
}

// freeOperations is the number of free operations of a neighbourhood.
const freeOperations = 60
