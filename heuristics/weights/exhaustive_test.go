package weights

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
)

// tinyInstances returns instances small enough for exhaustive search, whose
// memory is less than what keeping every weight takes.
func tinyInstances(n int, seed uint64) (cs []*chain.Chain, ps []platform.Platform) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for len(cs) < n {
		c := &chain.Chain{Name: "tiny"}
		c.Input.Activation = float64(rng.IntN(2))
		equal := rng.IntN(2) * (1 + rng.IntN(3)) // weights are equal: bounds are sharper then
		for range 2 + rng.IntN(2) {
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: float64(rng.IntN(4)), BackwardTime: float64(rng.IntN(4)),
				Activation: float64(rng.IntN(3)), Weight: float64(rng.IntN(4)),
			})
			if l := &c.Layers[len(c.Layers)-1]; equal > 0 && l.Weight > 0 {
				l.Weight = float64(equal)
			}
		}
		low, high := cycle.Of(c).Range()
		if c.TotalTime() == 0 || low == high {
			continue
		}
		cs = append(cs, c)
		ps = append(ps, platform.Platform{Memory: low + float64(rng.IntN(int(high-low))), Bandwidth: 1})
	}
	return cs, ps
}

func TestNothingBeatsExhaustive(t *testing.T) {
	cs, ps := tinyInstances(400, 1)
	missed := 0
	for i, c := range cs {
		best, optimum, err := exhaustive.WeightOffload(c, ps[i], 5e6)
		if err != nil {
			t.Fatalf("instance %d: %v", i, err)
		}
		in, err := cycle.New(c, ps[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range in.Bounds() {
			if b.Value > best*(1+1e-9) {
				t.Errorf("instance %d: bound %s is %g, the optimum is %g: %+v %+v", i, b.By, b.Value, best, c, ps[i])
			}
		}
		for _, m := range methods() {
			got, err := m.run(c, ps[i])
			if errors.Is(err, plan.ErrNoPlan) {
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
		got, err := Search(context.Background(), c, ps[i], Options{Moves: 5000})
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
		if *got.Period < best*(1-1e-9) {
			t.Errorf("instance %d: search has %g, the optimum is %g", i, *got.Period, best)
		}
		if *got.Period > best*(1+1e-9) {
			missed++
			again, err := Search(context.Background(), c, ps[i], Options{Moves: 1, Start: optimum})
			if err != nil || *again.Period > best {
				t.Errorf("instance %d: search makes %g of the optimum %g", i, *again.Period, best)
			}
			t.Logf("instance %d: search has %g, the optimum is %g: %s", i, *got.Period, best, describe(c, optimum))
		}
	}
	if missed > 0 {
		t.Errorf("search missed the optimum of %d of %d instances", missed, len(cs))
	}
}
