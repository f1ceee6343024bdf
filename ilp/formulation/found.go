package formulation

import (
	"math"

	"workbench/model/plan"
	"workbench/solvers"
)

// Found is the best plan found and the best bound proved.
type Found struct {
	Plan   *plan.Plan
	Bound  float64         // lower bound on the makespan of any plan, seconds
	By     string          // who proved it
	Result *solvers.Result // of the last model solved; nil: none was needed
}

// Gap returns (makespan − bound)/makespan.
func (r *Found) Gap() float64 {
	if r.Plan.Claims.Makespan == 0 {
		return 0
	}
	return (r.Plan.Claims.Makespan - r.Bound) / r.Plan.Claims.Makespan
}

// Keep takes a plan if it is better.
func (r *Found) Keep(p *plan.Plan) { r.Plan = Sooner(r.Plan, p) }

// Raise takes a bound if it is better. The tolerance of solvers must not lift
// it above a plan.
func (r *Found) Raise(bound float64, by string) {
	if bound > r.Bound && !math.IsInf(bound, 0) {
		r.Bound, r.By = bound, by
	}
	if r.Plan != nil {
		r.Bound = min(r.Bound, r.Plan.Claims.Makespan)
	}
}
