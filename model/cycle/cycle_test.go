package cycle_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/exhaustive"
	"workbench/model/platform"
)

func example() *chain.Chain {
	return &chain.Chain{
		Name: "example", Input: chain.Input{Activation: 100},
		Layers: []chain.Layer{
			{ForwardTime: 1, BackwardTime: 2, Activation: 10, Weight: 3},
			{ForwardTime: 4, BackwardTime: 5, Activation: 20, Weight: 7},
			{ForwardTime: 6, BackwardTime: 7, Activation: 0.5, Weight: 0},
		},
	}
}

// The cycle is B_3 B_2 B_1 F_1 F_2 F_3 with M_F = |w_i| + Σ_{k≤i}|a^k| and
// M_B = 2|w_i| + Σ_{k≤i}|a^k| ([001] (1)), a^0 included.
func TestOf(t *testing.T) {
	want := &cycle.Cycle{
		L:    3,
		U:    []float64{7, 5, 2, 1, 4, 6},
		W:    []float64{3, 7, 0},
		Act:  []float64{130.5, 130, 110, 110, 130, 130.5},
		Peak: []float64{130.5, 144, 116, 113, 137, 130.5},
	}
	if d := cmp.Diff(want, cycle.Of(example())); d != "" {
		t.Error(d)
	}
}

func TestNumbering(t *testing.T) {
	y := cycle.Of(example())
	var backward, forward []int
	for i := range y.L {
		backward, forward = append(backward, y.B(i)), append(forward, y.F(i))
		if y.Layer(y.B(i)) != i || y.Layer(y.F(i)) != i || !y.Backward(y.B(i)) || y.Backward(y.F(i)) {
			t.Errorf("layer %d does not come back from its operations", i)
		}
	}
	if !slices.Equal(backward, []int{2, 1, 0}) || !slices.Equal(forward, []int{3, 4, 5}) {
		t.Errorf("B %v, F %v", backward, forward)
	}
	if got := y.Compute(); got != 25 {
		t.Errorf("Σu = %v, want 25", got)
	}
}

// Range by hand: B_2 needs 144. With everything resident B_2 needs 144 and the
// 3 of layer 1.
func TestRange(t *testing.T) {
	if low, high := cycle.Of(example()).Range(); low != 144 || high != 147 {
		t.Errorf("Range = %v, %v; want 144, 147", low, high)
	}
	// Here the weight of layer 1 must be there while the activations of B_2
	// still are, and that is what decides: 20 + 6 against 2·6 + 10.
	c := &chain.Chain{Name: "handover", Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 1, Activation: 10, Weight: 6},
		{ForwardTime: 1, BackwardTime: 1, Activation: 10, Weight: 1},
	}}
	if low, _ := cycle.Of(c).Range(); low != 26 {
		t.Errorf("low = %v, want 26", low)
	}
}

// Low is exact: with it there is a plan, with half a byte less there is none.
// High is enough for a plan without idle time and, unless nothing can be
// offloaded, is needed by the one that keeps every weight.
func TestRangeIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	const states = 2_000_000
	for range 400 {
		c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(3))}}
		for range 1 + r.IntN(3) {
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: float64(r.IntN(3)), BackwardTime: float64(r.IntN(3)),
				Activation: float64(r.IntN(4)), Weight: float64(r.IntN(4)),
			})
		}
		if c.TotalTime() == 0 {
			continue
		}
		low, high := cycle.Of(c).Range()
		if low > high {
			t.Fatalf("low %v is above high %v: %+v", low, high, c)
		}
		search := func(memory float64) (float64, error) {
			period, _, err := exhaustive.WeightOffload(c, platform.Platform{Memory: memory, Bandwidth: 1}, states)
			return period, err
		}
		if low > 0 {
			if _, err := search(low); err != nil {
				t.Errorf("memory low = %v: %v: %+v", low, err, c)
			}
		}
		if low >= 1 {
			if _, err := search(low - 0.5); !errors.Is(err, exhaustive.ErrInfeasible) {
				t.Errorf("memory low − ½ = %v: error %v, want infeasible: %+v", low-0.5, err, c)
			}
		}
		if high > 0 {
			if period, err := search(high); err != nil || period != c.TotalTime() {
				t.Errorf("memory high = %v: period %v, error %v; want Σu = %v: %+v", high, period, err, c.TotalTime(), c)
			}
		}
	}
}
