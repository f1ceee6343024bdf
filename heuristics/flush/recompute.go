package flush

import (
	"context"
	"math"
	"slices"

	"workbench/model/flush"
)

// recomputeSteps are the steps of the search that judges a choice of stages.
const recomputeSteps = 5_000

// Recompute chooses the stages that keep only their input and compute forward again, for
// the least objective. It starts from none, all, the first half and the second half of them, which
// on a V are one of each GPU, and changes one stage at a time for as long as that is better by list
// scheduling and a short [Search], the other GPUs' time counted a little, so that they need not all
// change at once. A choice whose bound is above the best is not tried. of returns the
// pipeline of a choice. nil: nothing fits by any choice that was tried. It ends with ctx with the
// best that it has. O(stages) searches a round.
func Recompute(ctx context.Context, stages int, of func(again []bool) (*flush.Instance, error)) ([]bool, error) {
	r := &recomputing{of: of, least: math.Inf(1), objective: math.Inf(1)}
	again := make([]bool, stages)
	for _, ends := range [][2]int{{0, 0}, {0, stages}, {0, stages / 2}, {stages / 2, stages}} {
		for s := range again {
			again[s] = ends[0] <= s && s < ends[1]
		}
		r.at = math.Inf(1)
		if _, err := r.try(ctx, again); err != nil {
			return nil, err
		}
		for changed := true; changed && ctx.Err() == nil; {
			changed = false
			for s := range again {
				again[s] = !again[s]
				better, err := r.try(ctx, again)
				if err != nil {
					return nil, err
				}
				if changed = changed || better; !better {
					again[s] = !again[s]
				}
			}
		}
	}
	return r.best, nil
}

type recomputing struct {
	of               func(again []bool) (*flush.Instance, error)
	at               float64 // the measure of the choice from which one stage is changed
	best             []bool
	least, objective float64 // of the best
}

// try reports whether a choice is better than the one it comes from.
func (r *recomputing) try(ctx context.Context, again []bool) (bool, error) {
	v, err := r.of(again)
	if err != nil || v.Fits() != nil {
		return false, err
	}
	bound := v.Bound().Value
	if bound > r.objective*(1+1e-9) {
		return false, nil
	}
	o := Send(List)(ctx, v)
	if o == nil {
		return false, nil
	}
	a := newAnnealer(v, Search(ctx, v, o, Goal{Bound: bound, Steps: recomputeSteps}), Goal{})
	if !a.t.Run(a.order, nil) {
		return false, nil
	}
	x := a.measure()
	if x < r.least {
		r.best, r.least, r.objective = slices.Clone(again), x, a.t.Objective()
	}
	if x >= r.at*(1-1e-9) {
		return false, nil
	}
	r.at = x
	return true, nil
}
