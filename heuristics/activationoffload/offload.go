// Package activationoffload plans activation offloading ([000], [004] chapter 3): which
// activations leave the GPU between their forward and their backward, and when
// they are sent and fetched back, so that a training step fits in the memory
// and takes little longer than its computations.
//
// Every method takes a chain and a platform and returns a plan in the integral
// model, in which whole tensors move; a *plan.Infeasible error when the memory
// is below the least for which any plan exists; or an error wrapping
// plan.ErrNoPlan when the method found none. Methods promise nothing about
// optimality; the bounds of model/problem/activationoffload say how far from it a plan can be.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the
// chain's input. ā_0..ā_{N-1} may be offloaded.
package activationoffload

import (
	"workbench/model/instance/chain"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// instance is the view of the problem that all methods share.
type instance struct{ *view.Instance }

// newInstance checks c and p, and that a plan exists: see view.New.
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	in, err := view.New(c, p)
	if err != nil {
		return nil, err
	}
	return &instance{in}, nil
}
