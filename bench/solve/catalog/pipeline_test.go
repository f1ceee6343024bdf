package catalog_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve/catalog"
	"workbench/bench/solve/catalog/catalogtest"
	"workbench/heuristics/pipelinegraph"
	"workbench/model/instance/graph"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/ideals"
	"workbench/model/zoo"

	"workbench/bench/solve"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/testfile"
	"workbench/solvers/highs"
)

// pipelined runs methods on a chain, none of which comes to need its backend, and
// judges them together.
func pipelined(t *testing.T, c *chain.Chain, p platform.Platform, model string,
	methods ...string,
) (results []*solve.Result, best, conditional *solve.Bound) {
	t.Helper()
	in, err := solve.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range methods {
		problem, m := catalogtest.Find(t, plan.Pipeline, name)
		results = append(results, solve.Run(t.Context(), problem, m, in, solve.Setting{Platform: p, MemoryModel: model, Gap: 1e-6}))
	}
	best, conditional = solve.JudgeTogether(results)
	return results, best, conditional
}

// The family of [004] Theorem 16, k = 3, with the memory of the buffers that the
// theorem does not count: 3-periodic patterns take 8/3 a mini-batch, 1-periodic
// ones 4. A bound on the latter is none on the former.
func TestBoundsBindWhatTheyAssume(t *testing.T) {
	c := &chain.Chain{Name: "theorem16", Input: chain.Input{Activation: 1, Gradient: 1}}
	for _, w := range []float64{3, 1, 2, 5} {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1, Weight: w})
	}
	p := platform.Platform{Memory: 8, Bandwidth: 1e20, Processors: 4, WeightCopies: 1}
	results, best, conditional := pipelined(t, c, p, plan.StageModel, "1f1b-star", "k-periodic", "branch-and-bound", "pipeline-milp")
	near := func(x, want float64) bool { return math.Abs(x-want) < 1e-6 }
	if best == nil || conditional == nil || !near(conditional.Value, 4) ||
		!slices.Equal(conditional.Assumptions, []string{plan.OnePeriodic}) ||
		!near(best.Value, 8.0/3) || len(best.Assumptions) > 0 {
		t.Fatalf("bounds %+v and %+v", best, conditional)
	}
	for i, want := range []struct {
		k      int
		period float64
		status solve.Status
		gap    float64
	}{{1, 4, solve.Feasible, 1.0 / 3}, {3, 8.0 / 3, solve.Optimal, 0}, {1, 4, solve.Feasible, 1.0 / 3}, {3, 8.0 / 3, solve.Optimal, 0}} {
		r := results[i]
		if r.Status != want.status || max(1, r.Plan.K) != want.k || !near(*r.Objective, want.period) || !near(r.Bound.Value, 8.0/3) ||
			!near(*r.Gap, want.gap) {
			t.Errorf("%s: %s %s, k = %d, period %v, bound %+v", r.Method, r.Status, r.Error, r.Plan.K, r.Objective, r.Bound)
		}
	}
	if r := results[3]; r.Note == "" {
		t.Errorf("%s says nothing of 1-periodic patterns", r.Method)
	}
	if r := results[0]; r.Conditional == nil || !near(r.Conditional.Value, 4) || !slices.Equal(r.OptimalWithin, []string{plan.OnePeriodic}) {
		t.Errorf("%s: optimal within %v, bound %+v", r.Method, r.OptimalWithin, r.Conditional)
	}
}

// On random chains no plan beats a bound that binds it, in either memory model, and 1F1B* does not beat
// branch-and-bound.
func TestPipelineMethodsAgree(t *testing.T) {
	planned := 0
	for seed := range uint64(testfile.Cases(100)) {
		r := rand.New(rand.NewPCG(seed, 31))
		size := func(n int) float64 { return float64(r.IntN(n)) }
		c := &chain.Chain{Name: "random", Input: chain.Input{Activation: size(4), Gradient: size(4)}}
		for range 1 + r.IntN(5) {
			a := size(4)
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: 1 + size(4), BackwardTime: 1 + size(4), Activation: a, Saved: a, Gradient: size(4),
				Weight: size(3),
			})
		}
		p := platform.Platform{
			Memory: 3 + size(25), Bandwidth: []float64{0.7, 2, 1e9}[r.IntN(3)], Processors: 1 + r.IntN(3),
			WeightCopies: r.IntN(3),
		}
		for _, model := range []string{plan.StageModel, plan.TaskModel} {
			results, _, _ := pipelined(t, c, p, model, "1f1b-star", "branch-and-bound", "k-periodic", "gpipe", "pipedream", "search")
			for _, x := range results {
				if x.Status == solve.Failed {
					t.Errorf("seed %d, %s: %s: %s\n%+v %+v", seed, model, x.Method, x.Error, c, p)
				}
			}
			star, best := results[0], results[1]
			if best.Plan != nil && best.Plan.K > 1 {
				t.Errorf("seed %d, %s: branch-and-bound has k = %d", seed, model, best.Plan.K)
			}
			if star.Plan != nil && (best.Plan == nil || *best.Objective > *star.Objective*(1+1e-9)) {
				t.Errorf("seed %d, %s: 1F1B* %v, best %v\n%+v %+v", seed, model, star.Objective, best.Objective, c, p)
			}
			if best.Plan != nil {
				planned++
			}
		}
	}
	if planned < testfile.Cases(60) {
		t.Errorf("only %d instances have plans", planned)
	}
}

// The default is never worse than what it is made of within the same limit: on a
// network, on a chain that its models take and on one that they do not.
func TestPipelineIsNoWorseThanItsParts(t *testing.T) {
	testfile.Long(t)
	t.Parallel()
	load := func(name string) *solve.Instance {
		in, err := solve.Load(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	random := func(layers int) *solve.Instance {
		r := rand.New(rand.NewPCG(uint64(layers), 15))
		c := &chain.Chain{Name: "random"}
		for range layers {
			f, a := 1e-3*(0.5+r.Float64()), 1e6*float64(1+r.IntN(400))
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: f, BackwardTime: f * (1.5 + r.Float64()), Activation: a, Saved: a, Gradient: a,
				Weight: 1e6 * float64(r.IntN(50)),
			})
		}
		in, err := solve.NewInstance(c)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	for _, in := range []*solve.Instance{load("zoo:resnet34?image=1000&batch=8"), random(40), random(200)} {
		problem, _ := catalogtest.Find(t, plan.Pipeline, "pipeline-milp")
		low, high := problem.Range(in, solve.Setting{})
		for _, limit := range []time.Duration{500 * time.Millisecond, 2 * time.Second} {
			s := solve.Setting{
				Time: limit, Gap: 1e-6, Backend: highs.New(),
				Platform: platform.Platform{Memory: math.Floor(low + 0.3*(high-low)), Bandwidth: 12e9, Processors: 4, WeightCopies: 3},
			}
			period := func(method string) (float64, *solve.Result) {
				_, m := catalogtest.Find(t, plan.Pipeline, method)
				r := solve.Run(t.Context(), problem, m, in, s)
				if r.Objective == nil {
					return math.Inf(1), r
				}
				return *r.Objective, r
			}
			all, of := period("pipeline-milp")
			if of.Err != nil || of.WallTime > limit.Seconds()+20 {
				t.Errorf("%s: %v after %.1f of %v", in.Name, of.Err, of.WallTime, limit)
			}
			for _, part := range []string{"1f1b-star", "k-periodic", "branch-and-bound"} {
				one, r := period(part)
				if part == "branch-and-bound" && (r.Ended == proof.TimeLimit || of.Ended == proof.TimeLimit) {
					continue // how far each got depends on what else the machine did
				}
				if all > one*(1+solve.Exactness) {
					t.Errorf("%s, %v: %v, %s alone %v (ended %s)", in.Name, limit, all, part, one, r.Ended)
				}
			}
		}
	}
}

// On graphs search begins with what the methods found that it is made of: where memory is
// short, what layers keep in its own stages may not fit, and used to be all it tried.
func TestGraphPipelineIsNoWorseThanItsParts(t *testing.T) {
	testfile.Long(t)
	t.Parallel()
	in, err := solve.Load("zoo:vgg16?as=graph", nil)
	if err != nil {
		t.Fatal(err)
	}
	problem, search := catalogtest.Find(t, plan.Pipeline, "search")
	low, high := problem.Range(in, solve.Setting{})
	for _, part := range testfile.Few(1, 0.2, 0.4, 0.05) {
		s := solve.Setting{Platform: platform.Platform{
			Memory: math.Floor(low + part*(high-low)), Bandwidth: 12e9, Processors: 4,
			WeightCopies: 3,
		}}
		all := solve.Run(t.Context(), problem, search, in, s)
		if all.Objective == nil {
			t.Fatal(all.Error)
		}
		for _, name := range []string{"1f1b-star", "k-periodic", "madpipe"} {
			_, m := catalogtest.Find(t, plan.Pipeline, name)
			if one := solve.Run(t.Context(), problem, m, in, s); one.Objective == nil || *all.Objective > *one.Objective*(1+solve.Exactness) {
				t.Errorf("%g of the range: search %v, %s %v (%s)", part, *all.Objective, name, one.Objective, one.Error)
			}
		}
	}
}

// Where memory does not bind, PipeDream's partition of a graph has the period that PipeDream
// reckons with, the largest load, in the plans of its own method, too: eager 1F1B alone,
// whose simulation may settle above that or not at all, had up to a third more.
func TestPipeDreamMeetsItsPeriodOnGraphs(t *testing.T) {
	t.Parallel()
	problem, method := catalogtest.Find(t, plan.Pipeline, "pipedream")
	for _, name := range testfile.Few(1, "unet", "rnn", "resnet18") {
		in, err := solve.Load("zoo:"+name+"?as=graph", nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := ideals.New(in.Graph())
		if err != nil {
			t.Fatal(err)
		}
		lattice, err := v.Lattice(pipelinegraph.MostIdeals)
		if err != nil {
			t.Fatal(err)
		}
		for _, bandwidth := range []float64{1e9, 4e9, 12e9} {
			for _, processors := range []int{2, 4} {
				p := platform.Platform{Memory: 1 << 42, Bandwidth: bandwidth, Processors: processors, WeightCopies: 3}
				_, want := pipelinegraph.Balanced(lattice, p)
				r := solve.Run(t.Context(), problem, method, in, solve.Setting{Platform: p})
				if r.Objective == nil {
					t.Fatal(r.Error)
				}
				if *r.Objective > want*(1+solve.Exactness) {
					t.Errorf("%s on %d GPUs at %g B/s: %v, PipeDream's period is %v", name, processors, bandwidth, *r.Objective, want)
				}
			}
		}
	}
}

// A plan that does not fit, as its layers keep more in its own stages than they were reckoned
// to, is followed by one for what they keep there, and not only by one for layers that keep
// all that they read: 80.9 ms.
func TestGraphPipelineAfterOneThatDoesNotFit(t *testing.T) {
	t.Parallel()
	in, err := solve.Load("zoo:unet?as=graph", nil)
	if err != nil {
		t.Fatal(err)
	}
	problem, method := catalogtest.Find(t, plan.Pipeline, "1f1b-star")
	low, high := problem.Range(in, solve.Setting{})
	p := platform.Platform{Memory: math.Floor(low + 0.2*(high-low)), Bandwidth: 10e9, Processors: 4, WeightCopies: 3}
	if r := solve.Run(t.Context(), problem, method, in, solve.Setting{Platform: p}); r.Objective == nil {
		t.Error(r.Error)
	} else if *r.Objective > 0.0682 {
		t.Errorf("%g s", *r.Objective)
	}
}

// What a graph of too many ideals loses is said, and of one with few nothing.
func TestCoarseGraphsSaySo(t *testing.T) {
	t.Parallel()
	problem, method := catalogtest.Find(t, plan.Pipeline, "1f1b-star")
	for length, want := range map[int]string{16: "49 operations in ", 2: ""} { // 17³ ideals are more than 4,000
		g := &graph.Graph{Name: "three chains"}
		loss := 3 * length
		var back []graph.Node
		for i := range loss {
			g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprint("f", i), Kind: graph.Forward, Time: 1, Memory: 1})
			back = append(back, graph.Node{ID: fmt.Sprint("b", i), Kind: graph.Backward, Time: 2})
			switch end := i%length == length-1; {
			case end:
				g.Edges = append(g.Edges, graph.Edge{From: i, To: loss}, graph.Edge{From: loss, To: 2*loss - i})
			default:
				g.Edges = append(g.Edges, graph.Edge{From: i, To: i + 1}, graph.Edge{From: 2*loss - i - 1, To: 2*loss - i})
			}
		}
		slices.Reverse(back)
		g.Nodes = append(append(g.Nodes, graph.Node{ID: "loss", Kind: graph.Loss}), back...)
		in, err := solve.NewInstance(g)
		if err != nil {
			t.Fatal(err)
		}
		r := solve.Run(t.Context(), problem, method, in, solve.Setting{
			Platform: platform.Platform{Memory: 1000, Bandwidth: 1, Processors: 2, WeightCopies: 3},
		})
		if r.Plan == nil || !strings.Contains(r.Note, want) || want == "" && r.Note != "" {
			t.Errorf("chains of %d: %q (%s)", length, r.Note, r.Error)
		}
	}
}

// At the least memory, which is known exactly, there is a plan, and a unit below it
// every method proves that there is none, in both models of memory; most networks on one
// number of GPUs, as their searches take seconds.
func TestPipelineAtLeastMemory(t *testing.T) {
	testfile.Long(t)
	t.Parallel()
	few := []string{"vgg16", "gpt2"}
	for i, name := range zoo.Names() {
		in, err := solve.Load("zoo:"+name, nil)
		if err != nil || in.Chain() == nil || in.Chain().Len() > 60 {
			continue
		}
		for k, processors := range []int{2, 4, 8} {
			if k != i%3 && !slices.Contains(few, name) {
				continue
			}
			memoryModel := []string{plan.TaskModel, plan.StageModel}[(k+len(name))%2]
			at := platform.Platform{Memory: 1, Bandwidth: 12e9, Processors: processors, WeightCopies: 3}
			x, err := view.New(in.Chain(), at, memoryModel)
			if err != nil {
				t.Fatal(err)
			}
			least := x.Least()
			if least.Low != least.High {
				t.Errorf("%s, %d GPUs, %s: the least memory is between %v and %v", name, processors, memoryModel, least.Low, least.High)
			}
			status := func(memory float64, method string) solve.Status {
				problem, m := catalogtest.Find(t, plan.Pipeline, method)
				at.Memory = memory
				ctx, planned := untilPlanned(t)
				return solve.Run(ctx, problem, m, in, solve.Setting{
					Platform: at, MemoryModel: memoryModel, Gap: 1e-6, Time: time.Minute,
					Backend: highs.New(), OnProgress: planned,
				}).Status
			}
			if s := status(least.High, "search"); s != solve.Feasible && s != solve.Optimal {
				t.Errorf("%s, %d GPUs, %s, %v bytes: %s, there is a plan", name, processors, memoryModel, least.High, s)
			}
			problem, _ := catalogtest.Find(t, plan.Pipeline, "search")
			for _, m := range catalog.MethodsFor(problem, in) {
				if !slices.Contains(few, name) && m.Name != "1f1b-star" && m.Name != "pipeline-milp" {
					continue
				}
				if s := status(least.Low-1, m.Name); s != solve.Infeasible {
					t.Errorf("%s, %d GPUs, %s, %v bytes: %s says %s, there is no plan", name, processors, memoryModel, least.Low-1, m.Name, s)
				}
			}
		}
	}
}
