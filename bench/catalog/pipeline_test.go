package catalog_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/bench/run"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// pipelined runs methods on a chain, none of which comes to need its backend, and
// judges them together.
func pipelined(t *testing.T, c *chain.Chain, p platform.Platform, model string, methods ...string) (results []*run.Result, best, conditional *run.Bound) {
	t.Helper()
	in, err := run.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range methods {
		problem, m := find(t, plan.Pipeline, name)
		results = append(results, run.Run(t.Context(), problem, m, in, run.Setting{Platform: p, MemoryModel: model, Gap: 1e-6}))
	}
	best, conditional = run.JudgeTogether(results)
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
	if best == nil || conditional == nil || !near(conditional.Value, 4) || !slices.Equal(conditional.Assumptions, []string{plan.OnePeriodic}) ||
		!near(best.Value, 8.0/3) || len(best.Assumptions) > 0 {
		t.Fatalf("bounds %+v and %+v", best, conditional)
	}
	for i, want := range []struct {
		k      int
		period float64
		status run.Status
		gap    float64
	}{{1, 4, run.Feasible, 1.0 / 3}, {3, 8.0 / 3, run.Optimal, 0}, {1, 4, run.Feasible, 1.0 / 3}, {3, 8.0 / 3, run.Optimal, 0}} {
		r := results[i]
		if r.Status != want.status || max(1, r.Plan.K) != want.k || !near(*r.Objective, want.period) || !near(r.Bound.Value, 8.0/3) || !near(*r.Gap, want.gap) {
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

// On random chains no plan beats a bound that binds it, in either memory model,
// and contiguous-optimum is not beaten by 1F1B*, nor branch-and-bound by it.
func TestPipelineMethodsAgree(t *testing.T) {
	planned := 0
	for seed := range uint64(testfile.Cases(100)) {
		r := rand.New(rand.NewPCG(seed, 31))
		size := func(n int) float64 { return float64(r.IntN(n)) }
		c := &chain.Chain{Name: "random", Input: chain.Input{Activation: size(4), Gradient: size(4)}}
		for range 1 + r.IntN(5) {
			a := size(4)
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1 + size(4), BackwardTime: 1 + size(4), Activation: a, Saved: a, Gradient: size(4), Weight: size(3)})
		}
		p := platform.Platform{Memory: 3 + size(25), Bandwidth: []float64{0.7, 2, 1e9}[r.IntN(3)], Processors: 1 + r.IntN(3), WeightCopies: r.IntN(3)}
		for _, model := range []string{plan.StageModel, plan.TaskModel} {
			results, _, _ := pipelined(t, c, p, model, "1f1b-star", "contiguous-optimum", "branch-and-bound", "k-periodic", "gpipe", "pipedream", "search")
			for _, x := range results {
				if x.Status == run.Failed {
					t.Errorf("seed %d, %s: %s: %s\n%+v %+v", seed, model, x.Method, x.Error, c, p)
				}
			}
			star, contiguous, best := results[0], results[1], results[2]
			if best.Plan != nil && best.Plan.K > 1 {
				t.Errorf("seed %d, %s: branch-and-bound has k = %d", seed, model, best.Plan.K)
			}
			if star.Plan != nil && (contiguous.Plan == nil || *contiguous.Objective > *star.Objective*(1+1e-9)) || contiguous.Plan != nil && *best.Objective > *contiguous.Objective*(1+1e-9) {
				t.Errorf("seed %d, %s: 1F1B* %v, contiguous %v, best %v\n%+v %+v", seed, model, star.Objective, contiguous.Objective, best.Objective, c, p)
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
