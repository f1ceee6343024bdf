package rematoffload

import (
	"context"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/platform"
)

// Run proves lower bounds on the makespan of rematerialization with offloading, in closed form and by Stages, and
// derives plans from the solutions of Stages. It adds to t.Bounds. When ctx ends, it returns the results so far.
// These may lack a plan, because the model limits memory only at some events. The error wraps
// formulation.ErrInstance or formulation.ErrTooLong, or is a *plan.Infeasible.
func Run(ctx context.Context, t *formulation.Task, c *chain.Chain, p platform.Platform) (*formulation.Result, error) {
	f, err := newRematOffload(c, p)
	if err != nil {
		return nil, err
	}
	t.Bounds = append(t.Bounds, f.Bounds()...)
	f.build()
	return t.Run(ctx, formulation.Phases(&formulation.Phase{Program: f.program()}))
}
