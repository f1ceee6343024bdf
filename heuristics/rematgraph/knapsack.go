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

// Knapsack solves knapsacks of items that take memory and, unless they are saved, time:
// it returns for any budget which items to save, so that they take no more memory than
// that and save as much time as they can. It is what PyTorch calls an
// activation_memory_budget_solver.
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

// WithinBudget is the plan of PyTorch's partitioner under its option
// activation_memory_budget (torch/_functorch/partitioners.py, choose_saved_values_set).
// A budget is a part of what [MinCut] keeps. Where the aggressive cut keeps less than the
// budget it is taken; else the nodes that it bans (products, convolutions, attention,
// reductions, random ones) are items of a knapsack, what is not saved may run again, and the cut
// is made anew.
//
// That a budget is kept says little about the peak, which has gradients, workspaces and
// what runs again besides, and need not fall with the budget. So the budgets 0,
// 0.01, …, 1 are all tried, and of the plans that fit by replay the fastest is
// taken: PyTorch's users do that by hand. The error wraps plan.ErrNoPlan if none fits or no
// operation is one of ATen. A knapsack and a maximum flow for each budget.
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
	return nil, fmt.Errorf("%s: %w: at no budget does the step fit in %s", method, plan.ErrNoPlan, v.Graph.Unit.Exactly(p.Memory))
}

// Budget is what comes of an activation_memory_budget.
type Budget struct {
	Part  float64 // the budget
	Kept  float64 // what the forward keeps for the backward, as a part of what MinCut keeps
	Again float64 // the time of what runs again, seconds
	cut   *partition
}

// Schedule is the plan of a budget.
func (b *Budget) Schedule() *rematgraph.Schedule { return b.cut.carryOut() }

// mostBudgets is how many budgets are tried, beside none.
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

// fitsIn reports of schedules whether they fit in so many bytes.
func fitsIn(memory float64) func(*rematgraph.Schedule) bool {
	return func(s *rematgraph.Schedule) bool {
		peak, _, _ := s.Peak()
		return platform.Fits(peak, memory)
	}
}

// fastest returns the plan of least time among those of budgets that fit, nil if none does; of
// those until ctx ends.
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
		// What a cut runs again may be needed by the forward still, and then does not.
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

// banned returns the forwards from which the backward is reached and that take memory, but
// may not run again as they are no light ones; the largest first, as the partitioner has them.
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
