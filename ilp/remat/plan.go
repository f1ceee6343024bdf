package remat

import (
	"fmt"

	"workbench/model/plan"
)

// plan makes a plan of a solution, with times and memory computed anew.
func (f *chainMILP) plan(x []float64) (*plan.Plan, error) {
	is := func(kind, k, i int) bool {
		v, ok := f.column(kind, k, i)
		return ok && x[v.Index()] > 0.5
	}
	w := f.v.NewSequence()
	for k := range f.cols {
		t := f.top(k)
		for l := 1; l <= t; l++ {
			// stays reports whether layer l−1 is kept when the stage is over, and for B_t.
			stays := is(foundA, k+1, l-1) || is(foundAbar, k+1, l-1) || f.ends(k) && l == t
			switch {
			case is(runAll, k, l):
				w.All(l)
			case is(runCk, k, l) && !stays && w.Has(l-1):
				w.None(l)
			case is(runCk, k, l):
				w.Checkpoint(l)
			}
			if !stays {
				w.Discard(l - 1)
			}
		}
		if f.ends(k) {
			w.Backward(t)
			if !is(foundAbar, k+1, t-1) {
				w.Discard(t - 1)
			}
		} else if !is(foundAbar, k+1, t) {
			w.Discard(t)
		}
	}
	if w.Err != nil {
		return nil, fmt.Errorf("%s: solution: %w", f.name(), w.Err)
	}
	return w.Plan(f.name(), f.c, f.p), nil
}
