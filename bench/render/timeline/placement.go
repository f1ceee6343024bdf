package timeline

import (
	"fmt"
	"math"

	"workbench/bench/render/picture"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/placement"
)

// Placements draws where buffers lie: time across, addresses up, a rectangle for
// each; the memory, the height and the load are lines. In a trace every buffer is an
// event of its own, a time step a millisecond.
func Placements() Drawer { return Drawer{placementChart} }

// placementHeight is that of the memory in the picture, in pixels.
const placementHeight = 520

// buffer is one that has an address, in bytes and time steps.
type buffer struct {
	id         string
	at, size   float64
	start, end float64
}

func placementChart(in plan.Instance, p *plan.Plan) (*chart, error) {
	l := plan.As[*lifetimes.Lifetimes](in)
	s, err := placement.Summarize(l, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	at := make(map[string]float64, len(p.Offsets))
	for _, o := range p.Offsets {
		at[o.ID] = p.Unit.Bytes(o.Offset)
	}
	c := newChart(p, "memory", l.Name, math.Inf(-1))
	c.start, c.unit = math.Inf(1), platform.AxisUnit{Name: "steps", Size: 1}
	most := max(s.Height, 1)
	var list []buffer
	for i := range l.Buffers {
		x := &l.Buffers[i]
		b := buffer{x.ID, at[x.ID], l.Unit.Bytes(x.Size), float64(x.Lower), float64(x.Upper)}
		c.start, c.end, most = min(c.start, b.start), max(c.end, b.end), max(most, b.at+b.size)
		list = append(list, b)
	}
	if !(c.start < c.end) {
		c.start, c.end = 0, 1 // of no buffers
	}
	const millisecond = 1e-3
	for _, b := range list {
		c.stays = append(c.stays, stay{
			b.id, "buffer", b.id,
			[]piece{{(b.start - c.start) * millisecond, (b.end - c.start) * millisecond}},
			map[string]any{"offset": b.at, "size": b.size},
		})
	}
	if s.Memory <= 2*most {
		most = max(most, s.Memory)
	}
	c.measures = fmt.Sprintf("%s, load %s, height %s, memory %s", platform.Count(len(l.Buffers), "buffer"),
		platform.FormatBytes(s.Load), platform.FormatBytes(s.Height), platform.FormatBytes(s.Memory))
	levels := levelsAt(s, most)
	for _, x := range levels {
		c.legend = append(c.legend, picture.Item{Name: x.name, Sample: picture.Dash(x.stroke)})
	}
	c.lanes = []lane{{height: placementHeight, draw: func(v *view, y float64) {
		u := platform.ByteUnit(most)
		up := picture.Axis{High: most / u.Size, From: y + placementHeight, To: y}
		up.Up(v, left, v.time.To, 8, 0)
		picture.UpName(v, 14, up, "address ("+u.Name+")")
		for i, b := range list {
			if _, placed := at[b.id]; placed && b.size > 0 {
				b.draw(v, up, u.Size, i)
			}
		}
		for _, x := range levels {
			v.Begin(x.name + ": " + platform.FormatBytes(x.bytes))
			high := up.Pixel(x.bytes / u.Size)
			v.Line([]picture.Point{{X: left, Y: high}, {X: v.time.To, Y: high}}, x.stroke)
			v.End()
		}
	}}}
	return c, nil
}

// draw draws a rectangle, with the buffer's name if there is room for it.
func (b buffer) draw(v *view, up picture.Axis, unit float64, i int) {
	fill := [...]string{forwardColour, backwardColour, prefetchColour, weightColour, uploadColour, activationColour}[i%6]
	x, width := v.x(b.start), v.width(piece{b.start, b.end})
	upper, lower := up.Pixel((b.at+b.size)/unit), up.Pixel(b.at/unit)
	v.Begin(fmt.Sprintf("%s: [%.0f, %.0f), %s from %s on", b.id, b.start, b.end, platform.FormatBytes(b.size), platform.FormatBytes(b.at)))
	v.Rect(x, upper, width, lower-upper, fill, picture.White)
	if lower-upper > picture.FontSize && width > picture.TextWidth(b.id, picture.LabelSize)+4 {
		v.Text(picture.Text{
			X: x + width/2, Y: (upper+lower)/2 + 3.5, Anchor: picture.Middle, Size: picture.LabelSize, S: b.id, Colour: onFill(box{fill: fill}),
		})
	}
	v.End()
}

// An amount is a line across a placement.
type amount struct {
	name   string
	stroke picture.Stroke
	bytes  float64
}

// levelsAt returns the lines of a placement up to most; of equal ones the last
// is seen, and named for all.
func levelsAt(s *placement.Summary, most float64) (list []amount) {
	line := func(colour string) picture.Stroke {
		stroke := picture.LimitLine
		stroke.Colour = colour
		return stroke
	}
	for _, x := range []amount{
		{"load", line(uploadColour), s.Load}, {"height", line(gradientColour), s.Height}, {"memory", picture.LimitLine, s.Memory},
	} {
		if x.bytes > most {
			continue
		}
		if last := len(list) - 1; last >= 0 && list[last].bytes == x.bytes {
			x.name = list[last].name + " = " + x.name
			list = list[:last]
		}
		list = append(list, x)
	}
	return list
}
