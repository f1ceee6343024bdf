package picture

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// svg writes elements as they are drawn.
type svg struct{ *bufio.Writer }

// SVG begins a picture as scalable vector graphics.
func SVG(w io.Writer, width, height float64) Canvas {
	s := svg{bufio.NewWriter(w)}
	s.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%s\" height=\"%s\" viewBox=\"0 0 %[1]s %s\" font-family=\"Helvetica, Arial, "+
		"sans-serif\" font-size=\"%d\" fill=\"%s\">\n", px(width), px(height), FontSize, Ink)
	s.printf("<defs><pattern id=\"recomputed\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"+
		"<rect width=\"5\" height=\"5\" fill=\"%s\"/><rect width=\"1.2\" height=\"5\" fill=\"#fff\"/></pattern></defs>\n", Rust)
	s.printf("<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n")
	return s
}

func (s svg) printf(format string, args ...any) { fmt.Fprintf(s, format, args...) }

func (s svg) Begin(title string) { s.printf("<g><title>%s</title>", escape(title)) }

func (s svg) End() { s.printf("</g>\n") }

func (s svg) Close() error {
	s.printf("</svg>\n")
	return s.Flush()
}

func (s svg) Rect(x, y, width, height float64, fill, edge string) {
	s.printf("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"", px(x), px(y), px(width), px(height), fill)
	if edge != "" {
		s.printf(" stroke=\"%s\" stroke-width=\"%s\"", edge, px(min(0.6, width/6)))
	}
	s.printf("/>\n")
}

func (s svg) Area(points []Point, fill string) {
	s.printf("<path fill=\"%s\" d=\"%sZ\"/>\n", fill, path(points))
}

func (s svg) Line(points []Point, stroke Stroke) {
	s.printf("<path fill=\"none\" d=\"%s\" stroke=\"%s\"", path(points), stroke.Colour)
	if stroke.Width != 1 {
		s.printf(" stroke-width=\"%s\"", px(stroke.Width))
	}
	if len(stroke.Dashes) > 0 {
		s.printf(" stroke-dasharray=\"%s\"", strings.Trim(fmt.Sprint(stroke.Dashes), "[]"))
	}
	s.printf("/>\n")
}

func (s svg) Text(t Text) {
	s.printf("<text x=\"%s\" y=\"%s\"", px(t.X), px(t.Y))
	for _, a := range []struct {
		wanted     bool
		attributes string
	}{
		{t.Anchor != "" && t.Anchor != Start, fmt.Sprintf("text-anchor=\"%s\"", t.Anchor)},
		{t.Size != 0 && t.Size != FontSize, fmt.Sprintf("font-size=\"%s\"", px(t.Size))},
		{t.Bold, `font-weight="bold"`},
		{t.Colour != "" && t.Colour != Ink, fmt.Sprintf("fill=\"%s\"", t.Colour)},
		{t.Italic, `font-style="italic"`},
		{t.Upright, fmt.Sprintf("transform=\"rotate(-90 %s %s)\"", px(t.X), px(t.Y))},
		{t.Halo != "", fmt.Sprintf("pointer-events=\"none\" stroke=\"%s\" stroke-width=\"2.5\" paint-order=\"stroke\"", t.Halo)},
	} {
		if a.wanted {
			s.printf(" %s", a.attributes)
		}
	}
	s.printf(">%s", escape(t.S))
	if t.Raised != "" {
		s.printf("<tspan font-size=\"%d\" dy=\"-4\">%s</tspan>", RaisedSize, escape(t.Raised))
	}
	s.printf("</text>\n")
}

// path writes lines from point to point, horizontal and vertical ones shorter.
func path(points []Point) string {
	var b strings.Builder
	for i, p := range points {
		x, y := px(p.X), px(p.Y)
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%s %s", x, y)
		case y == px(points[i-1].Y):
			b.WriteString("H" + x)
		case x == px(points[i-1].X):
			b.WriteString("V" + y)
		default:
			fmt.Fprintf(&b, "L%s %s", x, y)
		}
	}
	return b.String()
}

// px writes a coordinate: to a hundredth of a pixel, without trailing zeros.
func px(x float64) string {
	s := strconv.FormatFloat(x, 'f', 2, 64)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // replaces what XML cannot hold; a Builder does not fail
	return b.String()
}
