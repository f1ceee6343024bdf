package pipeline

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	optimumpipeline "workbench/model/exhaustive/pipeline"
	"workbench/model/plan"
	"workbench/model/problem/pipeline/pipelinetest"
	"workbench/model/testfile"
	verifypipeline "workbench/model/verify/pipeline"
)

// Whatever the magnitudes and however tight the memory: plans pass the verifier,
// none is faster than the optimum, what is called infeasible is, and branch and
// bound ends at the optimum, with few exceptions where its bound is less.
func TestMixedMagnitudes(t *testing.T) {
	t.Parallel()
	closed, total := 0, 0
	testfile.Property(t, func(rt *rapid.T) {
		x := pipelinetest.Draw(rt, 5)
		o := Options{Model: x.Model}
		best, _, err := optimumpipeline.Search(x.Chain, x.Platform, x.Model, 1<<16)
		if errors.Is(err, exhaustive.ErrLimit) {
			return
		}
		nothing := errors.Is(err, exhaustive.ErrInfeasible)
		if err != nil && !nothing {
			rt.Fatal(err)
		}
		for name, method := range methods {
			p, err := method(x.Chain, x.Platform, o)
			var proved *plan.Infeasible
			switch {
			case errors.As(err, &proved) != nothing:
				rt.Fatalf("%s: %v, optimum %v, exhaustive search: infeasible %v: %+v", name, err, best, nothing, x)
			case err != nil && !nothing && !errors.Is(err, plan.ErrNoPlan):
				rt.Fatalf("%s: %v", name, err)
			case err != nil:
				continue
			}
			r, err := verifypipeline.Verify(x.Chain, p)
			if err != nil || !r.Valid() || len(r.ClaimErrors) > 0 {
				rt.Fatalf("%s: %v, violations %v, claims %v: %+v\n%s", name, err, r.Violations, r.ClaimErrors, x, dump(p))
			}
			if p.K <= 1 && r.Makespan < best*(1-2*optimumpipeline.Closeness) {
				rt.Fatalf("%s: period %v, optimum %v: %+v", name, r.Makespan, best, x)
			}
		}
		if nothing {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		found, err := Exact(ctx, x.Chain, x.Platform, Options{Model: x.Model}, math.Inf(1), 0)
		if err != nil || found.Plan == nil {
			rt.Fatalf("%v: %+v", err, x)
		}
		r, err := verifypipeline.Verify(x.Chain, found.Plan)
		if err != nil || !r.Valid() {
			rt.Fatalf("%v, violations %v: %+v", err, r.Violations, x)
		}
		if r.Makespan < best*(1-2*optimumpipeline.Closeness) || found.OnePeriodic.Period > best*(1+2*optimumpipeline.Closeness) {
			rt.Fatalf("%v to %v, optimum %v: %+v", found.OnePeriodic.Period, r.Makespan, best, x)
		}
		if total++; r.Makespan < best*(1+3*optimumpipeline.Closeness) && found.OnePeriodic.Period > best*(1-3e-6) {
			closed++
		}
	})
	if closed < total*9/10 {
		t.Errorf("closed %d of %d", closed, total)
	}
	t.Logf("closed %d of %d", closed, total)
}
