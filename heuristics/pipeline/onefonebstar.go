package pipeline

import (
	"math"

	view "workbench/model/problem/pipeline"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// OneFOneBStar returns the best pattern of 1F1B* over all contiguous allocations. At a given period
// a dynamic program over the layers computes the allocation with the minimum number of mini-batches
// in flight, exactly, and the shortest period is bracketed to rounding. The result is optimal among
// 1-periodic patterns of contiguous allocations that run each stage without interruption in the
// memory of [004] 7.1.1; others may be better. O(P·n²·log).
func OneFOneBStar(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	s := in.bestContiguous(0)
	if s == nil {
		return nil, in.noPlan("1f1b-star", "no contiguous allocation fits, whatever the period")
	}
	return s.Plan(in.Instance, "1f1b-star"), nil
}

// PipeDreamStar returns PipeDream's partition, which knows no memory, with
// 1F1B* of the shortest period that fits ([004] 7.3.3). O(P·n²).
func PipeDreamStar(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	stages, _ := in.partition(0)
	s := in.smallest(stages, in.Items(stages), 0)
	if s == nil {
		return nil, in.noPlan("pipedream-star", "PipeDream's partition has a stage that fits with no period")
	}
	return s.Plan(in.Instance, "pipedream-star"), nil
}

// PipeDreamStarMemory is PipeDreamStar with [FittingPartition]. O(P·n²).
func PipeDreamStarMemory(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	stages, err := FittingPartition(c, p)
	if err != nil {
		return nil, err
	}
	if stages == nil {
		return nil, in.noPlan("pipedream-star-memory", "no partition fits as PipeDream reckons")
	}
	s := in.smallest(stages, in.Items(stages), 0)
	if s == nil {
		return nil, in.noPlan("pipedream-star-memory", "PipeDream's partition has a stage that fits with no period")
	}
	return s.Plan(in.Instance, "pipedream-star-memory"), nil
}

// groups is Phase 1 of Algorithm 6: group[i] is the number of item i's group,
// counted from the end, at period T. It returns the longest group, the period
// down to which the groups are these, and the period up to which they are.
func groups(items []view.Item, period float64, group []int) (from, to float64) {
	g, sum := 1, 0.0
	to = math.Inf(1)
	for i := len(items) - 1; i >= 0; i-- {
		u := items[i].Time()
		if sum+u > period {
			to = min(to, sum+u)
			g, sum = g+1, 0
		}
		sum += u
		from = max(from, sum)
		group[i] = g
	}
	return from, to
}

func longest(items []view.Item) float64 {
	t := 0.0
	for i := range items {
		t = max(t, items[i].Time())
	}
	return t
}

// oneFOneBStar is Algorithm 6 in absolute times. The forwards of all items
// follow each other (Phase 3). The backwards of group g begin g-1 periods after
// its last forward has ended, and follow each other (Phase 2): the backwards of
// group g-1 have ended by then, as they last no longer than T from the forward
// that ends group g.
func (in *instance) oneFOneBStar(stages []plan.Stage, items []view.Item, period float64) *view.Pattern {
	n := len(items)
	s := &view.Pattern{Period: max(period, longest(items)), K: 1, Stages: stages, Items: items, F: make([]float64, n), B: make([]float64, n)}
	group := make([]int, n)
	groups(items, s.Period, group)
	t := 0.0
	for i := range items {
		s.F[i] = t
		t += items[i].F
	}
	for i := n - 1; i >= 0; i-- {
		if i == n-1 || group[i] != group[i+1] {
			t = s.F[i] + items[i].F + float64(group[i]-1)*s.Period
		}
		s.B[i] = t
		t += items[i].B
	}
	return s
}

// inFlight returns how many mini-batches a stage of group g holds when every
// (cancel+1)-th is cancelled: of g in sequence, those that are not. cancel = 0:
// none is cancelled.
func inFlight(g, cancel int) int {
	if cancel == 0 {
		return g
	}
	return g - g/(cancel+1)
}

// fits reports whether the stages fit with these groups.
func (in *instance) fits(items []view.Item, group []int, cancel int) bool {
	for i := range items {
		if x := &items[i]; !x.Cut && !in.Fits(in.Needs(x.From, x.To, inFlight(group[i], cancel))) {
			return false
		}
	}
	return true
}

// smallest returns 1F1B* of the shortest period that fits, every
// (cancel+1)-th mini-batch cancelled, or nil: no period does.
//
// Groups only merge as T grows, so what fits at T fits at any larger period,
// and they change only where T is the sum of consecutive items. The interval is
// halved with both ends moved to the nearest such sum: T is exact when they
// meet.
func (in *instance) smallest(stages []plan.Stage, items []view.Item, cancel int) *view.Pattern {
	group := make([]int, len(items))
	low, high := longest(items), math.Inf(1)
	test := math.MaxFloat64 // one group
	for low < high {
		from, to := groups(items, test, group)
		if in.fits(items, group, cancel) {
			high = max(low, from)
		} else {
			low = to
		}
		if math.IsInf(high, 1) {
			return nil
		}
		if test = low + (high-low)/2; test >= high { // neighbours: the half is rounded up
			test = low
		}
	}
	return in.oneFOneBStar(stages, items, high)
}
