package swap

import (
	"context"
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/solvers"
)

// Run proves bounds on the makespan of swapping, by closed forms and by Amounts;
// its plan is t.Start. It sets t.Verify and t.Bounds. A limit in ctx ends it with
// what there is. The error wraps formulation.ErrInstance or is a *plan.Infeasible.
func Run(ctx context.Context, t *formulation.Task, s *functions.Sequence, p platform.Platform) (*formulation.Result, error) {
	in, err := newSwapInstance(s, p)
	if err != nil {
		return nil, err
	}
	for _, b := range in.Bounds() {
		t.Bounds = append(t.Bounds, proof.BySearch(b.Value, b.By))
	}
	t.Verify = func(p *plan.Plan) (float64, error) {
		report, err := plan.VerifySwap(s, p)
		switch {
		case err != nil:
			return 0, err
		case !report.Valid():
			return 0, fmt.Errorf("%d rules are broken: %s", len(report.Violations), report.Violations[0].Detail)
		}
		return report.Makespan, nil
	}
	return t.Run(ctx, formulation.Phases(&formulation.Phase{Program: buildSwap(in, swapCells).program()}))
}

// Solve is Run for callers that take claims for bounds.
func Solve(ctx context.Context, b solvers.Backend, s *functions.Sequence, p platform.Platform, start *plan.Plan, o solvers.Options) (*formulation.Found, error) {
	return formulation.Claimed(ctx, b, start, o, func(ctx context.Context, t *formulation.Task) (*formulation.Result, error) { return Run(ctx, t, s, p) })
}
