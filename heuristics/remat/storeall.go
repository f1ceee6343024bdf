package remat

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
)

// StoreAll returns the plan without recomputation, that of PyTorch: F_all 1 .. F_all N, B N .. B 1.
// An error wraps plan.ErrNoPlan if it does not fit. O(N).
func StoreAll(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, err
	}
	s := storeAll(v)
	if !v.Fits(s.Peak) {
		return nil, noPlan(v, "store-all", s.Peak, p.Memory)
	}
	return s.Plan("store-all", c, p), nil
}

func storeAll(v *model.View) *model.Sequence {
	s := v.NewSequence()
	s.Segment(1, v.N)
	return s
}
