package formulation

import (
	"context"
	"math"

	"workbench/model/plan"
	"workbench/solvers"
)

// Found is a Result for callers that take claims for bounds.
type Found struct {
	Plan   *plan.Plan // nil: none
	Bound  float64    // best claimed or proved for all plans, seconds
	By     string     // who says so
	Result *solvers.Result
}

// Claimed runs a formulation's Run without certificates.
func Claimed(ctx context.Context, b solvers.Backend, start *plan.Plan, o solvers.Options, run func(context.Context, *Task) (*Result, error)) (*Found, error) {
	if o.Time > 0 {
		limited, cancel := context.WithTimeout(ctx, o.Time)
		defer cancel()
		ctx = limited
	}
	t := &Task{Backend: b, Options: o, Start: start, Level: Off}
	if o.OnProgress != nil {
		t.OnProgress = func(objective, bound float64, nodes int64) {
			o.OnProgress(solvers.Progress{Objective: objective, Bound: bound, Gap: solvers.Gap(objective, bound), Nodes: nodes})
		}
	}
	x, err := run(ctx, t)
	if err != nil {
		return nil, err
	}
	r := &Found{Plan: x.Plan, Bound: math.Inf(-1), Result: x.Solver}
	for _, b := range x.Bounds {
		if b.Value > r.Bound {
			r.Bound, r.By = b.Value, b.By
		}
	}
	for _, c := range x.Claims {
		if c.Value > r.Bound {
			r.Bound, r.By = c.Value, c.By
		}
	}
	return r, nil
}
