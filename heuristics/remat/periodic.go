package remat

import (
	"context"
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Periodic is the fastest plan of PyTorch's checkpoint_sequential that fits,
// over all numbers of segments; of equals the one with the fewest segments. An
// error wraps plan.ErrNoPlan when none fits, or when the context ends. O(N²).
func Periodic(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	v, limit, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	best, time, least := 0, math.Inf(1), math.Inf(1)
	for k := 1; k <= v.segments(); k++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("periodic: %w: %w", plan.ErrNoPlan, err)
		}
		x := v.periodicPoint(k)
		least = min(least, x.Memory)
		if x.Memory <= limit && x.Makespan < time {
			best, time = k, x.Makespan
		}
	}
	if best == 0 {
		return nil, noPlan("periodic", least, p.Memory)
	}
	return v.periodic(best).plan("periodic", c, p), nil
}

// PeriodicSegments is the plan of checkpoint_sequential with k segments: of the
// layers before the loss each segment has ⌊(N−1)/k⌋, and the last one the rest
// and the loss. All but the last run twice, a segment's input being all that is
// kept of it at first. Its memory is the plan's peak, whatever the platform. k
// outside 1 .. N−1 is taken as the nearest of these. c must be valid. O(N).
func PeriodicSegments(c *chain.Chain, k int) *plan.Plan {
	v := newView(c)
	s := v.periodic(k)
	return s.plan("periodic", c, platform.Platform{Memory: s.peak})
}

// segments is the largest number of segments.
func (v *view) segments() int { return max(1, v.n-1) }

func (v *view) periodic(k int) *sequence {
	k = min(max(k, 1), v.segments())
	size := (v.n - 1) / k
	s := newSequence(v)
	for j := range k - 1 {
		s.advance(j*size+1, (j+1)*size)
	}
	s.segment((k-1)*size+1, v.n)
	for j := k - 2; j >= 0; j-- {
		s.segment(j*size+1, (j+1)*size)
	}
	return s
}

// advance is F_ck first, F_none first+1 .. F_none last.
func (s *sequence) advance(first, last int) {
	s.checkpoint(first)
	for l := first + 1; l <= last; l++ {
		s.none(l)
	}
}

// periodicPoint is memory and makespan of k segments.
func (v *view) periodicPoint(k int) Point {
	s := v.periodic(k)
	return Point{s.peak, s.time}
}
