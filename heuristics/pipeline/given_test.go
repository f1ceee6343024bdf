package pipeline

import (
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// OneFOneBStarAt returns the pattern of 1F1B*(T) ([004] Algorithm 6) for a
// contiguous allocation, whether it fits in the memory or not; the period is T
// in seconds, at least the time of the longest item. No 1-periodic pattern of
// that period that runs each stage as a whole has fewer concurrent activations
// in any stage (Theorem 15); with the layers of a stage apart some have. O(n).
func OneFOneBStarAt(c *chain.Chain, p platform.Platform, allocation []plan.Stage, period float64, o Options) (*plan.Plan, error) {
	in, items, err := readContiguous(c, p, allocation, o)
	if err != nil {
		return nil, err
	}
	if low := longest(items); !(period >= low*(1-view.Rounding)) || math.IsInf(period, 0) {
		return nil, in.noPlan("1f1b-star", "the period must be at least that of the longest stage or communication")
	}
	return in.oneFOneBStar(allocation, items, period).Plan(in.Instance, "1f1b-star"), nil
}

// OneFOneBStarOn returns the pattern of 1F1B* of the shortest period that fits
// in the memory, for a contiguous allocation. The period is exact: where [004]
// Algorithm 7 halves an interval K times, this looks at the finitely many
// periods at which the groups change. O(n·log) in all.
func OneFOneBStarOn(c *chain.Chain, p platform.Platform, allocation []plan.Stage, o Options) (*plan.Plan, error) {
	in, items, err := readContiguous(c, p, allocation, o)
	if err != nil {
		return nil, err
	}
	s := in.smallest(allocation, items, 0)
	if s == nil {
		return nil, in.noPlan("1f1b-star", "a stage needs more even with one mini-batch in flight")
	}
	return s.Plan(in.Instance, "1f1b-star"), nil
}

var errNoncontiguous = fmt.Errorf("%w: a processor has several stages, this method takes contiguous allocations", ErrAllocation)

func readContiguous(c *chain.Chain, p platform.Platform, allocation []plan.Stage, o Options) (*instance, []view.Item, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, nil, err
	}
	if err := in.checkAllocation(allocation); err != nil {
		return nil, nil, err
	}
	if !contiguous(allocation) {
		return nil, nil, errNoncontiguous
	}
	return in, in.Items(allocation), nil
}

// KPeriodicOn returns the best pattern by cancelled iterations of a contiguous
// allocation that leaves out every (k+1)-th mini-batch.
func KPeriodicOn(c *chain.Chain, p platform.Platform, allocation []plan.Stage, k int, o Options) (*plan.Plan, error) {
	in, items, err := readContiguous(c, p, allocation, o)
	if err != nil {
		return nil, err
	}
	if k < 1 {
		return nil, in.noPlan("k-periodic", "k must be at least 1")
	}
	s := in.smallest(allocation, items, k)
	if s == nil {
		return nil, in.noPlan("k-periodic", "a stage needs more even with one mini-batch in flight")
	}
	return cancelled(s, k).Plan(in.Instance, "k-periodic"), nil
}

// contiguous reports whether no processor has two stages.
func contiguous(stages []plan.Stage) bool {
	seen := map[int]bool{}
	for _, s := range stages {
		if seen[s.Processor] {
			return false
		}
		seen[s.Processor] = true
	}
	return true
}

// Partition returns the allocation of partition, memory aside.
func Partition(c *chain.Chain, p platform.Platform) ([]plan.Stage, float64, error) {
	in, err := readInstance(c, p, Options{})
	if err != nil {
		return nil, 0, err
	}
	stages, period := in.partition(0)
	return stages, period, nil
}

// Eager returns the pattern of bestEager.
func Eager(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	s := in.bestEager()
	if s == nil {
		return nil, in.noPlan("eager", "with no allocation that was tried")
	}
	return s.Plan(in.Instance, "eager"), nil
}
