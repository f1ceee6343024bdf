package proof

import (
	"workbench/model/plan"
	"workbench/model/platform"
)

// Optimum is what a search for a plan of least time found.
type Optimum struct {
	Plan   *plan.Plan // the best known; nil: none
	Bound             // on every plan: a closed form, or see Raise
	Proved bool       // the plan is as near to Bound as was asked for
	States int        // what the search has kept or looked at
}

// Raise makes value, which the search has proved by so many states, the bound.
func (o *Optimum) Raise(value float64, state string) {
	o.Bound = BySearch(value, "the search for the optimum ("+platform.Count(o.States, state)+")")
}
