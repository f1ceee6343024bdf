// Package remat plans rematerialization of chains ([002], [004] chapter 2): which activations are
// kept and which are recomputed, so that a training step fits in memory and takes little longer
// than its computations.
//
// Every method takes a chain and a platform, of which only the memory matters, and returns a plan
// of the operations of [004] Table 2.1; a *plan.Infeasible error if it is proved that no plan fits;
// or an error wrapping plan.ErrNoPlan if the method found none though one may exist.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the input of the chain.
// Package workbench/model/problem/remat has the model of a chain that all methods use.
package remat

import (
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
	"workbench/model/proof"
)

// Problem is the name of the problem in plans and errors.
const Problem = model.Problem

// Point is one breakpoint of a trade-off: with at least Memory the makespan is Makespan seconds.
type Point struct{ Memory, Makespan float64 }

// noPlan returns the error of a method that needs at least least bytes; infinite: unknown. If a
// quick proof shows that no other method can have a plan either, it is a *plan.Infeasible. This is
// tried only if no persistent plan fits, since the proof takes half a second on 56 layers and the
// other test O(N³).
func noPlan(v *model.View, method string, least, given float64) error {
	if v.N <= maxSearched && given >= 0 && !platform.Fits(v.A[0]+newLeast(v).cost(1, v.N), given) {
		if any, why := quickLeast(v); !platform.Fits(any, given) {
			return &plan.Infeasible{Problem: Problem, Memory: any, Given: given, Why: why}
		}
	}
	if math.IsInf(least, 1) {
		return fmt.Errorf("remat: %s finds no plan in %s: %w", method, v.Unit.Exactly(given), plan.ErrNoPlan)
	}
	return fmt.Errorf("remat: %s needs %s, %s are available: %w", method, v.Unit.Exactly(least), v.Unit.Exactly(given), plan.ErrNoPlan)
}

// Bounds returns closed-form lower bounds on the makespan, the best first: see [model.View.Bounds].
// The errors are those of the methods.
func Bounds(c *chain.Chain, p platform.Platform) ([]proof.Bound, error) {
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, err
	}
	return v.Bounds(), nil
}
