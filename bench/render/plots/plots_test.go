package plots

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/bench/render/picture"
	"workbench/bench/solve"
	"workbench/bench/solve/curve"
	"workbench/model/platform"
	"workbench/model/testfile"
)

func TestAxesAreNamed(t *testing.T) {
	y := 3.0
	for over, want := range map[curve.Axis]string{
		curve.OverMemory: "memory (GiB)", curve.OverBandwidth: "bandwidth of each link (GB/s)",
		curve.OverProcessors: "GPUs",
	} {
		c := &curve.Curve{
			Problem: "pipeline", Over: over, High: 4 << 30, Compute: 3,
			Series: []curve.Series{{Method: "a", Points: []curve.CurvePoint{{At: 4e9, Makespan: &y}}}},
			Bounds: []curve.BoundPoint{{At: 4e9, Value: 3}},
		}
		if f := Curve(c, &solve.Problem{Word: "period"}, curve.Makespan); f.X != want || f.Y != "period (s)" {
			t.Errorf("over %s: axes %q and %q", over, f.X, f.Y)
		}
	}
}

// Of a pipeline a figure says what stays the same, shades beyond the largest
// memory what the GPUs together cannot beat, and says what its bounds assume.
func TestCurvesOfPipelines(t *testing.T) {
	y := 2.0
	drawn := func(over curve.Axis, assumptions ...string) *picture.Figure {
		c := &curve.Curve{
			Problem: "pipeline", Over: over, High: 4 << 30, Compute: 4,
			Platform: over.Place(platform.Platform{Memory: 8 << 30, Bandwidth: 12e9, Processors: 4}, 0),
			Series:   []curve.Series{{Method: "a", Points: []curve.CurvePoint{{At: 4, Makespan: &y}}}},
			Bounds:   []curve.BoundPoint{{At: 2, Value: 1.8}, {At: 4, Value: 1.5, Assumptions: assumptions}},
		}
		c.Instance.Name = "vgg"
		return Curve(c, &solve.Problem{Word: "period", Parallel: true}, curve.Makespan)
	}
	for over, want := range map[curve.Axis]string{
		curve.OverMemory:     "pipeline, vgg, 4 GPUs, 12 GB/s",
		curve.OverBandwidth:  "pipeline, vgg, 4 GPUs, 8 GiB each",
		curve.OverProcessors: "pipeline, vgg, 8 GiB each, 12 GB/s",
	} {
		if f := drawn(over); f.Title != want {
			t.Errorf("over %s: title %q, want %q", over, f.Title, want)
		}
	}
	b := drawn(curve.OverMemory).Bound
	if want := []float64{1.8, 1.5, 1}; b.Name != "excluded by proof" || !slices.Equal(b.Y, want) || !math.IsInf(b.X[2], 1) {
		t.Errorf("%s: %v at %v, want %v", b.Name, b.Y, b.X, want)
	}
	if b := drawn(curve.OverMemory, "1-periodic pattern").Bound; b.Name != "excluded (1-periodic pattern)" {
		t.Errorf("bounds with assumptions are %q", b.Name)
	}
}

// Between two values that were tried no method is drawn better than the optimum
// there: what was found for a value is all that is known up to the next.
func TestCurvesAreNotBetterThanTheOptimum(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "values")
		optimum := make([]float64, n) // of each memory from 1 on
		for x := n - 1; x >= 0; x-- {
			optimum[x] = float64(rapid.IntRange(0, 3).Draw(t, "fall"))
			if x+1 < n {
				optimum[x] += optimum[x+1]
			} else {
				optimum[x]++
			}
		}
		c := &curve.Curve{Over: curve.OverMemory, Low: 1, High: float64(n), Compute: 1}
		tried := curve.Series{Method: "a"}
		for x, best := range optimum {
			if x > 0 && rapid.Bool().Draw(t, "not tried") {
				continue
			}
			p := curve.CurvePoint{At: float64(x + 1)}
			if y := best + float64(rapid.IntRange(0, 3).Draw(t, "above")); x == 0 || rapid.Bool().Draw(t, "found") {
				p.Makespan = &y
			}
			tried.Points = append(tried.Points, p)
		}
		c.Series = []curve.Series{tried}
		for _, q := range []curve.Quantity{curve.Makespan, curve.Throughput} {
			line := Curve(c, &solve.Problem{Slots: true}, q).Series[0]
			for x := range optimum {
				y := line.Value(float64(x + 1))
				if q == curve.Throughput {
					y = 1 / y
				}
				if y < optimum[x]*(1-1e-12) {
					t.Fatalf("%s: %v at %d, the optimum takes %v", q, y, x+1, optimum[x])
				}
			}
		}
	})
}

func TestBoundsOfSlotsHoldUpToTheNext(t *testing.T) {
	y := 3.0
	c := &curve.Curve{
		Problem: "join", Low: 5, High: 6, Compute: 2,
		Series: []curve.Series{{Method: "a", Points: []curve.CurvePoint{{At: 5, Makespan: &y}}}},
		Bounds: []curve.BoundPoint{{At: 5, Value: 3}, {At: 6, Value: 2}},
	}
	if x := Curve(c, &solve.Problem{Slots: true}, curve.Makespan).Bound.X; x[0] != 6 || x[1] != 7 {
		t.Errorf("bounds end at %v, want 6 and 7 slots", x)
	}
}

func TestStepsThatTakeNoTimeHaveNoThroughput(t *testing.T) {
	y, zero := 1.0, 0.0
	c := &curve.Curve{
		Problem: "remat", Over: curve.OverMemory, Low: 1, High: 2, Compute: 0,
		Series: []curve.Series{
			{Method: "store-all", Points: []curve.CurvePoint{{At: 2, Makespan: &zero}}},
			{Method: "a", Points: []curve.CurvePoint{{At: 1, Makespan: &y}, {At: 2, Makespan: &zero}}},
		},
		Bounds: []curve.BoundPoint{{At: 1, Value: 0}, {At: 2, Value: 0}},
	}
	var svg bytes.Buffer
	if err := Curve(c, &solve.Problem{}, curve.Throughput).Write(&svg, "svg"); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(svg.Bytes(), []byte("Inf")) || bytes.Contains(svg.Bytes(), []byte("NaN")) {
		t.Error("the figure has coordinates that are no numbers")
	}
}

// Ratios and shares are drawn over the percent of the range, as in [004]; what
// is below the bound cannot be, whatever its value.
func TestRatiosAndShares(t *testing.T) {
	slow, fast, moved := 6.0, 3.0, 0.5
	c := &curve.Curve{
		Problem: "activation-offload", Over: curve.OverMemory, Low: 10, High: 30, Compute: 3,
		Series: []curve.Series{
			{Method: "a", Points: []curve.CurvePoint{{At: 10, Makespan: &slow, Moved: &moved}, {At: 20}, {At: 30, Makespan: &fast}}},
			{Method: "b", Steps: true, Points: []curve.CurvePoint{{At: 11, Makespan: &slow}, {At: 29, Makespan: &fast}}},
		},
		Bounds: []curve.BoundPoint{{At: 10, Value: 5}, {At: 20, Value: 4}, {At: 30, Value: 3}},
	}
	p := &solve.Problem{Word: "makespan"}
	f := Curve(c, p, curve.Ratio)
	if f.X != "memory (% of the instance's range)" || f.Y != "makespan / lower bound" {
		t.Errorf("axes %q and %q", f.X, f.Y)
	}
	a, b := f.Series[0], f.Series[1]
	if !slices.Equal(a.X, []float64{0, 50, 100}) || a.Y[0] != 1.2 || !math.IsNaN(a.Y[1]) || a.Y[2] != 1 {
		t.Errorf("ratios %v at %v", a.Y, a.X)
	}
	// A step function is known at the limits, where the bounds are.
	if b.Steps || !slices.Equal(b.X, []float64{0, 50, 100}) || !math.IsNaN(b.Y[0]) || b.Y[1] != 1.5 || b.Y[2] != 1 {
		t.Errorf("ratios of steps %v at %v", b.Y, b.X)
	}
	for _, y := range f.Bound.Y {
		if y != 1 {
			t.Errorf("ratios up to %g are excluded", y)
		}
	}
	f = Curve(c, p, curve.Share)
	if f.Series[0].Y[0] != 50 || f.Bound != nil || !f.FromZero {
		t.Errorf("shares %v, bound %v", f.Series[0].Y, f.Bound)
	}
}
