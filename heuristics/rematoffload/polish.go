package rematoffload

import (
	"context"
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/rematoffload"
)

// polish improves a schedule by local search over the treatment of one tensor that is stored over the loss. The
// tensor is offloaded or kept, or it is discarded after its last use before the loss and recomputed right before
// its next use, from the nearest stored layer below. Persistent plans, also floating ones, lack this last move
// (finding 7). Another move computes only a_ℓ, not ā_ℓ, before the loss. It ends at a local optimum, or when the
// number of timings is used up.
func (b *search) polish(ctx context.Context, s *view.Schedule) {
	away := make([]bool, 2*b.in.N+2)
	for _, g := range s.Away {
		away[g.Tensor] = true
	}
	best := s
	try := func(steps []view.Step) bool {
		if b.left == 0 || ctx.Err() != nil {
			return false
		}
		b.left--
		r, ok := view.NewProfile(b.in.Instance, steps)
		if !ok {
			return false
		}
		gaps := slices.DeleteFunc(nonEmptyGaps(r, r.Gaps), func(g view.Gap) bool { return !away[g.Tensor] })
		next, ok := view.Retime(r, gaps)
		if !ok || next.Makespan >= best.Makespan*(1-plan.Tolerance) {
			return false
		}
		best = next
		b.updateIncumbent(nil, next)
		return true
	}
	for more := true; more; {
		more = false
		for k := 0; k < len(best.Gaps); k++ {
			g := best.Gaps[k]
			// With a link, only a tensor of positive size is worth a transfer.
			if b.in.Bandwidth > 0 && b.in.Size(g.Tensor) > 0 {
				away[g.Tensor] = !away[g.Tensor]
				if try(best.Steps) {
					more = true
					continue
				}
				away[g.Tensor] = !away[g.Tensor]
			}
			if g.Tensor == 0 {
				continue // a_0 cannot be computed
			}
			was := away[g.Tensor]
			away[g.Tensor] = false
			improved := false
			for _, steps := range recomputations(best.Profile, g) {
				if try(steps) {
					improved, more = true, true
					break
				}
			}
			if !improved {
				away[g.Tensor] = was
			}
		}
	}
}

// recomputations returns the ways to recompute the tensor of a gap.
func recomputations(r *view.Profile, g view.Gap) [][]view.Step {
	l := int(g.Tensor >> 1)
	abar := g.Tensor&1 == 1
	steps := stepsFrom(r, g.To, l, abar)
	if steps == nil {
		return nil
	}
	drop := view.Step{Kind: view.DiscardA, Layer: int32(l)}
	if abar {
		drop.Kind = view.DiscardAbar
	}
	build := func(before []view.Step, drop view.Step) []view.Step {
		return slices.Concat(before, []view.Step{drop}, r.Steps[g.From+1:g.To], steps, r.Steps[g.To:])
	}
	ways := [][]view.Step{build(r.Steps[:g.From+1], drop)}
	if made := slices.Index(r.Steps[:g.From+1], view.Step{Kind: view.FAll, Layer: int32(l)}); abar && made >= 0 && made < g.From {
		// F_ck ℓ instead of F_all ℓ, if the steps up to from read a_ℓ.
		before := slices.Clone(r.Steps[:g.From+1])
		before[made].Kind = view.FCk
		ways = append(ways, build(before, view.Step{Kind: view.DiscardA, Layer: int32(l)}))
	}
	return ways
}

// stepsFrom returns the steps that compute ā_ℓ or a_ℓ before step i, nil if they are none.
func stepsFrom(r *view.Profile, i, l int, abar bool) []view.Step {
	stored := stored(r, i)
	k := l - 1
	for k >= 0 && !stored[view.TensorOf(k, false)] && !stored[view.TensorOf(k, true)] {
		k--
	}
	if k < 0 {
		return nil
	}
	last := view.Step{Kind: view.FCk, Layer: int32(l)}
	if abar {
		last.Kind = view.FAll
	}
	var steps []view.Step
	if k < l-1 {
		steps = view.Segment(nil, k+1, l-1)
		if !abar {
			last.Kind = view.FNone
			return append(steps, last)
		}
		// a_{ℓ-1} stays for B_ℓ, which would otherwise have to recompute it.
	}
	return append(steps, last)
}

// stored reports for each tensor whether it is stored before step i, without transfers.
func stored(r *view.Profile, i int) []bool {
	stored := make([]bool, 2*r.In.N+2)
	stored[0] = true
	for _, s := range r.Steps[:i] {
		l := int(s.Layer)
		switch s.Kind {
		case view.FAll:
			stored[view.TensorOf(l, true)] = true
		case view.FCk:
			stored[view.TensorOf(l, false)] = true
		case view.FNone:
			stored[view.TensorOf(l, false)], stored[view.TensorOf(l-1, false)] = true, false
		case view.Backward:
			stored[view.TensorOf(l, true)], stored[view.TensorOf(l-1, false)] = false, false
		case view.DiscardA:
			stored[view.TensorOf(l, false)] = false
		case view.DiscardAbar:
			stored[view.TensorOf(l, true)] = false
		}
	}
	return stored
}
