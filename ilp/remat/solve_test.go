package remat

import (
	"context"
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// solve returns a plan for a chain of least makespan and a lower bound on the
// makespan of any plan, in seconds, as the backend claims it. start is a verified
// plan, or nil. The result is that of the last model solved. The plan is nil if a
// limit in o came before the first solution. The error is a *plan.Infeasible if
// it is proved that no plan exists, and wraps plan.ErrNoPlan if MILP has no
// solution.
func solve(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*plan.Plan, float64, *solvers.Result, error) {
	phases, err := Phases(c, p)
	if err != nil {
		return nil, 0, nil, err
	}
	next := func(sofar *formulation.Result) (*formulation.Phase, error) {
		x, err := phases(sofar)
		if x != nil {
			x.Relax = o.Relax
		}
		return x, err
	}
	if o.Time > 0 {
		limited, cancel := context.WithTimeout(ctx, o.Time)
		defer cancel()
		ctx = limited
	}
	task := formulation.Task{Backend: b, Options: o, Start: start, Level: formulation.Off, Verify: func(q *plan.Plan) (float64, error) { return verified(c, q) }}
	if o.OnProgress != nil {
		task.OnProgress = func(objective, bound float64, nodes int64) {
			o.OnProgress(solvers.Progress{Objective: objective, Bound: bound, Nodes: nodes})
		}
	}
	r, err := task.Run(ctx, next)
	if err != nil {
		return nil, 0, nil, err
	}
	bound := max(c.TotalTime(), r.Claimed())
	if r.Plan == nil && r.Solver != nil && r.Solver.Status == solvers.Infeasible {
		return nil, bound, r.Solver, fmt.Errorf("%s: %w", r.Program.Model.Name(), plan.ErrNoPlan)
	}
	return r.Plan, bound, r.Solver, nil
}

// verified replays a plan and returns its makespan.
func verified(c *chain.Chain, q *plan.Plan) (float64, error) {
	report, err := plan.VerifyRemat(c, q)
	switch {
	case err != nil:
		return math.NaN(), err
	case !report.Valid():
		return math.NaN(), fmt.Errorf("%v", report.Violations[0])
	}
	return report.Makespan, nil
}
