package offload

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	"workbench/model/zoo"

	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// The bound is one on both backends, and the exact MILP has the optimum.
func TestCheckOffload(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	for _, x := range []struct {
		name          string
		backends      []solvers.Backend
		cases, layers int
		tight         float64 // at least this part of the optima is met
	}{
		{"offload", both[:1], 300, 4, 0.9},
		{"offload", both, 80, 3, 0.9},
		{"offload-exact", both[:1], 150, 4, 1},
		{"offload-exact", both, 60, 3, 1},
	} {
		t.Run(fmt.Sprintf("%s/%d/%d", x.name, len(x.backends), x.layers), func(t *testing.T) {
			r, err := check.Run(t.Context(), ilptest.Formulation(t, Formulations(), x.name), x.backends, check.Options{Seed: 1, Cases: x.cases, Layers: x.layers})
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

// Plans of Solve are valid, and of short chains optimal, with a start or
// without, on backends that take one or not.
func TestSolveOffload(t *testing.T) {
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		c, memory, bandwidth := exhaustive.RandomOffload(r, 1+r.IntN(5))
		p := platform.Platform{Memory: max(1, memory), Bandwidth: bandwidth}
		want, best, err := exhaustive.Offload(c, p.Memory, p.Bandwidth, check.States)
		var start *plan.Plan
		if rapid.Bool().Draw(rt, "start") {
			start = best
		}
		b := backends[rapid.IntRange(0, 1).Draw(rt, "backend")]
		got, solveErr := Solve(t.Context(), b, c, p, start, solvers.Options{})
		if errors.Is(err, exhaustive.ErrInfeasible) {
			var infeasible *plan.Infeasible
			if !errors.As(solveErr, &infeasible) || infeasible.Memory != exhaustive.OffloadLeastMemory(c) {
				rt.Fatalf("%v, least memory %g", solveErr, exhaustive.OffloadLeastMemory(c))
			}
			return
		}
		if err != nil || solveErr != nil {
			rt.Fatal(err, solveErr)
		}
		ilptest.CheckOffload(rt, c, got)
		if !check.Same(got.Plan.Claims.Makespan, want) || !check.Same(got.Bound, want) {
			rt.Fatalf("makespan %g, bound %g (%s), optimum %g", got.Plan.Claims.Makespan, got.Bound, got.By, want)
		}
	})
}

// Units are of no importance, however large or small.
func TestOffloadUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 30 {
		c, memory, bandwidth := exhaustive.RandomOffload(r, 4)
		want, _, err := exhaustive.Offload(c, memory, bandwidth, check.States)
		if memory == 0 || err != nil {
			continue
		}
		for _, x := range [][2]float64{{1e-9, 1}, {1e6, 1e12}, {1e-5, 1e9}, {1, 1e-3}} {
			d := ilptest.Scaled(c, x[0], x[1])
			got, err := Solve(t.Context(), highs.New(), d, platform.Platform{Memory: memory * x[1], Bandwidth: bandwidth * x[1] / x[0]}, nil, solvers.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ilptest.CheckOffload(t, d, got)
			if value := got.Plan.Claims.Makespan / x[0]; !check.Same(value, want) {
				t.Errorf("times %g, sizes %g: %g instead of %g", x[0], x[1], value, want)
			}
		}
	}
}

// A link that carries nothing, next to nothing or nearly everything at once.
func TestOffloadExtremes(t *testing.T) {
	layer := chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 3, Saved: 4, Gradient: 3}
	c := &chain.Chain{Name: "plain", Input: chain.Input{Activation: 3, Gradient: 3}, Layers: []chain.Layer{layer, layer, layer, layer, layer}}
	low, high := exhaustive.OffloadLeastMemory(c), exhaustive.OffloadPeak(c)
	for _, x := range []struct {
		memory, bandwidth float64
		want              error
	}{
		{high, 0, nil},
		{high - 1, 0, &plan.Infeasible{}},
		{low, 1e-9, nil},
		{low, 1e6, nil},
		{low - 1, 1, &plan.Infeasible{}},
		{0, 1, formulation.ErrInstance},
		{math.Inf(1), 1, formulation.ErrInstance},
		{high, math.NaN(), formulation.ErrInstance},
		{high, -1, formulation.ErrInstance},
	} {
		r, err := Solve(t.Context(), highs.New(), c, platform.Platform{Memory: x.memory, Bandwidth: x.bandwidth}, nil, solvers.Options{})
		var infeasible *plan.Infeasible
		switch {
		case x.want == nil && err != nil:
			t.Errorf("memory %g, bandwidth %g: %v", x.memory, x.bandwidth, err)
		case x.want == nil:
			ilptest.CheckOffload(t, c, r)
		case errors.As(x.want, &infeasible):
			if !errors.As(err, &infeasible) || infeasible.Memory > high {
				t.Errorf("memory %g, bandwidth %g: %v", x.memory, x.bandwidth, err)
			}
		case !errors.Is(err, x.want):
			t.Errorf("memory %g, bandwidth %g: %v, want %v", x.memory, x.bandwidth, err, x.want)
		}
	}
	nothing := &chain.Chain{Name: "nothing", Layers: make([]chain.Layer, 4)}
	if r, err := Solve(t.Context(), highs.New(), nothing, platform.Platform{Memory: 1, Bandwidth: 1}, nil, solvers.Options{}); err != nil {
		t.Error(err)
	} else {
		ilptest.CheckOffload(t, nothing, r)
	}
	if _, err := Amounts(nil, platform.Platform{Memory: 1, Bandwidth: 1}); !errors.Is(err, formulation.ErrInstance) {
		t.Error(err)
	}
	if _, err := Exact(&chain.Chain{Layers: make([]chain.Layer, 9)}, platform.Platform{Memory: 1, Bandwidth: 1}); !errors.Is(err, formulation.ErrTooLong) {
		t.Error(err)
	}
}

// A search that has no time still has a plan.
func TestOffloadStopped(t *testing.T) {
	c, err := zoo.Load("zoo:resnet18")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	low, high := exhaustive.OffloadLeastMemory(c), exhaustive.OffloadPeak(c)
	r, err := Solve(ctx, highs.New(), c, platform.Platform{Memory: (low + high) / 2, Bandwidth: 12e9}, nil, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ilptest.CheckOffload(t, c, r)
}

// Networks of some layers are solved to optimality, or nearly.
func TestOffloadNetworks(t *testing.T) {
	for _, spec := range []string{"unet", "resnet18", "vgg16"} {
		c, err := zoo.Load("zoo:" + spec)
		if err != nil {
			t.Fatal(err)
		}
		low, high := exhaustive.OffloadLeastMemory(c), exhaustive.OffloadPeak(c)
		for _, part := range []float64{0, 0.5, 0.9} {
			p := platform.Platform{Memory: low + part*(high-low), Bandwidth: 12e9}
			r, err := Solve(t.Context(), highs.New(), c, p, nil, solvers.Options{Nodes: solvers.Some(int64(1)), RelGap: solvers.Some(0.02)})
			if err != nil {
				t.Fatal(err)
			}
			ilptest.CheckOffload(t, c, r)
			t.Logf("%s, %g %%: makespan %.4g, bound %.4g, gap %.2f %%", spec, 100*part, r.Plan.Claims.Makespan, r.Bound, 100*r.Gap())
		}
	}
}

func BenchmarkOffloadBuild(b *testing.B) {
	c, err := zoo.Load("zoo:resnet50")
	if err != nil {
		b.Fatal(err)
	}
	low, high := exhaustive.OffloadLeastMemory(c), exhaustive.OffloadPeak(c)
	for b.Loop() {
		if _, err := Amounts(c, platform.Platform{Memory: (low + high) / 2, Bandwidth: 12e9}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOffloadSearch(b *testing.B) {
	c, err := zoo.Load("zoo:resnet50")
	if err != nil {
		b.Fatal(err)
	}
	low, high := exhaustive.OffloadLeastMemory(c), exhaustive.OffloadPeak(c)
	in, err := newOffloadInstance(c, platform.Platform{Memory: (low + high) / 2, Bandwidth: 12e9})
	if err != nil {
		b.Fatal(err)
	}
	all := (&offloadSolver{in: in}).everything(true)
	for b.Loop() {
		newNoWait(in).search(b.Context(), rand.New(rand.NewPCG(1, 1)), all, 10_000)
	}
}
