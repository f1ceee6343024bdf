package rematgraph

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/ilp/formulation"
	"workbench/model/certificate"
	"workbench/model/exhaustive"
	optimumrematgraph "workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
	"workbench/model/testcase"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyrematgraph "workbench/model/verify/rematgraph"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Sizes of all magnitudes, times of all units, the memory a unit from where a
// schedule begins to fit: the strengthened model has the optimum of exhaustive
// search, the printed one no more, and nothing that the driver says is wrong. A
// solver may say so where the best schedule is a solution of the printed model all
// the same (see "a byte beside a value" of solvers.Probes).
func TestMagnitudes(t *testing.T) {
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	testfile.Property(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 11))
		g := testcase.MixedGraph(r, 1+r.IntN(3))
		least, err := optimumrematgraph.StagesLeastMemory(g, 1<<20)
		if err != nil {
			rt.Fatal(err)
		}
		limits := []float64{least, least, limitOf(rt, g, least, math.Inf(1))}
		for range 3 {
			limits = append(limits, limitOf(rt, g, least, limits[len(limits)-1]-1))
		}
		m := max(1, limits[r.IntN(len(limits))]+float64(r.IntN(3)-1))
		heldAgainst(rt, g, platform.Platform{Memory: m}, backends[r.IntN(2)])
	})
}

// limitOf returns the peak of a best schedule in so much memory: a breakpoint.
func limitOf(t *rapid.T, g *graph.Graph, least, memory float64) float64 {
	if memory < least {
		return least
	}
	_, p, err := optimumrematgraph.SearchStages(g, min(memory, 1<<53), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return p.Claims.PeakMemory
}

// heldAgainst holds both formulations and the driver against exhaustive search.
func heldAgainst(t rapid.TB, g *graph.Graph, p platform.Platform, b solvers.Backend) {
	ctx := context.Background()
	want, best, err := optimumrematgraph.SearchStages(g, p.Memory, 1<<20)
	if errors.Is(err, exhaustive.ErrInfeasible) {
		want = math.Inf(1)
	} else if err != nil {
		t.Fatal(err)
	}
	tolerance := 1e-6 * g.TotalTime()
	for _, build := range []formulation.Builder[plan.Instance]{Printed, strongest} {
		program, err := build(g, p)
		var none *plan.Infeasible
		if errors.As(err, &none) && math.IsInf(want, 1) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Solve(ctx, program.Model, solvers.Options{Time: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		got := math.Inf(1)
		if r.Status != solvers.Infeasible {
			objective, _ := r.Objective()
			got = program.Objective(objective)
		}
		exact := program.Model.Name() == "checkmate-strong"
		if !exact && got > want+tolerance {
			x, err := program.Start(best)
			if err != nil || program.Model.Violations(x, 0) != nil || program.Objective(program.Model.Objective(x)) > want+tolerance {
				t.Fatalf("memory %v: the best schedule, of %v, is no solution of %s (%v)\n%+v", p.Memory, want, program.Model.Name(), err, g)
			}
			t.Logf("memory %v: %s calls %v %v, there is a solution of %v", p.Memory, b.Name(), program.Model.Name(), r.Status, want)
			continue
		}
		if got > want+tolerance || exact && got < want-tolerance {
			t.Fatalf("memory %v, %s: %s has optimum %v, exhaustive search %v\n%+v", p.Memory, b.Name(), program.Model.Name(), got, want, g)
		}
	}
	result, err := Run(ctx, &formulation.Task{Backend: b}, viewed(t, g), p)
	if err != nil {
		var none *plan.Infeasible
		if !errors.As(err, &none) || !math.IsInf(want, 1) {
			t.Fatalf("memory %v, %s: %v, the optimum is %v\n%+v", p.Memory, b.Name(), err, want, g)
		}
		return
	}
	free, _, err := optimumrematgraph.Search(g, p.Memory, 1<<20)
	if errors.Is(err, exhaustive.ErrInfeasible) {
		free = math.Inf(1)
	} else if err != nil {
		t.Fatal(err)
	}
	hold(t, result, want, free)
	beside(t, b, g, p, free)
	if result.Plan == nil {
		return
	}
	report, err := verifyrematgraph.VerifyGraph(g, result.Plan)
	if err != nil || !report.Valid() || report.PeakMemory > p.Memory || report.Makespan < want-tolerance {
		t.Fatalf("memory %v, %s: %v, %+v, the optimum is %v\n%+v", p.Memory, b.Name(), err, report, want, g)
	}
}

// Two graphs of the kind on which solvers were wrong: one whose optimum of 23 s
// the printed model was said to have at 32, for 8 of 16000000008 bytes are left
// beside the loss; and one that fits in nothing less than its least memory,
// though the solvers' tolerances are larger than what is missing.
func TestEdgesOfMemory(t *testing.T) {
	read := func(name string) *graph.Graph {
		file, err := os.Open(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		g, err := graph.Read(file, name)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	edge := read("edge-of-memory.json")
	for _, b := range []solvers.Backend{highs.New(), lpsolve.New()} {
		heldAgainst(t, read("five-gigabytes-and-seven-bytes.json"), platform.Platform{Memory: 16000000008}, b)
		for _, less := range []float64{4, 1, 0} {
			heldAgainst(t, edge, platform.Platform{Memory: 4000000002 - less}, b)
		}
	}
}

// beside holds the small model at one node between the bound that needs no model
// and the optimum of all plans.
func beside(t rapid.TB, b solvers.Backend, g *graph.Graph, p platform.Platform, free float64) {
	t.Helper()
	program, err := TimeBound(g, p, besideOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Solve(context.Background(), program.Model, solvers.Options{Time: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	v, err := rematgraph.New(g)
	if err != nil {
		t.Fatal(err)
	}
	objective, _ := r.Objective()
	bound, tolerance := v.TimeBound(p.Memory).Seconds, 1e-6*g.TotalTime()
	if got := program.Objective(objective); got > free+tolerance || got < bound-tolerance {
		t.Fatalf("memory %v, %s: beside one node %v, without a model %v, the optimum is %v\n%+v", p.Memory, b.Name(), got, bound, free, g)
	}
}

// rebuilt fails if a program comes out different from its name and options.
func rebuilt(t *testing.T, x *formulation.Program, in plan.Instance, p platform.Platform) {
	t.Helper()
	again, err := formulation.Rebuild(Formulations(), x.Formulation, in, p, x.Options)
	if err != nil {
		t.Fatal(err)
	}
	want, got := x.Model.Data(), again.Model.Data()
	if certificate.Digest(&want) != certificate.Digest(&got) || x.Unit != again.Unit || !slices.Equal(x.Assumptions, again.Assumptions) {
		t.Fatalf("%s with %s comes out different", x.Formulation, x.Options)
	}
}

// A program is made again from its name and options, digit by digit.
func TestRebuild(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 30 {
		g := testcase.MixedGraph(r, 2+r.IntN(4))
		v, err := rematgraph.New(g)
		if err != nil {
			t.Fatal(err)
		}
		least, _ := v.LeastBound()
		p := platform.Platform{Memory: least + 1}
		in, err := newGraphInstance(g, p)
		if err != nil {
			t.Fatal(err)
		}
		last := in.n - 1
		relaxed := buildStrong(in, Options{Backward: true, Ends: true, Contract: true, Rows: [][2]int{{last, last}, {last, 0}}})
		programs := []*formulation.Program{relaxed.program(), buildStrong(in, Options{}).program(), in.timeBound(last)}
		for _, f := range Formulations() {
			if f.Kind != training.Kind {
				program, err := f.Build(g, p, nil)
				if err != nil {
					t.Fatal(err)
				}
				programs = append(programs, program)
			}
		}
		for _, x := range programs {
			rebuilt(t, x, g, p)
		}
		step := random.Training(r, 2)
		of, err := rematgraph.New(step)
		if err != nil {
			t.Fatal(err)
		}
		least, _ = of.LinkedLeast()
		p = platform.Platform{Memory: least + 1, Bandwidth: 1 + r.Float64()}
		program, err := LinkedBound(step, p)
		if err != nil {
			t.Fatal(err)
		}
		rebuilt(t, program, step, p)
	}
	g := random.Graph(r, 2)
	for _, x := range [][2]string{
		{"checkmate-beside", `{"node":99}`},
		{"checkmate-strong", `{`},
		{"another", ``},
		{"checkmate", `{"ends":true}`},
		{"checkmate-strong", `{"contract":true}`},
		{"checkmate-strong", `{"contract":true,"ends":true}`},
		{"checkmate-strong", `{"more":1}`},
	} {
		if _, err := formulation.Rebuild(Formulations(), x[0], g, platform.Platform{Memory: 100}, json.RawMessage(x[1])); !errors.Is(err,
			formulation.ErrInstance) {
			t.Errorf("%s: %v", x, err)
		}
	}
}
