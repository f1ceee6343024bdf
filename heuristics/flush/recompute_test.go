package flush_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"workbench/heuristics/flush"
	"workbench/model/chain"
	view "workbench/model/flush"
	"workbench/model/partition"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// The stages that are chosen have a plan wherever none of them, all of them or half of them have,
// one no worse than these have by the same means, and mostly the best of all choices. No choice is better
// than the bound on all of them.
func TestRecompute(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 6))
	best, tried, only, near := 0, 0, 0, 0
	for n := range testfile.Cases(60) {
		c := &chain.Chain{Name: "drawn", Input: chain.Input{Activation: 1}}
		for range 4 + r.IntN(4) {
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: float64(1 + r.IntN(5)), BackwardTime: float64(2 + r.IntN(8)), Activation: 1, Gradient: 1, Saved: float64(4 + r.IntN(20)), Weight: float64(r.IntN(4)),
			})
		}
		p := platform.Platform{Processors: 2, MicroBatches: 2 + r.IntN(4), Placement: plan.VShaped}
		cut := partition.Cutting{Stages: 4, Weight: 0.5, WeightMemory: 0.5, Copies: 1}
		of := func(again []bool) (*view.Instance, error) {
			cut.Recompute = again
			in, err := partition.Cut(c, cut)
			if err != nil {
				return nil, err
			}
			return view.New(in, p)
		}
		// objective returns what a choice has, and what it has least memory for.
		objective := func(again []bool) (float64, float64) {
			v, err := of(again)
			if err != nil {
				t.Fatal(err)
			}
			if v.Fits() != nil {
				return math.Inf(1), v.Least()
			}
			s, err := v.Schedule(flush.Search(t.Context(), v, flush.List(t.Context(), v), flush.Goal{Bound: v.Bound().Value, Steps: 5_000}))
			if err != nil {
				t.Fatal(err)
			}
			return s.Objective, v.Least()
		}
		_, high := objective(make([]bool, 4))
		_, low := objective([]bool{true, true, true, true})
		p.Memory = math.Ceil(low + (high*1.5-low)*r.Float64())
		chosen, err := flush.Recompute(t.Context(), 4, of)
		if err != nil {
			t.Fatal(err)
		}
		found, least := math.Inf(1), math.Inf(1)
		if chosen != nil {
			found, _ = objective(chosen)
		}
		none, err := of(make([]bool, 4))
		if err != nil {
			t.Fatal(err)
		}
		all, err := of([]bool{true, true, true, true})
		if err != nil {
			t.Fatal(err)
		}
		bound, err := view.AnyChoice(none.Partition, all.Partition, p)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 16 {
			again := []bool{k&1 > 0, k&2 > 0, k&4 > 0, k&8 > 0}
			x, _ := objective(again)
			least = min(least, x)
			if start := k == 0 || k == 15 || k == 3 || k == 12; start && found > x*(1+1e-3) {
				t.Fatalf("case %d: %v has %v, %v has %v\n%+v %+v", n, chosen, found, again, x, c, p)
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
		if without, _ := objective(make([]bool, 4)); without > found*1.001 {
			only++
		}
		if found <= least*1.001 {
			best++
		}
	}
	t.Logf("%d of %d choices are the best of 16; in %d forward again is worth it; %d are within 5 %% of the bound on all", best, tried, only, near)
	if best*10 < tried*8 || only == 0 || near == 0 {
		t.Errorf("%d of %d choices are the best of 16; in %d forward again is worth it; %d are within 5 %% of the bound on all", best, tried, only, near)
	}
}
