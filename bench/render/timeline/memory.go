package timeline

import (
	"math"
	"slices"

	"workbench/bench/render/picture"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// Measures of the memory in pixels: of one device, and of each of several.
const (
	curveHeight = 150
	panelHeight = 46
	panelGap    = 10
	columnGap   = 80
)

// memory is what devices hold over time, all in one scale, each part on top of the one before.
type memory struct {
	parts   []part
	devices []device
	limit   float64 // infinite: none
	unit    func(most float64) platform.AxisUnit
	stage   bool // the limit is about the stage model
}

// A part is what memory is used for.
type part struct {
	name, key string // in a picture, in a trace
	fill      string
}

// A device is one that holds memory.
type device struct {
	name    string // "": it is the only one
	levels  []level
	counted float64 // by the stage model
}

// A level is what is held of each part from a time on.
type level struct {
	time  float64
	parts [4]float64
}

// total returns what is held of the first n parts.
func (l level) total(n int) (sum float64) {
	for _, x := range l.parts[:n] {
		sum += x
	}
	return sum
}

// levelsOf returns what is held during steps that follow one another, and after them.
func levelsOf(steps []replay.MemoryStep, parts func(replay.MemoryParts) [4]float64) (list []level) {
	for i, m := range steps {
		list = append(list, level{m.Start, parts(m.During)})
		if i+1 == len(steps) || steps[i+1].Start > m.End {
			list = append(list, level{m.End, parts(m.After)})
		}
	}
	return list
}

// periodic returns what is held of samples until the end of the period.
func periodic(samples []replay.Sample, end float64, parts func(replay.Sample) [4]float64) (list []level) {
	for _, s := range samples {
		list = append(list, level{s.Time, parts(s)})
	}
	if n := len(list); n > 0 {
		list = append(list, level{end, list[n-1].parts})
	}
	return list
}

// most returns the most that the axis has to show, and the largest use.
func (m *memory) most() (axis, peak float64) {
	for _, d := range m.devices {
		for _, l := range d.levels {
			peak = max(peak, l.total(len(l.parts)))
		}
		axis = max(axis, d.counted)
	}
	if axis = max(axis, peak); !math.IsInf(m.limit, 1) {
		axis = max(axis, m.limit)
	}
	return max(axis, math.SmallestNonzeroFloat64), peak
}

// panel returns the height of a device.
func (m *memory) panel() float64 {
	if len(m.devices) == 1 && m.devices[0].name == "" {
		return curveHeight
	}
	return panelHeight
}

// height returns the height of all devices in the given number of columns.
func (m *memory) height(columns int) float64 {
	rows := (len(m.devices) + columns - 1) / max(1, columns)
	return max(0, float64(rows)*(m.panel()+panelGap)-panelGap)
}

// used reports whether a part is ever held.
func (m *memory) used(k int) bool {
	return slices.ContainsFunc(m.devices, func(d device) bool {
		return slices.ContainsFunc(d.levels, func(l level) bool { return l.parts[k] > 0 })
	})
}

// draw draws the devices in columns below y, with a legend above.
func (m *memory) draw(v *view, y float64, columns int) {
	if len(m.devices) == 0 {
		return
	}
	var legend []picture.Item
	for k, p := range m.parts {
		if m.used(k) {
			legend = append(legend, picture.Item{Name: p.name, Sample: picture.Swatch(p.fill)})
		}
	}
	if !math.IsInf(m.limit, 1) {
		legend = append(legend, picture.Item{}, picture.Item{Name: "limit", Sample: picture.Dash(picture.LimitLine)})
	}
	if m.stage {
		legend = append(legend, picture.Item{}, picture.Item{Name: "what the stage model counts", Sample: picture.Dash(stageLine)})
	}
	picture.Legend(v, left, y-13, legend)
	high, whole := m.height(columns), v.time
	unit := m.unit(first(m.most()))
	picture.UpName(v, 14, picture.Axis{From: y + high, To: y}, "memory ("+unit.Name+")")
	width := (whole.To - whole.From - float64(columns-1)*columnGap) / float64(columns)
	rows := (len(m.devices) + columns - 1) / columns
	for _, axes := range []bool{true, false} { // grid lines are below all devices
		for i := range m.devices {
			v.time.From = whole.From + float64(i/rows)*(width+columnGap)
			v.time.To = v.time.From + width
			at := y + float64(i%rows)*(m.panel()+panelGap)
			switch last := i%rows == rows-1 || i == len(m.devices)-1; {
			case !axes:
				m.device(v, &m.devices[i], at, unit)
			case columns > 1 && last:
				v.time.Across(v, y-3, at+m.panel(), int(width/90), "time ("+v.unit.Name+")")
			}
		}
	}
	v.time = whole
}

// first returns the first of two values.
func first(a, _ float64) float64 { return a }

// stageLine is the stroke of what the stage model counts.
var stageLine = picture.Stroke{Colour: gradientColour, Width: 1}

// device draws the memory of one device below y.
func (m *memory) device(v *view, d *device, y float64, unit platform.AxisUnit) {
	most, _ := m.most()
	up := picture.Axis{High: 1.06 * most / unit.Size, From: y + m.panel(), To: y}
	ticks, size := 5, 0.0
	if d.name != "" {
		ticks, size = 2, picture.SmallSize
		v.Text(picture.Text{X: v.time.From - 32, Y: y + m.panel()/2 + 4, Anchor: picture.Right, S: d.name})
	}
	up.Up(v, v.time.From, v.time.To, ticks, size)
	for k := len(m.parts) - 1; k >= 0; k-- {
		if !m.used(k) {
			continue
		}
		title := m.parts[k].name
		if d.name != "" {
			title += " of " + d.name
		}
		v.Begin(title)
		v.Area(v.outline(d.levels, up, unit, k+1), m.parts[k].fill)
		v.End()
	}
	picture.Corner(v, v.time, up)
	across := func(bytes float64, title string, stroke picture.Stroke) {
		v.Begin(title + ": " + formatted(bytes, unit))
		at := up.Pixel(bytes / unit.Size)
		v.Line([]picture.Point{{X: v.time.From, Y: at}, {X: v.time.To, Y: at}}, stroke)
		v.End()
	}
	if m.stage {
		across(d.counted, d.name+" by the stage model", stageLine)
	}
	if !math.IsInf(m.limit, 1) {
		across(m.limit, "limit", picture.LimitLine)
	}
}

// formatted writes memory in its unit.
func formatted(x float64, unit platform.AxisUnit) string {
	return number(x/unit.Size) + " " + unit.Name
}

// outline returns the area below what is held of the first n parts.
func (v *view) outline(levels []level, up picture.Axis, unit platform.AxisUnit, n int) []picture.Point {
	points := []picture.Point{{X: v.time.From, Y: up.From}}
	for _, l := range levels {
		x, y := v.x(l.time), up.Pixel(l.total(n)/unit.Size)
		before := points[len(points)-1]
		if before.Y != y {
			points = append(points, picture.Point{X: x, Y: before.Y}, picture.Point{X: x, Y: y})
		}
	}
	last := points[len(points)-1]
	return append(points, picture.Point{X: v.time.To, Y: last.Y}, picture.Point{X: v.time.To, Y: up.From})
}

// slots is the unit of memory that is counted.
func slots(float64) platform.AxisUnit { return platform.AxisUnit{Name: "slots", Size: 1} }
