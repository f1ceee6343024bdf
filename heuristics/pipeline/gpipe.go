package pipeline

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// maxMicroBatches is the maximum number of micro-batches that GPipe tries.
const maxMicroBatches = 32

// GPipe returns the best schedule of GPipe (Huang et al., "GPipe: Efficient Training of Giant
// Neural Networks using Pipeline Parallelism", 2019) with two allocations, PipeDream's partition
// and the one with the minimum load that fits. The mini-batches of the chain are GPipe's
// micro-batches: k of them, k ≤ 32, run all their forwards and then all their backwards as early as
// possible, and the pipeline is flushed before the next k start. This is a k-periodic pattern in
// which every stage holds k mini-batches, the last one also their outputs. Of equal periods the
// smallest k is returned. 64 partitions of O(P·n²), and O(k·P) a schedule.
//
// GPipe's own partition balances costs that the user estimates, and it recomputes activations
// during backwards. Here partitions are those above, and all activations are kept.
func GPipe(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	var best *view.Pattern
	for k := 1; k <= maxMicroBatches && (best == nil || !in.stopped()); k++ {
		free, _ := in.partition(0)
		for _, stages := range [][]plan.Stage{free, in.held(k)} {
			if stages == nil {
				continue
			}
			s := in.gpipe(stages, k)
			if (best == nil || s.Rate() < best.Rate()*(1-view.Rounding)) && in.Fits(s.Peak(in.Instance)) {
				best = s
			}
		}
	}
	if best == nil {
		return nil, in.noPlan("gpipe", "even one micro-batch does not fit")
	}
	return best.Plan(in.Instance, "gpipe"), nil
}

// gpipe runs k mini-batches through the stages, first in, first out in both directions. Each item
// has its own resource.
func (in *instance) gpipe(stages []plan.Stage, k int) *view.Pattern {
	items := in.Items(stages)
	n := len(items)
	s := &view.Pattern{K: k, Stages: stages, Items: items, F: make([]float64, k*n), B: make([]float64, k*n)}
	free := make([]float64, n)
	for m := range k {
		ready := 0.0
		for i := range items {
			s.F[m*n+i] = max(ready, free[i])
			ready = s.F[m*n+i] + items[i].F
			free[i] = ready
		}
	}
	for m := range k {
		ready := 0.0
		for i := n - 1; i >= 0; i-- {
			s.B[m*n+i] = max(ready, free[i])
			ready = s.B[m*n+i] + items[i].B
			free[i] = ready
		}
	}
	s.Period = free[0]
	return s
}
