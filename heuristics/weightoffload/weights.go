// Package weightoffload plans weight offloading ([001]): which weights of a network are evicted
// from the GPU between two uses, and when they are uploaded and prefetched, so that a training step
// fits in memory and takes little longer than its computations.
//
// Every method takes a chain and a platform and returns a cyclic plan, a *plan.Infeasible error if
// memory is below the minimum for which a plan exists, or an error wrapping plan.ErrNoPlan if the
// method found none though one may exist. Methods guarantee no optimality;
// weightoffload.Instance.Bounds limits the gap of a plan.
//
// Layers, operations and gaps are numbered as in model/problem/weightoffload. Gap g is away if w_k
// is on the host only during it: the choice (k,d) of [001] §5.
//
// [001] is O. Beaumont, L. Eyraud-Dubois, A. Shilova, X. Zhao, "Weight Offloading Strategies for
// Training Large DNN Models", 2022.
package weightoffload

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.WeightOffload

// instance is the model of the problem with the data that only methods need.
type instance struct {
	*weightoffload.Instance
	slow bool // its transfers take longer than they do, see solve
}

// newInstance checks that a plan can exist at all, see weightoffload.New.
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	in, err := weightoffload.New(c, p)
	if err != nil {
		return nil, err
	}
	return &instance{Instance: in}, nil
}
