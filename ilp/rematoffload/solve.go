package rematoffload

import (
	"context"
	"fmt"
	"math"
	"time"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// Solve proves a lower bound on the makespan of rematerialization
// with offloading, and looks for a plan in the solutions of its model. start is
// a verified plan, or nil. The plan is the best known one, nil if there is none:
// the model limits memory at some instants only, so its solutions need not fit.
// A limit in o ends the search, as does a gap between plan and bound of o.RelGap
// or less. The error is a *plan.Infeasible if it is proved that no plan exists.
func Solve(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*formulation.Found, error) {
	f, err := newRematOffload(c, p)
	if err != nil {
		return nil, err
	}
	r := &formulation.Found{Plan: start}
	r.Raise(c.TotalTime(), "the sum of the computations")
	asked := max(o.RelGap.Value, plan.Tolerance)
	if start != nil && r.Gap() <= asked {
		return r, nil
	}
	f.build(1)
	if start != nil && !o.Relax && b.Can()&solvers.CanStart != 0 {
		if o.Start, err = f.start(start); err != nil {
			return nil, err
		}
	}
	if o.AbsGap.Set {
		o.AbsGap.Value /= f.unit
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if b.Can()&solvers.CanProgress != 0 && start != nil {
		o.RelGap = solvers.Opt[float64]{} // the model's own optimum may be far below the plan
	}
	if b.Can()&solvers.CanProgress != 0 {
		o.OnProgress = f.progress(r, o.OnProgress, asked, stop)
	}
	solved, err := b.Solve(ctx, f.m, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	solved.Obj *= f.unit
	solved.Bound *= f.unit
	r.Result = solved
	switch solved.Status {
	case solvers.Infeasible:
		if start != nil {
			return nil, fmt.Errorf("%s: %w: %s calls it infeasible, but there is a plan", f.m.Name(), solvers.ErrSolver, solved.Backend)
		}
		return nil, &plan.Infeasible{
			Problem: plan.RematOffload, Memory: math.Nextafter(p.Memory, math.Inf(1)), Given: p.Memory,
			Why: "by " + f.m.Name() + "; more than that",
		}
	case solvers.Unbounded, solvers.InfeasibleOrUnbounded:
		return nil, fmt.Errorf("%s: %w: %s calls it %v, but times are not negative", f.m.Name(), solvers.ErrSolver, solved.Backend, solved.Status)
	}
	if x, ok := solved.Solution(); ok && !o.Relax {
		if q := f.verified(x); q != nil {
			r.Plan = formulation.Sooner(r.Plan, q)
		}
	}
	r.Raise(solved.Bound, fmt.Sprintf("%s (%s, %s)", f.m.Name(), solved.BoundBy, solved.Backend))
	return r, nil
}

// progress reports in seconds, and stops once the gap to the plan is closed.
func (f *rematOffload) progress(r *formulation.Found, report func(solvers.Progress), asked float64, stop func()) func(solvers.Progress) {
	began := time.Now()
	return func(p solvers.Progress) {
		bound := max(p.Bound*f.unit, r.Bound)
		makespan := math.NaN()
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

// verified returns the plan of a solution if it keeps all rules, else nil.
func (f *rematOffload) verified(x []float64) *plan.Plan {
	p, err := f.plan(x)
	if err != nil {
		return nil
	}
	report, err := plan.VerifyOffload(f.c, p)
	if err != nil || !report.Valid() {
		return nil
	}
	return p
}
