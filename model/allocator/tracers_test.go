package allocator

import "workbench/model/plan"

// tracers are what the problems name.
var tracers = map[string]Tracer{
	plan.Remat: OfRemat, plan.Join: OfJoin, plan.ActivationOffload: OfOffload, plan.RematOffload: OfOffload,
	plan.Swap: OfSwapping, plan.Pipeline: OfPipeline, plan.WeightOffload: OfWeights,
}

func tracesOf(in plan.Instance, p *plan.Plan, unit int64) ([]*Trace, error) {
	if p == nil {
		return Traces(OfRemat, in, p, unit)
	}
	return Traces(tracers[p.Problem], in, p, unit)
}
