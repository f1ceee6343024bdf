package remat

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

// Solve returns a plan for a chain of least makespan and a lower bound on
// the makespan of any plan, in seconds, which is the plan's own if it is proved
// optimal. start is a verified plan, or nil. The result is that of the last
// model solved. The plan is nil if a limit in o came before the first solution.
// The error is a *plan.Infeasible if it is proved that no plan exists, and wraps
// plan.ErrNoPlan if MILP has no solution.
//
// Bound comes first, with half of the time. As a rule its best solution
// fits during forwards, too, and that is the proof; otherwise MILP looks
// for the best plan. Its own bound does not count, since it is one on plans with
// so many sweeps only: see chainMILP.
func Solve(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*plan.Plan, float64, *solvers.Result, error) {
	f, err := newChainMILP(c, p, true)
	if err != nil {
		return nil, 0, nil, err
	}
	before := o
	before.Time /= 2
	r, best, err := f.inThousandths().solve(ctx, b, start, before)
	if err != nil {
		return nil, 0, nil, err
	}
	if r.Status == solvers.Infeasible {
		return nil, 0, r, f.infeasible(ctx, b)
	}
	bound := c.TotalTime()
	if !math.IsInf(r.Bound, 0) {
		bound = max(bound, r.Bound)
	}
	if best != nil && best.Claims.PeakMemory <= p.Memory {
		if r.Status == solvers.Optimal {
			return best, min(bound, best.Claims.Makespan), r, nil
		}
		start = formulation.Sooner(start, best)
	}
	if f, err = newChainMILP(c, p, false); err != nil {
		return nil, 0, nil, err
	}
	if before.Time > 0 {
		o.Time = max(o.Time-r.Wall, before.Time)
	}
	r, best, err = f.inThousandths().solve(ctx, b, start, o)
	if err != nil {
		return nil, 0, nil, err
	}
	if best = formulation.Sooner(start, best); best == nil && r.Status == solvers.Infeasible {
		return nil, bound, r, fmt.Errorf("%s: %w with %d sweeps to each backward", f.m.Name(), plan.ErrNoPlan, f.sweeps)
	}
	if best != nil {
		bound = min(bound, best.Claims.Makespan)
	}
	return best, bound, r, nil
}

// solve solves the model, with a start that is a solution of it, and makes a
// plan of what it finds. The result is in seconds.
func (f *chainMILP) solve(ctx context.Context, b solvers.Backend, start *plan.Plan, o solvers.Options) (*solvers.Result, *plan.Plan, error) {
	if start != nil && !o.Relax && b.Can()&solvers.CanStart != 0 {
		// A plan whose forwards do not ascend may have no place in the model.
		if x, err := f.start(start); err == nil && len(f.m.Violations(x, 1e-6)) == 0 {
			o.Start = x
		}
	}
	if o.AbsGap.Set {
		o.AbsGap.Value /= f.unit
	}
	if progress := o.OnProgress; progress != nil {
		o.OnProgress = func(p solvers.Progress) {
			p.Objective *= f.unit
			p.Bound *= f.unit
			progress(p)
		}
	}
	r, err := b.Solve(ctx, f.m, o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	r.Obj *= f.unit
	r.Bound *= f.unit
	switch r.Status {
	case solvers.Unbounded, solvers.InfeasibleOrUnbounded:
		return nil, nil, fmt.Errorf("%s: %w: %s calls it %v, but times are not negative", f.m.Name(), solvers.ErrSolver, r.Backend, r.Status)
	}
	x, ok := r.Solution()
	if !ok || o.Relax {
		return r, nil, nil
	}
	p, err := f.plan(x)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	if !f.bound && p.Claims.PeakMemory > f.p.Memory {
		return nil, nil, fmt.Errorf("%s: %w: the plan of a solution needs %g of %g bytes", f.m.Name(), solvers.ErrSolver, p.Claims.PeakMemory, f.p.Memory)
	}
	return r, p, nil
}

// infeasible returns the error that no plan exists, with the memory that the
// same model finds to be least, a lower bound.
func (f *chainMILP) infeasible(ctx context.Context, b solvers.Backend) error {
	least := f.p.Memory
	g := &chainMILP{c: f.c, p: f.p, spare: true, unit: 1}
	g.build(f.sweeps, f.bound)
	r, err := b.Solve(ctx, g.m, solvers.Options{})
	if err == nil && r.Bound > 0 && !math.IsInf(r.Bound, 0) {
		least *= 1 + r.Bound/g.memory
	}
	return &plan.Infeasible{Problem: plan.Remat, Memory: least, Given: f.p.Memory, Why: "by " + f.m.Name()}
}
