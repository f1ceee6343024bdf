// Package weightoffload plans weight offloading ([001]): which weights of a network
// leave the GPU between two uses, and when they are sent and fetched back, so
// that a training step fits in the memory and takes little longer than its
// computations.
//
// Every method takes a chain and a platform and returns a cyclic plan, a
// *plan.Infeasible error when the memory is below the least for which any plan
// exists, or an error wrapping plan.ErrNoPlan when the method found none
// though one may exist. Methods promise nothing about optimality;
// weightoffload.Instance.Bounds says how far from it a plan can be at most.
//
// Layers, operations and gaps are numbered as in package cycle. Gap g is away
// when w_k leaves the GPU during it: the choice (k,d) of [001] §5.
//
// [001] is O. Beaumont, L. Eyraud-Dubois, A. Shilova, X. Zhao, "Weight
// Offloading Strategies for Training Large DNN Models", 2022.
package weightoffload

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.WeightOffload

// instance is the view of package cycle with what only methods ask.
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
