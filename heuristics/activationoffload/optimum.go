package activationoffload

import (
	"context"
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/proof"
)

// optimumLabels are the most partial plans that Optimum keeps, some 50 bytes each.
const optimumLabels = 1 << 24

// Optimum returns a plan with the proven minimum makespan of all valid plans, in which prefetches
// may precede offloads in any order. It is a shortest-path search over partial plans with dominance
// and bounds against a target: see space and walk. The target rises from the best of Bounds to the
// best known plan, so that what is proved is kept when ctx ends or memory is exhausted.
//
// start is the best known plan for c and p; nil: that of Greedy. gap is the fraction of the
// makespan by which the plan may miss the optimum. The errors are those of the methods, or wrap
// ErrChoice.
//
// Exponential in the number of different sizes only: a network that repeats its blocks, such as
// ResNet-152 with 56 layers and 13 sizes, takes seconds. For chains with more sizes than fit into
// 64 bits it returns the bound of Bounds and start.
func Optimum(ctx context.Context, c *chain.Chain, p platform.Platform, start *plan.Plan, gap float64) (*proof.Optimum, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	switch {
	case !(gap >= 0 && gap < 1):
		return nil, fmt.Errorf("%w: the gap is %v, it must be at least 0 and less than 1", view.ErrChoice, gap)
	case start == nil:
		if start, err = Greedy(ctx, c, p); err != nil {
			return nil, err
		}
	case start.Problem != view.Problem || start.Platform != p:
		return nil, fmt.Errorf("%w: the start is a plan for %s and %+v, not for %s and %+v", view.ErrChoice, start.Problem, start.Platform,
			view.Problem, p)
	}
	r := &proof.Optimum{Plan: start, Bound: in.Bounds()[0]}
	if s, ok := newSpace(in); ok {
		closeIn(ctx, r, &walk{space: s, limit: optimumLabels}, gap)
	}
	r.Proved = closed(r, gap)
	return r, nil
}

// closed reports whether the plan is as good as it is asked for.
func closed(r *proof.Optimum, gap float64) bool {
	return platform.Closed(r.Plan.Claims.Makespan, r.Value, max(gap, plan.Tolerance))
}

// targets are the positions between bound and plan of the targets.
var targets = [...]float64{0.125, 0.5, 1}

// closeIn raises the bound to the plan, or finds a better one and proves it.
func closeIn(ctx context.Context, r *proof.Optimum, w *walk, gap float64) {
	low := r.Value
	for _, part := range targets {
		if closed(r, gap) {
			return
		}
		high := r.Plan.Claims.Makespan * (1 - gap)
		target := (1-part)*low + part*high
		last, finished := w.run(ctx, target)
		r.States += len(w.steps)
		if last > 0 {
			r.Plan = w.plan(last, "optimum")
			target = w.best
		}
		if !finished {
			return
		}
		// Each of 2N computations and of 2N transfers adds some sums of times.
		r.Raise(plan.RoundDown(target, 32*w.N), "label")
		r.Why = w.excluded.Shares()
		if last > 0 {
			return
		}
	}
}
