package picture

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// An Axis maps values from Low to High to pixels from From to To.
type Axis struct {
	Low, High float64
	From, To  float64
	Log       bool // equal factors have equal lengths; Low is positive
	Whole     bool // values are numbers of things
}

// Pixel returns the pixel of a value.
func (a Axis) Pixel(v float64) float64 {
	low, high := a.Low, a.High
	if a.Log {
		low, high, v = math.Log(low), math.Log(high), math.Log(v)
	}
	return a.From + (v-low)/(high-low)*(a.To-a.From)
}

// Clip returns the nearest value on the axis.
func (a Axis) Clip(v float64) float64 { return min(max(v, a.Low), a.High) }

// A Tick is a value that an axis marks; Label is empty for those between the others.
type Tick struct {
	Value float64
	Label string
}

// Ticks returns the marks of an axis, at most n of them labelled or, if it is logarithmic, those of its decades.
func (a Axis) Ticks(n int) []Tick {
	switch n = max(1, n); {
	case a.Log:
		return decades(a.Low, a.High)
	case a.Whole:
		return multiples(a.Low, a.High, max(1, roundStep(a.High-a.Low, 2*n)))
	}
	return multiples(a.Low, a.High, roundStep(a.High-a.Low, n))
}

// roundStep returns the smallest 1, 2 or 5 times a power of ten that is in length at most n times.
func roundStep(length float64, n int) float64 {
	step := math.Pow(10, math.Floor(math.Log10(length/float64(n))))
	for _, f := range []float64{1, 2, 5} {
		if length/(f*step) <= float64(n)*(1+1e-9) {
			return f * step
		}
	}
	return 10 * step
}

// multiples returns those of step, with as many decimals as they need.
func multiples(low, high, step float64) (ticks []Tick) {
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	for k := math.Ceil(low/step - 1e-9); k <= high/step+1e-9; k++ {
		t := Tick{Value: k*step + 0} // not -0
		t.Label = strconv.FormatFloat(t.Value, 'f', decimals, 64)
		if decimals > 4 || math.Abs(t.Value) >= 1e7 {
			t.Label = strconv.FormatFloat(t.Value, 'g', 6, 64)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// hundredfold, or a little more: bandwidths over seven doublings count as less.
const hundredfold = 200

// decades labels powers of ten, and marks what lies between; over less than a
// hundredfold it labels twice and five times them, too, over less than tenfold
// all.
func decades(low, high float64) (ticks []Tick) {
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for d := 1; d < 10; d++ {
			v := float64(d) * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			label := ""
			if d == 1 || (d == 2 || d == 5) && high < 1.2*hundredfold*low || high < 10*low {
				label = fmt.Sprintf("%g", v)
			}
			ticks = append(ticks, Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// padded returns an axis of values with a margin. A logarithmic axis of a hundredfold and
// more gets whole decades, since only those are labelled.
func padded(values []float64, log bool) Axis {
	low, high := slices.Min(values), slices.Max(values)
	switch margin := 0.04 * (high - low); {
	case log && high < hundredfold*low:
		margin = max(math.Pow(high/low, 0.04), 1.01)
		return Axis{Low: low / margin, High: high * margin, Log: true}
	case log:
		return Axis{Low: math.Pow(10, math.Floor(math.Log10(low))), High: math.Pow(10, math.Ceil(math.Log10(high))), Log: true}
	case margin == 0:
		margin = 0.5 * max(math.Abs(high), 1e-9)
		fallthrough
	default:
		return Axis{Low: low - margin, High: high + margin}
	}
}

// Across draws a horizontal axis at y with its name, grid lines up to top, and n labels at most. Without a name it has no labels.
func (a Axis) Across(c Canvas, top, y float64, n int, name string) {
	for _, t := range a.Ticks(n) {
		x := a.Pixel(t.Value)
		if t.Label == "" {
			c.Line([]Point{{x, y}, {x, y + 2}}, AxisLine)
			continue
		}
		c.Line([]Point{{x, top}, {x, y}}, GridLine)
		c.Line([]Point{{x, y}, {x, y + 4}}, AxisLine)
		c.Text(Text{X: x, Y: y + 16, Anchor: Middle, S: t.Label})
	}
	c.Text(Text{X: (a.From + a.To) / 2, Y: y + 32, Anchor: Middle, S: name})
}

// Up draws a vertical axis left of x with grid lines to right, n labels at most.
func (a Axis) Up(c Canvas, x, right float64, n int, size float64) {
	for _, t := range a.Ticks(n) {
		y := a.Pixel(t.Value)
		if t.Label == "" {
			c.Line([]Point{{x - 2, y}, {x, y}}, AxisLine)
			continue
		}
		c.Line([]Point{{x, y}, {right, y}}, GridLine)
		c.Text(Text{X: x - 8, Y: y + 4, Anchor: Right, Size: size, S: t.Label})
	}
}

// Corner draws the lines of two axes that meet.
func Corner(c Canvas, x, y Axis) {
	c.Line([]Point{{x.From, y.To}, {x.From, y.From}, {x.To, y.From}}, AxisLine)
}

// UpName writes the name of a vertical axis.
func UpName(c Canvas, x float64, y Axis, name string) {
	c.Text(Text{X: x, Y: (y.From + y.To) / 2, Anchor: Middle, Upright: true, S: name})
}
