// Package timeline draws plans: as a picture for papers and reports, and as a
// trace for Perfetto.
package timeline

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
	"workbench/model/verify/weightoffload"
)

// Options of a picture.
type Options struct {
	Width int // pixels; 0: 1000, more for patterns of many mini-batches
}

// Colours after Okabe and Ito, which people with any colour vision tell apart, with a contrast of at least 3:1 to white.
const (
	forwardColour    = "#3f8fca"
	backwardColour   = "#b87d00"
	prefetchColour   = "#009e73"
	uploadColour     = "#c0699a"
	weightColour     = "#0072b2"
	activationColour = "#8a8a8a"
	gradientColour   = "#d55e00"
	recomputeColour  = "#a63603"
)

// recomputeFill is the hatch of forwards that run a second time, which open defines.
const recomputeFill = "url(#recomputed)"

// Measures of the picture in pixels.
const (
	defaultWidth = 1000

	left, right = 84, 22
	top         = 44 // header and legend
	laneHeight  = 26
	laneGap     = 6
	curveGap    = 16
	curveHeight = 150
	bottom      = 40 // axis
	fontSize    = 11
	labelSize   = 9.5
)

// A lane is one resource of the picture.
type lane struct {
	name  string
	kinds []string
	high  float64 // in pixels; 0: laneHeight
}

// height of the lane in pixels.
func (l lane) height() float64 { return cmp.Or(l.high, laneHeight) }

// A Drawer draws the plans of a problem, which need not be valid.
type Drawer struct {
	svg   func(io.Writer, plan.Instance, *plan.Plan, Options) error
	trace func(io.Writer, plan.Instance, *plan.Plan) error
}

// SVG draws a plan as a picture. An operation that runs past the period of a plan
// that repeats is drawn in two pieces. Every operation is a group with a title,
// which viewers show under the pointer.
func (d Drawer) SVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	return d.svg(w, in, p, o)
}

// Trace writes a plan in the Chrome trace format, which ui.perfetto.dev and
// chrome://tracing open: a track for each resource and the memory in use. An
// operation that runs past the period is two events; one that overlaps another on
// its resource is cut, since the viewer would drop it.
func (d Drawer) Trace(w io.Writer, in plan.Instance, p *plan.Plan) error { return d.trace(w, in, p) }

// Steps draws plans of one device without transfers: what is computed and kept of
// each layer, node or branch over time, and the memory in use.
func Steps() Drawer { return Drawer{stepsSVG, stepsTrace} }

// Offloading draws plans that offload activations: what is computed and what is on
// the link, and the memory in use.
func Offloading() Drawer { return Drawer{offloadSVG, offloadTrace} }

// Swapping draws plans of swapping: what is computed and what is on either link,
// and the memory in use.
func Swapping() Drawer { return Drawer{swapSVG, swapTrace} }

// Patterns draws one period of a pipeline: a lane for each GPU and link, with
// shifts.
func Patterns() Drawer { return Drawer{patternSVG, patternTrace} }

// Weights draws one period of weight offloading: what computes and what is
// transferred when, and below it the memory in use against the limit; in a trace
// also the stays of each weight on the GPU.
func Weights() Drawer { return Drawer{weightsSVG, weightsTrace} }

var lanes = []lane{
	{name: "compute", kinds: []string{plan.OpF, plan.OpB}},
	{name: "host → GPU", kinds: []string{plan.OpP}},
	{name: "GPU → host", kinds: []string{plan.OpO, plan.OpD}},
}

func weightsSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	c := plan.As[*chain.Chain](in)
	samples, err := weightoffload.Profile(c, p)
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	d := &drawing{Writer: bufio.NewWriter(w), chain: c, plan: p, samples: samples}
	d.lay(o, *p.Period, heightOf(lanes))
	d.draw()
	return d.Flush()
}

// A drawing is a picture being written.
type drawing struct {
	*bufio.Writer
	chain    *chain.Chain
	backward map[string]bool   // the nodes of a graph that are no forwards
	again    map[*plan.Op]bool // the forwards that run a second time
	instance plan.Instance     // of a pattern
	plan     *plan.Plan
	samples  []replay.Sample

	period, width, scale         float64
	lanesEnd, curveTop, curveEnd float64
	high                         float64 // of the lane that is drawn
}

// lay settles the measures of a picture from time 0 to end, which has so much
// height above the curve.
func (d *drawing) lay(o Options, end, height float64) {
	d.width = float64(o.Width)
	if d.width <= 0 {
		d.width = defaultWidth
	}
	d.period, d.scale = end, (d.width-left-right)/end
	d.lanesEnd = top + height
	d.curveTop = d.lanesEnd + curveGap
	d.curveEnd = d.curveTop + curveHeight
}

// heightOf returns the height of lanes.
func heightOf(lanes []lane) (h float64) {
	for _, l := range lanes {
		h += l.height() + laneGap
	}
	return h - laneGap
}

func (d *drawing) draw() {
	d.open(d.curveEnd + bottom)
	d.header()
	d.grid()
	d.lanes(lanes)
	d.curve()
	d.printf("</svg>\n")
}

// open begins the picture.
func (d *drawing) open(height float64) {
	d.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%s\" height=\"%s\" viewBox=\"0 0 %s %s\" font-family=\"Helvetica, Arial, "+
		"sans-serif\" font-size=\"%d\" fill=\"#222\">\n",
		px(d.width), px(height), px(d.width), px(height), fontSize)
	d.printf("<defs><pattern id=\"recomputed\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"+
		"<rect width=\"5\" height=\"5\" fill=\"%s\"/><rect width=\"1.2\" height=\"5\" fill=\"#fff\"/></pattern></defs>\n", recomputeColour)
	d.printf("<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n")
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d, format, args...) }

// x returns where the instant t of the period is drawn.
func (d *drawing) x(t float64) float64 { return left + t*d.scale }

// text writes a text at x, y: with anchor start, middle or end.
func (d *drawing) text(x, y float64, anchor, attributes, s string) {
	if attributes != "" {
		attributes = " " + attributes
	}
	d.printf("<text x=\"%s\" y=\"%s\" text-anchor=\"%s\"%s>%s</text>\n", px(x), px(y), anchor, attributes, escape(s))
}

// header writes what is drawn, and the legend.
func (d *drawing) header() {
	peak := 0.0
	for _, s := range d.samples {
		peak = max(peak, s.Total())
	}
	d.heading(d.chain.Name, "period "+platform.FormatSeconds(d.period)+", "+ofLimit(peak, d.plan.Platform.Memory))
	d.legend([]legendItem{
		{"forward", swatch(forwardColour)},
		{"backward", swatch(backwardColour)},
		{"prefetch", swatch(prefetchColour)},
		{"upload", swatch(uploadColour)},
		{"discard", `<path d="M5 0v10" stroke="#000" stroke-width="1.5"/>`},
		{"", ""}, // lanes above, curve below
		{"weights", swatch(weightColour)},
		{"gradients", swatch(gradientColour)},
		{"activations", swatch(activationColour)},
	})
}

// ofLimit writes a peak of memory and the limit, if there is one, in bytes.
func ofLimit(peak, limit float64) string {
	s := "peak " + platform.FormatBytes(peak)
	if !math.IsInf(limit, 1) {
		s += " of " + platform.FormatBytes(limit)
	}
	return s
}

// heading writes which plan is drawn, by a name if its instance has none, and
// its measures.
func (d *drawing) heading(name, measures string) {
	name = cmp.Or(d.plan.Instance.Name, name)
	d.text(left, 15, "start", `font-weight="bold"`, strings.Trim(name+", "+d.plan.Method, ", "))
	d.text(d.width-right, 15, "end", "", measures)
}

// A legendItem is a colour and what it stands for; without a name, a gap.
type legendItem struct{ name, mark string }

// legend draws a line of them above the lanes.
func (d *drawing) legend(items []legendItem) { d.legendAt(25, items) }

// legendAt draws them below y.
func (d *drawing) legendAt(y float64, items []legendItem) {
	x := float64(left)
	for _, l := range items {
		if l.name != "" {
			d.printf("<g transform=\"translate(%s %s)\">%s</g>\n", px(x), px(y), l.mark)
			d.text(x+14, y+9, "start", "", l.name)
		}
		x += 28 + textWidth(l.name, fontSize)
	}
}

// swatch is a sample of a colour in the legend.
func swatch(colour string) string {
	return fmt.Sprintf(`<rect width="10" height="10" fill="%s"/>`, colour)
}

// memory returns what the memory axis must show.
func (d *drawing) memory() float64 {
	most := d.plan.Platform.Memory
	if math.IsInf(most, 1) {
		most = 0
	}
	for _, s := range d.samples {
		most = max(most, s.Total())
	}
	return most
}

// grid writes the time axis, its lines through lanes and curve.
func (d *drawing) grid() {
	u := platform.TimeUnit(d.period)
	for _, t := range ticks(d.period/u.Size, int(d.width/90)) {
		x := d.x(t * u.Size)
		d.printf("<path d=\"M%s %sV%s\" stroke=\"#ddd\"/>\n", px(x), px(top-3), px(d.curveEnd))
		d.printf("<path d=\"M%s %sv4\" stroke=\"#222\"/>\n", px(x), px(d.curveEnd))
		d.text(x, d.curveEnd+16, "middle", "", number(t))
	}
	d.text(d.x(d.period/2), d.curveEnd+32, "middle", "", "time ("+u.Name+")")
}

// lanes writes resources, one below the other.
func (d *drawing) lanes(list []lane) {
	y := float64(top)
	for _, l := range list {
		d.lane(y, l)
		y += l.height() + laneGap
	}
}

// lane writes the operations of one resource.
func (d *drawing) lane(y float64, l lane) {
	d.band(y, l)
	ops := d.ops(l.kinds)
	for _, o := range ops {
		if o.Op.Op != plan.OpD {
			d.box(y, o, d.title(o.Op), d.colour(o.Op))
		}
	}
	for _, o := range ops { // in front
		if o.Op.Op == plan.OpD {
			d.tick(y, o, d.title(o.Op))
		}
	}
	d.labels(y, ops)
}

// recomputed returns the operations that compute a layer or node that was computed before.
func recomputed(p *plan.Plan) map[*plan.Op]bool {
	ran, again := map[string]bool{}, map[*plan.Op]bool{}
	for k := range p.Ops {
		o := &p.Ops[k]
		what := o.Node
		switch o.Op {
		case plan.OpF, plan.OpFAll, plan.OpFCk, plan.OpFNone:
			what = fmt.Sprint(o.Branch, " ", o.Layer)
		case plan.OpC:
		default:
			continue
		}
		again[o], ran[what] = ran[what], true
	}
	return again
}

// colour is that of an operation; of a graph's, by the phase of its node.
func (d *drawing) colour(o *plan.Op) string {
	if d.again[o] {
		return recomputeFill
	}
	if d.backward[o.Node] {
		return backwardColour
	}
	return colour(o.Op)
}

// band draws a lane without its operations. What is drawn next is as high as it.
func (d *drawing) band(y float64, l lane) {
	d.high = l.height()
	d.text(left-8, y+d.high/2+4, "end", "", l.name)
	d.printf("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"#888\" fill-opacity=\"0.13\"/>\n", px(left), px(y),
		px(d.period*d.scale), px(d.high))
}

// A piece is an operation, or the part of one on one side of the period's end.
type piece struct {
	start, end float64
}

type drawnOp struct {
	*plan.Op
	pieces []piece // one, or two if it wraps around
}

// ops returns the operations of these kinds in order of start, those without
// meaningful times left out.
func (d *drawing) ops(kinds []string) []drawnOp {
	var ops []drawnOp
	for k := range d.plan.Ops {
		o := &d.plan.Ops[k]
		if !slices.Contains(kinds, o.Op) {
			continue
		}
		ps := pieces(o, d.period)
		if d.plan.Period == nil {
			ps = onePiece(o, d.period)
		}
		if ps != nil {
			ops = append(ops, drawnOp{o, ps})
		}
	}
	slices.SortStableFunc(ops, func(a, b drawnOp) int { return cmp.Compare(a.pieces[0].start, b.pieces[0].start) })
	return ops
}

// pieces returns where in [0, period] an operation is; nil if nowhere, because
// its times are no numbers.
func pieces(o *plan.Op, period float64) []piece {
	start, length := o.Start, min(o.End-o.Start, period)
	if !(length >= 0) || math.IsInf(start, 0) {
		return nil
	}
	start -= period * math.Floor(start/period)
	if start >= period*(1-1e-9) {
		start = 0 // by rounding
	}
	end := start + length
	if end > period*(1+1e-9) {
		return []piece{{start, period}, {0, end - period}}
	}
	return []piece{{start, min(end, period)}}
}

// onePiece returns where in [0, end] an operation of a plan that does not repeat
// is; nil if nowhere, because its times are no numbers.
func onePiece(o *plan.Op, end float64) []piece {
	if !(o.End-o.Start >= 0) || math.IsInf(o.Start, 0) || o.Start > end {
		return nil
	}
	return []piece{{max(0, o.Start), max(0, min(o.End, end))}}
}

// box writes an operation that takes time.
func (d *drawing) box(y float64, o drawnOp, title, colour string) {
	d.printf("<g><title>%s</title>", escape(title))
	for _, p := range o.pieces {
		d.bar(y, p, colour)
	}
	d.printf("</g>\n")
}

// area is a piece of an operation that nothing is drawn of, for its title.
func (d *drawing) area(y float64, p piece) {
	d.printf("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"none\"/>", px(d.x(p.start)), px(y), px((p.end-p.start)*d.scale),
		px(d.high))
}

// bar draws a piece of an operation.
func (d *drawing) bar(y float64, p piece, colour string) {
	w := (p.end - p.start) * d.scale
	d.printf("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\" stroke=\"#fff\" stroke-width=\"%s\"/>",
		px(d.x(p.start)), px(y), px(w), px(d.high), colour, px(min(0.6, w/6)))
}

// tick writes a discard.
func (d *drawing) tick(y float64, o drawnOp, title string) {
	d.printf("<g><title>%s</title><rect x=\"%s\" y=\"%s\" width=\"1.5\" height=\"9\" fill=\"#000\"/></g>\n",
		escape(title), px(d.x(o.pieces[0].start)-0.75), px(y+d.high-9))
}

// title describes an operation for whoever points at it.
func (d *drawing) title(o *plan.Op) string {
	u := platform.TimeUnit(d.period)
	s := d.named(o)
	if o.Layer == 0 && o.Tensor != "" && d.chain != nil {
		s += size(d.chain.Unit.Bytes(d.chain.Input.Activation))
	}
	if l := d.layer(o); l != nil {
		switch o.Tensor {
		case plan.TensorW:
			s += size(d.chain.Unit.Bytes(l.Weight))
		case plan.TensorA:
			s += size(d.chain.Unit.Bytes(l.Activation))
		case plan.TensorAbar:
			s += size(d.chain.Unit.Bytes(l.Saved))
		}
	}
	if o.Op == plan.OpD {
		return fmt.Sprintf("%s: at %.6g %s", s, o.Start/u.Size, u.Name)
	}
	return fmt.Sprintf("%s: %.6g to %.6g %s", s, o.Start/u.Size, o.End/u.Size, u.Name)
}

// named is an operation and the name of its layer.
func (d *drawing) named(o *plan.Op) string {
	s := o.String()
	if l := d.layer(o); l != nil && l.Name != "" {
		s += " (" + l.Name + ")"
	}
	return s
}

// layer is that of an operation; nil: it names none, or the instance is no chain.
func (d *drawing) layer(o *plan.Op) *chain.Layer {
	if d.chain == nil || o.Layer < 1 || o.Layer > d.chain.Len() {
		return nil
	}
	return &d.chain.Layers[o.Layer-1]
}

// size writes the size of a tensor behind its name.
func size(bytes float64) string {
	b := platform.ByteUnit(bytes)
	return ", " + number(bytes/b.Size) + " " + b.Name
}

// A label is a layer's number at the middle of an operation.
type label struct {
	x, width float64
	layer    int
}

// labels writes the layers' numbers into a lane. Where they all fit into their
// boxes each has one; else round numbers have, the rounder the sooner, as long
// as they keep apart, and may reach over their boxes.
func (d *drawing) labels(y float64, ops []drawnOp) {
	var all []label
	fit := true
	for _, o := range ops {
		if o.Op.Op == plan.OpD || o.Node+o.Storage != "" { // what has a name has no number
			continue
		}
		p := o.pieces[0]
		if len(o.pieces) > 1 && o.pieces[1].end > p.end-p.start {
			p = o.pieces[1] // the larger one
		}
		l := label{d.x((p.start + p.end) / 2), textWidth(strconv.Itoa(o.Layer), labelSize), o.Layer}
		fit = fit && l.width+2 <= (p.end-p.start)*d.scale
		all = append(all, l)
	}
	attributes := fmt.Sprintf(`font-size="%g" pointer-events="none"`, labelSize)
	if !fit {
		all = spread(all)
		// Keep them apart from what is under them.
		attributes += ` stroke="#fff" stroke-width="2.5" stroke-opacity="0.6" paint-order="stroke"`
	}
	for _, l := range all {
		d.text(l.x, y+d.high/2+3.5, "middle", attributes, strconv.Itoa(l.layer))
	}
}

// spread returns labels that keep apart: multiples of 1000 as far as they do,
// then those of 500, 100, …, 5. O(n·m) for n labels of which m find room.
func spread(all []label) []label {
	var kept []label
	for _, step := range []int{1000, 500, 100, 50, 10, 5} {
		for _, l := range all {
			near := func(k label) bool { return math.Abs(k.x-l.x) < (k.width+l.width)/2+6 }
			if l.layer%step == 0 && !slices.ContainsFunc(kept, near) {
				kept = append(kept, l)
			}
		}
	}
	return kept
}

// curve writes the memory in use, stacked, and the limit.
func (d *drawing) curve() {
	most := d.memory()
	if most == 0 {
		most = 1
	}
	u := platform.ByteUnit(most)
	high := most * 1.06
	y := func(bytes float64) float64 { return d.curveEnd - bytes/high*curveHeight }

	stacks := []struct {
		name, colour string
		from, to     func(replay.Sample) float64
	}{
		{"activations", activationColour, func(replay.Sample) float64 { return 0 }, func(s replay.Sample) float64 { return s.Activations }},
		{
			"weights", weightColour, func(s replay.Sample) float64 { return s.Activations },
			func(s replay.Sample) float64 { return s.Activations + s.Weights },
		},
		{"gradients", gradientColour, func(s replay.Sample) float64 { return s.Activations + s.Weights }, replay.Sample.Total},
	}
	for _, t := range ticks(most/u.Size, 5) {
		d.printf("<path d=\"M%s %sH%s\" stroke=\"#ddd\"/>\n", px(left), px(y(t*u.Size)), px(d.x(d.period)))
		d.text(left-8, y(t*u.Size)+4, "end", "", number(t))
	}
	d.printf("<text transform=\"translate(14 %s) rotate(-90)\" text-anchor=\"middle\">memory (%s)</text>\n", px((d.curveTop+d.curveEnd)/2),
		u.Name)
	for _, s := range stacks {
		d.printf("<g><title>%s</title><path fill=\"%s\" d=\"", s.name, s.colour)
		d.steps(d.samples, "M", s.to, y, false)
		d.steps(d.samples, "L", s.from, y, true)
		d.printf("Z\"/></g>\n")
	}
	d.printf("<path d=\"M%s %sV%sH%s\" fill=\"none\" stroke=\"#222\"/>\n", px(left), px(d.curveTop), px(d.curveEnd), px(d.x(d.period)))
	if limit := d.plan.Platform.Memory; !math.IsInf(limit, 1) {
		d.printf("<g><title>limit: %s %s</title><path d=\"M%s %sH%s\" stroke=\"#000\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"/></g>\n",
			number(limit/u.Size), u.Name, px(left), px(y(limit)), px(d.x(d.period)))
		d.text(d.x(d.period)-4, y(limit)-4, "end", `font-size="10"`, "limit")
	}
}

// steps writes the steps of one curve as a path, backwards for the lower edge
// of an area. Steps of equal height are one.
func (d *drawing) steps(samples []replay.Sample, move string, value func(replay.Sample) float64, y func(float64) float64,
	backwards bool,
) {
	type step struct{ from, to, height float64 }
	var steps []step
	for k, s := range samples {
		end := d.period
		if k+1 < len(samples) {
			end = samples[k+1].Time
		}
		h := value(s)
		if n := len(steps); n > 0 && steps[n-1].height == h {
			steps[n-1].to = end
			continue
		}
		steps = append(steps, step{s.Time, end, h})
	}
	if backwards {
		slices.Reverse(steps)
	}
	for k, s := range steps {
		a, b := s.from, s.to
		if backwards {
			a, b = b, a
		}
		if k == 0 {
			d.printf("%s%s %s", move, px(d.x(a)), px(y(s.height)))
		} else {
			d.printf("V%s", px(y(s.height)))
		}
		d.printf("H%s", px(d.x(b)))
	}
}

func colour(kind string) string {
	switch kind {
	case plan.OpF, plan.OpFAll, plan.OpC:
		return forwardColour
	case plan.OpFCk, plan.OpFNone:
		return lightColour
	case plan.OpB:
		return backwardColour
	case plan.OpP:
		return prefetchColour
	}
	return uploadColour
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

// textWidth estimates the width of s; generic fonts differ by a few percent.
func textWidth(s string, size float64) float64 { return 0.56 * size * float64(len([]rune(s))) }

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // replaces what XML cannot hold; a Builder does not fail
	return b.String()
}
