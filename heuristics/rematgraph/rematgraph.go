// Package rematgraph plans rematerialization of graphs: which values of a training step are kept,
// and which forward nodes are recomputed, so that the step fits in memory and takes little longer
// than its computations.
//
// All methods use the stages of Checkmate (model/problem/rematgraph). They choose which values are
// retained between the first computations of nodes, which follow graph order; the recomputation
// follows from that. At tight limits plans of other forms may be faster, or the only ones. The
// bounds of model/problem/rematgraph hold for every plan the verifier accepts: a plan that attains
// rematgraph.View.TimeBound is optimal.
//
// rematgraph.View.Fits returns a *plan.Infeasible error; every other failure to find a plan wraps
// plan.ErrNoPlan.
package rematgraph

import (
	"fmt"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// StoreAll returns the plan that computes every node once and frees every value after its last
// reader. O(n² + edges), unless nothing fits at all, which is checked first.
func StoreAll(v *rematgraph.View, p platform.Platform) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	return fit("store-all", v.StoreAll(), p)
}

// fit returns the plan of a schedule, an error if the memory, in which something may fit,
// does not hold it or if it has too many computations.
func fit(method string, s *rematgraph.Schedule, p platform.Platform) (*plan.Plan, error) {
	if err := written(method, s.Computations()); err != nil {
		return nil, err
	}
	filled := s.Fill(s.View().NewPlan(method, p))
	if !platform.Fits(filled.Claims.PeakMemory, p.Memory) {
		g := s.View().Graph
		peak, _, node := s.Peak()
		return nil, fmt.Errorf("%s: %w: it needs %s, at node %q, but %s are available", method, plan.ErrNoPlan, g.Unit.Exactly(peak),
			g.Nodes[node].ID, g.Unit.Exactly(p.Memory))
	}
	return filled, nil
}

// written refuses a plan of more computations than are written down.
func written(method string, computations int) error {
	if computations <= rematgraph.MostComputations {
		return nil
	}
	return fmt.Errorf("%s: %w: the only one found computes %d nodes, and plans of more than %d are not written; more time "+
		"or memory may give one", method, plan.ErrNoPlan, computations, rematgraph.MostComputations)
}

// Range returns the memories between which a limit matters, in bytes: low is the minimum for which
// a plan is known, see rematgraph.View.Least; high is the peak of store-all.
func Range(v *rematgraph.View) (low, high float64) {
	high = v.StoreAllPeak()
	if v.Stopped != nil && v.Stopped() {
		return high, high
	}
	return min(v.Least().High, high), high
}
