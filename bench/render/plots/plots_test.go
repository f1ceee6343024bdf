package plots

import (
	"bytes"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/bench/solve"
	"workbench/bench/solve/curve"
	"workbench/model/platform"
	"workbench/model/testfile"
)

func sample() *Figure {
	return &Figure{
		Title: "resnet50", X: "memory (GiB)", Y: "makespan (s)",
		Series: []Series{
			{Name: "persistent", X: []float64{1, 2, 3, 4}, Y: []float64{2, 1.5, 1.2, 1}, Steps: true, Style: -1},
			{Name: "revolve", X: []float64{1, 2, 3, 4}, Y: []float64{3, 2.5, math.NaN(), 2.1}, Points: true, Style: -1},
			{Name: "nothing", X: []float64{1}, Y: []float64{math.NaN()}, Style: -1},
		},
		Bound: &Bound{Name: "proven bound", X: []float64{1, 2, 4}, Y: []float64{1.6, 1.2, 1}},
		Marks: []Mark{{"store-all", 4, 1}},
	}
}

func write(t *testing.T, f *Figure, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSVGIsTheSameEveryTime(t *testing.T) {
	a, b := write(t, sample(), "svg"), write(t, sample(), "svg")
	if !bytes.Equal(a, b) {
		t.Fatal("two drawings of one figure differ")
	}
	for _, want := range []string{"persistent", "revolve", "nothing: no plan", "proven bound", "store-all", "memory (GiB)", "makespan (s)"} {
		if !strings.Contains(string(a), want) {
			t.Errorf("the figure does not say %q", want)
		}
	}
}

func TestPNGIsAPicture(t *testing.T) {
	img, err := png.Decode(bytes.NewReader(write(t, sample(), "png")))
	if err != nil {
		t.Fatal(err)
	}
	if w, h := img.Bounds().Dx(), img.Bounds().Dy(); w != 1440 || h != 760 {
		t.Errorf("%d × %d pixels, 1440 × 760 expected", w, h)
	}
}

func TestStepsHoldBetweenBreakpoints(t *testing.T) {
	f := &Figure{Title: "t", X: "x", Y: "y", Series: []Series{{Name: "s", X: []float64{0, 10}, Y: []float64{1, 0}, Steps: true}}}
	lines := &Figure{Title: "t", X: "x", Y: "y", Series: []Series{{Name: "s", X: []float64{0, 10}, Y: []float64{1, 0}}}}
	if bytes.Equal(write(t, f, "svg"), write(t, lines, "svg")) {
		t.Error("a step function is drawn as a line")
	}
}

func TestNothingToDrawIsAnError(t *testing.T) {
	var b bytes.Buffer
	if err := (&Figure{Title: "empty"}).Write(&b, "svg"); err == nil || !strings.Contains(err.Error(), "no points") {
		t.Errorf("error %v", err)
	}
	if err := sample().Write(&b, "bmp"); err == nil || !strings.Contains(err.Error(), "svg or png") {
		t.Errorf("error %v", err)
	}
}

func TestLogAxesSpanDecades(t *testing.T) {
	if low, high := (span{3, 700}).padded(true); low != 1 || high != 1000 {
		t.Errorf("%v to %v, 1 to 1000 expected", low, high)
	}
	labels := ""
	for _, k := range (decades{}).Ticks(1, 1000) {
		labels += k.Label + " "
	}
	if got := strings.Join(strings.Fields(labels), " "); got != "1 10 100 1000" {
		t.Errorf("labels %q", got)
	}
}

func TestShortLogAxesHaveLabelsBetween(t *testing.T) {
	low, high := (span{0.75, 96}).padded(true)
	if low < 0.5 || low > 0.75 || high < 96 || high > 130 {
		t.Errorf("%v to %v for 0.75 to 96", low, high)
	}
	labels := ""
	for _, k := range (decades{}).Ticks(low, high) {
		labels += k.Label + " "
	}
	if got := strings.Join(strings.Fields(labels), " "); got != "1 2 5 10 20 50 100" {
		t.Errorf("labels %q", got)
	}
	labels = ""
	for _, k := range (decades{}).Ticks(5.9, 37) {
		labels += k.Label + " "
	}
	if got := strings.Join(strings.Fields(labels), " "); got != "6 7 8 9 10 20 30" {
		t.Errorf("labels %q", got)
	}
	labels = ""
	for _, k := range (whole{}).Ticks(0.7, 64.3) {
		labels += k.Label + " "
	}
	if labels != "5 10 15 20 25 30 35 40 45 50 55 60 " {
		t.Errorf("labels of whole numbers %q", labels)
	}
}

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
	drawn := func(over curve.Axis, assumptions ...string) *Figure {
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

func TestCurvesThatCoincideBothShow(t *testing.T) {
	same := func(method string, y float64) curve.Series {
		return curve.Series{Method: method, Steps: true, Points: []curve.CurvePoint{{At: 1, Makespan: &y}}}
	}
	c := &curve.Curve{
		Problem: "remat", Low: 1, High: 4, Compute: 2,
		Series: []curve.Series{same("first", 3), same("second", 4), same("third", 3.001)},
		Bounds: []curve.BoundPoint{{At: 1, Value: 2}, {At: 4, Value: 2}},
	}
	f := Curve(c, &solve.Problem{Word: "makespan"}, curve.Makespan)
	if got, want := f.overlaps(), []overlap{{under: 1}, {}, {}}; !slices.Equal(got, want) {
		t.Errorf("overlaps %v, want %v", got, want)
	}
	f.Series[1].Y, f.Series[2].Y = []float64{3, 2}, []float64{3.0001, 2}
	f.Series[1].X, f.Series[2].X = []float64{1, 2}, []float64{1, 2}
	if got, want := f.overlaps(), []overlap{{under: 2}, {under: 1}, {same: "second"}}; !slices.Equal(got, want) {
		t.Errorf("overlaps %v, want %v", got, want)
	}
	if svg := write(t, f, "svg"); !bytes.Contains(svg, []byte("third = second")) {
		t.Error("the legend does not say which curve is hidden")
	}
	// One that goes on where the other ends is not the other.
	f.Series[1].Steps, f.Series[2].Steps = false, false
	f.Series[2].X, f.Series[2].Y = []float64{1, 2, 3}, []float64{3.0001, 2, 1}
	if got, want := f.overlaps(), []overlap{{under: 2}, {under: 1}, {}}; !slices.Equal(got, want) {
		t.Errorf("overlaps %v, want %v", got, want)
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
				y := line.value(float64(x + 1))
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
	if svg := write(t, Curve(c, &solve.Problem{}, curve.Throughput), "svg"); bytes.Contains(svg, []byte("Inf")) ||
		bytes.Contains(svg, []byte("NaN")) {
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

// Steps are round, with no more digits than they need.
func TestWholeLabelsHaveNoFraction(t *testing.T) {
	for _, x := range []struct {
		high float64
		want string
	}{
		{75, "0 10 20 30 40 50 60 70"},
		{280, "0 50 100 150 200 250"},
		{0.6, "0.0 0.1 0.2 0.3 0.4 0.5 0.6"},
		{1.5, "0.0 0.2 0.4 0.6 0.8 1.0 1.2 1.4"},
	} {
		var got []string
		for _, tick := range (plain{}).Ticks(0, x.high) {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if s := strings.Join(got, " "); s != x.want {
			t.Errorf("up to %v: %s, want %s", x.high, s, x.want)
		}
	}
}
