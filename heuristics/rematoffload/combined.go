// Package rematoffload plans training steps that rematerialize and offload ([004] chapter 4): an activation that
// does not fit is recomputed or offloaded, whichever costs less.
//
// Every method takes a chain and a platform with memory and bandwidth. It returns a plan of the operations of
// [004] Table 2.1 with transfers of a_ℓ and ā_ℓ over one link, valid in the integral model. There, an offloaded
// tensor is freed when its transfer and the computation that uses it have ended, and a prefetched one is allocated
// from the start of its transfer. The error is a *plan.Infeasible when it is proved that no plan fits. It wraps
// plan.ErrNoPlan when the method found none though one may exist.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the chain's input.
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

// newInstance validates c and p: see view.New.
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	in, err := view.New(c, p)
	if err != nil {
		return nil, err
	}
	return &instance{in}, nil
}

// planned returns the plan of the schedule that a method finds for an instance.
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
