package flush_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/flush"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyflush "workbench/model/verify/flush"
)

// states is how many states exhaustive search visits of an instance at most.
const states = 50_000

// On random instances no bound is above the optimum, what does not fit is what exhaustive
// search finds nothing for, and the best order is timed to the optimum. Every bound is
// the best one, and met, somewhere.
func TestAgainstExhaustiveSearch(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 1))
	met, tried := map[string]int{}, 0
	for n := range testfile.Cases(400) {
		in, p := random.Flush(r)
		v, err := flush.New(in, p)
		if err != nil {
			t.Fatal(err)
		}
		best, found, err := optimum.Search(in, p, states)
		switch {
		case errors.Is(err, exhaustive.ErrLimit):
			continue
		case errors.Is(err, exhaustive.ErrInfeasible):
			var infeasible *plan.Infeasible
			if !errors.As(v.Fits(), &infeasible) || infeasible.Memory <= p.Memory {
				t.Fatalf("case %d: nothing fits, and the view says %v\n%+v %+v", n, v.Fits(), in, p)
			}
			continue
		case err != nil:
			t.Fatal(err)
		case v.Fits() != nil:
			t.Fatalf("case %d: %v, but there is a plan\n%+v %+v", n, v.Fits(), in, p)
		}
		tried++
		if got := verified(t, in, found); math.Abs(got-best) > 1e-9*best {
			t.Fatalf("case %d: exhaustive search says %v, its plan has %v\n%+v %+v", n, best, got, in, p)
		}
		alone := v.OneMachine(t.Context(), best*2)
		if stays := v.Resident().OneMachine(t.Context(), best*2); alone.Value > stays.Value*(1+1e-9) {
			met["one-machine with its link"]++
		}
		for _, b := range append(v.Bounds(), alone) {
			if b.Value > best*(1+1e-12) {
				t.Fatalf("case %d: %s  of gpu%d is %v, the optimum %v\n%+v %+v\n%+v", n, b.By, b.GPU, b.Value, best, in, p, found.Ops)
			}
			if b.Value >= best*(1-1e-9) {
				met[b.By]++
			}
		}
		order, ok := v.OrderOf(found)
		if !ok || !v.KeepsMemory(order) {
			t.Fatalf("case %d: the order of the optimum is none of the view's", n)
		}
		s, err := v.Schedule(order)
		if err != nil || math.Abs(s.Objective-best) > 1e-9*best {
			t.Fatalf("case %d: the order of the optimum is timed to %+v (%v), the optimum is %v", n, s, err, best)
		}
		if got := verified(t, in, v.Plan("test", s)); math.Abs(got-best) > 1e-9*best {
			t.Fatalf("case %d: the plan of it has %v", n, got)
		}
	}
	t.Logf("%d optima; a bound is met: %v", tried, met)
	for _, by := range []string{
		"load", "warm-up", "little", "round-trips", "gaps", "packing", "one-machine", "two-machines",
		"one-machine with its link", "link",
	} {
		if met[by] == 0 && !testing.Short() {
			t.Errorf("%s is never the optimum, or never more than without", by)
		}
	}
}

// On one GPU of several stages, where memory is all that holds micro-batches up, and on two
// with little of it, no bound is above the optimum.
func TestPacking(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 3))
	met, tried := map[string]int{}, 0
	for n := range testfile.Cases(400) {
		gpus, stages, jobs := 1, 2, 4
		switch r.IntN(3) {
		case 0:
			stages, jobs = 3, 3
		case 1:
			gpus, stages, jobs = 2, 2, 4
		}
		in := random.Stages(r, stages, r.IntN(3) == 0)
		in.CommunicationTime = float64(r.IntN(6))
		p := platform.Platform{Placement: plan.Interleaved, Processors: gpus, MicroBatches: jobs}
		v, err := flush.New(in, p)
		if err != nil {
			t.Fatal(err)
		}
		p.Memory = v.MinMemory() + float64(r.IntN(5))
		if v, err = flush.New(in, p); err != nil {
			t.Fatal(err)
		}
		best, _, err := optimum.Search(in, v.Platform, states)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		tried++
		for _, b := range append(v.Bounds(), v.OneMachine(t.Context(), best*2)) {
			if b.Value > best*(1+1e-12) {
				t.Fatalf("case %d: %s is %v, the optimum %v\n%+v %+v", n, b.String(), b.Value, best, in, p)
			}
			if b.Value >= best*(1-1e-9) {
				met[b.By]++
			}
		}
	}
	t.Logf("%d optima; bounds that are met: %v", tried, met)
	if !testing.Short() && (met["packing"] == 0 || met["one-machine"] <= met["packing"]) {
		t.Error("packing is never the optimum, or a GPU alone is no more often than that")
	}
}

// verified returns the objective of a plan that keeps the rules.
func verified(t *testing.T, in *stages.Partition, p *plan.Plan) float64 {
	t.Helper()
	r, err := verifyflush.Verify(in, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%+v %v\n%+v\n%+v", r.Violations, r.ClaimErrors, in, p)
	}
	return r.Objective(p.Problem)
}

// Stages without W on GPUs of several do not weigh in what Bs of others take, whatever they
// precede after: bounds above the optimum were printed here.
func TestStagesWithoutWeights(t *testing.T) {
	t.Parallel()
	in := &stages.Partition{Name: "no W", Stages: []stages.Stage{
		{ForwardTime: 2, BackwardTime: 2, ForwardMemory: 3, BackwardMemory: -3, Weight: 2},
		{BackwardTime: 5, Weight: 2},
		{ForwardTime: 3, ForwardMemory: 2, BackwardMemory: -2},
	}}
	v, err := flush.New(in, platform.Platform{Memory: 10, Processors: 1, MicroBatches: 3, Placement: plan.Interleaved})
	if err != nil {
		t.Fatal(err)
	}
	if b := v.Bound(); b.Value > 36 {
		t.Errorf("%s is %v, the optimum 36", b.String(), b.Value)
	}
}

// What a placement has no GPUs for is refused with what would be right.
func TestRefused(t *testing.T) {
	t.Parallel()
	in := random.Stages(rand.New(rand.NewPCG(1, 1)), 6, true)
	for _, p := range []platform.Platform{
		{Processors: 5},
		{Processors: 4, Placement: plan.Interleaved},
		{Processors: 2, Placement: plan.VShaped},
		{Placement: "round"},
		{Objective: "speed"},
		{MicroBatches: -1},
		{MicroBatches: stages.MostMicroBatches + 1},
	} {
		if _, err := flush.New(in, p); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
	for placement, gpus := range map[string]int{plan.Straight: 6, plan.Interleaved: 3, plan.VShaped: 3} {
		v, err := flush.New(in, platform.Platform{Placement: placement})
		if err != nil || v.GPUs != gpus {
			t.Errorf("%s: %d GPUs, %v", placement, v.GPUs, err)
		}
	}
}

// TestBoundsStopped: bounds that are stopped are those of the first GPU, and of all.
func TestBoundsStopped(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	closed := make(chan struct{})
	close(closed)
	for range 50 {
		in := random.Stages(r, 3, false)
		v, err := flush.New(in, platform.Platform{Placement: plan.Straight, Processors: 3, MicroBatches: 3, Memory: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		all := v.Bounds()
		v.Stop = closed
		few := v.Bounds()
		if len(few) == 0 || len(few) >= len(all) || few[0].Value > all[0].Value {
			t.Fatalf("%v stopped, %v else", few, all)
		}
	}
}
