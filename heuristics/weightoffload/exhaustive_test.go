package weightoffload

import (
	"context"
	"errors"
	"slices"
	"testing"

	"workbench/model/exhaustive"
	optimumweightoffload "workbench/model/exhaustive/weightoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// units of time, seconds, that the same instances are planned in.
var units = []float64{1, 1e-12, 1e-9, 1e-6, 1e-3, 1e6}

// Whatever the magnitudes of sizes and times, and with the memory at, just
// below and just above what it must be: no method is better than the optimum
// and no bound is above it, all agree when there is no plan, and the search
// finds the optimum of 99 in 100.
func TestNothingBeatsExhaustive(t *testing.T) {
	rng := testfile.Random(t, 1, 1)
	missed, infeasible := 0, 0
	instances := testfile.Cases(600)
	for i := range instances {
		whole, q := random.Weights(rng, 2+rng.IntN(2))
		unit := units[rng.IntN(len(units))]
		c, p := random.InUnits(whole, q, unit)
		best, optimum, err := optimumweightoffload.Search(whole, q, 5e6)
		in, unfit := weightoffload.New(c, p)
		if errors.Is(err, exhaustive.ErrInfeasible) {
			infeasible++
			var e *plan.Infeasible
			if !errors.As(unfit, &e) {
				t.Errorf("instance %d: %v, but there is no plan: %+v %+v", i, unfit, c, p)
			}
			continue
		}
		if err != nil || unfit != nil {
			t.Fatalf("instance %d: %v, %v: %+v %+v", i, err, unfit, c, p)
		}
		best *= unit
		for _, b := range in.Bounds() {
			if b.Value > best*(1+1e-15) {
				t.Errorf("instance %d: bound %s is %g, the optimum is %g: %+v %+v", i, b.By, b.Value, best, c, p)
			}
		}
		for _, m := range methods() {
			got, err := m.run(c, p)
			if errors.Is(err, plan.ErrNoPlan) && m.name != "l2l" {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			verify(t, c, got)
			if *got.Period < best*(1-1e-9) {
				t.Errorf("instance %d: %s has %g, the optimum is %g", i, m.name, *got.Period, best)
			}
		}
		got, err := Search(context.Background(), c, p, Options{Moves: 5000})
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
		if *got.Period < best*(1-1e-9) {
			t.Errorf("instance %d: search has %g, the optimum is %g", i, *got.Period, best)
		}
		if *got.Period <= best*(1+1e-9) {
			continue
		}
		missed++
		again, err := Search(context.Background(), c, p, Options{Moves: 1, Start: inUnits(optimum, p, unit)})
		if err != nil || *again.Period > best*(1+1e-9) {
			t.Errorf("instance %d: search makes %g of the optimum %g", i, *again.Period, best)
		}
		t.Logf("instance %d: search has %g, the optimum is %g: %s", i, *got.Period, best, describe(c, optimum))
	}
	if missed > instances/100 {
		t.Errorf("search missed the optimum of %d of %d instances", missed, instances)
	}
	if infeasible < instances/20 || infeasible > instances/3 {
		t.Errorf("%d of %d instances have no plan", infeasible, instances)
	}
}

// inUnits returns a plan of integer times in units of so many seconds.
func inUnits(o *plan.Plan, p platform.Platform, seconds float64) *plan.Plan {
	q := *o
	q.Platform = p
	period := *o.Period * seconds
	q.Period, q.Claims.Makespan = &period, period
	q.Ops = slices.Clone(o.Ops)
	for i := range q.Ops {
		q.Ops[i].Start *= seconds
		q.Ops[i].End *= seconds
	}
	return &q
}

// TestEqualLayers: where all sizes are equal, (4) of the bounds is the optimum. With U/n in place of
// U/(n+1) it would be above for the first two, without R_i ≥ R_l for the last two. It takes four layers.
func TestEqualLayers(t *testing.T) {
	type times [4][3]float64 // of each layer the forward, the backward and the size of the activation
	for _, x := range []struct {
		layers                          times
		input, memory, transfer, period float64
	}{
		{times{{1, 2}, {2, 1}, {0, 1}, {1, 1}}, 0, 4, 2, 10},
		{times{{2, 0}, {1, 2}, {1, 2}, {1, 2}}, 0, 4, 4, 13},
		{times{{1, 2, 0}, {1, 2, 2}, {1, 3, 0}, {1, 3, 2}}, 0, 7, 2, 14},
		{times{{1, 0, 2}, {1, 1, 2}, {0, 3, 1}, {1, 3, 0}}, 1, 9, 1, 10},
	} {
		c := &chain.Chain{Name: "equal", Input: chain.Input{Activation: x.input}}
		for _, l := range x.layers {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: l[0], BackwardTime: l[1], Activation: l[2], Weight: 1})
		}
		p := platform.Platform{Memory: x.memory, Bandwidth: 1 / x.transfer}
		in, err := weightoffload.New(c, p)
		if err != nil {
			t.Fatal(err)
		}
		best, _, err := optimumweightoffload.Search(c, p, 3e5)
		if bound := in.Bounds()[0]; err != nil || best != x.period || bound.Value != best {
			t.Errorf("%v: the bound of %s is %v, the optimum %v, %v; both are %v", x.layers, bound.By, bound.Value, best, err, x.period)
		}
	}
}
