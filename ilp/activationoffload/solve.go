package activationoffload

import (
	"context"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// Run finds a plan of activation offloading and bounds on all plans: by closed
// forms, by Amounts, and for chains of up to ExactLayers by Exact for what is left.
// It adds to t.Bounds and sets t.Start where there is none. A limit in ctx
// ends it with what there is. The error wraps formulation.ErrInstance or is a
// *plan.Infeasible.
func Run(ctx context.Context, t *formulation.Task, c *chain.Chain, p platform.Platform) (*formulation.Result, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	t.Bounds = append(t.Bounds, in.Bounds()...)
	if t.Start == nil {
		if t.Start, err = in.everything(); err != nil {
			return nil, err
		}
	}
	phases := []*formulation.Phase{{Program: buildOffload(in).program()}}
	if in.N <= ExactLayers {
		phases[0].Share = 0.5
		phases = append(phases, &formulation.Phase{Program: buildOffloadExact(in).program()})
	}
	return t.Run(ctx, formulation.Phases(phases...))
}

// everything offloads all that can be, which always makes a plan.
func (in *instance) everything() (*plan.Plan, error) {
	var all view.Choice
	for i := range in.tensors() {
		if in.movable(i) {
			all.Offload = append(all.Offload, i)
		}
	}
	return in.Schedule(Method, all)
}
