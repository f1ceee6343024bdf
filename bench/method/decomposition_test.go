package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/pipeline/pipelinetest"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// replayed returns the period of a pattern that breaks no rule.
func replayed(c *chain.Chain) func(*plan.Plan) (float64, error) {
	return func(p *plan.Plan) (float64, error) {
		report, err := verify.On(c, p)
		switch {
		case err != nil:
			return 0, err
		case !report.Valid():
			return 0, fmt.Errorf("%v", report.Violations[0])
		case len(report.ClaimErrors) > 0:
			return 0, fmt.Errorf("claims %v", report.ClaimErrors)
		}
		return report.Makespan, nil
	}
}

// Whatever the magnitudes, however tight the memory, from a plan or from nothing:
// the decomposition has plans that pass the verifier, or none, and a claim that
// holds, and mostly they meet. What lp_solve 5.5.2.5 proves is wrong now and then:
// of its answers only the plans are checked, and how often it is wrong.
func TestDecomposition(t *testing.T) {
	t.Parallel()
	wrong, closed, total := 0, 0, 0
	testfile.Property(t, func(rt *rapid.T) {
		x := pipelinetest.Draw(rt, 4)
		best, pattern, err := exhaustive.Pipeline(x.Chain, x.Platform, x.Model, 1<<14)
		if errors.Is(err, exhaustive.ErrLimit) {
			return
		}
		nothing := errors.Is(err, exhaustive.ErrInfeasible)
		if err != nil && !nothing {
			rt.Fatal(err)
		}
		backend := rapid.SampledFrom([]solvers.Backend{highs.New(), lpsolve.New()}).Draw(rt, "backend")
		task := &formulation.Task{Backend: backend, Level: formulation.Off, Verify: replayed(x.Chain)}
		if !nothing && rapid.Bool().Draw(rt, "from the optimum") {
			task.Start = pattern
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r, err := Decompose(ctx, task, x.Chain, x.Platform, x.Model, 1e-6)
		var infeasible *plan.Infeasible
		switch {
		case errors.As(err, &infeasible) != nothing:
			rt.Fatalf("%v, exhaustive search: infeasible %v: %+v", err, nothing, x)
		case nothing:
			return
		case err != nil:
			rt.Fatal(err)
		}
		total++
		if r.Objective < best*(1-3*exhaustive.Closeness) {
			rt.Fatalf("%s: period %v, optimum %v: %+v", backend.Name(), r.Objective, best, x)
		}
		if r.Claimed() > best*(1+3*exhaustive.Closeness) {
			if backend.Name() == "highs" {
				rt.Fatalf("%v claimed, there is a pattern of %v: %+v", r.Claimed(), best, x)
			}
			wrong++
		}
		if r.Objective < best*(1+3*exhaustive.Closeness) && r.Claimed() > best*(1-3e-6) {
			closed++
		}
	})
	if closed < total*8/10 || wrong > total/20 {
		t.Errorf("closed %d of %d, lp_solve wrong %d times", closed, total, wrong)
	}
}

// Communications of a billionth of a second are below the tolerance of solvers:
// an order that no pattern has is no plan, and no error.
func TestDecompositionBelowTolerance(t *testing.T) {
	t.Parallel()
	c := &chain.Chain{Name: "tiny", Layers: []chain.Layer{
		{ForwardTime: 1, Activation: 1, Saved: 1, Gradient: 1},
		{BackwardTime: 2},
		{ForwardTime: 1, Activation: 1, Saved: 1, Gradient: 1},
	}}
	p := platform.Platform{Processors: 2, Memory: 6, Bandwidth: 1e9, WeightCopies: 1}
	best, start, err := exhaustive.Pipeline(c, p, plan.TaskModel, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []*plan.Plan{nil, start} {
		r, err := Decompose(t.Context(), &formulation.Task{Backend: highs.New(), Start: from, Verify: replayed(c)}, c, p, plan.TaskModel, 1e-6)
		if err != nil {
			t.Fatal(err)
		}
		if r.Claimed() > best*(1+1e-6) || from != nil && math.Abs(r.Objective-best) > 1e-6*best {
			t.Errorf("claims %v, plan %+v, optimum %v", r.Claimed(), r.Plan, best)
		}
	}
}

// What no model can be built for is refused.
func TestDecompositionRefuses(t *testing.T) {
	c := &chain.Chain{Name: "one", Layers: []chain.Layer{{ForwardTime: 1}}}
	p := platform.Platform{Processors: 1, Memory: 6, Bandwidth: 1}
	for name, x := range map[string]struct {
		c     *chain.Chain
		model string
	}{"no chain": {nil, ""}, "memory model": {c, "pages"}} {
		if _, err := Decompose(t.Context(), &formulation.Task{Backend: highs.New()}, x.c, p, x.model, 0); !errors.Is(err, formulation.ErrInstance) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
