package rematoffload

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// MostOptimumLayers limits the chains that Optimum searches.
const MostOptimumLayers = 14

// optimumStates limits the partial plans, and the parts of bounds, that Optimum keeps: some 150 bytes each.
const optimumStates = 1 << 22

// Optimum returns a plan of minimum makespan among all plans that the rules allow, with proof, for chains of at
// most MostOptimumLayers layers and a link. It is A* over the states of a partial plan at the ends of its
// operations: see place for the states, walk for the steps and outlook for the lower bound. Of two paths to a
// state the later one is dropped, and so are states that cannot lead to a better plan than start; nil is no plan.
// The minimum bound of the open states is therefore a lower bound at any time, which is returned when ctx ends or
// memory is exhausted.
//
// gap is the fraction of the makespan by which the plan may exceed the optimum. The optimum is an infimum: an
// offload that ends when a computation that uses its tensor starts must end slightly later, in the plan by twice
// plan.Tolerance. The errors are those of view.New, or wrap ErrNoPlan.
//
// The time is exponential in the layers: networks joined to 8 segments take some hundred to some hundred thousand
// states; some with 14 layers are solved within a minute. The method is of this project.
func Optimum(ctx context.Context, c *chain.Chain, p platform.Platform, start *plan.Plan, gap float64) (*proof.Optimum, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	r := &proof.Optimum{Plan: start, Bound: in.Bounds()[0]}
	if in.N > MostOptimumLayers || in.Bandwidth == 0 {
		return nil, fmt.Errorf("%w: the search for the optimum takes up to %d layers and a link, not %d layers and %v B/s", plan.ErrNoPlan,
			MostOptimumLayers, in.N, in.Bandwidth)
	}
	target := math.Inf(1)
	if start != nil {
		target = start.Claims.Makespan * (1 - max(gap, plan.Tolerance))
	}
	if r.Value < target {
		w := newWalk(ctx, in.Instance, target)
		last := w.run()
		r.States = len(w.labels)
		if last >= 0 {
			found, err := w.plan(last)
			if err != nil {
				return nil, err
			}
			if start == nil || found.Claims.Makespan < start.Claims.Makespan {
				r.Plan = found
			}
		}
		// Each computation and transfer adds one time, and each is in the plan at most once for each of the 2N
		// sets between backwards.
		if low := plan.RoundDown(w.low, 16*in.N*in.N+16); low > r.Value {
			r.Raise(low, "state")
			r.Why = w.excluded.Shares()
		}
	}
	if r.Plan == nil {
		return r, fmt.Errorf("%w in %d states", plan.ErrNoPlan, r.States)
	}
	r.Proved = platform.Closed(r.Plan.Claims.Makespan, r.Value, gap+optimumTolerance)
	return r, nil
}

// optimumTolerance is the amount by which the plan may exceed the infimum: twice plan.Tolerance for each transfer
// that must end after a computation has started.
const optimumTolerance = 100 * plan.Tolerance
