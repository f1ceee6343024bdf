package picture

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Figure is lines and step functions over two axes, with a shaded bound, single marks, and a legend next to
// the axes, where it hides nothing. Axes in logarithmic scale need positive values.
type Figure struct {
	Title, X, Y string // axis labels with their units
	LogX, LogY  bool
	WholeX      bool // x is a number of things
	Series      []Series
	// Bound is drawn as a shaded area that nothing can enter, nil: none. It
	// is below the curve, or above it if Above is set.
	Bound *Bound
	Marks []Mark
	// FromZero makes the y axis begin at 0.
	FromZero bool
	// Base has a second axis at the right that says by how many percent y is above it; 0: none.
	Base float64
	// Above is the name of that axis.
	Above string
}

// Series is one method's curve.
type Series struct {
	Name string
	X, Y []float64
	// Steps draws the value at X[i] from X[i] to X[i+1], as what holds from a
	// breakpoint on; else neighbours are joined by lines. A NaN in Y is a gap.
	Steps bool
	// Points marks each point.
	Points bool
	// Points at MarkX, MarkY are marked, too; they need not lie on the line.
	MarkX, MarkY []float64
	Dashed       bool
	// Style picks colour and dashes; equal styles look the same in every
	// figure. Negative: the series' position.
	Style int
}

// Bound is a proven bound as a step function: Y[i] holds for all x up to X[i].
type Bound struct {
	Name  string
	X, Y  []float64
	Above bool
}

// Mark is a single point with a name of its own in the legend.
type Mark struct {
	Name string
	X, Y float64
}

// Add appends a point.
func (s *Series) Add(x, y float64) { s.X, s.Y = append(s.X, x), append(s.Y, y) }

// ErrEmpty is the error of a figure without a point that can be drawn.
var ErrEmpty = errors.New("no points to draw")

// Formats are the formats that [Figure.Write] knows.
var Formats = []string{"svg", "png"}

var (
	colours = []string{Blue, Vermilion, Green, Purple, Orange, Sky, DarkGrey}
	dashes  = [][]float64{nil, {7, 3}, {2, 3}, {8, 3, 2, 3}}
	glyphs  = [][]Point{ngon(12, 0), ngon(4, 0.5), ngon(3, 0.75), ngon(4, 0), ngon(3, 0.25), ngon(5, 0.25), ngon(6, 0)}
)

// ngon returns a regular polygon of n corners in the unit circle, turned by the given fraction of the angle between two corners.
func ngon(n int, turn float64) (points []Point) {
	for k := range n {
		angle := 2 * math.Pi * (float64(k) + turn) / float64(n)
		points = append(points, Point{math.Cos(angle), -math.Sin(angle)})
	}
	return points
}

// Measures of a figure in pixels.
const (
	figureWidth, figureHeight = 760, 400

	figureLeft, figureTop, figureBottom = 64, 32, 46
	rightAxis                           = 52
	glyphRadius, markRadius             = 3, 5
)

// Write draws the figure as "svg" or "png".
func (f *Figure) Write(w io.Writer, format string) error {
	begin := map[string]func(io.Writer, float64, float64) Canvas{"svg": SVG, "png": PNG}[format]
	if begin == nil {
		return fmt.Errorf("figure format %q: svg or png", format)
	}
	x, y, err := f.axes()
	if err != nil {
		return err
	}
	c := begin(w, figureWidth, figureHeight)
	legend := f.legend()
	x.From, x.To, y.From, y.To = figureLeft, figureWidth-10, figureHeight-figureBottom, figureTop
	side := 0.0
	for _, i := range legend {
		side = max(side, 40+TextWidth(i.Name, FontSize))
	}
	if x.To -= side; f.Base > 0 {
		x.To -= rightAxis
	}
	f.grid(c, x, y)
	for k, o := range f.overlaps() {
		f.series(k, o).draw(c, x, y)
	}
	Corner(c, x, y)
	for k, m := range f.Marks {
		if finite(m.Y) {
			drawGlyph(c, markGlyph(k), x.Pixel(m.X), y.Pixel(m.Y), markRadius, Ink)
		}
	}
	for k, i := range legend {
		at := figureTop + 18*float64(k)
		i.Sample(c, figureWidth-side, at)
		c.Text(Text{X: figureWidth - side + 26, Y: at + 9, S: i.Name})
	}
	return c.Close()
}

// grid draws the bound, the axes and their names.
func (f *Figure) grid(c Canvas, x, y Axis) {
	if b := f.Bound; b != nil && len(b.X) > 0 {
		c.Area(b.area(x, y), Shaded)
	}
	c.Text(Text{X: x.From, Y: 17, Bold: true, S: f.Title})
	across := 10
	if f.WholeX {
		across = 8
	}
	x.Across(c, y.To, y.From, across, f.X)
	y.Up(c, x.From, x.To, 8, 0)
	UpName(c, 16, y, f.Y)
	if f.Base <= 0 {
		return
	}
	percent := Axis{Low: 100 * (y.Low/f.Base - 1), High: 100 * (y.High/f.Base - 1), From: y.From, To: y.To}
	for _, t := range percent.Ticks(8) {
		at := percent.Pixel(t.Value)
		c.Line([]Point{{x.To, at}, {x.To + 4, at}}, AxisLine)
		c.Text(Text{X: x.To + 8, Y: at + 4, S: t.Label})
	}
	c.Line([]Point{{x.To, y.From}, {x.To, y.To}}, AxisLine)
	UpName(c, x.To+rightAxis-6, y, f.Above)
}

// axes returns what series, marks and bound span, with a margin.
func (f *Figure) axes() (x, y Axis, err error) {
	var xs, ys []float64
	add := func(x, y float64) {
		if finite(y) {
			xs, ys = append(xs, x), append(ys, y)
		}
	}
	for _, s := range f.Series {
		if len(s.X) != len(s.Y) {
			return x, y, fmt.Errorf("figure: series %s has %d x and %d y", s.Name, len(s.X), len(s.Y))
		}
		for i := range s.X {
			add(s.X[i], s.Y[i])
		}
		for i := range s.MarkX {
			add(s.MarkX[i], s.MarkY[i])
		}
	}
	for _, m := range f.Marks {
		add(m.X, m.Y)
	}
	if len(xs) == 0 {
		return x, y, fmt.Errorf("figure %q: %w", f.Title, ErrEmpty)
	}
	if b := f.Bound; b != nil {
		low, high := slices.Min(xs), slices.Max(xs)
		for i := range b.X {
			if b.X[i] >= low && b.X[i] <= high {
				add(b.X[i], b.Y[i])
			}
		}
	}
	x, y = padded(xs, f.LogX), padded(ys, f.LogY)
	if x.Whole = f.WholeX; f.FromZero && !f.LogY {
		y.Low = 0
	}
	return x, y, nil
}

// finite reports whether a value can be drawn.
func finite(y float64) bool { return !math.IsNaN(y) && !math.IsInf(y, 0) }

// area is the region that a bound excludes.
func (b *Bound) area(x, y Axis) []Point {
	edge := y.From
	if b.Above {
		edge = y.To
	}
	points := []Point{{x.From, edge}}
	left := x.Low
	for i := range b.X {
		right := min(b.X[i], x.High)
		if right < left {
			continue
		}
		at := y.Pixel(y.Clip(b.Y[i]))
		points = append(points, Point{x.Pixel(left), at}, Point{x.Pixel(right), at})
		left = right
	}
	return append(points, Point{x.Pixel(left), edge})
}

// legend names the bound, the series and the marks.
func (f *Figure) legend() (items []Item) {
	if f.Bound != nil && len(f.Bound.X) > 0 {
		items = append(items, Item{f.Bound.Name, func(c Canvas, x, y float64) { c.Rect(x, y, 20, 10, Shaded, "") }})
	}
	for k, o := range f.overlaps() {
		l := f.series(k, o)
		items = append(items, Item{l.words, l.sample})
	}
	for k, m := range f.Marks {
		if finite(m.Y) {
			items = append(items, Item{m.Name, func(c Canvas, x, y float64) {
				drawGlyph(c, markGlyph(k), x+10, y+5, markRadius, Ink)
			}})
		}
	}
	return items
}

func markGlyph(k int) []Point { return glyphs[(k+1)%len(glyphs)] }

// drawGlyph draws a polygon of the unit circle around x, y.
func drawGlyph(c Canvas, shape []Point, x, y, radius float64, fill string) {
	at := make([]Point, len(shape))
	for i, p := range shape {
		at[i] = Point{x + radius*p.X, y + radius*p.Y}
	}
	c.Area(at, fill)
}

// A curve is a series with its look.
type curve struct {
	*Series
	words  string // in the legend
	stroke Stroke
	glyph  []Point
	parts  [][]Point // between gaps
}

func (f *Figure) series(k int, o overlap) curve {
	s := &f.Series[k]
	style := s.Style
	if style < 0 {
		style = k
	}
	l := curve{
		Series: s, words: s.Name + o.words(), glyph: glyphs[style%len(glyphs)], parts: s.parts(),
		stroke: Stroke{colours[style%len(colours)], o.width(), dashes[style/len(colours)%len(dashes)]},
	}
	if s.Dashed {
		l.stroke.Dashes = []float64{5, 5}
	}
	if len(l.parts) == 0 {
		l.words = s.Name + ": no plan"
	}
	return l
}

// draw draws the lines between gaps, and what is marked.
func (l curve) draw(c Canvas, x, y Axis) {
	for _, part := range l.parts {
		var points []Point
		for i, p := range part {
			at := Point{x.Pixel(p.X), y.Pixel(p.Y)}
			if l.Steps && i > 0 {
				points = append(points, Point{at.X, points[len(points)-1].Y})
			}
			points = append(points, at)
		}
		if last := points[len(points)-1]; l.Steps && last.X < x.To { // what holds from the last breakpoint on
			points = append(points, Point{x.To, last.Y})
		}
		c.Line(points, l.stroke)
		if l.Points || len(part) == 1 && !l.Steps {
			for _, p := range part {
				drawGlyph(c, l.glyph, x.Pixel(p.X), y.Pixel(p.Y), glyphRadius, l.stroke.Colour)
			}
		}
	}
	for i := range l.MarkX {
		drawGlyph(c, l.glyph, x.Pixel(l.MarkX[i]), y.Pixel(l.MarkY[i]), glyphRadius, l.stroke.Colour)
	}
}

// sample draws the look in the legend, nothing for a series without values.
func (l curve) sample(c Canvas, x, y float64) {
	if len(l.parts) == 0 {
		return
	}
	c.Line([]Point{{x, y + 5}, {x + 20, y + 5}}, l.stroke)
	if l.Points || len(l.MarkX) > 0 {
		drawGlyph(c, l.glyph, x+10, y+5, glyphRadius, l.stroke.Colour)
	}
}

// parts returns the runs of points between gaps.
func (s *Series) parts() (parts [][]Point) {
	gap := true
	for i := range s.X {
		if !finite(s.Y[i]) {
			gap = true
			continue
		}
		if gap {
			parts = append(parts, nil)
		}
		gap = false
		parts[len(parts)-1] = append(parts[len(parts)-1], Point{s.X[i], s.Y[i]})
	}
	return parts
}
