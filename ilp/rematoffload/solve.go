package rematoffload

import (
	"context"
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/solvers"
)

// Run proves bounds on the makespan of rematerialization with offloading, by
// closed forms and by Stages, and looks for a plan in the solutions of that. It
// sets t.Verify and t.Bounds. A limit in ctx ends it with what there is: there
// need not be a plan, as the model limits memory at some instants only. The error
// wraps formulation.ErrInstance or formulation.ErrTooLong, or is a
// *plan.Infeasible.
func Run(ctx context.Context, t *formulation.Task, c *chain.Chain, p platform.Platform) (*formulation.Result, error) {
	f, err := newRematOffload(c, p)
	if err != nil {
		return nil, err
	}
	for _, b := range f.Bounds() {
		t.Bounds = append(t.Bounds, proof.BySearch(b.Value, b.By))
	}
	t.Verify = func(p *plan.Plan) (float64, error) {
		report, err := plan.Verify(c, p)
		switch {
		case err != nil:
			return 0, err
		case !report.Valid():
			return 0, fmt.Errorf("%d rules are broken: %s", len(report.Violations), report.Violations[0].Detail)
		}
		return report.Makespan, nil
	}
	f.build()
	return t.Run(ctx, formulation.Phases(&formulation.Phase{Program: f.program()}))
}

// Solve is Run for callers that take claims for bounds.
func Solve(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*formulation.Found, error) {
	return formulation.Claimed(ctx, b, start, o, func(ctx context.Context, t *formulation.Task) (*formulation.Result, error) { return Run(ctx, t, c, p) })
}
