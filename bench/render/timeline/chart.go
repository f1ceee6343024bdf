// Package timeline draws plans: as a picture for papers and reports, and as a
// trace for Perfetto.
package timeline

import (
	"cmp"
	"io"
	"math"
	"slices"

	"workbench/bench/render/picture"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Options of a picture.
type Options struct {
	Width int // pixels; 0: 1000, more for pipelines of many micro-batches, which are divided into rows
}

// A Drawer draws the plans of a problem, which need not be valid.
type Drawer struct {
	chart func(plan.Instance, *plan.Plan) (*chart, error)
}

// SVG draws a plan as a picture. An operation that runs past the period of a plan
// that repeats is drawn in two pieces. Every operation is a group with a title,
// which viewers show under the pointer.
func (d Drawer) SVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	c, err := d.chart(in, p)
	if err != nil {
		return err
	}
	return c.svg(w, o)
}

// Trace writes a plan in the Chrome trace format, which ui.perfetto.dev and
// chrome://tracing open: a track for each resource and the memory in use. An
// operation that runs past the period is two events; one that overlaps another on
// its resource is cut, since the viewer would drop it.
func (d Drawer) Trace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	c, err := d.chart(in, p)
	if err != nil {
		return err
	}
	return writeTrace(w, c.events())
}

// A chart is what a picture and a trace show of a plan. Times are seconds, sizes bytes.
type chart struct {
	process         string
	title, measures string
	legend          []picture.Item
	start, end      float64
	unit            platform.AxisUnit // of the time axis
	lanes           []lane
	tracks          []track // of the trace
	stays           []stay
	memory          memory
	width           float64 // that a picture needs for its labels, in pixels; 0: defaultWidth
}

// newChart returns a chart of a plan that ends at end, without lanes.
func newChart(p *plan.Plan, process, name string, end float64) *chart {
	title := cmp.Or(p.Instance.Name, name)
	if title != "" && p.Method != "" {
		title += ", "
	}
	return &chart{
		process: process, title: title + p.Method, end: end, unit: platform.TimeUnit(end),
		memory: memory{unit: platform.ByteUnit, limit: p.Platform.Memory},
	}
}

// A lane is a resource of the picture, or a part of it that has the same time axis.
type lane struct {
	name   string
	height float64 // in pixels; 0: laneHeight
	bare   bool    // has no ground
	draw   func(v *view, y float64)
}

// high returns the height of a lane in pixels.
func (l lane) high() float64 { return cmp.Or(l.height, laneHeight) }

// A track is a resource of the trace.
type track struct {
	name  string
	boxes []box
}

// A stay is an interval in which something is kept. A trace has all of them.
type stay struct {
	name, category, id string
	pieces             []piece
	args               map[string]any
}

// add appends a resource with operations, drawn by label after their boxes.
func (c *chart) add(l lane, boxes []box, label func(v *view, y, height float64, boxes []box)) {
	l.draw = func(v *view, y float64) {
		v.boxes(y, l.high(), boxes)
		label(v, y, l.high(), boxes)
	}
	c.lanes, c.tracks = append(c.lanes, l), append(c.tracks, track{l.name, boxes})
}

// Measures of the picture in pixels.
const (
	defaultWidth = 1000
	mostWidth    = 1300 // more is divided into at most mostRows rows
	mostRows     = 6

	left, right = 84, 22
	top         = 44 // header and legend
	laneHeight  = 26
	laneGap     = 6
	curveGap    = 22 // between lanes and memory
	bottom      = 40 // axis
	rowGap      = 30 // between rows, with the labels of an axis
)

// svg draws the chart: a header, the lanes in one row or several, and the memory.
func (c *chart) svg(w io.Writer, o Options) error {
	width, rows := float64(o.Width), 1.0
	if width <= 0 {
		width = max(defaultWidth, c.width)
		if width > mostWidth {
			rows = min(mostRows, math.Ceil((width-left-right)/(mostWidth-left-right)))
			width = mostWidth
		}
	}
	high := -laneGap + 0.0
	for _, l := range c.lanes {
		high += l.high() + laneGap
	}
	lanesEnd := top + rows*high + (rows-1)*rowGap
	memoryTop, columns := lanesEnd, 1
	if len(c.memory.devices) > 0 {
		memoryTop += curveGap
	}
	if rows > 1 {
		memoryTop, columns = lanesEnd+rowGap+curveGap, min(2, len(c.memory.devices))
	}
	height := memoryTop + c.memory.height(columns) + bottom
	v := &view{
		Canvas: picture.SVG(w, width, height), unit: c.unit,
		time: picture.Axis{Low: c.start / c.unit.Size, High: c.end / c.unit.Size, From: left, To: width - right},
	}
	v.Text(picture.Text{X: left, Y: 15, Bold: true, S: c.title})
	v.Text(picture.Text{X: width - right, Y: 15, Anchor: picture.Right, S: c.measures})
	picture.Legend(v, left, 25, c.legend)
	whole := v.time
	length := (whole.High - whole.Low) / rows
	for r := range int(rows) {
		v.time.Low = whole.Low + float64(r)*length
		v.time.High = v.time.Low + length
		y, axis := top+float64(r)*(high+rowGap), height-bottom
		if rows > 1 {
			axis = y + high
		}
		c.row(v, y, axis, rows == 1)
	}
	v.time = whole
	c.memory.draw(v, memoryTop, columns)
	return v.Close()
}

// row draws the lanes below y, and the time axis at axis; named: with its name.
func (c *chart) row(v *view, y, axis float64, named bool) {
	name := ""
	if named {
		name = "time (" + v.unit.Name + ")"
	}
	at := y
	for _, l := range c.lanes {
		if !l.bare {
			v.Rect(v.time.From, at, v.time.To-v.time.From, l.high(), picture.Ground, "")
			v.Text(picture.Text{X: left - 8, Y: at + l.high()/2 + 4, Anchor: picture.Right, S: l.name})
		}
		at += l.high() + laneGap
	}
	v.time.Across(v, y-3, axis, int((v.time.To-v.time.From)/90), name)
	for _, l := range c.lanes {
		l.draw(v, y)
		y += l.high() + laneGap
	}
}

// A view is the part of time that is being drawn.
type view struct {
	picture.Canvas
	time picture.Axis // in units
	unit platform.AxisUnit
}

// x returns where a time in seconds is drawn.
func (v *view) x(t float64) float64 { return v.time.Pixel(v.time.Clip(t / v.unit.Size)) }

// seen reports whether some of a piece is in view.
func (v *view) seen(p piece) bool {
	start, end := p.start/v.unit.Size, p.end/v.unit.Size
	return end > v.time.Low && start < v.time.High || start == end && v.time.Clip(start) == start
}

// width returns how wide what is in view of a piece is drawn.
func (v *view) width(p piece) float64 { return v.x(p.end) - v.x(p.start) }

// bar draws a piece of an operation.
func (v *view) bar(y, height float64, p piece, fill, edge string) {
	v.Rect(v.x(p.start), y, v.width(p), height, fill, edge)
}

// boxes draws operations, those without duration in front.
func (v *view) boxes(y, height float64, boxes []box) {
	for _, instant := range []bool{false, true} {
		for _, b := range boxes {
			if b.instant != instant || !slices.ContainsFunc(b.pieces, v.seen) {
				continue
			}
			v.Begin(b.title)
			for _, p := range b.pieces {
				switch {
				case !v.seen(p):
				case instant:
					v.Rect(v.x(p.start)-0.75, y+height-9, 1.5, 9, picture.Black, "")
				default:
					v.bar(y, height, p, b.fill, picture.White)
					if b.recomputed > 0 {
						v.bar(y, height, piece{p.start, min(p.start+b.recomputed, p.end)}, picture.Hatched, picture.White)
					}
				}
			}
			v.End()
		}
	}
}
