// Package swap plans out-of-core execution ([003]): which variables are evicted from the GPU
// between two functions that use them, and when they are transferred out and fetched, so that a
// sequence of functions fits in memory and takes little longer than its computations.
//
// Every method takes a sequence and a platform and returns a plan; a *plan.Infeasible error if
// memory is below the minimum for which a plan exists; or an error wrapping plan.ErrNoPlan if the
// method found none. Methods guarantee no optimality; the bounds of model/problem/swap limit the
// gap of a plan.
//
// Functions are numbered from 1 in texts, as in [003], and from 0 in the code.
package swap

import (
	"workbench/model/instance/functions"
	"workbench/model/platform"
	view "workbench/model/problem/swap"
)

// instance is the model of the problem that all methods share.
type instance struct{ *view.Instance }

// newInstance checks s and p, and that a plan exists: see view.New.
func newInstance(s *functions.Sequence, p platform.Platform) (*instance, error) {
	in, err := view.New(s, p)
	if err != nil {
		return nil, err
	}
	return &instance{in}, nil
}
