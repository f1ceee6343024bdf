package rematoffload

import (
	"context"
	"fmt"
	"math"
	"slices"

	"workbench/heuristics/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
)

// Constants of autocapper: the number of limits that it tries, and the slots of rematerialization ([004] 4.1.4).
const (
	cappers     = 40
	capperSlots = 500
)

// Autocapper rematerializes for more memory than available and offloads the excess ([004] 4.3). It tries 40 limits
// from the memory to that of keeping everything. For each, capper repeatedly offloads, of the best persistent
// sequence, the lowest activation that is stored when memory is highest, until the sequence fits. The best plan is
// kept. Tensors that are stored at the peak but not over the loss are skipped (OR.2). Without recomputation it
// offloads a prefix, as GREEDY does.
//
// The error wraps plan.ErrNoPlan. O(N³·500) for the sequences, then 40 cappers of O(N) rounds over the steps.
func Autocapper(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return planned(ctx, "autocapper", c, p, (*instance).autocapper)
}

func (in *instance) autocapper(ctx context.Context) (best *view.Schedule, err error) {
	if in.Bandwidth == 0 {
		return in.pureRemat(ctx)
	}
	_, high := view.Range(in.Chain)
	high = max(high, in.Platform.Memory)
	k, err := remat.PersistentSlotsCurve(ctx, in.gradientLate(), high, capperSlots)
	if err != nil {
		return nil, in.fromRemat(err)
	}
	last := math.Inf(1)
	for i := range cappers {
		if ctx.Err() != nil {
			break
		}
		limit := in.Platform.Memory + (high-in.Platform.Memory)*float64(i)/(cappers-1)
		if i == cappers-1 {
			limit = high
		}
		found, err := k.Plan(limit)
		if err != nil || found.Claims.Makespan == last {
			continue // this limit is too small, or the sequence is unchanged
		}
		last = found.Claims.Makespan
		if s, ok := in.capper(view.StepsOf(found.Ops)); ok && (best == nil || s.Makespan < best.Makespan) {
			best = s
		}
	}
	// Sizes rounded up to slots may hide that keeping everything fits.
	if s, ok := in.capper(in.keepAll()); ok && (best == nil || s.Makespan < best.Makespan) {
		best = s
	}
	if best == nil {
		return nil, fmt.Errorf("remat-offload: autocapper finds no plan in %s: %w", in.Chain.Unit.Exactly(in.Platform.Memory), plan.ErrNoPlan)
	}
	return best, nil
}

// keepAll returns the steps F_all 1 .. F_all N, B_N .. B_1.
func (in *instance) keepAll() []view.Step {
	steps := make([]view.Step, 0, 2*in.N)
	for l := 1; l <= in.N; l++ {
		steps = append(steps, view.Step{Kind: view.FAll, Layer: int32(l)})
	}
	for l := in.N; l >= 1; l-- {
		steps = append(steps, view.Step{Kind: view.Backward, Layer: int32(l)})
	}
	return steps
}

// capper offloads the excess of a sequence; it returns false if the sequence still does not fit.
func (in *instance) capper(steps []view.Step) (*view.Schedule, bool) {
	r, ok := view.NewProfile(in.Instance, steps)
	if !ok {
		return nil, false
	}
	left := nonEmptyGaps(r, r.Gaps)
	slices.SortFunc(left, func(x, y view.Gap) int { return int(x.Tensor) - int(y.Tensor) })
	need := slices.Clone(r.During)
	var away []view.Gap
	for {
		top := 0
		for i := range need {
			if need[i] > need[top] {
				top = i
			}
		}
		if need[top] <= in.Memory {
			return view.Retime(r, away)
		}
		k := slices.IndexFunc(left, func(g view.Gap) bool { return g.From < top && top < g.To })
		if k < 0 {
			return nil, false
		}
		g := left[k]
		for i := g.From + 1; i < g.To; i++ {
			need[i] -= in.Size(g.Tensor)
		}
		away, left = append(away, g), slices.Delete(left, k, k+1)
	}
}
