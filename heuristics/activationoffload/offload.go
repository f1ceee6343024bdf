// Package activationoffload plans activation offloading ([000], [004] chapter 3): which activations
// are evicted from the GPU between their forward and their backward, and when they are offloaded
// and prefetched, so that a training step fits in memory and takes little longer than its
// computations.
//
// Every method takes a chain and a platform and returns a plan in the integral model, in which
// whole tensors are transferred; a *plan.Infeasible error if memory is below the minimum for which
// a plan exists; or an error wrapping plan.ErrNoPlan if the method found none. Methods guarantee no
// optimality; the bounds of model/problem/activationoffload limit the gap of a plan.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the input of the chain.
// ā_0..ā_{N-1} may be offloaded.
package activationoffload

import (
	"workbench/model/instance/chain"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// instance is the model of the problem that all methods share.
type instance struct{ *view.Instance }

// newInstance checks c and p, and that a plan exists: see view.New.
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	in, err := view.New(c, p)
	if err != nil {
		return nil, err
	}
	return &instance{in}, nil
}
