package remat

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
)

// Periodic returns the fastest plan of PyTorch's checkpoint_sequential that fits, over all numbers
// of segments; of equal ones the one with the fewest segments. √N segments are tried first, and the
// end of the context ends it with the best so far. An error wraps plan.ErrNoPlan if none fits or
// was found by then. O(N²).
//
// [004] 2.4.4 tries only ten numbers of segments from 2 to 2√L, and reports the resulting memory.
func Periodic(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, err
	}
	best, time, least := 0, math.Inf(1), math.Inf(1)
	for i := 0; i <= segments(v) && (i == 0 || ctx.Err() == nil); i++ {
		k := i
		if i == 0 {
			k = max(1, int(math.Sqrt(float64(v.N)))) // about the minimum memory
		}
		x := periodicPoint(v, k)
		least = min(least, x.Memory)
		if v.Fits(x.Memory) && (x.Makespan < time || x.Makespan == time && k < best) {
			best, time = k, x.Makespan
		}
	}
	if err := ctx.Err(); err != nil && best == 0 {
		return nil, fmt.Errorf("periodic: %w: %w", plan.ErrNoPlan, err)
	}
	if best == 0 {
		return nil, noPlan(v, "periodic", least, p.Memory)
	}
	return periodic(v, best).Plan("periodic", c, p), nil
}

// PerLayer returns the plan of torch.utils.checkpoint around every layer but the last one before the
// loss: it keeps the layers' inputs and recomputes each layer right before its backward. An error
// wraps plan.ErrNoPlan if it does not fit. O(N).
func PerLayer(_ context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, err
	}
	if x := periodicPoint(v, segments(v)); !v.Fits(x.Memory) {
		return nil, noPlan(v, "per-layer", x.Memory, p.Memory)
	}
	return periodic(v, segments(v)).Plan("per-layer", c, p), nil
}

// PeriodicSegments returns the plan of checkpoint_sequential with k segments: of the layers before
// the loss each segment has ⌊(N−1)/k⌋, and the last one also the rest and the loss. All but the
// last run twice; at first only the input of a segment is kept. Its memory is the peak of the plan,
// whatever the platform. k is clamped to 1 .. N−1. c must be valid. O(N).
func PeriodicSegments(c *chain.Chain, k int) *plan.Plan {
	v := model.FromChain(c)
	s := periodic(v, k)
	return s.Plan("periodic", c, platform.Platform{Memory: s.Peak})
}

// segments returns the maximum number of segments.
func segments(v *model.View) int { return max(1, v.N-1) }

func periodic(v *model.View, k int) *model.Sequence {
	k = min(max(k, 1), segments(v))
	size := (v.N - 1) / k
	s := v.NewSequence()
	for j := range k - 1 {
		s.Advance(j*size+1, (j+1)*size)
	}
	s.Segment((k-1)*size+1, v.N)
	for j := k - 2; j >= 0; j-- {
		s.Segment(j*size+1, (j+1)*size)
	}
	return s
}

// periodicPoint is memory and makespan of k segments.
func periodicPoint(v *model.View, k int) Point {
	s := periodic(v, k)
	return Point{s.Peak, s.Time}
}
