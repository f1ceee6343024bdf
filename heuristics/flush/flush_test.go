package flush_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"workbench/heuristics/flush"
	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/flush"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/flush"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyflush "workbench/model/verify/flush"
)

// Every method makes valid plans or none, none below the optimum, and the branch and
// bound finds and proves that.
func TestAgainstExhaustiveSearch(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 2))
	made, above := map[string]int{}, 0
	for n := range testfile.Cases(200) {
		in, p := random.Flush(r)
		optimum, _, err := optimum.Search(in, p, 50_000)
		if errors.Is(err, exhaustive.ErrInfeasible) || errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		v, err := view.New(in, p)
		if err != nil {
			t.Fatal(err)
		}
		check := func(name string, o view.Order) float64 {
			t.Helper()
			s, err := v.Schedule(o)
			if err != nil {
				t.Fatalf("case %d: %s: %v", n, name, err)
			}
			report, err := verifyflush.Verify(in, v.Plan(name, s))
			if err != nil || !report.Valid() || len(report.ClaimErrors) > 0 {
				t.Fatalf("case %d: %s: %v %+v", n, name, err, report)
			}
			if x := report.Objective(plan.Flush); x < optimum*(1-1e-9) {
				t.Fatalf("case %d: %s has %v, below the optimum, %v\n%+v %+v", n, name, x, optimum, in, p)
			}
			return s.Objective
		}
		for name, method := range map[string]flush.Method{
			"gpipe": flush.GPipe, "1f1b": flush.OneFOneB, "interleaved": flush.Interleaved, "h1": flush.ZBH1, "h2": flush.ZBH2,
			"auto": flush.ZBAuto, "v": flush.ZBV, "half": flush.VHalf, "min": flush.VMin, "list": flush.List,
			"modulo": flush.Modulo(1),
		} {
			if name != "list" {
				method = flush.Send(method)
			}
			o := method(t.Context(), v)
			if o == nil || !v.Complete(o) || !v.KeepsMemory(o) {
				if name == "list" {
					t.Fatalf("case %d: list finds nothing, there is a plan\n%+v %+v", n, in, p)
				}
				continue
			}
			if _, err := v.Schedule(o); err == nil {
				made[name]++
				check(name, o)
			}
		}
		f := flush.Exact(t.Context(), v, flush.Goal{Bound: v.Bound().Value, Seed: uint64(n), Steps: 100})
		if x := check("exact", f.Order); x > optimum*(1+1e-8) || f.Bound > optimum*(1+1e-12) || f.Bound < x*(1-1e-8) &&
			v.Bound().Value < x*(1-1e-8) {
			t.Fatalf("case %d: exact has %v and proves %v, the optimum is %v\n%+v %+v", n, x, f.Bound, optimum, in, p)
		}
		if optimum > v.Bound().Value*(1+1e-6) {
			above++
		}
	}
	t.Logf("plans: %v; %d optima are above the bounds", made, above)
	if above == 0 {
		t.Error("no optimum is above the bounds: the branch and bound proves nothing")
	}
}

// No bound is above what list scheduling reaches, on pipelines that exhaustive search is too
// slow for, of all placements and with little memory.
func TestBoundsAreBelowSchedules(t *testing.T) {
	t.Parallel()
	cases := testfile.Cases(1000)
	if testing.Short() {
		cases /= 8 // of which a few take most
	}
	r := rand.New(rand.NewPCG(19, 4))
	met := map[string]int{}
	for n := range cases {
		gpus, jobs := 1+r.IntN(5), 1+r.IntN(14)
		placement := [...]string{plan.Straight, plan.Interleaved, plan.VShaped}[r.IntN(3)]
		stageCount := gpus
		switch placement {
		case plan.Interleaved:
			stageCount *= 1 + r.IntN(3)
		case plan.VShaped:
			stageCount *= 2
		}
		in := random.Stages(r, stageCount, r.IntN(3) > 0)
		if r.IntN(3) == 0 {
			random.Copies(r, in)
		}
		p := platform.Platform{
			Placement: placement, Processors: gpus, MicroBatches: jobs,
			Objective: [...]string{plan.SpanObjective, plan.MakespanObjective}[r.IntN(2)],
		}
		v, err := view.New(in, p)
		if err != nil {
			t.Fatal(err)
		}
		p.Memory = v.MinMemory() + float64(r.IntN(12))
		if v, err = view.New(in, p); err != nil {
			t.Fatal(err)
		}
		o := flush.List(t.Context(), v)
		s, err := v.Schedule(o)
		if err != nil {
			t.Fatalf("case %d: %v\n%+v %+v", n, err, in, p)
		}
		if !slices.Contains(v.Sends, true) {
			links := *v
			links.Moves = slices.Repeat([]bool{true}, gpus)
			if same, err := links.Schedule(o); err != nil || !reflect.DeepEqual(same.Start, s.Start) {
				t.Fatalf("case %d: beside links that copy nothing the order is timed to %v (%v), without them to %v", n, same, err, s.Start)
			}
		}
		bounds := v.Bounds()
		if n%4 == 0 { // which take most
			bounds = append(bounds, v.OneMachine(t.Context(), s.Objective*1.5))
		}
		for _, b := range bounds {
			if b.Value > s.Objective*(1+1e-9) {
				t.Fatalf("case %d: %s is %v, a schedule has %v\n%+v %+v", n, b.String(), b.Value, s.Objective, in, p)
			}
			if b.Value > s.Objective*(1-1e-9) {
				met[b.By]++
			}
		}
	}
	t.Logf("met by: %v", met)
	if met["packing"] == 0 || met["round-trips"] == 0 {
		t.Errorf("bounds that are met: %v", met)
	}
}

// Of stages that take one time for F, B and W, with memory for everything, the schedules
// with names have the bubbles that their papers say: (P − 1)(F + B) of GPipe and 1F1B whose
// backward is split, (P − 1)(F + B − W) of ZB-H1, none of ZB-H2. Interleaving and V have
// less than twice that of 1F1B, in stages half as long; ZB-V has none.
func TestNamedSchedules(t *testing.T) {
	t.Parallel()
	const gpus, jobs = 4, 12
	span := func(placement string, method flush.Method) float64 {
		t.Helper()
		in := &stages.Partition{Name: "uniform"}
		stageCount := gpus
		if placement != plan.Straight {
			stageCount = 2 * gpus
		}
		for range stageCount {
			in.Stages = append(in.Stages, stages.Stage{
				ForwardTime: 1, BackwardTime: 1, WeightTime: 1, ForwardMemory: 2, BackwardMemory: -1,
				WeightMemory: -1,
			})
		}
		v, err := view.New(in, platform.Platform{Memory: 1000, MicroBatches: jobs, Placement: placement})
		if err != nil {
			t.Fatal(err)
		}
		s, err := v.Schedule(method(t.Context(), v))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := verifyflush.Verify(in, v.Plan("test", s)); err != nil || !r.Valid() {
			t.Fatal(err, r)
		}
		return s.Objective
	}
	for name, x := range map[string]struct {
		placement string
		method    flush.Method
		want      float64
	}{
		"gpipe": {plan.Straight, flush.GPipe, 3*jobs + 2*(gpus-1)}, "1f1b": {plan.Straight, flush.OneFOneB, 3*jobs + 2*(gpus-1)},
		"zb-h1": {plan.Straight, flush.ZBH1, 3*jobs + gpus - 1}, "zb-h2": {plan.Straight, flush.ZBH2, 3 * jobs},
		"zb-auto": {plan.Straight, flush.ZBAuto, 3 * jobs},
		"zb-v":    {plan.VShaped, flush.ZBV, 6 * jobs},
	} {
		if got := span(x.placement, x.method); got != x.want {
			t.Errorf("%s: a span of %v, not %v", name, got, x.want)
		}
	}
	for name, x := range map[string]struct {
		placement string
		method    flush.Method
	}{
		"interleaved": {plan.Interleaved, flush.Interleaved}, "v-half": {plan.VShaped, flush.VHalf}, "v-min": {plan.VShaped, flush.VMin},
	} {
		if got := span(x.placement, x.method); got < 6*jobs || got >= 6*jobs+4*(gpus-1) {
			t.Errorf("%s: a span of %v", name, got)
		}
	}
}

// Steps of the annealing on eight GPUs with little memory, straight and on a V, and list scheduling.
func BenchmarkSearch(b *testing.B) {
	for stageCount, placement := range map[int]string{8: plan.Straight, 16: plan.VShaped} {
		in := random.Stages(rand.New(rand.NewPCG(19, 6)), stageCount, true)
		v, err := view.New(in, platform.Platform{Memory: 60, MicroBatches: 32, Placement: placement})
		if err != nil {
			b.Fatal(err)
		}
		var o view.Order
		b.Run("list-"+placement, func(b *testing.B) {
			for b.Loop() {
				o = flush.List(b.Context(), v)
			}
		})
		const steps = 2000
		b.Run("search-"+placement, func(b *testing.B) {
			for b.Loop() {
				flush.Search(b.Context(), v, o, flush.Goal{Steps: steps})
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N)/steps, "µs/step")
		})
	}
}
