// Package rematoffload plans training steps that rematerialize and offload at once
// ([004] chapter 4): an activation that does not fit is computed again, or goes
// to the host and comes back, whichever costs less.
//
// Every method takes a chain and a platform, of which memory and bandwidth
// count, and returns a plan of the operations of [004] Table 2.1 with transfers
// of a_ℓ and ā_ℓ over one link, valid in the integral model: an offloaded tensor
// leaves when its transfer and the computation using it have ended, a
// prefetched one takes its space from the start of its transfer. Errors are a
// *plan.Infeasible when it is proved that no plan fits, or wrap plan.ErrNoPlan
// when the method found none though one may exist.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the
// chain's input.
package rematoffload

import (
	"context"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
)

// instance is the view of the problem that all methods share.
type instance struct{ *view.Instance }

// newInstance checks c and p: see view.New.
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	in, err := view.New(c, p)
	if err != nil {
		return nil, err
	}
	return &instance{in}, nil
}

// planned returns the plan of the schedule that a method makes of an instance.
func planned(ctx context.Context, name string, c *chain.Chain, p platform.Platform,
	method func(*instance, context.Context) (*view.Schedule, error),
) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s, err := method(in, ctx)
	if err != nil {
		return nil, err
	}
	return s.Plan(name)
}
