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

// BySAC returns the plan of PyTorch's selective activation checkpointing by MILP
// (torch/distributed/_tools/sac_ilp.py). outer, its sac_milp, chooses which modules are
// checkpointed and which fraction of their activations they discard. inner, its
// get_optimal_checkpointing_policy_per_module, chooses the operations of such a module that are
// saved; equal modules with equal fractions are solved once. Random operations of a module are all
// saved or all recomputed; those that may not be recomputed are always saved. What is not saved is
// recomputed right before the first node that needs it.
//
// A module is a layer of the file and a child of the root, which also has the loss; in PyTorch
// modules are nested, and any may be checkpointed. Saved values without further readers are freed
// here and kept there. outer uses the memory at the boundaries of modules before any recomputation,
// so its max_m is not the peak. As in [ByLayers], a hundred budgets are tried, fractions of
// training.Modules.Peak, and the fastest plan that fits by replay is returned. One solve of outer
// for each budget, and one of inner for each distinct module and fraction. The error wraps
// plan.ErrNoPlan if no plan fits or no node is marked with a layer.
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

// group is a set of nodes that are recomputed together: an operation, or all random ones of a
// module.
type group struct {
	nodes        []int
	memory, time float64
}

// selective is a training step by modules.
type selective struct {
	v       *rematgraph.View
	modules training.Modules
	groups  [][]group // by module: what may be recomputed, in order of decreasing memory per time
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

// boundary returns the results of PyTorch's memory tracker for a module with these nodes without
// checkpointing: the activations after its forward, the maximum additional memory of its backward
// without weight gradients, and the gradients before it. The maximum is over all of its nodes;
// PyTorch takes it at the time of the global peak.
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

// operations returns what may be recomputed of a module with these forward nodes, in order of
// memory per time as in PyTorch's greedy order, and IA, ACM and ACT. The last node writes the
// output, which is kept in any case and counts for no memory.
func (s *selective) operations(c *partition, forward []int) (groups []group, ia, acm, act float64) {
	var random group
	once := false // whether some random node may not be recomputed
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

// partition returns the choice of nodes if modules discard the fractions r. Each saves the
// operations of maximum time in ceil((1 − r)·ACM); operations that may not be recomputed take their
// share first.
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
