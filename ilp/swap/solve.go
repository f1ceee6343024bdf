package swap

import (
	"context"
	"fmt"
	"math"
	"time"

	"workbench/ilp/formulation"
	"workbench/model/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// Solve proves a lower bound on the makespan of swapping. start is a verified
// plan, or nil; it is the plan of the result: the model only bounds. A limit in o
// ends the search, as does a gap between plan and bound of o.RelGap or less. The
// error wraps ErrInstance or ErrStart, or is a *plan.Infeasible if no plan exists.
func Solve(ctx context.Context, b solvers.Backend, s *functions.Sequence, p platform.Platform, start *plan.Plan, o solvers.Options) (*formulation.Found, error) {
	in, err := newSwapInstance(s, p)
	if err != nil {
		return nil, err
	}
	r := &formulation.Found{Plan: start}
	r.Raise(s.TotalTime(), "the sum of the functions")
	asked := max(o.RelGap.Value, plan.Tolerance)
	if start != nil && r.Gap() <= asked {
		return r, nil
	}
	f := buildSwap(in, 1, swapCells)
	if start != nil {
		x, err := f.start(start)
		if err != nil {
			return nil, err
		}
		if !o.Relax && b.Can()&solvers.CanStart != 0 {
			o.Start = x
		}
	}
	if o.AbsGap.Set {
		o.AbsGap.Value /= f.unit
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if b.Can()&solvers.CanProgress != 0 {
		if start != nil {
			o.RelGap = solvers.Opt[float64]{} // the model's own optimum may be far below the plan
		}
		o.OnProgress = swapProgress(r, f.unit, o.OnProgress, asked, stop)
	}
	solved, err := b.Solve(ctx, f.m, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	switch solved.Status {
	case solvers.Infeasible, solvers.Unbounded, solvers.InfeasibleOrUnbounded:
		return nil, fmt.Errorf("%s: %w: %s calls it %v, but plans exist", f.m.Name(), solvers.ErrSolver, solved.Backend, solved.Status)
	}
	solved.Obj *= f.unit
	solved.Bound *= f.unit
	r.Result = solved
	r.Raise(solved.Bound, fmt.Sprintf("%s (%s, %s)", f.m.Name(), solved.BoundBy, solved.Backend))
	return r, nil
}

// swapProgress reports in seconds, and stops once the gap to the plan is closed.
func swapProgress(r *formulation.Found, unit float64, report func(solvers.Progress), asked float64, stop func()) func(solvers.Progress) {
	began := time.Now()
	return func(p solvers.Progress) {
		bound, makespan := max(p.Bound*unit, r.Bound), math.NaN()
		if r.Plan != nil {
			makespan = r.Plan.Claims.Makespan
			if bound >= makespan*(1-asked) {
				stop()
			}
		}
		if report != nil {
			report(solvers.Progress{
				Elapsed: time.Since(began), Objective: makespan, Bound: bound, Gap: solvers.Gap(makespan, bound),
				Nodes: p.Nodes, Iterations: p.Iterations,
			})
		}
	}
}
