// Package rematgraph plans rematerialization of graphs: which values of a
// training step are kept, and which forward nodes are computed again, so that
// it fits in the memory and takes little longer than its computations.
//
// All methods think in the stages of Checkmate (package stages): they choose
// which values are retained between the first computations of nodes, which
// follow the order of the graph; what must be computed again follows from that.
// At tight limits plans of other forms may be faster, or the only ones. Yet
// [LeastBound] and [TimeBound] hold for every plan the verifier accepts: a plan
// that reaches the latter is optimal.
//
// A *plan.Infeasible error comes from LeastBound; every other failure to find a
// plan wraps plan.ErrNoPlan.
package rematgraph

import (
	"fmt"

	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/stages"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.Remat

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
	if peak > p.Memory {
		if err := feasible(s.View(), p); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w: it needs %.15g bytes, at node %q, and there are %.15g", method, plan.ErrNoPlan, peak, s.View().Graph.Nodes[node].ID, p.Memory)
	}
	return s.Fill(plan.NewGraph(method, s.View().Graph, p)), nil
}

// feasible returns a *plan.Infeasible error if the memory is less than
// LeastBound.
func feasible(v *stages.View, p platform.Platform) error {
	if least, why := newBounds(v).memory(); roomy(p.Memory) < least {
		return &plan.Infeasible{Problem: Problem, Memory: least, Given: p.Memory, Why: why}
	}
	return nil
}

// roomy is a limit with what verifiers tolerate, for proofs.
func roomy(memory float64) float64 { return memory * (1 + plan.Tolerance) }

// Range returns the memory between which a limit matters: low is the least
// that the methods of this package reach (no bound: see [LeastBound]), high the
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
