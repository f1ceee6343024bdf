package remat

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	heuristics "workbench/heuristics/remat"
	"workbench/ilp/certify"
	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/model/certificate"
	"workbench/model/exhaustive"
	optimumremat "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

var (
	cases = flag.Int("cases", 150, "random chains of many magnitudes")
	seed  = flag.Uint64("seed", 1, "of them")
)

// tally counts what became of random chains.
type tally struct{ infeasible, solved, closed, covered, wrong, stopped int }

// Sizes of many magnitudes, memory at breakpoints and a few units beside, times
// of any pace: both MILPs are what they promise in exact arithmetic, whatever a
// solver makes of them, and the search and every method agree with exhaustive
// search.
func TestMagnitudes(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 14))
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	var sum [2]tally
	for i := range *cases {
		c, memory := mixRemat(r, 1+i%5)
		p := platform.Platform{Memory: memory}
		want, best, err := optimumremat.Search(c, memory, testcase.States)
		infeasible := errors.Is(err, exhaustive.ErrInfeasible)
		if err != nil && !infeasible {
			t.Fatal(err)
		}
		searched(t, c, p, want, infeasible)
		if infeasible {
			want = math.Inf(1)
		}
		if !infeasible {
			represents(t, c, p, best, want)
		}
		for k, b := range backends {
			solveMixed(t, b, c, p, want, &sum[k])
		}
	}
	t.Logf("seed %d, %d chains: highs %+v, lpsolve %+v", *seed, *cases, sum[0], sum[1])
	for k := range sum {
		if s := &sum[k]; s.solved < *cases/4 || s.closed < s.solved*3/4 {
			t.Errorf("%s: %+v", backends[k].Name(), *s)
		}
	}
}

// searched checks what needs no solver.
func searched(t *testing.T, c *chain.Chain, p platform.Platform, want float64, infeasible bool) {
	t.Helper()
	got, err := heuristics.Optimum(t.Context(), c, p, nil)
	var none *plan.Infeasible
	switch {
	case infeasible:
		if !errors.As(err, &none) {
			t.Fatalf("%v, but no plan fits in %.0f: %+v", err, p.Memory, c)
		}
	case err != nil:
		t.Fatalf("%v in %.0f: %+v", err, p.Memory, c)
	default:
		makespan, err := verified(c, got.Plan)
		if err != nil || !got.Proved || !check.Same(makespan, want) || !check.Same(got.Value, want) {
			t.Fatalf("makespan %g, bound %g, %v; should be %g in %.0f: %+v", makespan, got.Value, err, want, p.Memory, c)
		}
	}
	for _, method := range []func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error){
		heuristics.Persistent, heuristics.Floating, heuristics.Revolve, heuristics.Periodic,
	} {
		q, err := method(t.Context(), c, p)
		switch {
		case infeasible && !errors.As(err, &none):
			t.Fatalf("%v, but no plan fits in %.0f: %+v", err, p.Memory, c)
		case !infeasible && err != nil && !errors.Is(err, plan.ErrNoPlan):
			t.Fatalf("%v, but a plan fits in %.0f: %+v", err, p.Memory, c)
		case err == nil:
			if makespan, err := verified(c, q); err != nil || makespan < want && !check.Same(makespan, want) {
				t.Fatalf("%s takes %g, %v; the optimum is %g in %.0f: %+v", q.Method, makespan, err, want, p.Memory, c)
			}
		}
	}
}

// represents checks in exact arithmetic that a best plan is a solution of both
// models, worth what it takes.
func represents(t *testing.T, c *chain.Chain, p platform.Platform, best *plan.Plan, want float64) {
	t.Helper()
	for _, bound := range []bool{false, true} {
		f, err := newChainMILP(c, p, bound)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.build(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		x, err := f.start(best)
		if bound && err != nil {
			continue // the forwards of a best plan need not be in one sweep each
		}
		if err != nil {
			t.Fatalf("%s has no place for the best plan: %v in %.0f: %+v", f.name(), err, p.Memory, c)
		}
		if value := f.program().Objective(f.m.Objective(x)); value > want && !check.Same(value, want) {
			t.Fatalf("%s: %g, the plan takes %g in %.0f: %+v", f.name(), value, want, p.Memory, c)
		}
		if covers := f.broken(x); len(covers) > 0 {
			t.Fatalf("a plan breaks %+v in %.0f: %+v", covers, p.Memory, c)
		}
	}
}

// solveMixed runs the driver, which may fail to prove, but not have a wrong plan.
func solveMixed(t *testing.T, b solvers.Backend, c *chain.Chain, p platform.Platform, want float64, sum *tally) {
	t.Helper()
	next, err := Phases(t.Context(), c, p)
	var none *plan.Infeasible
	if errors.As(err, &none) && math.IsInf(want, 1) {
		sum.infeasible++
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	task := formulation.Task{Backend: b, Level: formulation.Off, Verify: func(q *plan.Plan) (float64, error) { return verified(c, q) }}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // lp_solve does not always end
	defer cancel()
	r, err := task.Run(ctx, next)
	if err != nil {
		t.Fatalf("%v in %.0f: %+v", err, p.Memory, c)
	}
	if r.Ended == proof.TimeLimit {
		sum.stopped++
		t.Logf("%s goes on and on in %.0f: %+v", b.Name(), p.Memory, c)
	}
	if r.Program.Options != nil {
		sum.covered++
	}
	if r.Claimed() > want && !check.Same(r.Claimed(), want) {
		sum.wrong++
		t.Logf("%s claims %g, a plan takes %g in %.0f: %+v", b.Name(), r.Claimed(), want, p.Memory, c)
	}
	if r.Plan == nil {
		return
	}
	sum.solved++
	if check.Same(r.Objective, want) {
		sum.closed++
	}
	if r.Objective < want && !check.Same(r.Objective, want) {
		t.Fatalf("%s: a plan of %g, the optimum is %g in %.0f: %+v", b.Name(), r.Objective, want, p.Memory, c)
	}
}

// What is certified of the bound is a bound, and mostly the optimum.
func TestCertified(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 15))
	met, below, empty := 0, 0, 0
	for i := range *cases {
		c, memory := mixRemat(r, 1+i%5)
		want, _, err := optimumremat.Search(c, memory, testcase.States)
		infeasible := errors.Is(err, exhaustive.ErrInfeasible)
		if err != nil && !infeasible {
			t.Fatal(err)
		}
		program, err := Bound(c, platform.Platform{Memory: memory}, Options{})
		var none *plan.Infeasible
		if errors.As(err, &none) && infeasible {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		d := program.Model.Data()
		lp, err := highs.Engine{}.OpenLP(&d)
		if err != nil {
			t.Fatal(err)
		}
		head := certificate.Certificate{
			Instance: strings.Repeat("0", 64), Problem: plan.Remat, Formulation: nameBound, Backend: "highs",
			Scale: program.Unit,
		}
		goal := program.ModelObjective(want)
		if infeasible {
			goal = math.Inf(1)
		}
		proof, err := certify.Tree(t.Context(), lp, &d, head, certify.Options{Goal: goal, Nodes: 2000})
		lp.Close()
		if err != nil {
			t.Fatalf("%v in %.0f: %+v", err, memory, c)
		}
		switch got := proof.Certificate; {
		case got == nil:
			t.Fatalf("nothing is proved, %s in %.0f: %+v", proof.Note, memory, c)
		case got.Infeasible && !infeasible:
			t.Fatalf("no plan, but there is one in %.0f: %+v", memory, c)
		case got.Infeasible:
			empty++
		case got.Value() > want && !check.Same(got.Value(), want):
			t.Fatalf("%g, a plan takes %g in %.0f: %+v", got.Value(), want, memory, c)
		case check.Same(got.Value(), want):
			met++
		default:
			below++
		}
	}
	t.Logf("certified: %d optima, %d bounds below, %d without a plan", met, below, empty)
	if met < 10*below {
		t.Errorf("%d bounds below the optimum", below)
	}
}

// mixRemat returns a random chain for rematerialization, sizes of many magnitudes,
// times of one pace or of several, and a memory of at least nothing that is near
// a breakpoint: what a plan of least memory or an operation takes, mostly beside
// some values that it might keep.
func mixRemat(r *rand.Rand, layers int) (mixed *chain.Chain, memory float64) {
	mixed, _ = random.MixSizes(r, random.Chain(r, layers))
	mixed = random.Pace(mixed, random.Paces[r.IntN(len(random.Paces))])
	if r.IntN(3) == 0 {
		for i := range mixed.Layers {
			mixed.Layers[i].ForwardTime *= math.Pow10(-r.IntN(4))
		}
	}
	at := func(l int) *chain.Layer { return &mixed.Layers[l-1] }
	before := chain.Layer{Activation: mixed.Input.Activation, Saved: mixed.Input.Activation, Gradient: mixed.Input.Gradient}
	if least, err := optimumremat.LeastMemory(mixed, 1<<20); err == nil && r.IntN(2) == 0 {
		memory = least
	} else {
		l := 1 + r.IntN(mixed.Len())
		if l > 1 {
			before = *at(l - 1)
			memory = mixed.Input.Activation
		}
		memory += before.Activation + at(l).Saved + at(l).Gradient
		if r.IntN(2) == 0 {
			memory += before.Gradient + at(l).BackwardOverhead
		} else {
			memory += at(l).ForwardOverhead
		}
	}
	for l := 1; l <= mixed.Len(); l++ {
		switch r.IntN(4) {
		case 0:
			memory += at(l).Activation
		case 1:
			memory += at(l).Saved
		}
	}
	return mixed, max(0, memory+[...]float64{0, 0, -1, 1, -2, 3}[r.IntN(6)])
}
