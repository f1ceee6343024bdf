// Package flush holds the formulations of pipelines that flush: orders of F, B and W of
// micro-batches on GPUs with a memory.
package flush

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/instance/stages"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/model/problem/flush"
)

// target is what the best closed-form bound is in the unit of the models, at least half
// and at most twice.
const target = 0x1p10

// instance is what all formulations need.
type instance struct {
	*flush.Instance
	scale   float64 // a power of two: units of the model for a second
	horizon float64 // seconds: some best schedule ends by then
	bounds  []flush.Bound
}

// newInstance reads a partition. The error wraps formulation.ErrInstance or is a
// *plan.Infeasible.
//
// All operations and ways one after the other are a horizon: the starts of a schedule
// of least span are longest paths in its graph of precedences, where no path meets an
// operation twice.
func newInstance(in *stages.Partition, p platform.Platform) (*instance, error) {
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	v, err := flush.New(in, p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	if err := v.Fits(); err != nil {
		return nil, err
	}
	x := &instance{Instance: v, bounds: v.Bounds()}
	for s := range v.Stages {
		for _, t := range v.Time[s] {
			x.horizon += t
		}
		if s > 0 {
			x.horizon += 2 * v.Delay[s-1]
		}
	}
	x.horizon *= float64(v.Jobs) * (1 + 0x1p-30)
	one := x.bounds[0].Value
	if one <= 0 {
		one = max(x.horizon, 1)
	}
	x.scale = milp.PowerOfTwo(one, target)
	return x, nil
}

// seconds returns a time in the unit of the models, exactly.
func (x *instance) seconds(t float64) float64 { return x.scale * t }
