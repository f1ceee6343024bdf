package flush_test

import (
	"fmt"
	"math"
	"testing"

	heuristics "workbench/heuristics/flush"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
)

// unit is an instance of equal stages: F, B and W of one second each or, not split, a B of two, and two bytes of memory a micro-batch.
type unit struct {
	gpus, chunks int
	placement    string
	jobs         int
	memory, way  float64
	split        bool
	span         float64
}

// view returns the instance.
func (u unit) view(t *testing.T) *flush.Instance {
	t.Helper()
	in := &stages.Partition{Name: "unit", CommunicationTime: u.way}
	for range u.gpus * u.chunks {
		s := stages.Stage{ForwardTime: 1, BackwardTime: 2, ForwardMemory: 2, BackwardMemory: -2}
		if u.split {
			s.BackwardTime, s.WeightTime, s.BackwardMemory, s.WeightMemory = 1, 1, -1, -1
		}
		in.Stages = append(in.Stages, s)
	}
	v, err := flush.New(in, platform.Platform{Memory: u.memory, Processors: u.gpus, MicroBatches: u.jobs, Placement: u.placement})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hard are instances that bounds and annealing left open, with the least spans of a constraint model.
var hard = []unit{
	{4, 2, plan.Interleaved, 5, 24, 0, true, 32},
	{4, 2, plan.Interleaved, 6, 24, 0, true, 36},
	{4, 2, plan.Interleaved, 6, 8, 0, true, 49},
	{4, 2, plan.Interleaved, 6, 6, 0, true, 64},
	{4, 2, plan.VShaped, 6, 6, 0, true, 64},
	{8, 2, plan.Interleaved, 10, 36, 0, true, 65},
}

// others have the least spans that the constraint solver CP-SAT of OR-tools 9.15 proves for its own model of them.
var others = []unit{
	{2, 2, plan.Interleaved, 8, 6, 1, true, 67},
	{2, 2, plan.VShaped, 3, 6, 0, true, 20},
	{2, 1, plan.Straight, 5, 1000, 0, false, 18},
	{3, 2, plan.Interleaved, 4, 6, 0, true, 35},
	{2, 2, plan.Interleaved, 5, 6, 0, false, 39},
	{2, 1, plan.Straight, 3, 1000, 1, true, 11},
	{4, 2, plan.VShaped, 4, 1000, 0, true, 27},
	{4, 1, plan.Straight, 5, 4, 0, false, 36},
	{4, 1, plan.Straight, 3, 6, 0, false, 18},
	{4, 2, plan.Interleaved, 5, 1000, 0, true, 32},
	{3, 1, plan.Straight, 5, 4, 0, false, 27},
	{3, 2, plan.Interleaved, 5, 6, 0, true, 43},
	{2, 1, plan.Straight, 3, 1000, 0, true, 9},
	{4, 1, plan.Straight, 7, 4, 0, true, 36},
	{3, 1, plan.Straight, 3, 1000, 0, false, 15},
	{2, 2, plan.Interleaved, 4, 6, 1, true, 37},
	{3, 2, plan.Interleaved, 8, 6, 1, false, 126},
	{2, 1, plan.Straight, 5, 4, 0, true, 16},
	{3, 2, plan.Interleaved, 5, 1000, 0, false, 36},
	{3, 1, plan.Straight, 8, 6, 1, true, 36},
}

// The exact method finds and proves the least span of unit instances that bounds in closed form leave open, the values being those
// of another method.
func TestCompleteSearch(t *testing.T) {
	t.Parallel()
	for k, u := range append(hard, others...) {
		if k >= 3 && k < len(hard) && testing.Short() {
			continue
		}
		t.Run(fmt.Sprintf("%d GPUs, %d stages, %s, %d micro-batches, memory %g, way %g, split %v", u.gpus, u.gpus*u.chunks, u.placement, u.jobs,
			u.memory, u.way, u.split), func(t *testing.T) {
			t.Parallel()
			v := u.view(t)
			g := heuristics.Goal{Bound: v.Bound().Value}
			f := heuristics.Exact(t.Context(), v, g)
			s, err := v.Schedule(f.Order)
			if err != nil || !v.KeepsMemory(f.Order) || s.Objective != u.span || math.Abs(max(f.Bound, g.Bound)-u.span) > 1e-6 {
				t.Errorf("%v: span %g, bound %g by %s; want %g", err, s.Objective, max(f.Bound, g.Bound), f.By, u.span)
			}
		})
	}
}

// A complete search that proves no more than the bound that it began with is not credited with it.
func TestBoundOfSearchThatProvedNothing(t *testing.T) {
	t.Parallel()
	in := &stages.Partition{Name: "zero-bubble"}
	for range 4 {
		in.Stages = append(in.Stages, stages.Stage{
			ForwardTime: 5, BackwardTime: 6, WeightTime: 4, ForwardMemory: 2, BackwardMemory: -1, WeightMemory: -1,
		})
	}
	v, err := flush.New(in, platform.Platform{Memory: 5, MicroBatches: 7, Placement: plan.VShaped})
	if err != nil {
		t.Fatal(err)
	}
	f := heuristics.Exact(t.Context(), v, heuristics.Goal{Bound: v.Bound().Value, Steps: 100, Conflicts: 1})
	if f.By != "one-machine of gpu1" || f.Why != nil {
		t.Errorf("bound %v by %q, because of %v; want the one-machine bound of gpu1", f.Bound, f.By, f.Why)
	}
}
