package flush_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/heuristics/flush"
	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/flush"
	"workbench/model/testfile"
)

// Of stages that compute forward again, or not: four on two GPUs.
func TestRecompute(t *testing.T) {
	t.Parallel()
	choices(t, rand.New(rand.NewPCG(19, 6)), 4, 2)
}

// Of stages that compute forward again, send to the host, or neither: two on two GPUs.
func TestOffload(t *testing.T) {
	t.Parallel()
	choices(t, rand.New(rand.NewPCG(19, 8)), 2, 3)
}

// What is chosen for each stage of random pipelines has a plan wherever nothing, one option for all of them or for half of them has,
// one no worse than these have by the same means, and mostly the best of all choices. No choice is better
// than the bound on all of them.
func choices(t *testing.T, r *rand.Rand, stageCount, options int) {
	t.Helper()
	best, tried, only, near, last := 0, 0, 0, 0, 0
	for n := range testfile.Cases(60) {
		c := &chain.Chain{Name: "drawn", Input: chain.Input{Activation: 1}}
		for range 4 + r.IntN(4) {
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: float64(1 + r.IntN(5)), BackwardTime: float64(2 + r.IntN(8)), Activation: 1, Gradient: 1, Saved: float64(4 + r.IntN(20)),
				Weight: float64(r.IntN(4)),
			})
		}
		p := platform.Platform{Processors: 2, MicroBatches: 2 + r.IntN(4), Placement: plan.VShaped}
		if stageCount == 2 {
			p.Placement = plan.Straight
		}
		cut := stages.Cutting{
			Stages: stageCount, Weight: 0.5, WeightMemory: 0.5, Copies: 1, SendShare: 0.5 + 0.5*r.Float64(),
			HostBandwidth: float64(2 + r.IntN(20)),
		}
		of := func(choice []int) (*view.Instance, error) {
			cut.Recompute, cut.Send = make([]bool, stageCount), make([]bool, stageCount)
			for s, x := range choice {
				cut.Recompute[s], cut.Send[s] = x == 1, x == 2
			}
			in, err := stages.Cut(c, cut)
			if err != nil {
				return nil, err
			}
			return view.New(in, p)
		}
		// objective returns what a choice has, and what it has least memory for.
		objective := func(choice []int) (float64, float64) {
			v, err := of(choice)
			if err != nil {
				t.Fatal(err)
			}
			if v.Fits() != nil {
				return math.Inf(1), v.MinMemory()
			}
			s, err := v.Schedule(flush.Search(t.Context(), v, flush.List(t.Context(), v), flush.Goal{Bound: v.Bound().Value, Steps: 5_000}))
			if err != nil {
				t.Fatal(err)
			}
			return s.Objective, v.MinMemory()
		}
		all := func(option int) []int { return slices.Repeat([]int{option}, stageCount) }
		_, high := objective(all(0))
		_, low := objective(all(1))
		p.Memory = math.Ceil(low + (high*1.5-low)*r.Float64())
		chosen, err := flush.Choose(t.Context(), stageCount, options, of)
		if err != nil {
			t.Fatal(err)
		}
		found, least := math.Inf(1), math.Inf(1)
		if chosen != nil {
			found, _ = objective(chosen)
		}
		var uniform []*stages.Partition
		for option := range options {
			v, err := of(all(option))
			if err != nil {
				t.Fatal(err)
			}
			uniform = append(uniform, v.Partition)
		}
		bound, err := view.AnyChoice(uniform, p)
		if err != nil {
			t.Fatal(err)
		}
		for k := range int(math.Pow(float64(options), float64(stageCount))) {
			choice, half := make([]int, stageCount), 0
			for s := range choice {
				choice[s] = k % options
				k /= options
				if s > 0 && choice[s] != choice[s-1] {
					half = s
				}
			}
			x, _ := objective(choice)
			least = min(least, x)
			start := half == 0 || half == stageCount/2 && (choice[0] == 0 || choice[stageCount-1] == 0) &&
				slices.Equal(choice[:half], slices.Repeat(choice[:1], half))
			if start && found > x*(1+1e-3) {
				t.Fatalf("case %d: %v has %v, %v has %v\n%+v %+v", n, chosen, found, choice, x, c, p)
			}
		}
		if bound > least {
			t.Fatalf("case %d: no choice is said to be below %v, there is one of %v\n%+v %+v", n, bound, least, c, p)
		}
		if math.IsInf(least, 1) {
			continue
		}
		tried++
		if bound >= least*0.95 {
			near++
		}
		if slices.Contains(chosen, options-1) {
			last++
		}
		if without, _ := objective(all(0)); without > found*1.001 {
			only++
		}
		if found <= least*1.001 {
			best++
		}
	}
	t.Logf("%d of %d choices are the best of all; in %d one is worth it, in %d the last option; %d are within 5 %% of the bound on all", best,
		tried, only, last, near)
	if best*10 < tried*8 || only == 0 || near == 0 || last == 0 {
		t.Errorf("%d of %d choices are the best of all; in %d one is worth it, in %d the last option; %d are within 5 %% of the bound on all",
			best, tried, only, last, near)
	}
}
