package pipeline

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// KPeriodic returns the best pattern by cancelled iterations ([004] after Theorem 16) over all
// contiguous allocations. 1F1B*(T) with every (k+1)-th mini-batch omitted is k-periodic with period
// (k+1)T, and a stage of group g > k holds g - ⌊g/(k+1)⌋ mini-batches, not g. For each k < 2P, and
// for 1F1B* itself, allocation and T are those of bestContiguous, so the plan is never worse than
// that of OneFOneBStar. Of equal plans the one with the smallest k is returned. O(P²·n²·log).
func KPeriodic(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	best := in.bestContiguous(0)
	for k := 1; k < 2*in.Procs; k++ {
		if s := in.bestContiguous(k); s != nil {
			if s = cancelled(s, k); best == nil || s.Rate() < best.Rate()*(1-view.Rounding) {
				best = s
			}
		}
	}
	if best == nil {
		return nil, in.noPlan("k-periodic", "no contiguous allocation fits, whatever the period")
	}
	return best.Plan(in.Instance, "k-periodic"), nil
}

// cancelled returns the 1-periodic pattern s without every (k+1)-th mini-batch.
func cancelled(s *view.Pattern, k int) *view.Pattern {
	c := &view.Pattern{Period: float64(k+1) * s.Period, K: k, Stages: s.Stages, Items: s.Items}
	for m := range k {
		for i := range s.Items {
			c.F = append(c.F, s.F[i]+float64(m)*s.Period)
			c.B = append(c.B, s.B[i]+float64(m)*s.Period)
		}
	}
	return c
}
