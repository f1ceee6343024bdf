package pipeline

import (
	"errors"
	"math"
	"slices"

	"workbench/model/exhaustive"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	verifypipeline "workbench/model/verify/pipeline"
)

// SearchGraph returns the smallest T/k of a k-periodic pattern of a graph, over all
// orders of its forward operations and all allocations of the layers, and a plan with
// it. limit is the most decisions for each of them ([SearchAllocation]); beyond it the error
// wraps [exhaustive.ErrLimit], and [exhaustive.ErrInfeasible] where no pattern fits.
func SearchGraph(g *graph.Graph, m platform.Platform, model string, k, limit int) (float64, *plan.Plan, error) {
	best, found := math.Inf(1), (*plan.Plan)(nil)
	n := 1 // layers: the forward operations and the loss
	for i := range g.Nodes {
		if g.Nodes[i].Kind == graph.Forward {
			n++
		}
	}
	var failed error
	forwardOrders(g, nil, func(order []string) bool {
		owner := make([]int, n)
		for {
			p := &plan.Plan{Order: slices.Clone(order), Allocation: stagesOf(owner)}
			c, err := verifypipeline.Line(g, p)
			if err != nil {
				failed = err
				return false
			}
			period, pattern, err := SearchAllocation(c, m, p.Allocation, model, k, limit)
			switch {
			case errors.Is(err, exhaustive.ErrInfeasible):
			case err != nil:
				failed = err
				return false
			case period < best:
				pattern.Order = p.Order
				best, found = period, pattern
			}
			if !nextOwner(owner, m.Processors) {
				return true
			}
		}
	})
	switch {
	case failed != nil:
		return 0, nil, failed
	case found == nil:
		return 0, nil, exhaustive.ErrInfeasible
	}
	return best, found, nil
}

// forwardOrders calls do for every topological order of the forward operations, until it
// returns false.
func forwardOrders(g *graph.Graph, order []string, do func([]string) bool) bool {
	ended := true
	for i := range g.Nodes {
		x := &g.Nodes[i]
		ready := x.Kind == graph.Forward && !slices.Contains(order, x.ID)
		for _, e := range g.Edges {
			ready = ready && (e.To != i || slices.Contains(order, g.Nodes[e.From].ID))
		}
		if !ready {
			continue
		}
		ended = false
		if !forwardOrders(g, append(order, x.ID), do) {
			return false
		}
	}
	return !ended || do(order)
}

// nextOwner counts on, in numbers to a base; false: that was the last.
func nextOwner(owner []int, base int) bool {
	for l := range owner {
		if owner[l]++; owner[l] < base {
			return true
		}
		owner[l] = 0
	}
	return false
}
