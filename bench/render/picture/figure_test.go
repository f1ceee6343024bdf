package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/png"
	"math"
	"slices"
	"strings"
	"testing"
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
	if w, h := img.Bounds().Dx(), img.Bounds().Dy(); w != 2*figureWidth || h != 2*figureHeight {
		t.Errorf("%d × %d pixels, twice %d × %d expected", w, h, figureWidth, figureHeight)
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

// labels returns the labels of the ticks of an axis.
func labels(a Axis) string {
	var list []string
	for _, k := range a.Ticks(8) {
		if k.Label != "" {
			list = append(list, k.Label)
		}
	}
	return strings.Join(list, " ")
}

func TestLogAxesSpanDecades(t *testing.T) {
	if a := padded([]float64{3, 700}, true); a.Low != 1 || a.High != 1000 {
		t.Errorf("%v to %v, 1 to 1000 expected", a.Low, a.High)
	}
	if a := padded([]float64{0.75, 96}, true); a.Low < 0.5 || a.Low > 0.75 || a.High < 96 || a.High > 130 {
		t.Errorf("%v to %v for 0.75 to 96", a.Low, a.High)
	}
}

// Steps are round, with no more digits than they need; short logarithmic axes have labels between decades.
func TestLabelsOfAxes(t *testing.T) {
	for _, x := range []struct {
		axis Axis
		want string
	}{
		{padded([]float64{3, 700}, true), "1 10 100 1000"},
		{padded([]float64{0.75, 96}, true), "1 2 5 10 20 50 100"},
		{Axis{Low: 5.9, High: 37, Log: true}, "6 7 8 9 10 20 30"},
		{Axis{Low: 0.7, High: 64.3, Whole: true}, "5 10 15 20 25 30 35 40 45 50 55 60"},
		{Axis{High: 75}, "0 10 20 30 40 50 60 70"},
		{Axis{High: 280}, "0 50 100 150 200 250"},
		{Axis{High: 0.6}, "0.0 0.1 0.2 0.3 0.4 0.5 0.6"},
		{Axis{High: 1.5}, "0.0 0.2 0.4 0.6 0.8 1.0 1.2 1.4"},
	} {
		if got := labels(x.axis); got != x.want {
			t.Errorf("%+v: %s, want %s", x.axis, got, x.want)
		}
	}
	if k := (Axis{Low: 0.7, High: 64.3, Whole: true}).Ticks(8); len(k) != 12 {
		t.Errorf("%d ticks between integers, want 12", len(k))
	}
}

func TestCurvesThatCoincideBothShow(t *testing.T) {
	constant := func(name string, y float64) Series {
		return Series{Name: name, X: []float64{1}, Y: []float64{y}, Steps: true}
	}
	f := &Figure{Series: []Series{constant("first", 3), constant("second", 4), constant("third", 3.001)}}
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
	// One that continues where the other ends is not the other.
	f.Series[1].Steps, f.Series[2].Steps = false, false
	f.Series[2].X, f.Series[2].Y = []float64{1, 2, 3}, []float64{3.0001, 2, 1}
	if got, want := f.overlaps(), []overlap{{under: 2}, {under: 1}, {}}; !slices.Equal(got, want) {
		t.Errorf("overlaps %v, want %v", got, want)
	}
}

// The second axis marks how many percent a value is above the base, at its height.
func TestSecondAxisIsInPercentOfTheBase(t *testing.T) {
	f := &Figure{Base: 100, Above: "+ %", Series: []Series{{Name: "a", X: []float64{1, 2}, Y: []float64{100, 150}}}}
	var svg struct {
		Texts []struct {
			X float64 `xml:"x,attr"`
			Y float64 `xml:"y,attr"`
			S string  `xml:",chardata"`
		} `xml:"text"`
	}
	if err := xml.Unmarshal(write(t, f, "svg"), &svg); err != nil {
		t.Fatal(err)
	}
	left, right := map[string]float64{}, map[string]float64{}
	for _, x := range svg.Texts {
		if x.X < figureLeft {
			left[x.S] = x.Y
		} else {
			right[x.S] = x.Y
		}
	}
	for value, percent := range map[string]string{"100": "0", "120": "20", "150": "50"} {
		if y, here := right[percent]; !here || y != left[value] {
			t.Errorf("%s is at %g, + %s %% at %g", value, left[value], percent, right[percent])
		}
	}
}

// Every colour has a contrast of at least 3:1 to the white ground (WCAG 2.1, 1.4.11).
func TestColoursCanBeSeen(t *testing.T) {
	for _, colour := range []string{
		Blue, Vermilion, Green, Purple, Orange, Sky, DarkGrey, Grey, Slate, Steel, Ochre, Olive, Rust,
	} {
		var c [3]uint8
		if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
			t.Fatal(err)
		}
		luminance := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v := float64(c[i]) / 255
			if v <= 0.03928 {
				luminance += weight * v / 12.92
			} else {
				luminance += weight * math.Pow((v+0.055)/1.055, 2.4)
			}
		}
		if contrast := 1.05 / (luminance + 0.05); contrast < 3 {
			t.Errorf("%s has a contrast of %.2f to white", colour, contrast)
		}
	}
}
