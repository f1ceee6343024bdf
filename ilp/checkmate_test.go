package ilp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"workbench/model/exhaustive"
	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/stages"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// randomStep returns a training step of small integers: forward nodes, the
// loss, a backward node for each forward node, and a few more edges. Every
// second one of unary nodes has a value that may be contracted.
func randomStep(r *rand.Rand, forward int) *graph.Graph {
	n := 2*forward + 1
	g := &graph.Graph{Name: "random", Input: float64(r.IntN(2))}
	for i := range n {
		kind := graph.Forward
		switch {
		case i == forward:
			kind = graph.Loss
		case i > forward:
			kind = graph.Backward
		}
		g.Nodes = append(g.Nodes, graph.Node{
			ID: fmt.Sprintf("v%d", i), Kind: kind,
			Time: float64(1 + r.IntN(4)), Memory: float64(r.IntN(4)), Overhead: float64(r.IntN(2) * r.IntN(3)),
		})
		if i > 0 {
			g.Edges = append(g.Edges, graph.Edge{From: i - 1, To: i})
		}
		if i > 1 && i < forward && r.IntN(3) == 0 {
			g.Edges = append(g.Edges, graph.Edge{From: r.IntN(i - 1), To: i})
		}
		if i > forward {
			for _, j := range []int{n - 1 - i, n - 2 - i} {
				if j >= 0 && j < forward && r.IntN(3) > 0 {
					g.Edges = append(g.Edges, graph.Edge{From: j, To: i})
				}
			}
		}
	}
	return g
}

// between returns a memory between the least of one computation at a time and
// that of storing everything.
func between(t testing.TB, g *graph.Graph, fraction float64) platform.Platform {
	t.Helper()
	v, err := stages.Of(g)
	if err != nil {
		t.Fatal(err)
	}
	low, _ := v.Least()
	high, _, _ := v.StoreAll().Peak()
	return platform.Platform{Memory: max(1, low+math.Round(fraction*(high-low)))}
}

// solved solves a program to optimality, checks its plan and returns the
// makespan; +Inf if there is no solution.
func solved(t *testing.T, b solvers.Backend, program *Program, g *graph.Graph) float64 {
	t.Helper()
	r, err := b.Solve(t.Context(), program.Model, solvers.Options{Time: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status == solvers.Infeasible {
		return math.Inf(1)
	}
	x, ok := r.Solution()
	if !ok || r.Status != solvers.Optimal {
		t.Fatalf("%s: %v", program.Model.Name(), r.Status)
	}
	p, err := program.Plan(x)
	if err != nil {
		t.Fatal(err)
	}
	objective, _ := r.Objective()
	if makespan := verified(t, g, p); makespan > objective+1e-6*(1+objective) {
		t.Fatalf("%s: makespan %g, objective %g", program.Model.Name(), makespan, objective)
	}
	return objective
}

// verified returns the makespan of a plan, which must be valid and must claim
// what it has.
func verified(t testing.TB, g *graph.Graph, p *plan.Plan) float64 {
	t.Helper()
	report, err := plan.VerifyGraph(g, p)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Valid() || len(report.ClaimErrors) > 0 {
		t.Fatalf("violations %v, claims %v", report.Violations, report.ClaimErrors)
	}
	return report.Makespan
}

// Plain and strengthened model have the optimum of exhaustive search over
// schedules of stages, and the driver finds it, too, with bounds that hold. The
// loose bound holds even for all plans, if the graph leaves no choice of the
// order of first computations.
func TestCheckmateIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	infeasible, recomputed, contracted := 0, 0, 0
	for n := range 60 {
		g := randomStep(r, 2+n%4)
		p := between(t, g, r.Float64())
		want, _, err := exhaustive.Stages(g, p.Memory, 1<<20)
		var none *plan.Infeasible
		switch {
		case errors.Is(err, exhaustive.ErrInfeasible):
			want = math.Inf(1)
			infeasible++
		case err != nil:
			t.Fatal(err)
		case want > g.TotalTime():
			recomputed++
		}
		for _, build := range []GraphBuilder{Checkmate, CheckmateStrong} {
			program, err := build(g, p)
			if err != nil {
				t.Fatal(err)
			}
			if got := solved(t, highs.New(), program, g); !near(got, want) {
				t.Fatalf("%d: %s has optimum %g, exhaustive search %g\nmemory %g, %+v", n, program.Model.Name(), got, want, p.Memory, g)
			}
		}
		result, err := SolveCheckmate(t.Context(), highs.New(), g, p, nil, solvers.Options{Time: time.Minute})
		if (errors.As(err, &none) || errors.Is(err, plan.ErrNoPlan)) && math.IsInf(want, 1) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if result.Bound > want*(1+1e-6) || result.Loose > result.Bound {
			t.Fatalf("%d: bound %g, loose %g, optimum %g\nmemory %g, %+v", n, result.Bound, result.Loose, want, p.Memory, g)
		}
		if result.Plan != nil {
			if got := verified(t, g, result.Plan); got < want*(1-1e-9) {
				t.Fatalf("%d: makespan %g below the optimum %g", n, got, want)
			}
			if near(result.Bound, want) && near(result.Plan.Claims.Makespan, want) {
				contracted++
			}
		}
		free, _, err := exhaustive.Graph(g, p.Memory, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(result.Assumptions, InGraphOrder) {
			t.Fatalf("%d: a graph whose order is the only one is taken for another\n%+v", n, g)
		}
		bound := result.Loose
		if len(result.Assumptions) == 0 {
			bound = result.Bound
		}
		if bound > free*(1+1e-6) {
			t.Fatalf("%d: bound %g for all plans, optimum %g\nmemory %g, %+v", n, bound, free, p.Memory, g)
		}
	}
	t.Logf("%d infeasible, %d with recomputation, %d closed by the driver", infeasible, recomputed, contracted)
	if recomputed < 10 || contracted < 20 {
		t.Errorf("too few interesting instances: %d infeasible, %d with recomputation, %d closed", infeasible, recomputed, contracted)
	}
}

// lp_solve agrees on what it can solve.
func TestCheckmateOnLPSolve(t *testing.T) {
	b := lpsolve.New()
	r := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		g := randomStep(r, 2)
		p := between(t, g, r.Float64())
		var values [2]float64
		for k, build := range []GraphBuilder{Checkmate, CheckmateStrong} {
			program, err := build(g, p)
			if err != nil {
				t.Fatal(err)
			}
			values[k] = solved(t, b, program, g)
		}
		if !near(values[0], values[1]) {
			t.Fatalf("optima %g and %g", values[0], values[1])
		}
	}
}

// near reports whether two optima agree as far as solvers are exact.
func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-5*(1+math.Abs(a)) }

// Both formulations keep their promise on both backends.
func TestCheckmatePromises(t *testing.T) {
	both := []solvers.Backend{highs.New(), lpsolve.New()}
	for _, name := range []string{"checkmate", "checkmate-strong"} {
		f := formulation(t, name)
		report, err := Check(t.Context(), f, both, CheckOptions{Seed: 4, Cases: 60, Layers: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range report.Failures {
			t.Errorf("%s: %s, %d times\n%s", name, x.Kind, x.Count, x.Smallest.String())
		}
		if report.Cases-report.Skipped < 50 {
			t.Errorf("%s: %d of %d cases skipped", name, report.Skipped, report.Cases)
		}
	}
}
