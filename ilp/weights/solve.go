package weights

import (
	"context"
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// Bound is a proven lower bound on the period of weight offloading. It
// holds for every plan that the rules allow, without assumptions; it is as
// exact as the solver's arithmetic, some 1e-6 of it.
type Bound struct {
	Value  float64           // seconds; at least Σu
	By     string            // who proved it
	Hint   *formulation.Hint // the choices of the best solution; nil: there is none
	Result *solvers.Result
}

// SolveBound solves Nested. A verified plan, if there is one,
// serves as a start: where its period is the bound, the proof is immediate. A
// limit in o ends the search with the bound proven so far. The error is a
// *plan.Infeasible if no plan exists.
func SolveBound(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*Bound, error) {
	program, err := Nested(c, p)
	if err != nil {
		return nil, err
	}
	r, err := solveFrom(ctx, b, program, start, o)
	if err != nil {
		return nil, err
	}
	bound := &Bound{Value: scaleWeights(c, p).computation, By: "the sum of the computations", Result: r}
	if r.Bound > bound.Value && !math.IsInf(r.Bound, 0) {
		bound.Value, bound.By = r.Bound, fmt.Sprintf("%s (%s, %s)", program.Model.Name(), r.BoundBy, r.Backend)
	}
	if x, ok := r.Solution(); ok && !o.Relax {
		bound.Hint = program.Hint(x)
	}
	return bound, nil
}

// SolveExact returns a plan of least period of a chain of at most
// ExactLayers, and a bound that is its period once the search is complete. The
// plan is nil if a limit in o came before the first solution. Bound.Hint is of
// the bound, Bound.Result of the exact MILP.
//
// The bound of SolveBound comes first, from half of the time: the exact
// MILP, full of large constants, proves little by itself.
func SolveExact(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*plan.Plan, *Bound, error) {
	in, err := newWeightInstance(c, p)
	if err != nil {
		return nil, nil, err
	}
	if err := in.short(); err != nil {
		return nil, nil, err
	}
	before := o
	before.Time /= 2
	bound, err := SolveBound(ctx, b, c, p, start, before)
	if err != nil {
		return nil, nil, err
	}
	f := buildExact(in)
	// A little less than the bound, so that rounding cuts nothing off.
	f.m.SetBounds(f.period, bound.Value/f.time*(1-1e-6), f.longest)
	if o.Time -= bound.Result.Wall; before.Time > 0 {
		o.Time = max(o.Time, before.Time)
	} else {
		o.Time = 0
	}
	r, err := solveFrom(ctx, b, f.program(), start, o)
	if err != nil {
		return nil, nil, err
	}
	bound.Result = r
	if r.Bound > bound.Value && !math.IsInf(r.Bound, 0) {
		bound.Value, bound.By = r.Bound, fmt.Sprintf("%s (%s, %s)", f.m.Name(), r.BoundBy, r.Backend)
	}
	x, ok := r.Solution()
	if !ok {
		return nil, bound, nil
	}
	best, err := f.plan(x)
	if err != nil {
		return nil, nil, err
	}
	// Re-timing removes the solver's tolerance, in either direction.
	bound.Value = min(bound.Value, *best.Period)
	return best, bound, nil
}

// solveFrom solves a program with a start, if there is one. That the model has
// no solution cannot be: some plan exists, or building it had failed.
func solveFrom(ctx context.Context, b solvers.Backend, program *formulation.Program, start *plan.Plan, o solvers.Options) (*solvers.Result, error) {
	if start != nil && !o.Relax && b.Can()&solvers.CanStart != 0 {
		x, err := program.Start(start)
		if err != nil {
			return nil, err
		}
		o.Start = x
	}
	r, err := b.Solve(ctx, program.Model, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", program.Model.Name(), err)
	}
	switch r.Status {
	case solvers.Infeasible, solvers.Unbounded, solvers.InfeasibleOrUnbounded:
		return nil, fmt.Errorf("%s: %w: %s calls it %v, but plans exist", program.Model.Name(), solvers.ErrSolver, r.Backend, r.Status)
	}
	return r, nil
}
