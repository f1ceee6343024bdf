package offload

import (
	"context"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Greedy offloads the first activations, as many as hold M_peak − M bytes, in
// sorted order: the fractional optimum rounded up ([004] 3.2.2). It finds a plan
// whenever there is one: an operation that lacks memory has, beside its input,
// either nothing or no more than M_peak − (M_peak − M) bytes to keep. O(N log N).
func Greedy(_ context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s := newScheduler(in)
	s.choose(in.greedy())
	T := s.evaluate()
	if s.unfit != nil {
		return nil, s.unfit
	}
	return s.plan("greedy", T), nil
}

// greedy is the set of Greedy. O(N).
func (in *instance) greedy() []bool {
	away := make([]bool, in.n)
	left := in.peakMemory() - in.limit
	for i := 0; i < in.n && left > 0; i++ {
		away[i] = in.abar[i] > 0
		left -= in.abar[i]
	}
	return away
}
