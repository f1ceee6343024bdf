// Package picture draws the parts that all static pictures share: boxes, lines, areas, text, axes,
// legends and figures, in one palette and one font, as SVG or PNG. The same input gives the same bytes.
package picture

import "strings"

// Colours after Okabe and Ito, which people with any colour vision can distinguish, darkened to a contrast
// of at least 3:1 to white (WCAG 2.1, 1.4.11).
const (
	Blue      = "#0072b2"
	Vermilion = "#d55e00"
	Green     = "#009e73"
	Purple    = "#c0699a"
	Orange    = "#b87d00"
	Sky       = "#3f8fca"
	DarkGrey  = "#606060"
	Grey      = "#8a8a8a"
	Slate     = "#7c93a6"
	Steel     = "#5a8fb8"
	Ochre     = "#b07a2a"
	Olive     = "#968300"
	Rust      = "#a63603"
)

// Colours of what is no data.
const (
	Ink    = "#222"
	Black  = "#000"
	Faint  = "#ddd"    // grid lines
	Shaded = "#e4e4e4" // what a bound excludes
	Ground = "#f0f0f0" // lanes
	White  = "#fff"
)

// Hatched is the fill of recomputations: [Rust] with white lines.
const Hatched = "url(#recomputed)"

// Sizes of text in pixels.
const (
	FontSize  = 11
	LabelSize = 9.5 // of labels inside boxes
	SmallSize = 9   // of ticks on crowded axes
)

// A Canvas is a picture being drawn, in pixels from its upper left corner. What is drawn later covers
// what was drawn before.
type Canvas interface {
	// Begin opens a group of elements that viewers of SVG describe by title under the pointer.
	Begin(title string)
	End()
	Rect(x, y, width, height float64, fill, edge string)
	Area(points []Point, fill string)
	Line(points []Point, stroke Stroke)
	Text(Text)
	// Close completes the picture and returns the first error in writing it.
	Close() error
}

// A Point is a place in a picture.
type Point struct{ X, Y float64 }

// A Stroke is how a line looks; without Dashes it is solid.
type Stroke struct {
	Colour string
	Width  float64
	Dashes []float64
}

var (
	// GridLine is the stroke of grid lines, AxisLine of axes, LimitLine of limits.
	GridLine  = Stroke{Colour: Faint, Width: 1}
	AxisLine  = Stroke{Colour: Ink, Width: 1}
	LimitLine = Stroke{Colour: Black, Width: 1.2, Dashes: []float64{5, 3}}
)

// An Anchor is the part of a text that stands at its coordinates.
type Anchor string

// Anchors of texts.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	Right  Anchor = "end"
)

// Text is a line of text with its baseline at Y.
type Text struct {
	X, Y    float64
	Anchor  Anchor  // "": Start
	Size    float64 // 0: FontSize
	Bold    bool
	Italic  bool
	Upright bool   // reads from bottom to top
	Colour  string // "": Ink
	Halo    string // colour of an outline, which separates the text from what is under it; "": none
	Raised  string // written behind S, higher and smaller
	S       string
}

// RaisedSize is the font size of [Text].Raised.
const RaisedSize = 7

// TextWidth estimates the width of s; generic fonts differ by a few percent.
func TextWidth(s string, size float64) float64 { return 0.56 * size * float64(len([]rune(s))) }

// An Item is a line of a legend: a sample of how something looks, and what it is. Without a name it is a gap.
type Item struct {
	Name   string
	Sample func(c Canvas, x, y float64) // draws about 10 × 10 pixels right of x, below y
}

// Swatch is the sample of a fill.
func Swatch(fill string) func(c Canvas, x, y float64) {
	return func(c Canvas, x, y float64) { c.Rect(x, y, 10, 10, fill, "") }
}

// Dash is the sample of a line.
func Dash(s Stroke) func(c Canvas, x, y float64) {
	return func(c Canvas, x, y float64) { c.Line([]Point{{x - 10, y + 5}, {x + 10, y + 5}}, s) }
}

// Bar is the sample of a short vertical line.
func Bar(c Canvas, x, y float64) { c.Rect(x+4, y, 1.5, 10, Black, "") }

// Letter is the sample of a text.
func Letter(t Text) func(c Canvas, x, y float64) {
	return func(c Canvas, x, y float64) {
		t.X, t.Y = x, y+9
		c.Text(t)
	}
}

// Legend draws items in a row, from x on below y.
func Legend(c Canvas, x, y float64, items []Item) {
	for _, i := range items {
		if i.Name != "" {
			i.Sample(c, x, y)
			c.Text(Text{X: x + 14, Y: y + 9, S: i.Name})
		}
		x += 28 + TextWidth(i.Name, FontSize)
	}
}

// Short cuts a name to at most n characters: names of networks say at the front which block it is and at
// the end which operation.
func Short(name string, n int) string {
	if r := []rune(name); len(r) > n {
		return string(r[:n/2]) + "…" + strings.TrimSpace(string(r[len(r)-(n-1)/2:]))
	}
	return name
}
