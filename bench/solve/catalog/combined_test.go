package catalog_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"workbench/bench/solve/backends"
	heuristicsrematoffload "workbench/heuristics/rematoffload"
	"workbench/ilp/rematoffload"
	"workbench/model/plan"
	"workbench/model/platform"
	combinedview "workbench/model/problem/rematoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/solvers"
)

// On short chains the bounds of rematerialization with offloading are in order:
// computing once, moved-or-again, the MILP's, the makespan of the best plan. That
// moved-or-again is not above the MILP's is no theorem of either's proof, but the
// MILP knows of the same instants.
func TestRematOffloadBoundsAreInOrder(t *testing.T) {
	backend, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	cases, closed, proved, exact := 0, 0, 0, 0
	testfile.Property(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		c := random.Chain(r, rapid.IntRange(1, 4).Draw(rt, "layers"))
		least, _ := combinedview.Least(c)
		_, high := combinedview.Range(c)
		p := platform.Platform{
			Memory:    math.Floor(max(1, least+rapid.Float64Range(0, 1).Draw(rt, "part")*max(0, high-least))),
			Bandwidth: rapid.SampledFrom([]float64{0.5, 1, 2, 4}).Draw(rt, "bandwidth"),
		}
		bounds, err := combinedview.Bounds(c, p)
		if err != nil {
			rt.Fatal(err)
		}
		best, err := heuristicsrematoffload.Search(t.Context(), c, p, 20)
		if err != nil {
			rt.Fatal(err)
		}
		program, err := rematoffload.Stages(c, p)
		if errors.As(err, new(*plan.Infeasible)) {
			rt.Fatalf("the MILP has no solution, and there is a plan: %v, in %g at %g\n%+v", err, p.Memory, p.Bandwidth, c)
		}
		if err != nil {
			rt.Fatal(err)
		}
		solved, err := backend.Solve(t.Context(), program.Model, solvers.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		bound := program.Objective(solved.Bound)
		compute, makespan := c.TotalTime(), best.Claims.Makespan
		const tolerance = 1 + 1e-6
		if compute > bounds[0].Value*tolerance || bounds[0].Value > bound*tolerance || bound > makespan*tolerance {
			rt.Fatalf("computing once %g, %s %g, MILP %g, a plan %g, in %g at %g\n%+v",
				compute, bounds[0].By, bounds[0].Value, bound, makespan, p.Memory, p.Bandwidth, c)
		}
		cases++
		if bounds[0].Value > compute*tolerance {
			closed++
		}
		if bound > bounds[0].Value*tolerance {
			proved++
		}
		if bound*tolerance >= makespan {
			exact++
		}
	})
	t.Logf("%d cases: moved-or-again is above computing once on %d, the MILP's above that on %d, and the plan's makespan on %d", cases, closed,
		proved, exact)
	if closed < cases/20 || proved < cases/20 || exact < cases/2 {
		t.Error("one of the bounds is idle")
	}
}
