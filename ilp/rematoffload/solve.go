package rematoffload

import (
	"context"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/platform"
)

// Run proves bounds on the makespan of rematerialization with offloading, by
// closed forms and by Stages, and looks for a plan in the solutions of that. It adds to
// t.Bounds. A limit in ctx ends it with what there is: there
// need not be a plan, as the model limits memory at some instants only. The error
// wraps formulation.ErrInstance or formulation.ErrTooLong, or is a
// *plan.Infeasible.
func Run(ctx context.Context, t *formulation.Task, c *chain.Chain, p platform.Platform) (*formulation.Result, error) {
	f, err := newRematOffload(c, p)
	if err != nil {
		return nil, err
	}
	t.Bounds = append(t.Bounds, f.Bounds()...)
	f.build()
	return t.Run(ctx, formulation.Phases(&formulation.Phase{Program: f.program()}))
}
