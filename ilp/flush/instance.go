// Package flush holds the formulations of synchronous pipeline schedules: the order of the operations F, B and W
// of micro-batches on GPUs of limited memory.
package flush

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/instance/stages"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/model/problem/flush"
)

// target is the scaled value of the best closed-form bound, within a factor of two.
const target = 0x1p10

// instance is an instance with what all formulations share: the time scale, the horizon and the closed-form
// bounds.
type instance struct {
	*flush.Instance
	scale   float64 // a power of two: model units per second
	horizon float64 // seconds: some optimal schedule ends by then
	bounds  []flush.Bound
}

// newInstance validates a partition and scales its times. The error wraps formulation.ErrInstance or is a
// *plan.Infeasible.
//
// The sum of all durations and delays is a valid horizon: the start times of some optimal schedule are longest
// paths in its precedence graph, and a path contains each operation at most once.
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

// seconds converts a time from seconds to model units, exactly.
func (x *instance) seconds(t float64) float64 { return x.scale * t }
