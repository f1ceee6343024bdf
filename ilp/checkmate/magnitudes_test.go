package checkmate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/ilp/formulation"
	"workbench/model/exhaustive"
	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// Sizes of all magnitudes, times of all units, the memory a unit from where a
// schedule begins to fit: the strengthened model has the optimum of exhaustive
// search, the printed one no more, and nothing that the driver says is wrong.
func TestMagnitudes(t *testing.T) {
	backends := []solvers.Backend{highs.New(), lpsolve.New()}
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 11))
		g := exhaustive.MixedGraph(r, 1+r.IntN(3))
		least, err := exhaustive.StagesLeastMemory(g, 1<<20)
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
	_, p, err := exhaustive.Stages(g, min(memory, 1<<53), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return p.Claims.PeakMemory
}

// heldAgainst holds both formulations and the driver against exhaustive search.
func heldAgainst(t rapid.TB, g *graph.Graph, p platform.Platform, b solvers.Backend) {
	ctx := context.Background()
	want, _, err := exhaustive.Stages(g, p.Memory, 1<<20)
	if errors.Is(err, exhaustive.ErrInfeasible) {
		want = math.Inf(1)
	} else if err != nil {
		t.Fatal(err)
	}
	tolerance := 1e-6 * g.TotalTime()
	for _, build := range []formulation.GraphBuilder{Printed, Strong} {
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
		if exact := program.Model.Name() == "checkmate-strong"; got > want+tolerance || exact && got < want-tolerance {
			t.Fatalf("memory %v, %s: %s has optimum %v, exhaustive search %v\n%+v", p.Memory, b.Name(), program.Model.Name(), got, want, g)
		}
	}
	result, err := Run(ctx, &formulation.Task{Backend: b}, g, p)
	if err != nil {
		var none *plan.Infeasible
		if !errors.As(err, &none) || !math.IsInf(want, 1) {
			t.Fatalf("memory %v, %s: %v, the optimum is %v\n%+v", p.Memory, b.Name(), err, want, g)
		}
		return
	}
	free, _, err := exhaustive.Graph(g, p.Memory, 1<<20)
	if errors.Is(err, exhaustive.ErrInfeasible) {
		free = math.Inf(1)
	} else if err != nil {
		t.Fatal(err)
	}
	hold(t, result, want, free)
	if result.Plan == nil {
		return
	}
	report, err := plan.VerifyGraph(g, result.Plan)
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
