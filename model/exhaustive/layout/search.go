// Package layout finds the best layout of tiny synchronous pipelines, by trying every cut, every placement that a list of GPUs
// allows, every recomputation and every order.
package layout

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/flush"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	verify "workbench/model/verify/layout"
)

// Search returns the least objective of the layouts of c, and a plan that has it. The platform leaves nothing open. limit is the most
// states to visit. The errors are [exhaustive.ErrInfeasible] where nothing fits, [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
// Exponential in layers, stages and micro-batches.
func Search(c *chain.Chain, p platform.Platform, limit int) (float64, *plan.Plan, error) {
	count := map[string]int{plan.Straight: p.Processors, plan.VShaped: 2 * p.Processors, plan.Interleaved: 2 * p.Processors}[p.Placement]
	if count == 0 || count > len(c.Layers) {
		return 0, nil, fmt.Errorf("%w: placement %q of %d layers on %d GPUs", exhaustive.ErrTooHard, p.Placement, len(c.Layers), p.Processors)
	}
	best, value := (*plan.Plan)(nil), math.Inf(1)
	for allocation := range cuts(len(c.Layers), count) {
		for k := range allocation {
			allocation[k].Processor = k % p.Processors
			if p.Placement == plan.VShaped && k >= p.Processors {
				allocation[k].Processor = count - 1 - k
			}
		}
		for recompute := range choices(c, nil) {
			x := plan.New(plan.Layout, "exhaustive search", c, p)
			x.Allocation, x.Recompute = allocation, recompute
			in, q, err := verify.Schedule(c, x)
			if err != nil {
				return 0, nil, err
			}
			limit -= 1 << 10 // a layout is at least that much work
			t, found, err := optimum.Search(in, q.Platform, limit)
			switch {
			case errors.Is(err, exhaustive.ErrInfeasible):
				continue
			case err != nil:
				return 0, nil, err
			}
			if t < value*(1-1e-12) {
				value, best, x.Ops = t, x, found.Ops
			}
		}
	}
	if best == nil {
		return 0, nil, exhaustive.ErrInfeasible
	}
	return value, best, nil
}

// cuts yields all ways to cut n layers into so many stages.
func cuts(n, count int) func(yield func([]plan.Stage) bool) {
	return func(yield func([]plan.Stage) bool) {
		var extend func(from int, list []plan.Stage) bool
		extend = func(from int, list []plan.Stage) bool {
			if len(list) == count {
				return from <= n || yield(slices.Clone(list))
			}
			for to := from; to <= n-(count-1-len(list)); to++ {
				if !extend(to+1, append(list, plan.Stage{From: from, To: to})) {
					return false
				}
			}
			return true
		}
		extend(1, make([]plan.Stage, 0, count))
	}
}

// choices yields all options of the layers behind those that are chosen. A listed full recomputation takes the place of the implicit one.
func choices(c *chain.Chain, chosen []string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		if len(chosen) == len(c.Layers) {
			yield(slices.Clone(chosen))
			return
		}
		names := []string{"none", "full"}
		for _, r := range c.Layers[len(chosen)].Recompute {
			if r.Name != "full" {
				names = append(names, r.Name)
			}
		}
		for _, name := range names {
			for list := range choices(c, append(slices.Clip(chosen), name)) {
				if !yield(list) {
					return
				}
			}
		}
	}
}
