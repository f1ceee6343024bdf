package strategy_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/strategy"
	"workbench/ilp/formulation"
	"workbench/model/plan"
	"workbench/model/testcase"
	"workbench/model/testfile"
)

func setting(t *testing.T) solve.Setting {
	t.Helper()
	s := solve.Setting{Time: 5 * time.Second, Threads: 1, Certify: formulation.Full}
	s.Platform.Bandwidth = 12e9
	if err := backends.Use(&s, "highs", false); err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t *testing.T, spec string) *solve.Instance {
	t.Helper()
	in, err := solve.Load(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// The table names problems and methods that exist and take the kinds it says.
func TestAllNamesMethods(t *testing.T) {
	for _, s := range strategy.All() {
		if s.Problem == nil { // a pipeline, whose method is none of the catalogue
			continue
		}
		p := s.Problem()
		for _, kind := range s.Kinds {
			if !slices.Contains(p.Takes, kind) {
				t.Errorf("%s: %s does not take %s", s.Name, p.Name, kind)
			}
		}
		if s.Method != "" {
			m, err := catalog.FindMethod(p, s.Method)
			if err != nil {
				t.Errorf("%s: %v", s.Name, err)
				continue
			}
			for _, kind := range s.Kinds {
				if !slices.Contains(m.Kinds(p), kind) {
					t.Errorf("%s: method %s does not take %s", s.Name, s.Method, kind)
				}
			}
		}
	}
}

// Plans come by step time, fit, and none is below the bound.
func TestRank(t *testing.T) {
	o := strategy.Options{Setting: setting(t), Allow: strategy.Words()}
	o.Setting.Platform.Memory = 2.2e9
	o.Setting.Time = 2 * time.Second
	r, err := strategy.Rank(t.Context(), load(t, "zoo:resnet18?batch=128"), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Best() == nil || r.Bound == nil || len(r.Rows) != 6 {
		t.Fatalf("no plan, no bound or a strategy too few: %+v", r)
	}
	for k, row := range r.Rows {
		if row.StepTime == nil {
			continue
		}
		if k > 0 && (r.Rows[k-1].StepTime == nil || *r.Rows[k-1].StepTime > *row.StepTime*(1+1e-9)) {
			t.Errorf("%s is behind a strategy without a plan or with a longer step", row.Strategy)
		}
		if *row.StepTime < r.Bound.Value*(1-1e-9) || *row.Slowdown < -1e-9 || *row.Peak > o.Setting.Platform.Memory {
			t.Errorf("%s: %v s, bound %v s, peak %v", row.Strategy, *row.StepTime, r.Bound.Value, *row.Peak)
		}
	}
}

// With several GPUs a step is the micro-batches: replicas take equal parts of them and sum gradients, pipelines do not beat their
// bounds and fit with weights, gradients and optimizer state.
func TestRankOnSeveralGPUs(t *testing.T) {
	in := load(t, "zoo:gpt2?batch=4")
	alone := strategy.Options{Setting: setting(t), Allow: []string{strategy.Pipeline}, GPU: 12 << 30, Optimizer: solve.Optimizers()[2]}
	alone.Setting.Time = 3 * time.Second
	several := alone
	several.GPUs = strategy.GPUs{N: 2, MicroBatches: 5, Link: 1e9}
	one, err := strategy.Rank(t.Context(), in, alone)
	if err != nil {
		t.Fatal(err)
	}
	r, err := strategy.Rank(t.Context(), in, several)
	if err != nil {
		t.Fatal(err)
	}
	totals := in.Chain().Totals()
	ring := in.Unit().Bytes(totals.Weight)/1e9 - totals.BackwardTime // 2·(2−1)/2 of the weights
	if ring <= 0 {
		t.Fatal("the sum of gradients hides behind the backward: nothing is tested")
	}
	pipelines := 0
	for _, row := range r.Rows {
		if row.Bound != nil && row.StepTime != nil && *row.StepTime < row.Bound.Value*(1-1e-9) {
			t.Errorf("%s: %v s, below the bound %v s", row.Strategy, *row.StepTime, row.Bound.Value)
		}
		for _, x := range one.Rows {
			if x.Strategy == row.Strategy && x.StepTime != nil {
				if want := 3**x.StepTime + ring; math.Abs(*row.StepTime-want) > 1e-9*want {
					t.Errorf("%s: replicas need %v s, want 3 times %v s and %v s for gradients", x.Strategy, *row.StepTime, *x.StepTime, ring)
				}
			}
		}
		if row.Problem != plan.Layout {
			continue
		}
		pipelines++
		if *row.Peak > alone.GPU || *row.Peak < 4*in.Unit().Bytes(totals.Weight)/2 || row.Result.Plan.Platform.MicroBatches != 5 {
			t.Errorf("%s: peak %v of %v, %d micro-batches", row.Strategy, *row.Peak, alone.GPU, row.Result.Plan.Platform.MicroBatches)
		}
	}
	if pipelines != 3 || len(r.Rows) != len(one.Rows)+3 {
		t.Errorf("%d pipelines in %d rows, %d rows without", pipelines, len(r.Rows), len(one.Rows))
	}
	several.GPUs.N = 64
	if r, err = strategy.Rank(t.Context(), in, several); err != nil || r.Rows[len(r.Rows)-1].Status != solve.Failed {
		t.Errorf("more GPUs than layers: %v", err)
	}
	if _, err := strategy.Rank(t.Context(), load(t, "zoo:resnet18?as=graph"), several); !errors.Is(err, solve.ErrInput) {
		t.Errorf("a graph as a pipeline: %v", err)
	}
}

// Five runs that close before their limit give one plan.
func TestRankIsRepeatable(t *testing.T) {
	o := strategy.Options{Setting: setting(t), Allow: []string{strategy.Recompute}}
	o.Setting.Platform.Memory, o.Setting.Time = 2.2e9, time.Minute
	in := load(t, "zoo:resnet18?batch=128")
	var first *strategy.Row
	for range 5 {
		r, err := strategy.Rank(t.Context(), in, o)
		if err != nil {
			t.Fatal(err)
		}
		best := r.Best()
		if best == nil || best.Status != solve.Optimal {
			t.Fatalf("not closed: %+v", r)
		}
		if first == nil {
			first = best
		}
		if diff := cmp.Diff(first.Result.Plan, best.Result.Plan, cmpopts.IgnoreUnexported(plan.Plan{})); diff != "" {
			t.Fatalf("another plan:\n%s", diff)
		}
	}
}

// On random tiny chains the ranking is never worse than each problem solved alone.
func TestRankIsNotWorseThanItsParts(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	subject := testcase.Remat()
	planned := 0
	for range testfile.Cases(20) {
		trial := subject.Draw(r)
		in, err := solve.NewInstance(trial.In)
		if err != nil {
			t.Fatal(err)
		}
		o := strategy.Options{Setting: setting(t), Allow: strategy.Words()}
		o.Setting.Platform = trial.Platform
		o.Setting.Platform.Bandwidth = 1 + 3*r.Float64()
		ranking, err := strategy.Rank(t.Context(), in, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"remat", "remat-offload", "activation-offload"} {
			p, err := catalog.FindProblem(name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := catalog.FindMethod(p, catalog.DefaultMethod(p, in))
			if err != nil {
				t.Fatal(err)
			}
			s := o.Setting
			if p.Bandwidth == "" {
				s.Platform.Bandwidth = 0
			}
			alone := solve.Run(t.Context(), p, m, in, s)
			if alone.Makespan == nil {
				continue
			}
			planned++
			if best := ranking.Best(); best == nil || *best.StepTime > *alone.Makespan*(1+1e-9) {
				t.Errorf("%s alone: %v s; ranked: %+v", name, *alone.Makespan, best)
			}
		}
	}
	if planned < testfile.Cases(20) {
		t.Errorf("only %d plans", planned)
	}
}

// What does not fit is an error of the right kind.
// What autograd saves counts where weights are offloaded: 126 GiB of gpt2-xl do not fit in 24 GiB, whatever moves.
func TestWeightsCountSavedTensors(t *testing.T) {
	o := strategy.Options{Setting: setting(t), Allow: strategy.Words(), GPU: 24 << 30, Optimizer: solve.Optimizers()[2]}
	r, err := strategy.Rank(t.Context(), load(t, "zoo:gpt2-xl"), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 1 || r.Rows[0].Status != solve.Infeasible || !errors.Is(r.Err(), solve.ErrInput) {
		t.Errorf("%+v: %v", r.Rows, r.Err())
	}
}

func TestErr(t *testing.T) {
	o := strategy.Options{Setting: setting(t), Allow: []string{strategy.Recompute}, GPU: 64 << 20, Optimizer: solve.Optimizers()[2]}
	r, err := strategy.Rank(t.Context(), load(t, "zoo:resnet18"), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); !errors.Is(err, solve.ErrInput) || r.Memory >= 0 {
		t.Errorf("a state that does not fit: %v, memory %v", err, r.Memory)
	}
	o = strategy.Options{Setting: setting(t), Allow: []string{strategy.Recompute}}
	o.Setting.Platform.Memory = 1 << 20
	if r, err = strategy.Rank(t.Context(), load(t, "zoo:resnet18"), o); err != nil {
		t.Fatal(err)
	}
	if err := r.Err(); !errors.As(err, new(*plan.Infeasible)) {
		t.Errorf("memory below the proven minimum: %v", err)
	}
	if _, err := strategy.Rank(t.Context(), load(t, "zoo:resnet18?stages=4&as=stages"), o); !errors.Is(err, solve.ErrInput) {
		t.Errorf("stages of a pipeline: %v", err)
	}
}
