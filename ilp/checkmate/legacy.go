package checkmate

import (
	"context"
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/graph"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// Result is what Solve found.
type Result struct {
	Plan        *plan.Plan // the best one found; nil: none
	Bound       float64    // seconds, on the makespan of plans that keep the Assumptions
	By          string
	Assumptions []string
	Nodes       int64
	Result      *solvers.Result // of the last model
	Model       *milp.Model     // the last one; nil: none was needed
}

// Gap returns (makespan − bound) / makespan; 1 without a plan.
func (r *Result) Gap() float64 {
	if r.Plan == nil {
		return 1
	}
	return solvers.Gap(r.Plan.Claims.Makespan, r.Bound)
}

// Solve is Run for callers that take claims for bounds.
func Solve(ctx context.Context, b solvers.Backend, g *graph.Graph, p platform.Platform, start *plan.Plan, o solvers.Options) (*Result, error) {
	return claimed(ctx, Run, b, g, p, start, o)
}

// SolvePrinted is RunPrinted for callers that take claims for bounds.
func SolvePrinted(ctx context.Context, b solvers.Backend, g *graph.Graph, p platform.Platform, start *plan.Plan, o solvers.Options) (*Result, error) {
	return claimed(ctx, RunPrinted, b, g, p, start, o)
}

type runner func(context.Context, *formulation.Task, *graph.Graph, platform.Platform) (*formulation.Result, error)

func claimed(ctx context.Context, run runner, b solvers.Backend, g *graph.Graph, p platform.Platform, start *plan.Plan, o solvers.Options) (*Result, error) {
	if o.Time > 0 {
		limited, cancel := context.WithTimeout(ctx, o.Time)
		defer cancel()
		ctx = limited
	}
	t := &formulation.Task{Backend: b, Options: o, Start: start, Level: formulation.Off}
	if o.OnProgress != nil {
		t.OnProgress = func(objective, bound float64, nodes int64) {
			o.OnProgress(solvers.Progress{Objective: objective, Bound: bound, Gap: solvers.Gap(objective, bound), Nodes: nodes})
		}
	}
	x, err := run(ctx, t, g, p)
	if err != nil {
		return nil, err
	}
	r := &Result{Plan: x.Plan, Bound: math.Inf(-1), Nodes: x.Nodes, Result: x.Solver, Model: x.Model()}
	for _, b := range x.Bounds {
		if b.Value > r.Bound {
			r.Bound, r.By, r.Assumptions = b.Value, b.By, b.Assumptions
		}
	}
	for _, c := range x.Claims {
		if c.Value > r.Bound {
			r.Bound, r.By, r.Assumptions = c.Value, c.By, c.Assumptions
		}
	}
	if x.Plan == nil && x.Solver != nil && x.Solver.Status == solvers.Infeasible {
		return nil, fmt.Errorf("%w: %s says that %s has no solution within %.0f bytes", plan.ErrNoPlan, x.Solver.Backend, x.Model().Name(), p.Memory)
	}
	return r, nil
}
