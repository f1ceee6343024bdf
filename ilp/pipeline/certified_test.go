package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/ilp/certify"
	"workbench/model/certificate"
	"workbench/model/exhaustive"
	"workbench/model/pipeline/pipelinetest"
	"workbench/model/plan"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// What is certified of the model of allocations, in exact arithmetic, is never
// above the least period, whatever the magnitudes and however tight the memory;
// at the root there is always something, and a tree proves what HiGHS claims.
func TestAllocationsCertified(t *testing.T) {
	t.Parallel()
	closed, total := 0, 0
	testfile.Property(t, func(rt *rapid.T) {
		x := pipelinetest.Draw(rt, 4)
		best, _, err := exhaustive.Pipeline(x.Chain, x.Platform, x.Model, 1<<14)
		if errors.Is(err, exhaustive.ErrLimit) || errors.Is(err, exhaustive.ErrInfeasible) {
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		o := AllocationOptions{MemoryOption: MemoryOption{x.Model}}
		if longer := rapid.SampledFrom([]float64{1 + 1e-6, 1.2, math.Inf(1)}).Draw(rt, "longer"); !math.IsInf(longer, 1) {
			o.Limit = longer * best
		}
		program, err := Allocations(x.Chain, x.Platform, o)
		var infeasible *plan.Infeasible
		if errors.As(err, &infeasible) {
			rt.Fatalf("%v, there is a pattern of %v: %+v", err, best, x)
		}
		if err != nil {
			rt.Fatal(err)
		}
		claim, err := highs.New().Solve(t.Context(), program.Model, solvers.Options{Time: 5 * time.Second})
		if err != nil {
			rt.Fatal(err)
		}
		d := program.Model.Data()
		head := certificate.Certificate{Name: "drawn", Instance: strings.Repeat("0", 64), Platform: json.RawMessage("{}"), Backend: "highs", Problem: plan.Pipeline, Formulation: program.Formulation, Options: program.Options, Scale: program.Unit}
		for _, nodes := range []int{1, 0} {
			lp, err := solvers.OpenLP(highs.New(), &d)
			if err != nil {
				rt.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			r, err := certify.Tree(ctx, lp, &d, head, certify.Options{Goal: claim.Bound * (1 - 1e-6), Nodes: nodes})
			cancel()
			lp.Close()
			switch {
			case err != nil:
				rt.Fatal(err)
			case r.Certificate == nil:
				rt.Fatalf("nothing is certified: %s: %+v", r.Note, x)
			case r.Certificate.Infeasible || r.Certificate.Value() > best*(1+2*exhaustive.Closeness):
				rt.Fatalf("certified %v, infeasible %v, there is a pattern of %v: %+v", r.Certificate.Value(), r.Certificate.Infeasible, best, x)
			case nodes == 0:
				if total++; r.Closed {
					closed++
				}
			}
		}
	})
	if closed < total*95/100 {
		t.Errorf("closed %d of %d", closed, total)
	}
	t.Logf("closed %d of %d", closed, total)
}
