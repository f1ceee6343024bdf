package ilp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// The bound is one on both backends, and every optimal plan is a solution.
func TestCheckRematOffload(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	for _, x := range []struct {
		backends      []solvers.Backend
		cases, layers int
		tight         float64
	}{
		{both[:1], 200, 4, 0.7},
		{both, 60, 3, 0.7},
	} {
		t.Run(fmt.Sprintf("%d/%d", len(x.backends), x.layers), func(t *testing.T) {
			r, err := Check(t.Context(), formulation(t, "remat-offload"), x.backends, CheckOptions{Seed: 1, Cases: x.cases, Layers: x.layers})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Failures {
				t.Errorf("%s, %d times:\n%s", f.Kind, f.Count, f.Smallest.String())
			}
			if r.Cases-r.Skipped < x.cases*9/10 || float64(r.Tight) < x.tight*float64(r.Cases-r.Skipped) {
				t.Errorf("%d cases, %d skipped, %d tight", r.Cases, r.Skipped, r.Tight)
			}
			t.Logf("%d cases, %d skipped, %d tight", r.Cases, r.Skipped, r.Tight)
		})
	}
}

// bound ≤ optimum ≤ plan; plans are valid; with the optimum as a start there is
// always a plan, and that is it.
func TestSolveRematOffload(t *testing.T) {
	plans, solved := 0, 0
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		x, err := randomRematOffload(r, 1+r.IntN(3))
		if err != nil {
			rt.Fatal(err)
		}
		if err := solveRematOffload(x); errors.Is(err, exhaustive.ErrLimit) {
			return
		} else if err != nil {
			rt.Fatal(err)
		}
		start := x.Plan
		if rapid.Bool().Draw(rt, "no start") {
			start = nil
		}
		got, err := SolveRematOffload(t.Context(), backends[rapid.IntRange(0, 1).Draw(rt, "backend")], x.Chain, x.Platform, start, solvers.Options{})
		var infeasible *plan.Infeasible
		if errors.As(err, &infeasible) && x.Plan == nil {
			return
		}
		if err != nil {
			rt.Fatalf("%v; %s", err, x)
		}
		solved++
		if got.Plan == nil {
			if start != nil {
				rt.Fatalf("the start is lost; %s", x)
			}
			if got.Bound > x.Optimum && !same(got.Bound, x.Optimum) {
				rt.Fatalf("bound %g; %s", got.Bound, x)
			}
			return
		}
		plans++
		checkOffload(rt, x.Chain, got)
		if m := got.Plan.Claims.Makespan; m < x.Optimum && !same(m, x.Optimum) || start != nil && !same(m, x.Optimum) {
			rt.Fatalf("makespan %g; %s", m, x)
		}
	})
	t.Logf("%d plans of %d", plans, solved)
}
