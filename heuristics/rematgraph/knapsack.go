package rematgraph

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// Knapsack solves knapsack problems of items with memory and time. It returns a function that for a
// budget returns which items to save, with total memory within the budget and maximum total time.
// PyTorch calls this an activation_memory_budget_solver.
type Knapsack func(memory, time []float64) func(budget float64) (saved []bool, err error)

// saving is which of the items a [Knapsack] saves within a budget.
type saving func(memory, time []float64, budget float64) (saved []bool, err error)

// once returns what k saves, solved once for equal items and budgets: layers of a network
// are alike.
func once(k Knapsack) saving {
	solved := map[string][]bool{}
	return func(memory, time []float64, budget float64) (saved []bool, err error) {
		key := fmt.Sprint(memory, time, budget)
		saved, known := solved[key]
		if !known {
			if saved, err = k(memory, time)(budget); err != nil {
				return nil, err
			}
			solved[key] = saved
		}
		return saved, nil
	}
}

// WithinBudget returns the plan of PyTorch's partitioner with option activation_memory_budget
// (torch/_functorch/partitioners.py, choose_saved_values_set). A budget is a fraction of what
// [MinCut] keeps. If the aggressive cut keeps less than the budget, it is used. Otherwise the nodes
// that it bans (products, convolutions, attention, reductions, random ones) are the items of a
// knapsack. What is not saved may be recomputed, and the cut is computed anew.
//
// The budget says little about the peak, which includes gradients, workspaces and recomputed
// values, and need not fall with the budget. So the budgets 0, 0.01, …, 1 are all tried, as users
// of PyTorch do by hand, and the fastest plan that fits by replay is returned. The error wraps
// plan.ErrNoPlan if none fits or no operation is one of ATen. A knapsack and a maximum flow for
// each budget.
func WithinBudget(ctx context.Context, method string, v *rematgraph.View, p platform.Platform, solve Knapsack) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	all, err := Budgets(ctx, method, v, solve)
	if err != nil {
		return nil, err
	}
	if s := fastest(ctx, all, fitsIn(p.Memory)); s != nil {
		return fit(method, s, p)
	}
	return nil, fmt.Errorf("%s: %w: no budget makes the step fit in %s", method, plan.ErrNoPlan, v.Graph.Unit.Exactly(p.Memory))
}

// Budget is the result of an activation_memory_budget.
type Budget struct {
	Part  float64 // the budget
	Kept  float64 // what the forward keeps for the backward, as a part of what MinCut keeps
	Again float64 // recomputation time, seconds
	cut   *partition
}

// Schedule returns the plan of a budget.
func (b *Budget) Schedule() *rematgraph.Schedule { return b.cut.carryOut() }

// mostBudgets is the number of budgets tried in addition to 0.
const mostBudgets = 100

// Budgets returns what comes of the budgets 0, 0.01, …, 1; of fewer if ctx ends.
func Budgets(ctx context.Context, method string, v *rematgraph.View, solve Knapsack) ([]Budget, error) {
	if !hasOperations(v) {
		return nil, unknown(method)
	}
	usual, aggressive := newPartition(v), newPartition(v)
	usual.split(pointwise)
	aggressive.split(light)
	whole := usual.kept()
	items := aggressive.banned()
	memory, time := make([]float64, len(items)), make([]float64, len(items))
	for k, j := range items {
		memory[k], time[k] = v.Written[j]/whole, v.Time[j]
	}
	choose := solve(memory, time)
	var all []Budget
	for k := range mostBudgets + 1 {
		part := float64(k) / mostBudgets
		c := newPartition(v)
		switch {
		case whole == 0 || k == mostBudgets:
			c = usual
		case aggressive.kept() < part*whole:
			c = aggressive
		default:
			saved, err := choose(part)
			if ctx.Err() != nil {
				return all, nil
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", method, err)
			}
			for i, j := range items {
				c.allowed[j] = !saved[i]
			}
			c.split(light)
		}
		b := Budget{Part: part, cut: c}
		if whole > 0 {
			b.Kept = c.kept() / whole
		}
		for j, again := range c.again {
			if again {
				b.Again += v.Time[j]
			}
		}
		all = append(all, b)
	}
	return all, nil
}

// fitsIn returns a function that reports whether a schedule fits in memory.
func fitsIn(memory float64) func(*rematgraph.Schedule) bool {
	return func(s *rematgraph.Schedule) bool {
		peak, _, _ := s.Peak()
		return platform.Fits(peak, memory)
	}
}

// fastest returns the fastest schedule that fits among those of the budgets, nil if none does; once
// ctx ends, among those tried so far.
func fastest(ctx context.Context, all []Budget, fits func(*rematgraph.Schedule) bool) *rematgraph.Schedule {
	byTime := slices.Clone(all)
	slices.SortStableFunc(byTime, func(a, b Budget) int { return cmp.Compare(a.Again, b.Again) })
	var best *rematgraph.Schedule
	cost := math.Inf(1)
	for k := range byTime {
		if ctx.Err() != nil {
			break
		}
		if k > 0 && slices.Equal(byTime[k].cut.again, byTime[k-1].cut.again) {
			continue
		}
		// Recomputed nodes of a cut may still be needed by the forward, and then are not
		// recomputed.
		s := byTime[k].Schedule()
		if !fits(s) {
			continue
		}
		if c := s.Cost(); c < cost {
			best, cost = s, c
		}
	}
	return best
}

// kept returns the bytes that the forward keeps for the backward.
func (c *partition) kept() (bytes float64) {
	for i, w := range c.v.Writer {
		reads := func(j int) bool { return !c.forward(j) || c.again[j] }
		if c.forward(w) && !c.again[w] && slices.ContainsFunc(c.v.Succ[i], reads) {
			bytes += c.v.Memory[i]
		}
	}
	return bytes
}

// banned returns the forward nodes from which the backward is reached, that occupy memory, and that
// may not be recomputed because they are not cheap; the largest first, as in the partitioner.
func (c *partition) banned() (nodes []int) {
	v := c.v
	reaches := make([]bool, v.N)
	for j := v.N - 1; j >= 0; j-- {
		reaches[j] = !c.forward(j) || slices.ContainsFunc(v.Writes[j], func(i int) bool {
			return slices.ContainsFunc(v.Succ[i], func(k int) bool { return reaches[k] })
		})
		if c.forward(j) && reaches[j] && v.Written[j] > 0 && !v.Once[j] && !c.mayRunAgain(j, light) {
			nodes = append(nodes, j)
		}
	}
	slices.Reverse(nodes)
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(v.Written[b], v.Written[a]) })
	return nodes
}
