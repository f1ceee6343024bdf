package flush

import (
	"context"
	"math"
	"slices"

	"workbench/model/problem/flush"
)

// chooseSteps are the steps of the search that judges a choice of stages.
const chooseSteps = 5_000

// Choose chooses for each stage one of so many options, of which 0 is that it keeps all: that it keeps only its
// input and computes forward again, or sends what it keeps to the host; for the least objective. It starts from 0 for
// all and, of every other option, that for all, the first half and the second half of them, which
// on a V are one of each GPU, and changes one stage at a time for as long as that is better by list
// scheduling and a short [Search], the other GPUs' time counted a little, so that they need not all
// change at once. A choice whose bound is above the best is not tried. of returns the
// pipeline of a choice. nil: nothing fits by any choice that was tried. It ends with ctx with the
// best that it has. O(stages·options) searches a round.
func Choose(ctx context.Context, stages, options int, of func(choice []int) (*flush.Instance, error)) ([]int, error) {
	r := &choosing{of: of, least: math.Inf(1), objective: math.Inf(1)}
	for _, from := range starting(stages, options) {
		r.at = math.Inf(1)
		if _, err := r.try(ctx, from); err != nil {
			return nil, err
		}
		for changed := true; changed && ctx.Err() == nil; {
			changed = false
			for s := range from {
				before := from[s]
				for option := range options {
					if option == before {
						continue
					}
					was := from[s]
					from[s] = option
					better, err := r.try(ctx, from)
					if err != nil {
						return nil, err
					}
					if changed = changed || better; !better {
						from[s] = was
					}
				}
			}
		}
	}
	return r.best, nil
}

// starting returns the choices to start from.
func starting(stages, options int) [][]int {
	list := [][]int{make([]int, stages)}
	for option := 1; option < options; option++ {
		for _, ends := range [][2]int{{0, stages}, {0, stages / 2}, {stages / 2, stages}} {
			from := make([]int, stages)
			for s := ends[0]; s < ends[1]; s++ {
				from[s] = option
			}
			list = append(list, from)
		}
	}
	return list
}

type choosing struct {
	of               func(choice []int) (*flush.Instance, error)
	at               float64 // the measure of the choice from which one stage is changed
	best             []int
	least, objective float64 // of the best
}

// try reports whether a choice is better than the one it comes from.
func (r *choosing) try(ctx context.Context, choice []int) (bool, error) {
	v, err := r.of(choice)
	if err != nil || v.Fits() != nil {
		return false, err
	}
	bound := v.Bound().Value
	if bound > r.objective*(1+1e-9) {
		return false, nil
	}
	o := List(ctx, v)
	if o == nil {
		return false, nil
	}
	a := newAnnealer(v, Search(ctx, v, o, Goal{Bound: bound, Steps: chooseSteps}), Goal{})
	if !a.t.Run(a.order, nil) {
		return false, nil
	}
	x := a.measure()
	if x < r.least {
		r.best, r.least, r.objective = slices.Clone(choice), x, a.t.Objective()
	}
	if x >= r.at*(1-1e-9) {
		return false, nil
	}
	r.at = x
	return true, nil
}
