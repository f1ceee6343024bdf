// Package plots draws figures for papers and reports: lines and step functions
// over two axes, a shaded bound, single marks, a legend beside the axes. One
// theme, colours of Okabe and Ito, byte-identical output for the same input.
package plots

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is what is drawn. Axes in logarithmic scale need positive values.
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

// ErrEmpty is the error of a figure without a point that can be drawn.
var ErrEmpty = errors.New("no points to draw")

// Formats are the formats that [Figure.Write] knows.
var Formats = []string{"svg", "png"}

// Colours of Okabe and Ito, which people with any colour vision tell apart,
// without black and yellow, which carry badly on white beside the others.
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	{0x00, 0x9e, 0x73, 0xff}, // green
	{0xcc, 0x79, 0xa7, 0xff}, // purple
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	{0x60, 0x60, 0x60, 0xff}, // grey
}

var (
	ink    = color.RGBA{0x22, 0x22, 0x22, 0xff}
	faint  = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	shaded = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}
	dashes = [][]vg.Length{
		nil,
		{vg.Points(5), vg.Points(2)},
		{vg.Points(1.5), vg.Points(2)},
		{vg.Points(6), vg.Points(2), vg.Points(1.5), vg.Points(2)},
	}
	glyphs = []draw.GlyphDrawer{
		draw.CircleGlyph{},
		draw.SquareGlyph{},
		draw.TriangleGlyph{},
		draw.CrossGlyph{},
		draw.PlusGlyph{},
		draw.RingGlyph{},
		draw.BoxGlyph{},
	}
)

// Size of a figure, in inches of 96 pixels: two columns of a paper.
const (
	width, height = 7.2, 3.8
	resolution    = 200 // dots per inch of PNG
)

// Write draws the figure as "svg" or "png".
func (f *Figure) Write(w io.Writer, format string) error {
	switch format {
	case "svg":
		c := vgsvg.New(width*vg.Inch, height*vg.Inch)
		if err := f.draw(draw.New(c)); err != nil {
			return err
		}
		_, err := c.WriteTo(w)
		return err
	case "png":
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width*vg.Inch, height*vg.Inch), vgimg.UseDPI(resolution))}
		if err := f.draw(draw.New(c)); err != nil {
			return err
		}
		_, err := c.WriteTo(w)
		return err
	}
	return fmt.Errorf("figure format %q: svg or png", format)
}

// sans returns the theme's font.
func sans(size float64) font.Font {
	return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(size))
}

func (f *Figure) draw(c draw.Canvas) error {
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	p := plot.New()
	f.theme(p)
	legend := plot.NewLegend()
	legend.TextStyle = text.Style{Color: ink, Font: sans(9), Handler: plot.DefaultTextHandler}
	legend.Top, legend.Left = true, true
	legend.ThumbnailWidth = vg.Points(22)
	legend.Padding = vg.Points(2.5)
	p.Add(grid())
	if err := f.limits(p); err != nil {
		return err
	}
	if b := f.Bound; b != nil && len(b.X) > 0 {
		area, err := f.area(p, b)
		if err != nil {
			return err
		}
		p.Add(area)
		legend.Add(b.Name, swatch{shaded})
	}
	shown := f.overlaps()
	for k := range f.Series {
		if err := f.series(p, &legend, k, shown[k]); err != nil {
			return err
		}
	}
	for k, m := range f.Marks {
		if !finite(m.Y) {
			continue
		}
		s, err := plotter.NewScatter(plotter.XYs{{X: m.X, Y: m.Y}})
		if err != nil {
			return err
		}
		s.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: vg.Points(4), Shape: []draw.GlyphDrawer{draw.BoxGlyph{}, draw.RingGlyph{}}[k%2]}
		p.Add(s)
		legend.Add(m.Name, s)
	}
	// The legend stands beside the axes, where it hides nothing. Viewers of SVG
	// that lack the font have wider ones.
	side := 1.15*legend.Rectangle(c).Size().X + vg.Points(10)
	p.Draw(draw.Crop(c, 0, -side, vg.Points(2), -vg.Points(2)))
	legend.Draw(draw.Crop(c, c.Size().X-side+vg.Points(6), 0, 0, -vg.Points(22)))
	return nil
}

// theme sets fonts, colours and labels.
func (f *Figure) theme(p *plot.Plot) {
	p.BackgroundColor = color.White
	p.Title.Text = f.Title
	p.Title.TextStyle.Font, p.Title.TextStyle.Color = sans(11), ink
	p.Title.Padding = vg.Points(6)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans(10), sans(9)
		a.Label.TextStyle.Color, a.Tick.Label.Color, a.Color, a.Tick.Color = ink, ink, ink, ink
		a.LineStyle.Width, a.Tick.LineStyle.Width = vg.Points(0.7), vg.Points(0.7)
		a.Padding = 0
		a.Tick.Marker = plain{}
	}
	p.X.Label.Text, p.Y.Label.Text = f.X, f.Y
	if f.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	if f.WholeX {
		p.X.Tick.Marker = whole{}
	}
	if f.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Color, g.Vertical.Color = faint, faint
	g.Horizontal.Width, g.Vertical.Width = vg.Points(0.5), vg.Points(0.5)
	return g
}

// limits sets the axes to what series and marks span, with a margin.
func (f *Figure) limits(p *plot.Plot) error {
	x, y := span{math.Inf(1), math.Inf(-1)}, span{math.Inf(1), math.Inf(-1)}
	for _, s := range f.Series {
		if len(s.X) != len(s.Y) {
			return fmt.Errorf("figure: series %s has %d x and %d y", s.Name, len(s.X), len(s.Y))
		}
		for i := range s.X {
			if finite(s.Y[i]) {
				x.add(s.X[i])
				y.add(s.Y[i])
			}
		}
		for i := range s.MarkX {
			x.add(s.MarkX[i])
			y.add(s.MarkY[i])
		}
	}
	for _, m := range f.Marks {
		if finite(m.Y) {
			x.add(m.X)
			y.add(m.Y)
		}
	}
	if b := f.Bound; b != nil {
		for i := range b.X {
			if b.X[i] >= x.low && b.X[i] <= x.high && finite(b.Y[i]) {
				y.add(b.Y[i])
			}
		}
	}
	if x.low > x.high {
		return fmt.Errorf("figure %q: %w", f.Title, ErrEmpty)
	}
	p.X.Min, p.X.Max = x.padded(f.LogX)
	p.Y.Min, p.Y.Max = y.padded(f.LogY)
	if f.FromZero && !f.LogY {
		p.Y.Min = 0
	}
	return nil
}

// finite reports whether a value can be drawn.
func finite(y float64) bool { return !math.IsNaN(y) && !math.IsInf(y, 0) }

// span is a range of values.
type span struct{ low, high float64 }

func (s *span) add(v float64) { s.low, s.high = min(s.low, v), max(s.high, v) }

// padded returns the span with a margin. A logarithmic axis of a hundredfold and
// more gets whole decades, since only those are labelled.
func (s span) padded(log bool) (low, high float64) {
	if log && s.high < hundredfold*s.low {
		margin := max(math.Pow(s.high/s.low, 0.04), 1.01)
		return s.low / margin, s.high * margin
	}
	if log {
		return math.Pow(10, math.Floor(math.Log10(s.low))), math.Pow(10, math.Ceil(math.Log10(s.high)))
	}
	margin := 0.04 * (s.high - s.low)
	if margin == 0 {
		margin = 0.5 * max(math.Abs(s.high), 1e-9)
	}
	return s.low - margin, s.high + margin
}

// plain marks multiples of 1, 2 or 5 times a power of ten, four to eight of them,
// and what lies halfway between.
type plain struct{}

func (plain) Ticks(low, high float64) (ticks []plot.Tick) {
	const most = 8
	step := math.Pow(10, math.Floor(math.Log10((high-low)/most)))
	for _, f := range []float64{1, 2, 5, 10} {
		if (high-low)/(f*step) <= most {
			step *= f
			break
		}
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	for k := math.Ceil(2*low/step - 1e-9); k <= 2*high/step+1e-9; k++ {
		t := plot.Tick{Value: k*step/2 + 0} // not -0
		if math.Mod(k, 2) == 0 {
			t.Label = strconv.FormatFloat(t.Value, 'f', decimals, 64)
			if decimals > 4 || math.Abs(t.Value) >= 1e7 {
				t.Label = strconv.FormatFloat(t.Value, 'g', 6, 64)
			}
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
type decades struct{}

func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
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
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// whole marks whole numbers: all of them, or multiples of a round step.
type whole struct{}

func (whole) Ticks(low, high float64) (ticks []plot.Tick) {
	step := 1.0
	for _, s := range []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if step = s; (high-low)/s <= 16 {
			break
		}
	}
	for v := math.Ceil(low/step) * step; v <= high; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return ticks
}

// area is the region that a bound excludes.
func (f *Figure) area(p *plot.Plot, b *Bound) (*plotter.Polygon, error) {
	edge := p.Y.Min
	if b.Above {
		edge = p.Y.Max
	}
	clip := func(v float64) float64 { return min(max(v, p.Y.Min), p.Y.Max) }
	at := plotter.XYs{{X: p.X.Min, Y: edge}}
	left := p.X.Min
	for i := range b.X {
		right := min(b.X[i], p.X.Max)
		if right < left {
			continue
		}
		y := clip(b.Y[i])
		at = append(at, plotter.XY{X: left, Y: y}, plotter.XY{X: right, Y: y})
		left = right
	}
	at = append(at, plotter.XY{X: left, Y: edge})
	area, err := plotter.NewPolygon(at)
	if err != nil {
		return nil, err
	}
	area.Color, area.LineStyle.Width = shaded, 0
	return area, nil
}

// series adds curve k. Gaps divide it into several lines.
func (f *Figure) series(p *plot.Plot, legend *plot.Legend, k int, o overlap) error {
	s := &f.Series[k]
	style := s.Style
	if style < 0 {
		style = k
	}
	look := draw.LineStyle{Color: colours[style%len(colours)], Width: o.width(), Dashes: dashes[style/len(colours)%len(dashes)]}
	if s.Dashed {
		look.Dashes = []vg.Length{vg.Points(4), vg.Points(4)}
	}
	glyph := draw.GlyphStyle{Color: look.Color, Radius: vg.Points(2.2), Shape: glyphs[style%len(glyphs)]}
	var thumbnails []plot.Thumbnailer
	for _, part := range s.parts() {
		line, points, err := plotter.NewLinePoints(part)
		if err != nil {
			return fmt.Errorf("figure: series %s: %w", s.Name, err)
		}
		line.LineStyle, points.GlyphStyle = look, glyph
		if s.Steps {
			line.StepStyle = plotter.PostStep
			if last := part[len(part)-1]; last.X < p.X.Max { // what holds from the last breakpoint on
				line.XYs = append(slices.Clone(line.XYs), plotter.XY{X: p.X.Max, Y: last.Y})
			}
		}
		p.Add(line)
		if len(thumbnails) == 0 {
			thumbnails = append(thumbnails, line)
		}
		if s.Points || len(part) == 1 && !s.Steps {
			p.Add(points)
			if len(thumbnails) == 1 {
				thumbnails = append(thumbnails, points)
			}
		}
	}
	if len(thumbnails) == 0 {
		legend.Add(s.Name + ": no plan")
		return nil
	}
	if len(s.MarkX) > 0 {
		points, err := s.marked()
		if err != nil {
			return err
		}
		points.GlyphStyle = glyph
		p.Add(points)
		thumbnails = append(thumbnails, points)
	}
	legend.Add(s.Name+o.words(), thumbnails...)
	return nil
}

// marked returns the marks of a series.
func (s *Series) marked() (*plotter.Scatter, error) {
	at := make(plotter.XYs, len(s.MarkX))
	for i := range at {
		at[i] = plotter.XY{X: s.MarkX[i], Y: s.MarkY[i]}
	}
	points, err := plotter.NewScatter(at)
	if err != nil {
		return nil, fmt.Errorf("figure: series %s: %w", s.Name, err)
	}
	return points, nil
}

// parts returns the runs of points between gaps.
func (s *Series) parts() (parts []plotter.XYs) {
	var run plotter.XYs
	flush := func() {
		if len(run) > 0 {
			parts, run = append(parts, run), nil
		}
	}
	for i := range s.X {
		if !finite(s.Y[i]) {
			flush()
			continue
		}
		run = append(run, plotter.XY{X: s.X[i], Y: s.Y[i]})
	}
	flush()
	return parts
}

// swatch is the legend's sample of an area.
type swatch struct{ color color.Color }

func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Min.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Max.X, Y: c.Min.Y}})
}
