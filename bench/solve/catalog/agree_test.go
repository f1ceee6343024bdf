package catalog_test

import (
	"context"
	"math"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog/catalogtest"
	"workbench/bench/solve/method"
	"workbench/model/plan"
	"workbench/model/platform"
	combinedview "workbench/model/problem/rematoffload"
	"workbench/model/proof"
	"workbench/model/testfile"
)

// work runs a method of remat at a share of the instance's memory range.
func work(t *testing.T, in *solve.Instance, method string, percent float64) *solve.Result {
	t.Helper()
	p, m := catalogtest.Find(t, plan.Remat, method)
	backend, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	memory := catalogtest.Memory(p, in, platform.MemorySpec{Percent: true, Range: true, Value: percent})
	return solve.Run(context.Background(), p, m, in, solve.Setting{
		Platform: platform.Platform{Memory: memory}, Backend: backend, Threads: 1, Slots: solve.DefaultSlots, Time: time.Minute,
	})
}

func makespan(r *solve.Result) float64 {
	if r.Makespan == nil {
		return math.Inf(1)
	}
	return *r.Makespan
}

// PyTorch's MILP of checkpointed modules has a plan of a step whose layers are marked, at half of
// the memory that storing everything takes more than the least.
func TestModulesHaveAPlan(t *testing.T) {
	testfile.Long(t)
	in, err := solve.Load("zoo:gpt2?layers=2&as=training", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := work(t, in, "sac-ilp", 50)
	if r.Status != solve.Feasible || r.Makespan == nil {
		t.Fatalf("%s: %s", r.Status, r.Error)
	}
	if bound := work(t, in, "search", 50).Bound; bound == nil || *r.Makespan < bound.Value {
		t.Errorf("%g s, the bound is %+v", *r.Makespan, bound)
	}
}

// Two exact methods that share no code, a search and a MILP, have the same
// optimum, and the methods keep their order, on real networks.
func TestExactMethodsAgree(t *testing.T) {
	for _, spec := range testfile.Few(2, "zoo:resnet18", "zoo:gpt2?layers=6", "zoo:resnet50", "zoo:rnn?seq=10") {
		in, err := solve.Load(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, percent := range testfile.Few(2, 20.0, 0, 50, 80) {
			optimum, milp := work(t, in, "optimum", percent), work(t, in, "chain-milp", percent)
			if optimum.Status != solve.Optimal || milp.Status != solve.Optimal {
				t.Errorf("%s at %g %%: optimum %s %s, chain-milp %s %s", spec, percent, optimum.Status, optimum.Error, milp.Status, milp.Error)
				continue
			}
			if a, b := makespan(optimum), makespan(milp); math.Abs(a-b) > 1e-6*a {
				t.Errorf("%s at %g %%: optimum %g s, chain-milp %g s", spec, percent, a, b)
			}
			last := makespan(optimum)
			for _, method := range []string{"floating", "persistent", "persistent-slots"} {
				now := makespan(work(t, in, method, percent))
				if now < last*(1-1e-9) {
					t.Errorf("%s at %g %%: %s takes %g s, the method before it %g s", spec, percent, method, now, last)
				}
				last = now
			}
			persistent := makespan(work(t, in, "persistent", percent))
			for _, method := range []string{"revolve", "periodic", "store-all"} {
				if now := makespan(work(t, in, method, percent)); now < persistent*(1-1e-9) {
					t.Errorf("%s at %g %%: %s takes %g s, persistent %g s", spec, percent, method, now, persistent)
				}
			}
		}
	}
}

// On graphs the strengthened MILP meets the paper's, if only among schedules of
// stages, and no heuristic beats its bound.
func TestCheckmatesAgree(t *testing.T) {
	testfile.Long(t)
	in, err := solve.Load("zoo:rnn?seq=4&as=graph", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, percent := range testfile.Few(1, 30., 0, 70) {
		strong, plain := work(t, in, "checkmate", percent), work(t, in, "checkmate-plain", percent)
		if strong.Ended != proof.Closed || plain.Ended != proof.Closed {
			t.Errorf("at %g %%: checkmate %s %s, plain %s %s", percent, strong.Ended, strong.Error, plain.Ended, plain.Error)
			continue
		}
		if a, b := makespan(strong), makespan(plain); math.Abs(a-b) > 1e-6*a {
			t.Errorf("at %g %%: checkmate %g s, plain %g s", percent, a, b)
		}
		for _, method := range []string{"search", "linearised", "chen", "store-all", "checkmate-lp-round", "checkmate-lp-round-strong"} {
			if r := work(t, in, method, percent); makespan(r) < strong.Bound.Value*(1-1e-6) || r.Status == solve.Failed {
				t.Errorf("at %g %%: %s takes %g s (%s %s), the bound is %g s", percent, method, makespan(r), r.Status, r.Error, strong.Bound.Value)
			}
		}
	}
}

// offloaded runs a method of a problem with a link of 12 GB/s.
func offloaded(t *testing.T, problem string, in *solve.Instance, method string, percent float64) *solve.Result {
	t.Helper()
	p, m := catalogtest.Find(t, problem, method)
	backend, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	memory := catalogtest.Memory(p, in, platform.MemorySpec{Percent: true, Range: true, Value: percent})
	return solve.Run(context.Background(), p, m, in, solve.Setting{
		Platform: platform.Platform{Memory: memory, Bandwidth: 12e9}, Backend: backend, Threads: 1, Time: 30 * time.Second, Gap: 0.02,
	})
}

// On real networks every method that finds a plan keeps the bounds, search is
// behind none, and with all the memory nothing is sent.
func TestOffloadMethodsAgree(t *testing.T) {
	for _, spec := range []string{"zoo:resnet18?image=500&batch=4", "zoo:vgg16", "zoo:rnn?seq=10"} {
		in, err := solve.Load(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, percent := range testfile.Few(1, 40., 0, 80, 100) {
			best := offloaded(t, plan.ActivationOffload, in, "search", percent)
			if best.Makespan == nil {
				t.Fatalf("%s at %g %%: %s %s", spec, percent, best.Status, best.Error)
			}
			for _, method := range []string{"greedy", "vdnn", "tflms", "autoswap", "dynprog", "dynprog-slots", "fractional"} {
				r := offloaded(t, plan.ActivationOffload, in, method, percent)
				if r.Status == solve.Failed || makespan(r) < makespan(best)*(1-1e-9) {
					t.Errorf("%s at %g %%: %s takes %g s (%s %s), search %g s", spec, percent, method, makespan(r), r.Status, r.Error, makespan(best))
				}
				if r.Makespan == nil && method != "tflms" && method != "fractional" {
					t.Errorf("%s at %g %%: %s has no plan: %s", spec, percent, method, r.Error)
				}
			}
			if moved := method.ActivationOffload().Moved(in, best.Plan); percent == 100 && (moved != 0 || best.Status != solve.Optimal) {
				t.Errorf("%s with all the memory: %g moved, %s", spec, moved, best.Status)
			}
		}
	}
}

// With both ways to save memory search is behind none of the others, and none
// beats the bounds.
func TestRematOffloadMethodsAgree(t *testing.T) {
	for _, spec := range []string{"zoo:resnet18?image=500&batch=4", "zoo:rnn?seq=6"} {
		in, err := solve.Load(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, percent := range testfile.Few(1, 30., 0, 70, 100) {
			best := offloaded(t, plan.RematOffload, in, "search", percent)
			if best.Makespan == nil {
				t.Fatalf("%s at %g %%: %s %s", spec, percent, best.Status, best.Error)
			}
			for _, method := range []string{"pure-remat", "pure-offload", "opportunist", "autocapper", "pofo"} {
				r := offloaded(t, plan.RematOffload, in, method, percent)
				if r.Status == solve.Failed || makespan(r) < makespan(best)*(1-1e-9) {
					t.Errorf("%s at %g %%: %s takes %g s (%s %s), search %g s", spec, percent, method, makespan(r), r.Status, r.Error, makespan(best))
				}
			}
			if moved := method.RematOffload().Moved(in, best.Plan); percent == 100 && (moved != 0 || best.Status != solve.Optimal) {
				t.Errorf("%s with all the memory: %g moved, %s", spec, moved, best.Status)
			}
		}
	}
}

// What fits only with both says so: activation offloading alone is proved
// infeasible there, and pure-offload has no plan, which proves nothing.
func TestRematOffloadBelowOffloading(t *testing.T) {
	in, err := solve.Load("zoo:densenet121", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, m := catalogtest.Find(t, plan.RematOffload, "pure-offload")
	alone, _ := catalogtest.Find(t, plan.ActivationOffload, "greedy")
	least, _ := alone.Range(in, solve.Setting{})
	low, _ := combinedview.Least(in.Chain())
	if low >= least {
		t.Fatalf("computing again saves nothing here: %g and %g bytes", low, least)
	}
	s := solve.Setting{Platform: platform.Platform{Memory: (low + least) / 2, Bandwidth: 12e9}}
	if r := solve.Run(context.Background(), p, m, in, s); r.Status != solve.Limit {
		t.Errorf("pure-offload: %s %s", r.Status, r.Error)
	}
	s.Platform.Memory = 1
	if r := solve.Run(context.Background(), p, m, in, s); r.Status != solve.Infeasible {
		t.Errorf("pure-offload in one byte: %s %s", r.Status, r.Error)
	}
}

// The MILPs start from the search, are never behind it, and what they prove no
// plan beats; of short chains the one of activation offloading is exact.
func TestMILPsOnALink(t *testing.T) {
	testfile.Long(t)
	for _, x := range []struct {
		problem, method, spec string
		optimal               bool
	}{
		{plan.ActivationOffload, "offload-milp", "zoo:rnn?seq=6", true},
		{plan.ActivationOffload, "offload-milp", "zoo:rnn?seq=12", true},
		{plan.RematOffload, "remat-offload-milp", "zoo:rnn?seq=3", false},
	} {
		in, err := solve.Load(x.spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, percent := range []float64{20, 60, 100} {
			r, search := offloaded(t, x.problem, in, x.method, percent), offloaded(t, x.problem, in, "search", percent)
			if r.Makespan == nil || makespan(r) > makespan(search)*(1+1e-9) || r.Plan.Method != x.method {
				t.Errorf("%s %s at %g %%: %g s (%s %s), search %g s", x.method, x.spec, percent, makespan(r), r.Status, r.Error, makespan(search))
				continue
			}
			if (x.optimal || percent == 100) && r.Status != solve.Optimal {
				t.Errorf("%s %s at %g %%: %s, %g s, bound %g s", x.method, x.spec, percent, r.Status, makespan(r), r.Bound.Value)
			}
			if r.Bound.Value > makespan(search)*(1+1e-6) {
				t.Errorf("%s %s at %g %%: the bound %g s is above a plan of %g s", x.method, x.spec, percent, r.Bound.Value, makespan(search))
			}
		}
	}
}
