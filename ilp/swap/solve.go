package swap

import (
	"context"

	"workbench/ilp/formulation"
	"workbench/model/instance/functions"
	"workbench/model/platform"
)

// Run proves lower bounds on the makespan of swapping, in closed form and by Amounts; its plan is t.Start. It adds
// to t.Bounds. When ctx ends, it returns the results so far. The error wraps formulation.ErrInstance or is a
// *plan.Infeasible.
func Run(ctx context.Context, t *formulation.Task, s *functions.Sequence, p platform.Platform) (*formulation.Result, error) {
	in, err := newSwapInstance(s, p)
	if err != nil {
		return nil, err
	}
	t.Bounds = append(t.Bounds, in.Bounds()...)
	return t.Run(ctx, formulation.Phases(&formulation.Phase{Program: buildSwap(in, swapCells).program()}))
}
