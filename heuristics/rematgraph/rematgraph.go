// Package rematgraph plans rematerialization of graphs: which values of a
// training step are kept, and which forward nodes are computed again, so that
// it fits in the memory and takes little longer than its computations.
//
// All methods think in the stages of Checkmate (package stages): they choose
// which values are retained between the first computations of nodes, which
// follow the order of the graph; what must be computed again follows from that.
// At tight limits plans of other forms may be faster, or the only ones. Yet
// the bounds of package stages hold for every plan the verifier accepts: a plan
// that reaches stages.View.TimeBound is optimal.
//
// A *plan.Infeasible error comes from stages.View.Fits; every other failure to
// find a plan wraps plan.ErrNoPlan.
package rematgraph

import (
	"fmt"

	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/stages"
)

// TimeBound is stages.View.TimeBound of a graph.
func TimeBound(g *graph.Graph, memory float64) (seconds float64, why string, err error) {
	v, err := stages.Of(g)
	if err != nil {
		return 0, "", err
	}
	b := v.TimeBound(memory)
	return b.Seconds, b.Why, nil
}

// StoreAll computes every node once and frees every value as soon as nothing
// reads it any more. O(n² + edges).
func StoreAll(g *graph.Graph, p platform.Platform) (*plan.Plan, error) {
	v, err := stages.Of(g)
	if err != nil {
		return nil, err
	}
	return fit("store-all", v.StoreAll(), p)
}

// fit returns the plan of a schedule, an error if the memory does not hold it.
func fit(method string, s *stages.Schedule, p platform.Platform) (*plan.Plan, error) {
	peak, _, node := s.Peak()
	if !platform.Fits(peak, p.Memory) {
		if err := s.View().Fits(p.Memory); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w: it needs %.15g bytes, at node %q, and there are %.15g", method, plan.ErrNoPlan, peak, s.View().Graph.Nodes[node].ID, p.Memory)
	}
	return s.Fill(plan.NewGraph(method, s.View().Graph, p)), nil
}

// Range returns the memory between which a limit matters: low is the least
// that the methods of this package reach (no bound: see stages.View.LeastBound), high the
// peak of store-all, in bytes.
func Range(g *graph.Graph) (low, high float64, err error) {
	v, err := stages.Of(g)
	if err != nil {
		return 0, 0, err
	}
	high, _, _ = v.StoreAll().Peak()
	low, _, _ = least(v, nil).Peak()
	return min(low, high), high, nil
}
