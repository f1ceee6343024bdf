package rematgraph

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// Discards solves sac_milp: it returns by module the part r of its activations that it
// discards, 0 if it is not checkpointed. The error wraps plan.ErrNoPlan if the budget is too
// small for it.
type Discards func(m *training.Modules, budget float64) (r []float64, err error)

// BySAC is the plan of PyTorch's selective activation checkpointing by MILP
// (torch/distributed/_tools/sac_ilp.py): outer, its sac_milp, says which modules are checkpointed
// and which part of their activations they discard, and inner, its
// get_optimal_checkpointing_policy_per_module, which operations of such a module are saved in
// what is left, equal modules with equal parts once. Random operations of a module are saved all
// or none, those that may not run again always. What is not saved runs again right before the first
// node that needs it.
//
// A module is a layer of the file and a child of the root, to which the loss belongs; there they
// are nested, and any may be checkpointed. Saved values that nobody reads any more are freed
// here and kept there. What outer knows of memory is what there is at the boundaries of modules
// before anything is computed again, so its max_m is not the peak; as in [ByLayers] a hundred
// budgets are tried, parts of training.Modules.Peak, and of the plans that fit by replay the
// fastest is taken. A solve of outer for each budget, and one of inner for each distinct module
// and part. The error wraps plan.ErrNoPlan if no plan fits or no node is marked with a layer.
func BySAC(ctx context.Context, method string, v *rematgraph.View, p platform.Platform, outer Discards,
	inner Knapsack,
) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	s := newSelective(v, inner)
	if len(s.groups) == 1 {
		return nil, fmt.Errorf("%s: %w: no forward node is marked with a layer", method, plan.ErrNoPlan)
	}
	return bestOfBudgets(ctx, method, v, p, s.modules.Peak(), func(budget float64) (*partition, error) {
		r, err := outer(&s.modules, budget)
		if err != nil {
			return nil, err
		}
		return s.partition(r)
	})
}

// group is what is computed again together: an operation, or all random ones of a module.
type group struct {
	nodes        []int
	memory, time float64
}

// selective is a step by modules.
type selective struct {
	v       *rematgraph.View
	modules training.Modules
	groups  [][]group // by module: what may run again, most memory for its time first
	inner   saving
}

func newSelective(v *rematgraph.View, inner Knapsack) *selective {
	s := &selective{v: v, inner: once(inner)}
	c := newPartition(v)
	layer, n := layersOf(v)
	forward, backward := make([][]int, n+1), make([][]int, n+1) // by module, 0 the root
	for j, l := range layer {
		of := &backward
		if c.forward(j) {
			of = &forward
			s.modules.M += v.Time[j]
		} else if v.Graph.Nodes[j].Phase != training.Backward {
			continue
		}
		(*of)[0] = append((*of)[0], j)
		if l >= 0 {
			(*of)[l+1] = append((*of)[l+1], j)
		}
	}
	b := &s.modules
	s.groups = make([][]group, n+1)
	b.Slopes, b.Intercepts = make([][]float64, n+1), make([][]float64, n+1)
	for i := range n + 1 {
		ta, ag, tg := s.boundary(c, forward[i], backward[i])
		b.TA, b.AG, b.TG = append(b.TA, ta), append(b.AG, ag), append(b.TG, tg)
		ia, acm, act := 0.0, 0.0, 0.0
		if i > 0 {
			s.groups[i], ia, acm, act = s.operations(c, forward[i])
		}
		b.IA, b.ACM, b.ACT = append(b.IA, ia), append(b.ACM, acm), append(b.ACT, act)
		if acm > 0 && act > 0 {
			b.Slopes[i], b.Intercepts[i] = pieces(tradeoff(s.groups[i], acm, act))
		}
	}
	return s
}

// boundary returns what PyTorch's tracker of memory says of a module with these nodes where
// nothing is checkpointed: the activations behind its forward, the most that its backward
// takes more than is there before it, but for gradients of weights, and those before it. The most
// is over all of its nodes; there it is of the instant at which all memory peaks.
func (s *selective) boundary(c *partition, forward, backward []int) (ta, ag, tg float64) {
	v := s.v
	begin := v.N
	if len(backward) > 0 {
		begin = backward[0]
	}
	there := 0.0                   // before the backward
	temp := make([]float64, v.N+1) // by node: how much more there is than at the one before
	last := forward[len(forward)-1]
	for i, w := range v.Writer {
		end := w // its last reader
		if k := len(v.Succ[i]); k > 0 {
			end = v.Succ[i][k-1]
		}
		if v.Result[i] {
			end = v.N
		}
		switch {
		case c.forward(w):
			if w <= last && last < end {
				ta += v.Memory[i]
			}
		case v.Result[i] || v.Graph.Nodes[end].Phase == training.Optimizer: // a gradient of weights
			if w < begin {
				tg += v.Memory[i]
			}
		default:
			temp[w] += v.Memory[i]
			temp[min(end, v.N-1)+1] -= v.Memory[i]
			if w < begin && begin <= end {
				there += v.Memory[i]
			}
		}
	}
	for j := 1; j < v.N; j++ {
		temp[j] += temp[j-1]
	}
	for _, j := range backward {
		ag = max(ag, temp[j]+v.Overhead[j]-there)
	}
	return ta, ag, tg
}

// operations returns what may run again of a module with these forward nodes, by memory for
// time as PyTorch's greedy order has it, and IA, ACM and ACT. The last node writes the output,
// which is there in any case: it counts for no memory.
func (s *selective) operations(c *partition, forward []int) (groups []group, ia, acm, act float64) {
	var random group
	once := false // whether a random node may not run again
	for k, j := range forward {
		memory := s.v.Written[j]
		if k == len(forward)-1 {
			memory = 0
		} else {
			ia += c.saved(j)
		}
		acm, act = acm+memory, act+s.v.Time[j]
		switch {
		case s.v.Graph.Nodes[j].Random:
			random.nodes = append(random.nodes, j)
			random.memory, random.time = random.memory+memory, random.time+s.v.Time[j]
			once = once || s.v.Once[j]
		case !s.v.Once[j]:
			groups = append(groups, group{[]int{j}, memory, s.v.Time[j]})
		}
	}
	if len(random.nodes) > 0 && !once {
		groups = append(groups, random)
	}
	rate := func(g group) float64 { // msps
		if g.time == 0 {
			return math.MaxFloat64
		}
		return g.memory / g.time
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(rate(b), rate(a)) })
	return groups, ia, acm, act
}

// partition returns the choice of nodes if modules discard the parts r: each saves what takes
// most time in ceil((1 − r)·ACM), of which what may not run again has its own before all others.
func (s *selective) partition(r []float64) (*partition, error) {
	c := newPartition(s.v)
	for i, groups := range s.groups {
		if r[i] == 0 {
			continue
		}
		target := math.Ceil((1 - r[i]) * s.modules.ACM[i])
		var items []group // the rest takes nothing
		var memory, time []float64
		always := s.modules.ACM[i]
		for _, g := range groups {
			if g.memory > 0 {
				always -= g.memory
				items, memory, time = append(items, g), append(memory, g.memory), append(time, g.time)
			}
		}
		target = max(0, target-always)
		saved, err := s.inner(memory, time, target)
		if err != nil {
			return nil, err
		}
		for k, g := range items {
			for _, j := range g.nodes {
				c.again[j] = !saved[k]
			}
		}
	}
	return c, nil
}
