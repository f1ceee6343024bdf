package method

import (
	"context"
	"math/rand/v2"
	"testing"

	"workbench/bench/run"
	"workbench/model/chain"
	"workbench/model/platform"
)

// A chain too long for the search for the optimum is closed by what comes before the MILP:
// the search on its graph, which persistent was 5 % worse than.
func TestLongChainsAreClosedByQuickMethods(t *testing.T) {
	r := rand.New(rand.NewPCG(200, 15))
	c := &chain.Chain{Name: "long"}
	for range 120 {
		f, a := 0.5+r.Float64(), float64(1+r.IntN(400))
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: f, BackwardTime: f * (1.5 + r.Float64()), Activation: a, Saved: a * float64(1+r.IntN(3)), Gradient: a})
	}
	in, err := run.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	problem := Remat()
	low, high := problem.Range(in)
	for _, part := range []float64{0.3, 0.6} {
		s := run.Setting{Platform: platform.Platform{Memory: low + part*(high-low)}}
		got := run.Run(t.Context(), problem, named(problem.Methods(), "chain-milp")[0], in, s)
		alone := run.Run(t.Context(), problem, named(problem.Methods(), "persistent")[0], in, s)
		if got.Status != run.Optimal {
			t.Errorf("%g of the range: %v, %v s beside %v", part, got.Status, *got.Objective, got.Bound)
		}
		if alone.Objective != nil && *alone.Objective < *got.Objective {
			t.Errorf("%g of the range: persistent has %v s, the combination %v", part, *alone.Objective, *got.Objective)
		}
	}
}

// An interruption ends the search for the range of memory, but not where a percentage of it
// was given: 30 % would be that of another range.
func TestRangeOfPercentagesIsSearchedToTheEnd(t *testing.T) {
	c := &chain.Chain{Name: "short"}
	for range 4 {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: 3, Saved: 5, Gradient: 3})
	}
	in, err := run.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if low, high := Remat().RangeWithin(ended, in, 0, false); low != high {
		t.Errorf("interrupted, the range is from %v to %v: it was searched", low, high)
	}
	low, high := Remat().Range(in)
	if x, y := Remat().RangeWithin(ended, in, 0, true); x != low || y != high || low == high {
		t.Errorf("interrupted, percentages are of %v to %v, not of %v to %v", x, y, low, high)
	}
}
