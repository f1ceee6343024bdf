package activationoffload

import (
	"context"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// Greedy returns the plan that offloads the first activations, as many as hold M_peak − M bytes, in
// sorted order: the fractional optimum rounded up ([004] 3.2.2). It finds a plan whenever one
// exists: an operation that lacks memory holds, in addition to its input, either nothing or at most
// M_peak − (M_peak − M) bytes. O(N log N).
func Greedy(_ context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s := view.NewNoWait(in.Instance)
	s.Choose(in.greedy())
	T := s.Evaluate()
	if s.Unfit != nil {
		return nil, s.Unfit
	}
	return s.Plan("greedy", T), nil
}

// greedy returns the set of Greedy. O(N).
func (in *instance) greedy() []bool {
	away := make([]bool, in.N)
	left := in.PeakMemory() - in.Memory
	for i := 0; i < in.N && left > 0; i++ {
		away[i] = in.Abar[i] > 0
		left -= in.Abar[i]
	}
	return away
}
