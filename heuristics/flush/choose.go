package flush

import (
	"context"
	"math"
	"slices"

	"workbench/model/problem/flush"
)

// chooseSteps are the steps of the search that judges a choice of stages.
const chooseSteps = 5_000

// Choose returns for each stage one of the given number of options with the minimum objective
// found, by local search. Option 0 keeps everything; others recompute from the input or offload to
// the host. It starts from option 0 for all stages and, for every other option, from that option
// for all stages and for the first and second half, which on a V are one stage of each GPU. It
// changes one stage at a time while that improves the result of list scheduling and a short
// [Search]. The time of the other GPUs has a small weight, so that several GPUs need not change at
// once. A choice whose bound exceeds the best is skipped. of returns the pipeline of a choice.
// Choose returns nil if no choice it tried fits, and the best so far when ctx ends.
// O(stages·options) searches a round.
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
