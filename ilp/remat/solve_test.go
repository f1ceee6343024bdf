package remat

import (
	"context"
	"fmt"
	"math"
	"testing"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	verifyremat "workbench/model/verify/remat"
	"workbench/solvers"
)

// solve returns a plan for a chain of least makespan and a lower bound on the
// makespan of any plan, in seconds, as the backend claims it. start is a verified
// plan, or nil. The result is that of the last model solved. The plan is nil if a
// limit in o came before the first solution. The error is a *plan.Infeasible if
// it is proved that no plan exists, and wraps plan.ErrNoPlan if MILP has no
// solution.
func solve(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan,
	o solvers.Options,
) (*plan.Plan, float64, *solvers.Result, error) {
	phases, err := Phases(ctx, c, p)
	if err != nil {
		return nil, 0, nil, err
	}
	next := func(sofar *formulation.Result) (*formulation.Phase, error) {
		x, err := phases(sofar)
		if x != nil {
			x.Relax = o.Relax
		}
		return x, err
	}
	if o.Time > 0 {
		limited, cancel := context.WithTimeout(ctx, o.Time)
		defer cancel()
		ctx = limited
	}
	task := formulation.Task{
		Backend: b, Options: o, Start: start, Level: formulation.Off,
		Verify: func(q *plan.Plan) (float64, error) { return verified(c, q) },
	}
	if o.OnProgress != nil {
		task.OnProgress = func(objective, bound float64, nodes int64) {
			o.OnProgress(solvers.Progress{Objective: objective, Bound: bound, Nodes: nodes})
		}
	}
	r, err := task.Run(ctx, next)
	if err != nil {
		return nil, 0, nil, err
	}
	bound := max(c.TotalTime(), r.Claimed())
	if r.Plan == nil && r.Solver != nil && r.Solver.Status == solvers.Infeasible {
		return nil, bound, r.Solver, fmt.Errorf("%s: %w", r.Program.Model.Name(), plan.ErrNoPlan)
	}
	return r.Plan, bound, r.Solver, nil
}

// verified replays a plan and returns its makespan.
func verified(c *chain.Chain, q *plan.Plan) (float64, error) {
	report, err := verifyremat.Verify(c, q)
	switch {
	case err != nil:
		return math.NaN(), err
	case !report.Valid():
		return math.NaN(), fmt.Errorf("%v", report.Violations[0])
	}
	return report.Makespan, nil
}

// The end of the context ends building: no phase comes, and the largest group of rows is
// not made.
func TestPhasesEndWithTheContext(t *testing.T) {
	c := &chain.Chain{}
	for range 30 {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 1, Saved: 2, Gradient: 1})
	}
	p := platform.Platform{Memory: 12}
	ctx, cancel := context.WithCancel(t.Context())
	next, err := Phases(ctx, c, p)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if x, err := next(&formulation.Result{}); x != nil || err != nil {
		t.Errorf("after the end: %v, %v", x, err)
	}
	f, err := newChainMILP(c, p, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.build(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	whole := len(f.rows)
	if err := f.build(ctx, nil); err != nil || len(f.rows) >= whole/2 {
		t.Errorf("%d of %d rows of memory after the end, %v", len(f.rows), whole, err)
	}
}
