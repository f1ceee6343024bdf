package rematgraph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
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
	"workbench/model/verify"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/lpsolve"
)

// randomStep returns a training step of small integers: forward nodes, the
// loss, a backward node for each forward node, and a few more edges. A third of
// the forward nodes are read by the next one alone: they can be contracted if
// their values are as large as its.
func randomStep(r *rand.Rand, forward int) *graph.Graph {
	n := 2*forward + 1
	quiet := make([]bool, forward)
	for i := range forward - 1 {
		quiet[i] = r.IntN(3) == 0
	}
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
			if j := r.IntN(i - 1); !quiet[j] {
				g.Edges = append(g.Edges, graph.Edge{From: j, To: i})
			}
		}
		if i > forward {
			for _, j := range []int{n - 1 - i, n - 2 - i} {
				if j >= 0 && j < forward && !quiet[j] && r.IntN(3) > 0 {
					g.Edges = append(g.Edges, graph.Edge{From: j, To: i})
				}
			}
		}
	}
	return g
}

// between returns a memory between the least of one computation at a time and
// that of storing everything.
func between(t testing.TB, g plan.Instance, fraction float64) platform.Platform {
	t.Helper()
	v, err := rematgraph.New(g)
	if err != nil {
		t.Fatal(err)
	}
	low, _ := v.LeastBound()
	high, _, _ := v.StoreAll().Peak()
	return platform.Platform{Memory: max(1, low+math.Round(fraction*(high-low)))}
}

// solved solves a program to optimality, checks its plan and returns the
// makespan; +Inf if there is no solution.
func solved(t *testing.T, b solvers.Backend, program *formulation.Program, g plan.Instance) float64 {
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
	model, _ := r.Objective()
	objective := program.Objective(model)
	if makespan := verified(t, g, p); makespan > objective+1e-6*(1+objective) {
		t.Fatalf("%s: makespan %g, objective %g", program.Model.Name(), makespan, objective)
	}
	return objective
}

// verified returns the makespan of a plan, which must be valid and must claim
// what it has.
func verified(t testing.TB, g plan.Instance, p *plan.Plan) float64 {
	t.Helper()
	report, err := verify.Replay(g, p)
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
	exact(t, 60, 10, func(n int) plan.Instance { return randomStep(r, 2+n%4) })
}

// The same where nodes write several values, and all may be computed again.
func TestCheckmateIsExactOnSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 15))
	exact(t, testfile.Cases(100), testfile.Cases(10), func(n int) plan.Instance { return random.Training(r, 1+n%3) })
}

// strongest is Strong without options.
func strongest(g plan.Instance, p platform.Platform) (*formulation.Program, error) {
	return Strong(g, p, Options{})
}

// staged and free are what exhaustive search says of schedules of stages and of
// all plans, infinite if there are none.
func staged(t *testing.T, g plan.Instance, memory float64) float64 {
	t.Helper()
	time, _, err := optimumrematgraph.SearchStages(g, memory, 1<<20)
	return orInfinite(t, time, err)
}

func free(t *testing.T, g plan.Instance, memory float64) float64 {
	t.Helper()
	if v1 := plan.As[*graph.Graph](g); v1 != nil {
		time, _, err := optimumrematgraph.Search(v1, memory, 1<<20)
		return orInfinite(t, time, err)
	}
	time, _, err := optimumrematgraph.Search(plan.As[*training.Graph](g), memory, 1<<20)
	return orInfinite(t, time, err)
}

func orInfinite(t *testing.T, time float64, err error) float64 {
	t.Helper()
	switch {
	case errors.Is(err, exhaustive.ErrInfeasible):
		return math.Inf(1)
	case err != nil:
		t.Fatal(err)
	}
	return time
}

func exact(t *testing.T, cases, interesting int, draw func(n int) plan.Instance) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 16))
	infeasible, recomputed, contracted := 0, 0, 0
	for n := range cases {
		g := draw(n)
		p := between(t, g, r.Float64())
		want := staged(t, g, p.Memory)
		var none *plan.Infeasible
		switch {
		case math.IsInf(want, 1):
			infeasible++
		case want > g.TotalTime():
			recomputed++
		}
		for _, build := range []formulation.Builder[plan.Instance]{Printed, strongest} {
			program, err := build(g, p)
			if errors.As(err, &none) && math.IsInf(want, 1) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := solved(t, highs.New(), program, g); !near(got, want) {
				t.Fatalf("%d: %s has optimum %g, exhaustive search %g\nmemory %g, %+v", n, program.Model.Name(), got, want, p.Memory, g)
			}
		}
		result, err := Run(t.Context(), &formulation.Task{Backend: highs.New()}, viewed(t, g), p)
		if errors.As(err, &none) && math.IsInf(want, 1) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		hold(t, result, want, free(t, g, p.Memory))
		if result.Plan != nil {
			if got := verified(t, g, result.Plan); got < want*(1-1e-9) {
				t.Fatalf("%d: makespan %g below the optimum %g", n, got, want)
			}
			if near(result.Claimed(), want) && near(result.Objective, want) {
				contracted++
			}
		}
	}
	t.Logf("%d infeasible, %d with recomputation, %d closed by the driver", infeasible, recomputed, contracted)
	if recomputed < interesting || contracted < 2*interesting {
		t.Errorf("too few interesting instances: %d infeasible, %d with recomputation, %d closed", infeasible, recomputed, contracted)
	}
}

func viewed(t rapid.TB, g plan.Instance) *rematgraph.View {
	t.Helper()
	v, err := rematgraph.New(g)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// forwards is a graph of so many nodes without edges.
func forwards(n int) *graph.Graph {
	g := &graph.Graph{}
	for i := range n {
		g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprint(i), Kind: graph.Forward})
	}
	return g
}

// hold checks that bounds and claims are at most the optimum of the plans that
// they bind: of the schedules of stages, or of all plans.
func hold(t rapid.TB, r *formulation.Result, staged, free float64) {
	t.Helper()
	check := func(value float64, by string, assumptions []string) {
		optimum := free
		if slices.Contains(assumptions, rematgraph.InGraphOrder) || slices.Contains(assumptions, rematgraph.InStages) {
			optimum = staged
		}
		if value > optimum*(1+1e-6) {
			t.Fatalf("%s says %v, the optimum is %v (%v)", by, value, optimum, assumptions)
		}
	}
	for _, b := range r.Bounds {
		check(b.Value, b.By, b.Assumptions)
	}
	for _, c := range r.Claims {
		check(c.Value, c.By, c.Assumptions)
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
		for k, build := range []formulation.Builder[plan.Instance]{Printed, strongest} {
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
	for _, name := range []string{besideName, printedName, strongName} {
		f := ilptest.Formulation(t, Formulations(), name)
		about := testcase.Graphs()
		if f.Staged {
			about = testcase.Stages()
		}
		report, err := check.Run(t.Context(), f, about, both, check.Options{Seed: 4, Cases: 60, Layers: 2})
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

// Contracting changes no bound: with it the relaxation has the optimum it has
// without.
func TestContractedOptimum(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 28))
	contracted := 0
	for range 40 {
		g := randomStep(r, 3+r.IntN(4))
		p := between(t, g, r.Float64()/2)
		in, err := newGraphInstance(g, p)
		if err != nil {
			t.Fatal(err)
		}
		var values [2]float64
		for k, contract := range []bool{false, true} {
			f := buildStrong(in, Options{Backward: true, Ends: true, Contract: contract})
			result, err := highs.New().Solve(t.Context(), f.m, solvers.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if result.Status != solvers.Optimal {
				t.Fatal(result.Status)
			}
			values[k] = result.Obj
			for i, j := range f.into {
				if i != j {
					contracted++
				}
			}
		}
		if !near(values[0], values[1]) {
			t.Fatalf("optimum %g, contracted %g\nmemory %g, %+v", values[0], values[1], p.Memory, g)
		}
	}
	if contracted < 10 {
		t.Errorf("%d nodes contracted, too few", contracted)
	}
}

// What a rounding exceeds is said; what is repaired fits; the relaxation is a
// bound.
func TestCheckmateRounding(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	exceeded, repaired := 0, 0
	for n := range 40 {
		g := randomStep(r, 2+n%3)
		p := between(t, g, r.Float64())
		want, _, err := optimumrematgraph.SearchStages(g, p.Memory, 1<<20)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, strong := range []bool{false, true} {
			x, err := Round(t.Context(), &formulation.Task{Backend: highs.New()}, viewed(t, g), p, RoundingOptions{Samples: 3, Strong: strong})
			if err != nil {
				t.Fatal(err)
			}
			if x.Claimed() > want*(1+1e-6) || math.IsInf(x.Claimed(), 0) {
				t.Fatalf("%g is claimed, the optimum is %g", x.Claimed(), want)
			}
			if len(x.Rounded) != 4 {
				t.Fatalf("%d roundings, want the threshold's and 3", len(x.Rounded))
			}
			all := append(slices.Clone(x.Rounded), x.Repaired...)
			if x.Allowance != nil {
				all = append(all, x.Allowance)
			}
			for k, y := range all {
				if y == nil {
					continue
				}
				q := *y.Plan
				if fits := q.Claims.PeakMemory <= p.Memory; fits != y.Fits || k >= 4 && !fits {
					t.Fatalf("%s: Fits is %v, the peak %g of %g", y.Rule, y.Fits, q.Claims.PeakMemory, p.Memory)
				}
				if k >= 4 {
					repaired++
				}
				if !y.Fits {
					exceeded++
					q.Platform.Memory = q.Claims.PeakMemory
				}
				verified(t, g, &q)
			}
			if x.Plan != nil && (verified(t, g, x.Plan) != x.Objective || x.Objective < want*(1-1e-9)) {
				t.Fatalf("makespan %g, the optimum is %g", x.Objective, want)
			}
		}
	}
	if exceeded < 5 || repaired < 5 {
		t.Errorf("%d roundings exceed the memory, %d are repaired: too few to test", exceeded, repaired)
	}
}

// A chain of 14 layers on two threads and on one: a verified plan, a bound that
// is no larger, progress in order; from a start never worse than it.
func TestSolveCheckmate(t *testing.T) {
	c := &graph.Graph{Name: "chain"}
	const n = 14
	for i := range 2*n + 1 {
		x := graph.Node{ID: fmt.Sprint(i), Kind: graph.Forward, Time: 1, Memory: 1}
		if i == n {
			x.Kind = graph.Loss
		} else if i > n {
			x.Kind, x.Time = graph.Backward, 2
		}
		c.Nodes = append(c.Nodes, x)
		if i > 0 {
			c.Edges = append(c.Edges, graph.Edge{From: i - 1, To: i})
		}
		for j := 2*n - i; i > n && j >= max(0, 2*n-i-1); j-- {
			c.Edges = append(c.Edges, graph.Edge{From: j, To: i})
		}
	}
	p := platform.Platform{Memory: 8}
	var first *plan.Plan
	for _, threads := range []int{1, 2} {
		task := &formulation.Task{
			Backend: highs.New(), Start: first, Options: solvers.Options{Threads: solvers.Some(threads), RelGap: solvers.Some(0.01)},
			OnProgress: func(objective, bound float64, _ int64) {
				if objective < bound*(1-1e-9) {
					t.Errorf("progress with objective %g below bound %g", objective, bound)
				}
			},
		}
		r, err := Run(t.Context(), task, viewed(t, c), p)
		if err != nil {
			t.Fatal(err)
		}
		if got := verified(t, c, r.Plan); got < r.Claimed()*(1-1e-9) || !r.Closed(0.01) {
			t.Errorf("%d threads: makespan %g, claimed %g, bounds %+v", threads, got, r.Claimed(), r.Bounds)
		}
		if first != nil && r.Plan.Claims.Makespan > first.Claims.Makespan {
			t.Errorf("makespan %g, started from %g", r.Plan.Claims.Makespan, first.Claims.Makespan)
		}
		first = r.Plan
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	plain, err := RunPrinted(ctx, &formulation.Task{Backend: highs.New(), Start: first}, viewed(t, c), p)
	if err != nil {
		t.Fatal(err)
	}
	if verified(t, c, plain.Plan) > first.Claims.Makespan || plain.Claimed() > first.Claims.Makespan*(1+1e-9) {
		t.Errorf("plain: makespan %g, claimed %g, started from %g", plain.Objective, plain.Claimed(), first.Claims.Makespan)
	}
}

func TestCheckmateUnfit(t *testing.T) {
	g := randomStep(rand.New(rand.NewPCG(1, 2)), 3)
	v, err := rematgraph.New(g)
	if err != nil {
		t.Fatal(err)
	}
	low, _ := v.LeastBound()
	cycle := randomStep(rand.New(rand.NewPCG(1, 2)), 3)
	cycle.Edges = append(cycle.Edges, graph.Edge{From: 3, To: 1})
	long := forwards(MostCheckmate + 1)
	var none *plan.Infeasible
	for name, x := range map[string]struct {
		g      *graph.Graph
		memory float64
		want   error
	}{
		"empty":     {&graph.Graph{}, 1, formulation.ErrInstance},
		"cycle":     {cycle, 100, formulation.ErrInstance},
		"no memory": {g, 0, formulation.ErrInstance},
		"NaN":       {g, math.NaN(), formulation.ErrInstance},
		"infinite":  {g, math.Inf(1), formulation.ErrInstance},
		"too small": {g, low - 1, nil},
	} {
		p := platform.Platform{Memory: x.memory}
		_, plain := Printed(x.g, p)
		_, strong := Strong(x.g, p, Options{})
		all := []error{plain, strong}
		if v, err := rematgraph.New(x.g); err == nil {
			_, solved := Run(t.Context(), &formulation.Task{Backend: highs.New()}, v, p)
			_, paper := RunPrinted(t.Context(), &formulation.Task{Backend: highs.New()}, v, p)
			_, rounded := Round(t.Context(), &formulation.Task{Backend: highs.New()}, v, p, RoundingOptions{})
			all = append(all, solved, paper, rounded)
		}
		for _, err := range all {
			if x.want == nil && (!errors.As(err, &none) || none.Memory != low) || x.want != nil && !errors.Is(err, x.want) {
				t.Errorf("%s: error %v", name, err)
			}
		}
	}
	p := platform.Platform{Memory: 100}
	longer := forwards(MostRelaxed + 1)
	_, plain := Printed(long, p)
	_, strong := Strong(long, p, Options{})
	_, relaxed := Strong(longer, p, Options{Backward: true, Ends: true})
	_, solved := Run(t.Context(), &formulation.Task{Backend: highs.New()}, viewed(t, longer), p)
	_, paper := RunPrinted(t.Context(), &formulation.Task{Backend: highs.New()}, viewed(t, long), p)
	_, rounded := Round(t.Context(), &formulation.Task{Backend: highs.New()}, viewed(t, longer), p, RoundingOptions{Strong: true})
	for k, err := range []error{plain, strong, relaxed, solved, paper, rounded} {
		if !errors.Is(err, formulation.ErrTooLong) {
			t.Errorf("too long, %d: error %v", k, err)
		}
	}
	var asked []string // a certificate is asked for of longer ones, too
	_, err = Run(t.Context(), &formulation.Task{
		Backend: highs.New(), Document: true, Level: formulation.Full,
		Certify: func(_ context.Context, p *formulation.Program, _ float64, _ formulation.Level) (*certificate.Certificate, error) {
			asked = append(asked, p.Formulation)
			return nil, errors.New("in this test there is none")
		},
	}, viewed(t, longer), p)
	if err != nil || !slices.Equal(asked, []string{besideName}) {
		t.Errorf("too long, to be certified: of %v, %v", asked, err)
	}
	if _, err := Run(t.Context(), &formulation.Task{Backend: highs.New(), Start: &plan.Plan{}}, viewed(t, g), p); !errors.Is(err,
		formulation.ErrStart) {
		t.Errorf("bad start: error %v", err)
	}
	for _, build := range []formulation.Builder[plan.Instance]{Printed, strongest} {
		program, err := build(g, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := program.Start(&plan.Plan{}); !errors.Is(err, formulation.ErrStart) {
			t.Errorf("bad start: error %v", err)
		}
	}
}

// BenchmarkBuildCheckmate builds the relaxation that Solve solves, of
// a chain as long as ResNet-50's graph, and the paper's model.
func BenchmarkBuildCheckmate(b *testing.B) {
	const forward = 110
	g := &graph.Graph{Name: "chain"}
	for i := range 2*forward + 1 {
		x := graph.Node{ID: fmt.Sprint(i), Kind: graph.Forward, Time: 1, Memory: 1}
		if i == forward {
			x.Kind = graph.Loss
		} else if i > forward {
			x.Kind = graph.Backward
		}
		g.Nodes = append(g.Nodes, x)
		if i > 0 {
			g.Edges = append(g.Edges, graph.Edge{From: i - 1, To: i})
		}
		if j := 2*forward - i; i > forward {
			g.Edges = append(g.Edges, graph.Edge{From: j, To: i})
		}
	}
	in, err := newGraphInstance(g, platform.Platform{Memory: 30})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("strong", func(b *testing.B) {
		for b.Loop() {
			buildStrong(in, Options{Backward: true, Ends: true, Contract: true})
		}
	})
	b.Run("paper", func(b *testing.B) {
		for b.Loop() {
			buildPrinted(in)
		}
	})
}
