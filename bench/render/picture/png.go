package picture

import (
	"cmp"
	"io"

	"git.sr.ht/~sbinet/gg"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
)

// resolution is the number of pixels of a PNG for one of SVG.
const resolution = 2

// raster draws with antialiasing in memory.
type raster struct {
	*gg.Context
	out           io.Writer
	regular, bold *opentype.Font
	err           error
}

// PNG begins a picture of pixels, two for one of [SVG]. Titles and outlines of text are left out.
func PNG(w io.Writer, width, height float64) Canvas {
	r := &raster{Context: gg.NewContext(int(width*resolution), int(height*resolution)), out: w}
	for _, f := range []struct {
		font **opentype.Font
		data []byte
	}{{&r.regular, goregular.TTF}, {&r.bold, gobold.TTF}} {
		if *f.font, r.err = opentype.Parse(f.data); r.err != nil {
			return r
		}
	}
	r.SetHexColor(White)
	r.Clear()
	return r
}

func (r *raster) Begin(string) {}

func (r *raster) End() {}

func (r *raster) Close() error {
	if r.err != nil {
		return r.err
	}
	return r.EncodePNG(r.out)
}

func (r *raster) Rect(x, y, width, height float64, fill, _ string) {
	r.Area([]Point{{x, y}, {x + width, y}, {x + width, y + height}, {x, y + height}}, fill)
}

func (r *raster) Area(points []Point, fill string) {
	if fill == Hatched {
		fill = Rust
	}
	r.trace(points)
	r.SetHexColor(fill)
	r.Fill()
}

func (r *raster) Line(points []Point, stroke Stroke) {
	r.trace(points)
	r.SetHexColor(stroke.Colour)
	r.SetLineWidth(stroke.Width * resolution)
	dashes := make([]float64, len(stroke.Dashes))
	for i, d := range stroke.Dashes {
		dashes[i] = d * resolution
	}
	r.SetDash(dashes...)
	r.Stroke()
}

func (r *raster) trace(points []Point) {
	for _, p := range points {
		r.LineTo(p.X*resolution, p.Y*resolution) // the first begins the path
	}
}

func (r *raster) Text(t Text) {
	if r.err != nil {
		return
	}
	r.Push()
	defer r.Pop()
	if t.Upright {
		r.RotateAbout(gg.Radians(-90), t.X*resolution, t.Y*resolution)
	}
	r.SetHexColor(cmp.Or(t.Colour, Ink))
	f, size := r.regular, cmp.Or(t.Size, FontSize)
	if t.Bold {
		f = r.bold
	}
	var face font.Face
	if face, r.err = opentype.NewFace(f, &opentype.FaceOptions{Size: size * resolution, DPI: 72}); r.err != nil {
		return
	}
	r.SetFontFace(face)
	r.DrawStringAnchored(t.S, t.X*resolution, t.Y*resolution, map[Anchor]float64{Middle: 0.5, Right: 1}[t.Anchor], 0)
}
