package rematgraph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/stages"
	"workbench/model/zoo"
)

// methods are all that return plans, the search with a few rounds.
func methods(rounds int) map[string]func(context.Context, *graph.Graph, platform.Platform) (*plan.Plan, error) {
	return map[string]func(context.Context, *graph.Graph, platform.Platform) (*plan.Plan, error){
		"store-all": func(_ context.Context, g *graph.Graph, p platform.Platform) (*plan.Plan, error) {
			return StoreAll(g, p)
		},
		"chen":       Chen,
		"linearised": Linearised,
		"search": func(ctx context.Context, g *graph.Graph, p platform.Platform) (*plan.Plan, error) {
			return Search(ctx, g, p, 1, rounds)
		},
	}
}

// verify returns the makespan of a plan that must be valid and say the truth.
func verify(t *testing.T, g *graph.Graph, p *plan.Plan) float64 {
	t.Helper()
	r, err := plan.VerifyGraph(g, p)
	if err != nil {
		t.Fatalf("%s: %s: %v", g.Name, p.Method, err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%s: %s: %v %v", g.Name, p.Method, r.Violations, r.ClaimErrors)
	}
	return r.Makespan
}

func leastBound(t testing.TB, g *graph.Graph) float64 {
	t.Helper()
	v, err := stages.Of(g)
	if err != nil {
		t.Fatal(err)
	}
	bound, _ := v.LeastBound()
	return bound
}

// No method beats the optimum of small graphs, no bound is above it, and an
// infeasibility that is claimed to be proved is one.
func TestExhaustive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	ctx := context.Background()
	graphs, feasible, optimal, tight, reached := 0, 0, 0, 0, 0
	for range 600 {
		g := exhaustive.RandomGraph(r, 1+r.IntN(6))
		least, err := exhaustive.GraphLeastMemory(g, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		bound := leastBound(t, g)
		low, high, err := Range(g)
		if err != nil {
			t.Fatal(err)
		}
		if bound > least || low < least || high < low {
			t.Fatalf("%s: bound %v, least memory %v, range %v to %v", g.Name, bound, least, low, high)
		}
		graphs++
		if bound == least {
			tight++
		}
		if low == least {
			reached++
		}
		for m := max(1, bound-1); m <= high; m++ {
			p := platform.Platform{Memory: m}
			want, _, err := exhaustive.Graph(g, m, 1<<20)
			exists := err == nil
			if !exists && !errors.Is(err, exhaustive.ErrInfeasible) {
				t.Fatal(err)
			}
			if time, _, err := TimeBound(g, m); err != nil || exists && time > want+1e-9 {
				t.Fatalf("%s, memory %v: time bound %v (%v), optimum %v", g.Name, m, time, err, want)
			}
			if exists {
				feasible++
			}
			for name, method := range methods(40) {
				out, err := method(ctx, g, p)
				var inf *plan.Infeasible
				switch {
				case err == nil:
					got := verify(t, g, out)
					if !exists || got < want-1e-9 {
						t.Fatalf("%s, memory %v: %s takes %v, the optimum is %v", g.Name, m, name, got, want)
					}
					if name == "search" && got < want+1e-9 {
						optimal++
					}
				case errors.As(err, &inf):
					if exists || inf.Memory > least || m >= inf.Memory {
						t.Fatalf("%s, memory %v: %s: %v, but %v is enough", g.Name, m, name, err, least)
					}
				case !errors.Is(err, plan.ErrNoPlan):
					t.Fatalf("%s: %v", name, err)
				case m >= low && name == "search" || m >= high && name == "store-all":
					t.Fatalf("%s, memory %v of %v to %v: %v", g.Name, m, low, high, err)
				}
			}
		}
	}
	t.Logf("%d graphs: least memory proved on %d, reached on %d; search optimal at %d of %d limits", graphs, tight, reached, optimal, feasible)
	if optimal*10 < 9*feasible {
		t.Errorf("search is optimal at %d of %d limits", optimal, feasible)
	}
	if tight*10 < 9*graphs || reached*10 < 9*graphs {
		t.Errorf("of %d graphs, the least memory is proved on %d and reached on %d", graphs, tight, reached)
	}
}

// The same for sizes of any magnitude and times of any unit, with the memory a
// unit from where plans begin to fit: methods, bounds, verifier and exhaustive
// search draw the line between the same two whole numbers.
func TestMagnitudes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 9))
		g := exhaustive.MixedGraph(r, 1+r.IntN(5))
		least, err := exhaustive.GraphLeastMemory(g, 1<<20)
		if err != nil {
			rt.Fatal(err)
		}
		bound := leastBound(t, g)
		low, high, err := Range(g)
		if err != nil {
			rt.Fatal(err)
		}
		if bound > least || low < least || high < low {
			rt.Fatalf("bound %v, least memory %v, range %v to %v", bound, least, low, high)
		}
		limits := []float64{bound, least, low, high}
		for k := range 5 {
			m := max(1, limits[r.IntN(len(limits))]+float64(r.IntN(3)-1))
			if k == 0 {
				m = max(1, least)
			}
			limits = append(limits, planned(rt, r, g, m, least, low)) // where the next plan begins to fit
		}
	})
}

// planned checks every method in so much memory and returns the peak of what
// the search found.
func planned(t *rapid.T, r *rand.Rand, g *graph.Graph, memory, least, low float64) (peak float64) {
	peak = memory
	want, _, err := exhaustive.Graph(g, memory, 1<<20)
	exists := err == nil
	if !exists && !errors.Is(err, exhaustive.ErrInfeasible) || exists != (memory >= least) {
		t.Fatalf("memory %v, least %v: exhaustive search says %v", memory, least, err)
	}
	if time, _, err := TimeBound(g, memory); err != nil || exists && time > want*(1+plan.Tolerance) {
		t.Fatalf("memory %v: time bound %v (%v), optimum %v", memory, time, err, want)
	}
	for name, method := range methods(10 + r.IntN(30)) {
		out, err := method(t.Context(), g, platform.Platform{Memory: memory})
		var inf *plan.Infeasible
		switch {
		case err == nil:
			report, err := plan.VerifyGraph(g, out)
			if err != nil || !report.Valid() || len(report.ClaimErrors) > 0 {
				t.Fatalf("memory %v: %s: %v, %+v", memory, name, err, report)
			}
			if !exists || report.PeakMemory > memory || report.Makespan < want*(1-plan.Tolerance) {
				t.Fatalf("memory %v: %s takes %v and %v bytes, the optimum is %v", memory, name, report.Makespan, report.PeakMemory, want)
			}
			if name == "search" {
				peak = report.PeakMemory
			}
		case errors.As(err, &inf):
			if inf.Memory > least || memory >= inf.Memory {
				t.Fatalf("memory %v: %s: %v, but %v is enough", memory, name, err, least)
			}
		case !errors.Is(err, plan.ErrNoPlan) || name == "search" && memory >= low:
			t.Fatalf("memory %v, reached %v: %s: %v", memory, low, name, err)
		}
	}
	return peak
}

// percentages of the range at which networks are planned.
var percentages = []float64{10, 30, 50, 70, 90}

func network(t testing.TB, name string) *graph.Graph {
	t.Helper()
	g, err := zoo.Graph(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func at(t testing.TB, g *graph.Graph, percent float64) platform.Platform {
	t.Helper()
	low, high, err := Range(g)
	if err != nil {
		t.Fatal(err)
	}
	return platform.Platform{Memory: low + percent/100*(high-low)}
}

// On the networks of the Checkmate paper and on ResNet-50 the search is within
// 0.6 % of a proven bound (U-Net at 10 %: 3 %), never behind another method, and
// the range begins at the proven bound.
func TestNetworks(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"vgg16", "mobilenet", "unet", "resnet50"} {
		g := network(t, name)
		low, _, err := Range(g)
		if err != nil {
			t.Fatal(err)
		}
		if bound := leastBound(t, g); bound != low {
			t.Errorf("%s: the range begins at %v, the bound is %v", name, low, bound)
		}
		for _, percent := range percentages {
			p := at(t, g, percent)
			bound, _, err := TimeBound(g, p.Memory)
			if err != nil {
				t.Fatal(err)
			}
			line := fmt.Sprintf("%s %2.0f %%: bound %.4f", name, percent, bound/g.TotalTime())
			best := math.Inf(1)
			for _, method := range []string{"chen", "linearised", "search"} {
				out, err := methods(400)[method](ctx, g, p)
				if errors.Is(err, plan.ErrNoPlan) && method != "search" {
					line += fmt.Sprintf(", %s none", method)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				time := verify(t, g, out)
				line += fmt.Sprintf(", %s %.4f", method, time/g.TotalTime())
				if method == "search" && time > best {
					t.Errorf("%s at %v %%: search %v, another %v", name, percent, time, best)
				}
				best = min(best, time)
			}
			gap := 0.006
			if name == "unet" && percent == 10 {
				gap = 0.03
			}
			if best > bound*(1+gap) {
				t.Errorf("%s at %v %%: %v, the bound is %v", name, percent, best, bound)
			}
			t.Log(line)
		}
	}
}

// The same seed gives the same plan.
func TestDeterministic(t *testing.T) {
	g := network(t, "mobilenet")
	p := at(t, g, 30)
	var ops []plan.Op
	for range 2 {
		out, err := Search(context.Background(), g, p, 7, 50)
		if err != nil {
			t.Fatal(err)
		}
		if ops != nil && !slices.Equal(ops, out.Ops) {
			t.Fatal("two runs with one seed differ")
		}
		ops = out.Ops
	}
}

// A search that is stopped returns what it has.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g := network(t, "unet")
	out, err := Search(ctx, g, at(t, g, 50), 1, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	verify(t, g, out)
}

func TestBadInput(t *testing.T) {
	node := func(id, kind string) graph.Node {
		return graph.Node{ID: id, Kind: kind, Time: 1, Memory: 1}
	}
	good := &graph.Graph{
		Name:  "good",
		Nodes: []graph.Node{node("a", graph.Forward), node("l", graph.Loss), node("b", graph.Backward)},
		Edges: []graph.Edge{{From: 0, To: 1}, {From: 0, To: 2}, {From: 1, To: 2}},
	}
	mixed := &graph.Graph{
		Name:  "mixed",
		Nodes: []graph.Node{node("a", graph.Forward), node("l", graph.Loss), node("f", graph.Forward), node("b", graph.Backward)},
		Edges: []graph.Edge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 3}},
	}
	for _, v := range []struct {
		name string
		g    *graph.Graph
		want string
	}{
		{"empty", &graph.Graph{}, "no nodes"},
		{"edge", &graph.Graph{Nodes: good.Nodes, Edges: []graph.Edge{{From: 2, To: 1}}}, "edges must go forward"},
		{"time", &graph.Graph{Nodes: []graph.Node{{ID: "x", Kind: graph.Forward, Time: math.NaN()}}}, "NaN"},
	} {
		for name, method := range methods(1) {
			if _, err := method(context.Background(), v.g, platform.Platform{Memory: 10}); !errors.Is(err, stages.ErrGraph) || !strings.Contains(err.Error(), v.want) {
				t.Errorf("%s: %s: %v", v.name, name, err)
			}
		}
		_, _, e1 := Range(v.g)
		_, _, e2 := TimeBound(v.g, 10)
		if !errors.Is(e1, stages.ErrGraph) || !errors.Is(e2, stages.ErrGraph) {
			t.Errorf("%s: %v, %v", v.name, e1, e2)
		}
	}
	for name, method := range methods(1) {
		var inf *plan.Infeasible
		_, err := method(context.Background(), good, platform.Platform{Memory: 2})
		if !errors.As(err, &inf) || inf.Memory != 3 || inf.Why == "" {
			t.Errorf("%s in too little memory: %v", name, err)
		}
		out, err := method(context.Background(), mixed, platform.Platform{Memory: 10})
		if name == "chen" || name == "linearised" {
			if !errors.Is(err, plan.ErrNoPlan) {
				t.Errorf("%s of forwards after backwards: %v", name, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			verify(t, mixed, out)
		}
	}
	if time, _, err := TimeBound(good, 2); err != nil || !math.IsInf(time, 1) {
		t.Errorf("time bound where nothing fits: %v, %v", time, err)
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, name := range []string{"vgg16", "mobilenet", "unet", "resnet50"} {
		g := network(b, name)
		p := at(b, g, 30)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Search(context.Background(), g, p, 1, 1000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLinearised(b *testing.B) {
	g := network(b, "mobilenet")
	p := at(b, g, 30)
	for b.Loop() {
		if _, err := Linearised(context.Background(), g, p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTimeBound(b *testing.B) {
	g := network(b, "resnet50")
	p := at(b, g, 10)
	for b.Loop() {
		if _, _, err := TimeBound(g, p.Memory); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRange(b *testing.B) {
	g := network(b, "densenet201")
	for b.Loop() {
		if _, _, err := Range(g); err != nil {
			b.Fatal(err)
		}
	}
}
