package rematoffload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
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
		{both[:1], 100, 4, 0.7},
		{both, 200, 3, 0.7},
	} {
		t.Run(fmt.Sprintf("%d/%d", len(x.backends), x.layers), func(t *testing.T) {
			r, err := check.Run(t.Context(), ilptest.Formulation(t, Formulations(), "remat-offload"), x.backends, check.Options{Cases: x.cases, Layers: x.layers})
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
		x, err := check.RandomRematOffload(r, 1+r.IntN(3))
		if err != nil {
			rt.Fatal(err)
		}
		if err := check.SolveRematOffload(x); errors.Is(err, exhaustive.ErrLimit) {
			return
		} else if err != nil {
			rt.Fatal(err)
		}
		start := x.Plan
		if rapid.Bool().Draw(rt, "no start") {
			start = nil
		}
		got, err := Solve(t.Context(), backends[rapid.IntRange(0, 1).Draw(rt, "backend")], x.Chain, x.Platform, start, solvers.Options{})
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
			if got.Bound > x.Optimum && !check.Same(got.Bound, x.Optimum) {
				rt.Fatalf("bound %g; %s", got.Bound, x)
			}
			return
		}
		plans++
		ilptest.CheckOffload(rt, x.Chain, got)
		if m := got.Plan.Claims.Makespan; m < x.Optimum && !check.Same(m, x.Optimum) || start != nil && !check.Same(m, x.Optimum) {
			rt.Fatalf("makespan %g; %s", m, x)
		}
	})
	t.Logf("%d plans of %d", plans, solved)
}

// A link that carries nothing, units that are small or large, and memory for
// nothing.
func TestRematOffloadExtremes(t *testing.T) {
	layer := chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 3, Saved: 4, Gradient: 3}
	c := &chain.Chain{Name: "plain", Input: chain.Input{Activation: 3, Gradient: 3}, Layers: []chain.Layer{layer, layer, layer}}
	for _, x := range []struct {
		memory, bandwidth, time, size float64
	}{{18, 0, 1, 1}, {18, 1, 1, 1}, {18, 1, 1e-6, 1e9}, {18, 1, 1e6, 1e-3}, {100, 1e6, 1, 1}} {
		d := ilptest.Scaled(c, x.time, x.size)
		p := platform.Platform{Memory: x.memory * x.size, Bandwidth: x.bandwidth * x.size / x.time}
		want, best, err := exhaustive.RematOffload(c, x.memory, min(1, x.bandwidth), check.States)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Solve(t.Context(), highs.New(), d, p, nil, solvers.Options{})
		if err != nil || got.Plan == nil {
			t.Errorf("%+v: %v, %v", x, got, err)
			continue
		}
		ilptest.CheckOffload(t, d, got)
		if got.Bound/x.time > want*(1+1e-6) {
			t.Errorf("%+v: bound %g, optimum %g\n%v", x, got.Bound/x.time, want, best)
		}
	}
	nothing := &chain.Chain{Name: "nothing", Layers: make([]chain.Layer, 3)}
	if r, err := Solve(t.Context(), highs.New(), nothing, platform.Platform{Memory: 1}, nil, solvers.Options{}); err != nil {
		t.Error(err)
	} else if r.Plan != nil {
		ilptest.CheckOffload(t, nothing, r)
	}
	var infeasible *plan.Infeasible
	if _, err := Solve(t.Context(), highs.New(), c, platform.Platform{Memory: 12, Bandwidth: 1}, nil, solvers.Options{}); !errors.As(err, &infeasible) {
		t.Error(err)
	}
	for want, p := range map[error]platform.Platform{formulation.ErrInstance: {Bandwidth: 1}, formulation.ErrTooLong: {Memory: 1}} {
		d := &chain.Chain{Layers: make([]chain.Layer, RematOffloadLayers+1)}
		if want == formulation.ErrInstance {
			d = c
		}
		if _, err := Stages(d, p); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
