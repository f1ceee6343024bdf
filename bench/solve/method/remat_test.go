package method

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// A chain too long for the search for the optimum is closed by what comes before the MILP:
// the search on its graph, which persistent was 5 % worse than.
func TestLongChainsAreClosedByQuickMethods(t *testing.T) {
	in := longInstance(t, 120)
	problem := Remat()
	low, high := problem.Range(in, solve.Setting{})
	for _, part := range []float64{0.3, 0.6} {
		s := solve.Setting{Platform: platform.Platform{Memory: low + part*(high-low)}}
		got := solve.Run(t.Context(), problem, named(problem.Methods(), "chain-milp")[0], in, s)
		alone := solve.Run(t.Context(), problem, named(problem.Methods(), "persistent")[0], in, s)
		if got.Status != solve.Optimal {
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
	in, err := solve.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if low, high := Remat().RangeWithin(ended, in, solve.Setting{}, false); low != high {
		t.Errorf("interrupted, the range is from %v to %v: it was searched", low, high)
	}
	low, high := Remat().Range(in, solve.Setting{})
	if x, y := Remat().RangeWithin(ended, in, solve.Setting{}, true); x != low || y != high || low == high {
		t.Errorf("interrupted, percentages are of %v to %v, not of %v to %v", x, y, low, high)
	}
}

// longInstance is a random chain of so many layers.
func longInstance(t *testing.T, layers int) *solve.Instance {
	t.Helper()
	r := rand.New(rand.NewPCG(200, 15))
	c := &chain.Chain{Name: "long"}
	for range layers {
		f, a := 0.5+r.Float64(), float64(1+r.IntN(400))
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: f, BackwardTime: f * (1.5 + r.Float64()), Activation: a,
			Saved: a * float64(1+r.IntN(3)), Gradient: a,
		})
	}
	in, err := solve.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// Where there is no time at all, the plan of a chain of any length computes no forward more
// than twice, if memory allows that: what is there at once is not the plan of least memory,
// which has millions of operations.
func TestLongChainsWithoutTime(t *testing.T) {
	in := longInstance(t, 1200)
	type method struct {
		problem *solve.Problem
		method  string
	}
	for _, x := range testfile.Few(1, method{Remat(), "chain-milp"}, method{Remat(), "checkmate"},
		method{RematOffload(), "remat-offload-milp"}) {
		low, high := x.problem.Range(in, solve.Setting{})
		s := solve.Setting{Time: time.Nanosecond, Platform: platform.Platform{Memory: low + 0.3*(high-low), Bandwidth: 1}}
		got := solve.Run(t.Context(), x.problem, named(x.problem.Methods(), x.method)[0], in, s)
		// As a graph a chain this long is not searched at all without time: any plan will do.
		if got.Objective == nil || x.method != "checkmate" && *got.Objective > in.Chain().TotalTime()+in.Chain().Totals().ForwardTime {
			t.Errorf("%s, %s: %v %v", x.problem.Name, x.method, got.Status, got.Error)
		}
	}
}

// Chains too long for the optimum and for MILPs are searched as graphs, and end near the bound.
func TestLongChainsAreSearched(t *testing.T) {
	testfile.Long(t)
	r := testfile.Random(t, 31, 1)
	c := &chain.Chain{Name: "long", Layers: make([]chain.Layer, 420)}
	for l := range c.Layers {
		x := &c.Layers[l]
		x.ForwardTime, x.BackwardTime = float64(1+r.IntN(3)), float64(1+r.IntN(6))
		x.Activation, x.Gradient, x.Saved = 1, 1, float64(1+r.IntN(3))
	}
	in, err := solve.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	most := keepingAll(in)
	s := solve.Setting{Platform: platform.Platform{Memory: math.Floor(most / 2)}}
	out, err := onLongChains(searchAsGraph(1)).Run(t.Context(), in, s)
	if err != nil || out == nil {
		t.Fatalf("%v, %v", out, err)
	}
	report, err := verify.Replay(c, out.Plan)
	if err != nil || !report.Valid() {
		t.Fatalf("%v, %v", report, err)
	}
	bounds, err := rematBounds(in, s)
	if err != nil {
		t.Fatal(err)
	}
	bound := 0.0
	for _, b := range bounds {
		bound = max(bound, b.Value)
	}
	if report.Makespan > 1.02*bound || report.Makespan < bound {
		t.Errorf("%g s, the bound is %g s", report.Makespan, bound)
	}
}
