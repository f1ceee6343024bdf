package weightoffload

import (
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// StoreAll keeps every weight on the GPU and moves nothing: what there is without
// weight offloading. Its period is the sum of the computations, so it is optimal
// where it fits. An error wraps plan.ErrNoPlan where it does not. O(L).
func StoreAll(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	if _, high := in.Range(); !platform.Fits(high, in.Memory) {
		return nil, fmt.Errorf("store-all: %w: it needs %.15g bytes, %.15g are available", plan.ErrNoPlan, high, in.Memory)
	}
	s := weightoffload.NewSchedule(in.Instance)
	for j := range in.N {
		s.Op[j] = s.T
		s.T += in.U[j]
	}
	return s.Plan(in.Instance, "store-all"), nil
}
