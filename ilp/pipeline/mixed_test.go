package pipeline

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/ilp/formulation"
	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/pipeline/pipelinetest"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Whatever the magnitudes and however tight the memory, the best plan of exhaustive search is a solution of every
// exact formulation, and no bound is above the optimum. What lp_solve 5.5.2.5 proves is wrong about once in 500 of
// these (an optimum of 8 where HiGHS finds 4.003), so of its answers only how often they are wrong is checked, and HiGHS solves
// every instance.
func TestMixedMagnitudes(t *testing.T) {
	t.Parallel()
	wrong, total := 0, 0
	testfile.Property(t, func(rt *rapid.T) {
		x := pipelinetest.Draw(rt, 2)
		best, pattern, err := optimum.Search(x.Chain, x.Platform, x.Model, 1<<14)
		if errors.Is(err, exhaustive.ErrLimit) {
			return
		}
		nothing := errors.Is(err, exhaustive.ErrInfeasible)
		if err != nil && !nothing {
			rt.Fatal(err)
		}
		build := strongest
		if x.Model == plan.StageModel {
			build = func(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
				return Strong(c, p, MemoryOption{plan.StageModel})
			}
		} else if rapid.Bool().Draw(rt, "plain") {
			build = Patterns
		}
		program, err := build(x.Chain, x.Platform)
		var infeasible *plan.Infeasible
		switch {
		case errors.As(err, &infeasible) != nothing:
			rt.Fatalf("%v, exhaustive search: infeasible %v", err, nothing)
		case nothing:
			return
		case err != nil:
			rt.Fatal(err)
		}
		start, err := program.Start(pattern)
		if err != nil {
			rt.Fatal(err)
		}
		if v := program.Model.Violations(start, 1e-6); len(v) > 0 {
			rt.Fatalf("%s: the best plan is no solution: %v: %+v", program.Model.Name(), v[0], x)
		}
		above := func(b solvers.Backend) (solvers.Status, float64, bool) {
			r, err := b.Solve(t.Context(), program.Model, solvers.Options{Time: 5 * time.Second})
			if err != nil {
				rt.Fatal(err)
			}
			bound := program.Objective(r.Bound)
			return r.Status, bound, r.Status == solvers.Infeasible || bound > best*(1+3*optimum.Closeness)
		}
		if rapid.Bool().Draw(rt, "lp_solve") {
			if _, _, is := above(lpsolve.New()); is {
				wrong++
			}
		}
		if status, bound, is := above(highs.New()); is {
			rt.Fatalf("%s: %v %v, there is a pattern of %v: %+v", program.Model.Name(), status, bound, best, x)
		}
		total++
	})
	if wrong > 1+total/20 {
		t.Errorf("lp_solve is wrong %d times of %d", wrong, total)
	}
}
