package remat

import (
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// StoreAll is the plan without recomputation: F_all 1 .. F_all N, B N .. B 1.
// An error wraps plan.ErrNoPlan when it does not fit. O(N).
func StoreAll(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	v, limit, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s := v.storeAll()
	if s.peak > limit {
		return nil, noPlan("store-all", s.peak, p.Memory)
	}
	return s.plan("store-all", c, p), nil
}

func (v *view) storeAll() *sequence {
	s := newSequence(v)
	s.segment(1, v.n)
	return s
}

// segment is F_all first .. F_all last, B last .. B first.
func (s *sequence) segment(first, last int) {
	for l := first; l <= last; l++ {
		s.all(l)
	}
	for l := last; l >= first; l-- {
		s.backward(l, l > first)
	}
}
