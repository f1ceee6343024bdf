package rematgraph

import (
	"context"

	"workbench/model/problem/rematgraph"
)

// least returns the schedule with the minimum memory that is found without a search: the best of
// View.Frugal, of the repairs of that and of store-all towards rematgraph.View.LeastBound, and of
// Chen's segmentations. stop may end it early.
func least(v *rematgraph.View, stop func() bool) *rematgraph.Schedule {
	bound, _ := v.LeastBound()
	best := v.Frugal()
	lowest, _, _ := best.Peak()
	consider := func(s *rematgraph.Schedule) {
		if peak, _, _ := s.Peak(); peak < lowest {
			best, lowest = s, peak
		}
	}
	for _, s := range []*rematgraph.Schedule{v.Frugal(), v.StoreAll()} {
		if lowest <= bound {
			return best
		}
		x := newState(s, everywhere(v, bound))
		x.stop = stop
		x.repair(exact)
		consider(x.s)
	}
	all, err := chen(context.Background(), v)
	if err != nil { // forwards after backwards: nothing to segment
		return best
	}
	for s := range all {
		if consider(s); stop() {
			break
		}
	}
	return best
}
