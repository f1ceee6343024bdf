package activationoffload

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/exhaustive"
	optimumactivationoffload "workbench/model/exhaustive/activationoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify/rematoffload"
	"workbench/model/zoo"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// The bound is one on both backends, and the exact MILP has the optimum.
func TestCheck(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	ilptest.Keeps(t, ilptest.Formulation(t, Formulations(), "offload"), testcase.Offload(),
		ilptest.Check{Backends: both[:1], Cases: 300, Layers: 4, Tight: 0.9}, ilptest.Check{Backends: both, Cases: 80, Layers: 3, Tight: 0.9})
	ilptest.Keeps(t, ilptest.Formulation(t, Formulations(), "offload-exact"), testcase.Offload(),
		ilptest.Check{Backends: both[:1], Cases: 150, Layers: 4, Tight: 1}, ilptest.Check{Backends: both, Cases: 60, Layers: 3, Tight: 1})
}

// drawMixed is a chain of sizes of all magnitudes, with memory at a breakpoint or
// next to it, at some pace.
func drawMixed(t *rapid.T) (*chain.Chain, platform.Platform) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0xed9e))
	c, memory, bandwidth := random.Offload(r, 1+r.IntN(4))
	if r.IntN(2) == 0 {
		c, memory, bandwidth = random.Magnify(r, c, memory, bandwidth)
	} else {
		c, memory = random.MixSizes(r, c)
		bandwidth = memory/float64(1+r.IntN(8)) + 1
	}
	pace := random.Paces[r.IntN(len(random.Paces))]
	return random.Pace(c, pace), platform.Platform{Memory: memory, Bandwidth: bandwidth / pace}
}

// At the edge of memory, whatever the magnitudes, at any pace and on both
// backends: optimal plans are solutions, and no bound is above them; plans of the
// exact MILP's solutions are optimal, where they fit.
func TestMixedMagnitudes(t *testing.T) {
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawMixed(t)
		want, best, err := optimumactivationoffload.Search(c, p.Memory, p.Bandwidth, testcase.States)
		if errors.Is(err, exhaustive.ErrLimit) {
			t.Skip("too many states")
		}
		f := rapid.SampledFrom(Formulations()).Draw(t, "formulation")
		program, failed := f.Build(c, p, nil)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			if !errors.As(failed, new(*plan.Infeasible)) {
				t.Fatalf("there is no plan: %v", failed)
			}
			return
		}
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		ilptest.Starts(t, program, best, want)
		b := rapid.SampledFrom(backends).Draw(t, "backend")
		r, err := b.Solve(t.Context(), program.Model, solvers.Options{Time: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == solvers.Infeasible && strings.HasPrefix(b.Name(), "lpsolve") {
			return // its word alone proves nothing, and the driver takes it for nothing
		}
		value := program.Objective(r.Bound)
		if value > want*(1+check.CheckTolerance) || r.Status == solvers.Infeasible {
			t.Fatalf("%s: %.17g, the optimum is %.17g\n%+v\n%+v %+v", f.Name, value, want, r, c, p)
		}
		x, ok := r.Solution()
		if r.Status != solvers.Optimal || !ok || program.Promise != formulation.Equal {
			return
		}
		found, err := program.Plan(x)
		if errors.Is(err, plan.ErrNoPlan) {
			return // memory is exact, a solver's comparison is not
		}
		if err != nil {
			t.Fatalf("%v\n%+v %+v", err, c, p)
		}
		report, err := rematoffload.Verify(c, found)
		if err != nil || !report.Valid() || report.Makespan < want*(1-check.CheckTolerance) {
			t.Fatalf("%v %+v, the optimum is %g\n%+v %+v", err, report, want, c, p)
		}
		// One unit of memory short in 10^10 is within lp_solve's tolerance: the decoder
		// waits for room, and the plan takes longer than the solution says.
		if report.Makespan > want*(1+check.CheckTolerance) && !strings.HasPrefix(b.Name(), "lpsolve") {
			t.Fatalf("%+v, the optimum is %g\n%+v %+v", report, want, c, p)
		}
	})
}

// Input that no model can be built for.
func TestErrors(t *testing.T) {
	layer := chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 3, Saved: 4, Gradient: 3}
	c := &chain.Chain{Name: "plain", Input: chain.Input{Activation: 3, Gradient: 3}, Layers: []chain.Layer{layer, layer, layer}}
	for _, x := range []platform.Platform{
		{Memory: math.Inf(1), Bandwidth: 1}, {Memory: 100, Bandwidth: math.NaN()}, {Memory: 100, Bandwidth: -1}, {Memory: 100},
	} {
		if _, err := Amounts(c, x); !errors.Is(err, formulation.ErrInstance) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	if _, err := Amounts(nil, platform.Platform{Memory: 1, Bandwidth: 1}); !errors.Is(err, formulation.ErrInstance) {
		t.Error(err)
	}
	if _, err := Exact(&chain.Chain{Layers: make([]chain.Layer, 9)}, platform.Platform{Memory: 1, Bandwidth: 1}); !errors.Is(err,
		formulation.ErrTooLong) {
		t.Error(err)
	}
	low := random.OffloadLeastMemory(c)
	if _, err := Amounts(c, platform.Platform{Memory: low, Bandwidth: 1e-9}); err != nil {
		t.Error(err)
	}
	var infeasible *plan.Infeasible
	if _, err := Amounts(c, platform.Platform{Memory: low - 1, Bandwidth: 1}); !errors.As(err, &infeasible) || infeasible.Memory != low {
		t.Error(err)
	}
}

// No row is without columns: where no transfer takes a time that counts, none limits it.
func TestNoRowIsEmpty(t *testing.T) {
	layer := chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 3, Saved: 4, Gradient: 3}
	c := &chain.Chain{Name: "bytes", Input: chain.Input{Activation: 3, Gradient: 3}, Layers: slices.Repeat([]chain.Layer{layer}, 3)}
	for _, bandwidth := range []float64{1, 12e9} {
		program, err := Amounts(c, platform.Platform{Memory: random.OffloadLeastMemory(c), Bandwidth: bandwidth})
		if err != nil {
			t.Fatal(err)
		}
		for row := range program.Model.Rows() {
			if len(row.Col) == 0 {
				t.Errorf("%g B/s: row %s has no columns", bandwidth, row.Name())
			}
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	c, err := zoo.Load("zoo:resnet50")
	if err != nil {
		b.Fatal(err)
	}
	low, high := random.OffloadLeastMemory(c), random.OffloadPeak(c)
	for b.Loop() {
		if _, err := Amounts(c, platform.Platform{Memory: math.Floor((low + high) / 2), Bandwidth: 12e9}); err != nil {
			b.Fatal(err)
		}
	}
}

// Plans that wait where nobody has to are solutions, too, at no more than they take: the first
// forward starts after its input's offload, and what has been used up is fetched again.
func TestIdlePlansAreSolutions(t *testing.T) {
	c := &chain.Chain{Name: "idle", Input: chain.Input{Activation: 3}, Layers: []chain.Layer{
		{ForwardTime: 2, Activation: 1, Saved: 1, Gradient: 1}, {ForwardTime: 2, Activation: 3, Saved: 3, Gradient: 3}, {ForwardTime: 2},
	}}
	op := func(name, tensor string, layer int, start, end float64) plan.Op {
		return plan.Op{Op: name, Tensor: tensor, Layer: layer, Start: start, End: end}
	}
	p := plan.New(plan.ActivationOffload, "by hand", c, platform.Platform{Memory: 8, Bandwidth: 1})
	p.Ops = []plan.Op{
		op(plan.OpO, plan.TensorAbar, 0, 1, 4), op(plan.OpFAll, "", 1, 2, 4), op(plan.OpO, plan.TensorAbar, 1, 4, 5),
		op(plan.OpFAll, "", 2, 4, 6),
		op(plan.OpFAll, "", 3, 6, 8), op(plan.OpB, "", 3, 8, 8), op(plan.OpP, plan.TensorAbar, 1, 8, 9), op(plan.OpB, "", 2, 9, 9),
		op(plan.OpP, plan.TensorAbar, 0, 9, 12), op(plan.OpB, "", 1, 13, 13), op(plan.OpP, plan.TensorAbar, 1, 13, 14),
	}
	p.Claims.Makespan = 13
	switch r, err := rematoffload.Verify(c, p); {
	case err != nil || r.Makespan != 13:
		t.Fatal(err)
	case !r.Valid():
		t.Fatal(r.Violations[0].Detail)
	}
	for _, f := range Formulations() {
		program, err := f.Build(c, p.Platform, nil)
		if err != nil {
			t.Fatal(err)
		}
		ilptest.Starts(t, program, p, 13)
	}
}
