package swap

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/exhaustive"
	optimumswap "workbench/model/exhaustive/swap"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// The bound is one on both backends.
func TestCheckSwap(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	ilptest.Keeps(t, ilptest.Formulation(t, Formulations(), "swap"), testcase.Swap(),
		ilptest.Check{Backends: both[:1], Cases: 300, Layers: 5, Tight: 0.9}, ilptest.Check{Backends: both, Cases: 150, Layers: 4, Tight: 0.9})
}

// Looking at fewer functions is a bound, too, no better, and the best plan is a start.
func TestSwapLooksAtSomeFunctions(t *testing.T) {
	testfile.Property(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		s, memory, bandwidth := random.Swap(r, 6, 6)
		p := platform.Platform{Memory: max(1, memory), Bandwidth: bandwidth}
		optimum, best, err := optimumswap.Search(s, p.Memory, p.Bandwidth, 1, testcase.States)
		if err != nil {
			return // checked elsewhere
		}
		in, err := newSwapInstance(s, p)
		if err != nil {
			rt.Fatal(err)
		}
		last := 0.0
		for _, cells := range []int{0, 2, 5, swapCells} {
			f := buildSwap(in, cells)
			x, err := f.start(best)
			if err != nil {
				rt.Fatal(err)
			}
			if v := f.m.Violations(x, check.CheckTolerance); len(v) > 0 {
				rt.Fatalf("%d cells: %v", cells, v[0])
			}
			solved, err := highs.New().Solve(rt.Context(), f.m, solvers.Options{})
			if err != nil {
				rt.Fatal(err)
			}
			value, ok := solved.Objective()
			if value *= in.unit; !ok || value > optimum && !check.Same(value, optimum) {
				rt.Fatalf("%d cells: %v %g, optimum %g", cells, solved.Status, value, optimum)
			}
			if cells == swapCells && value < last && !check.Same(value, last) {
				rt.Fatalf("all functions: %g, some of them: %g", value, last)
			}
			last = max(last, value)
		}
	})
}

// At the edge of memory, whatever the magnitudes, at any pace and on both
// backends: optimal plans are solutions, and no bound is above them.
func TestMixedMagnitudes(t *testing.T) {
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	testfile.Property(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s, memory, bandwidth := random.Swap(r, 4, 4)
		s, memory, bandwidth = random.MagnifySequence(r, s, memory, bandwidth)
		want, best, err := optimumswap.Search(s, memory, bandwidth, 1, testcase.States)
		if errors.Is(err, exhaustive.ErrLimit) {
			t.Skip("too many states")
		}
		pace := random.Paces[r.IntN(len(random.Paces))]
		p := platform.Platform{Memory: memory, Bandwidth: bandwidth / pace}
		program, failed := Amounts(random.PaceSequence(s, pace), p)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			var infeasible *plan.Infeasible
			if !errors.As(failed, &infeasible) || infeasible.Memory != s.LeastMemory() {
				t.Fatalf("%v, least memory %g", failed, s.LeastMemory())
			}
			return
		}
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		want *= pace
		for i := range best.Ops {
			best.Ops[i].Start, best.Ops[i].End = best.Ops[i].Start*pace, best.Ops[i].End*pace
		}
		best.Claims.Makespan *= pace // longer than want by moments, where want is of no plan
		ilptest.Starts(t, program, best, best.Claims.Makespan)
		got, err := rapid.SampledFrom(backends).Draw(t, "backend").Solve(t.Context(), program.Model, solvers.Options{Time: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if value := program.Objective(got.Bound); value > want*(1+check.CheckTolerance) || got.Status == solvers.Infeasible {
			t.Fatalf("%.17g, the optimum is %.17g\n%+v\n%+v %+v", value, want, got, s, p)
		}
	})
}

// What no model can be built for is an error that says so.
func TestSwapRefuses(t *testing.T) {
	s, _, _ := random.Swap(rand.New(rand.NewPCG(1, 1)), 4, 4)
	for _, p := range []platform.Platform{{Memory: -1, Bandwidth: 1}, {Memory: 1e9}} {
		if _, err := Amounts(s, p); !errors.Is(err, formulation.ErrInstance) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := Amounts(nil, platform.Platform{Memory: 1, Bandwidth: 1}); !errors.Is(err, formulation.ErrInstance) {
		t.Error(err)
	}
	program, err := Amounts(s, platform.Platform{Memory: 1e9, Bandwidth: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := program.Start(&plan.Plan{Problem: plan.Remat}); !errors.Is(err, formulation.ErrStart) {
		t.Error(err)
	}
	if _, err := program.Start(&plan.Plan{Problem: plan.Swap}); !errors.Is(err, formulation.ErrStart) {
		t.Error(err)
	}
}
