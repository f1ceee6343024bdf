package rematoffload

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
	optimumrematoffload "workbench/model/exhaustive/rematoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify"
	verifyrematoffload "workbench/model/verify/rematoffload"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// The bound is one on both backends, and every optimal plan is a solution.
func TestCheckRematOffload(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	ilptest.Keeps(t, ilptest.Formulation(t, Formulations(), "remat-offload"), testcase.RematOffload(),
		ilptest.Check{Backends: both[:1], Cases: 100, Layers: 4, Tight: 0.7}, ilptest.Check{Backends: both, Cases: 200, Layers: 3, Tight: 0.7})
}

// At the edge of memory, whatever the magnitudes, at any pace and on both
// backends: optimal plans are solutions, no bound is above them, and plans of
// solutions are valid.
func TestMixedMagnitudes(t *testing.T) {
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	plans, solved := 0, 0
	testfile.Property(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		x, err := testcase.RandomRematOffload(r, 1+r.IntN(3))
		if err != nil {
			t.Fatal(err)
		}
		c, memory, bandwidth := random.Magnify(r, x.Chain(), x.Platform.Memory, x.Platform.Bandwidth)
		want, best, err := optimumrematoffload.Search(c, memory, bandwidth, 1<<18)
		if errors.Is(err, exhaustive.ErrLimit) {
			t.Skip("too many states")
		}
		pace := random.Paces[r.IntN(len(random.Paces))]
		fast, p := random.Pace(c, pace), platform.Platform{Memory: memory, Bandwidth: bandwidth / pace}
		program, failed := Stages(fast, p)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			if least, _ := view.Least(c); memory < least && !errors.As(failed, new(*plan.Infeasible)) {
				t.Fatalf("there is no plan: %v", failed)
			}
			return
		}
		if err != nil || failed != nil {
			t.Fatalf("%v %v\n%+v %g %g", err, failed, c, memory, bandwidth)
		}
		for i := range best.Ops {
			best.Ops[i].Start, best.Ops[i].End = best.Ops[i].Start*pace, best.Ops[i].End*pace
		}
		want *= pace
		best.Claims.Makespan = want
		ilptest.Starts(t, program, best, want)
		b := rapid.SampledFrom(backends).Draw(t, "backend")
		got, err := b.Solve(t.Context(), program.Model, solvers.Options{Time: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if value := program.Objective(got.Bound); value > want*(1+check.CheckTolerance) || got.Status == solvers.Infeasible {
			t.Fatalf("%.17g, the optimum is %.17g\n%+v\n%+v %+v", value, want, got, c, p)
		}
		solution, ok := got.Solution()
		if !ok {
			return
		}
		solved++
		found, err := program.Plan(solution)
		if errors.Is(err, plan.ErrNoPlan) {
			return
		}
		plans++
		if report, err := verify.Replay(fast, found); err != nil || !report.Valid() || report.Makespan < want*(1-check.CheckTolerance) {
			t.Fatalf("%v %+v, the optimum is %g\n%+v %+v", err, report, want, c, p)
		}
	})
	t.Logf("%d plans of %d solutions", plans, solved)
}

// A link that carries nothing, memory for nothing, and what no model can be built
// for.
func TestErrors(t *testing.T) {
	layer := chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 3, Saved: 4, Gradient: 3}
	c := &chain.Chain{Name: "plain", Input: chain.Input{Activation: 3, Gradient: 3}, Layers: []chain.Layer{layer, layer, layer}}
	for _, p := range []platform.Platform{{Memory: 18}, {Memory: 18, Bandwidth: 1}, {Memory: 100, Bandwidth: 1e6}} {
		if program := ilptest.Must(t, Stages, c, p); program.Objective(ilptest.Optimum(t, highs.New(), program.Model)) < 9*(1-1e-6) {
			t.Errorf("%+v: less than the computations", p)
		}
	}
	nothing := &chain.Chain{Name: "nothing", Layers: make([]chain.Layer, 3)}
	if program := ilptest.Must(t, Stages, nothing, platform.Platform{}); ilptest.Optimum(t, highs.New(), program.Model) != 0 {
		t.Error("nothing takes time")
	}
	var infeasible *plan.Infeasible
	if _, err := Stages(c, platform.Platform{Memory: 12, Bandwidth: 1}); !errors.As(err, &infeasible) {
		t.Error(err)
	}
	if _, err := Stages(&chain.Chain{Layers: make([]chain.Layer, MostLayers+1)}, platform.Platform{Memory: 1}); !errors.Is(err,
		formulation.ErrTooLong) {
		t.Error(err)
	}
	if _, err := Stages(c, platform.Platform{Memory: -1}); !errors.Is(err, formulation.ErrInstance) {
		t.Error(err)
	}
}

// A plan whose first forward waits, while its input is sent, is a solution, too, and one that sends it
// once more in the end.
func TestIdlePlansAreSolutions(t *testing.T) {
	c := &chain.Chain{Name: "idle", Input: chain.Input{Activation: 2}, Layers: []chain.Layer{
		{BackwardTime: 3}, {ForwardTime: 3, BackwardTime: 2, Activation: 3, Saved: 3, Gradient: 1, ForwardOverhead: 3}, {BackwardTime: 3},
	}}
	op := func(name, tensor string, layer int, start, end float64) plan.Op {
		return plan.Op{Op: name, Tensor: tensor, Layer: layer, Start: start, End: end}
	}
	p := plan.New(plan.RematOffload, "by hand", c, platform.Platform{Memory: 6, Bandwidth: 1})
	p.Ops = []plan.Op{
		op(plan.OpO, plan.TensorA, 0, 0, 2), op(plan.OpFAll, "", 1, 1, 1), op(plan.OpFAll, "", 2, 2, 5), op(plan.OpFAll, "", 3, 5, 5),
		op(plan.OpB, "", 3, 5, 8), op(plan.OpP, plan.TensorA, 0, 5, 7), op(plan.OpB, "", 2, 8, 10), op(plan.OpO, plan.TensorA, 0, 9, 11),
		op(plan.OpB, "", 1, 10, 13),
	}
	p.Claims.Makespan = 13
	switch r, err := verifyrematoffload.Verify(c, p); {
	case err != nil || r.Makespan != 13:
		t.Fatal(err)
	case !r.Valid():
		t.Fatal(r.Violations[0].Detail)
	}
	program, err := Stages(c, p.Platform)
	if err != nil {
		t.Fatal(err)
	}
	ilptest.Starts(t, program, p, 13)
}
