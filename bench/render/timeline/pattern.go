package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"workbench/bench/render/picture"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/pipeline"
	"workbench/model/verify/replay"
)

// Patterns draws one period of a pipeline: a lane for each GPU and link, with
// shifts, and what each GPU holds.
func Patterns() Drawer { return Drawer{patternChart} }

// resources returns the lanes of a pattern, GPUs first.
func resources(p *plan.Plan) (names []string) {
	for k := range p.Ops {
		o := &p.Ops[k]
		if o.Resource != "" && pieces(o, *p.Period) != nil && !slices.Contains(names, o.Resource) {
			names = append(names, o.Resource)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(slices.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return names
}

// rank sorts GPUs before links before what a pattern does not have, each by
// their numbers.
func rank(name string) []int {
	var i, j int
	if n, _ := fmt.Sscanf(name, "gpu%d", &i); n == 1 {
		return []int{0, i}
	}
	if n, _ := fmt.Sscanf(name, "link%d-%d", &i, &j); n == 2 {
		return []int{1, i, j}
	}
	return []int{2}
}

// drawable returns the layers of a pattern that can be drawn.
func drawable(in plan.Instance, p *plan.Plan) (*chain.Chain, error) {
	c, err := pipeline.Line(in, p)
	switch {
	case err != nil:
		return nil, err
	case p.Period == nil || !(*p.Period > 0) || math.IsInf(*p.Period, 0):
		return nil, fmt.Errorf("%w: a pattern has a period", plan.ErrUnreadable)
	case len(resources(p)) == 0:
		return nil, fmt.Errorf("%w: no operation has a resource", plan.ErrUnreadable)
	}
	return c, nil
}

// patternChart is of one period of a pattern: a lane for each GPU and link, below them
// the memory of each GPU, and on each operation its layer and, raised, the shift: of which mini-batch it is
// in this period, also where it goes on from the period before. Where there is no room for
// that, neighbours of one mini-batch share a label.
func patternChart(in plan.Instance, p *plan.Plan) (*chart, error) {
	layers, err := drawable(in, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	c := newChart(p, "pipeline", "", *p.Period)
	c.memory.parts = []part{{"weights, buffers", "weights", weightColour}, {"activations", "activations", activationColour}}
	c.measures = "T = " + platform.FormatSeconds(c.end)
	if p.K > 1 {
		c.measures += fmt.Sprintf(" for %d mini-batches", p.K)
	}
	if sum, err := pipeline.Summarize(in, p); err == nil {
		c.patternMemory(in, p, sum)
	}
	for _, name := range resources(p) {
		var boxes []box
		for k := range p.Ops {
			if o := &p.Ops[k]; o.Resource == name {
				if ps := pieces(o, c.end); ps != nil {
					boxes = append(boxes, c.patternBox(layers, o, ps, p.K))
				}
			}
		}
		c.width = max(c.width, passWidth*float64(len(passes(boxes, c.end, p.K))))
		c.lanes = append(c.lanes, lane{name: name, draw: func(v *view, y float64) {
			for _, pass := range passes(v.inView(boxes), c.end, p.K) {
				v.patternPass(y, pass)
			}
		}})
		c.tracks = append(c.tracks, track{name, boxes})
	}
	c.legend = []picture.Item{
		forwardItem,
		backwardItem,
		{Name: "activation sent", Sample: picture.Swatch(prefetchColour)},
		{Name: "gradient sent", Sample: picture.Swatch(uploadColour)},
	}
	if slices.ContainsFunc(p.Ops, func(o plan.Op) bool { return o.Op == plan.OpAR }) {
		c.legend = append(c.legend, picture.Item{Name: "all-reduce", Sample: picture.Swatch(gradientColour)})
	}
	c.legend = append(c.legend, picture.Item{
		Name: "layer 5 of " + miniBatch(p.K, 2) + " in period j", Sample: picture.Letter(picture.Text{S: "5", Raised: "2"}),
	})
	return c, nil
}

// patternBox is an operation of a pattern.
func (c *chart) patternBox(layers *chain.Chain, o *plan.Op, ps []piece, k int) box {
	b := box{
		Op: o, pieces: ps, fill: patternColour(o.Op), label: strconv.Itoa(o.Layer), title: o.String(),
		name: fmt.Sprintf("%s^%d", o, o.Shift), args: map[string]any{"layer": o.Layer, "shift": o.Shift},
	}
	if o.Op == plan.OpAR { // of all layers of its stage
		b.label = plan.OpAR
	}
	if l := layerOf(layers, o); l != nil && l.Name != "" {
		b.args["name"], b.title = l.Name, b.title+" ("+l.Name+")"
	}
	b.title += " of " + miniBatch(k, o.Shift) + c.times(o, false)
	return b
}

// patternMemory is what each GPU that computes something holds, and the measures of that.
func (c *chart) patternMemory(in plan.Instance, p *plan.Plan, sum *pipeline.Summary) {
	profile, err := pipeline.Profile(in, p)
	used := 0
	for i, g := range sum.GPUs {
		if len(g.Stages) == 0 {
			continue
		}
		if used++; err == nil && profile != nil {
			c.memory.devices = append(c.memory.devices, device{name: g.Name, levels: periodic(profile[i], c.end, bySample), counted: g.StageMemory})
		}
	}
	c.memory.limit, c.memory.stage = sum.Memory, p.MemoryModel == plan.StageModel
	c.measures += fmt.Sprintf(", %d of %d GPUs", used, len(sum.GPUs))
	if sum.PeakMemory > 0 {
		c.measures += ", " + ofLimit(sum.PeakMemory, sum.Memory)
	}
}

func bySample(s replay.Sample) [4]float64 { return [4]float64{s.Weights, s.Activations + s.Gradients} }

// miniBatch names the one that an operation with a shift is of in period j.
func miniBatch(k, shift int) string {
	s := "mini-batch j"
	if k > 1 {
		s = fmt.Sprintf("mini-batch %d·j", k)
	}
	switch {
	case shift > 0:
		s += fmt.Sprintf(" + %d", shift)
	case shift < 0:
		s += fmt.Sprintf(" − %d", -shift)
	}
	return s
}

// An item is what is drawn of an operation on one side of the period's end.
type item struct {
	box
	piece
	shift int // of the period that is drawn, whatever the operation counts from
}

const (
	// narrow is the width in pixels below which operations that share a label
	// are drawn without lines between them, which would be all that one sees.
	narrow = 4
	// sameTime is the part of a period that cannot be seen.
	sameTime = 5e-4
	// passWidth is for a pass through a GPU, where a picture is as wide as its
	// patterns ask for.
	passWidth = 24
)

// passes returns what is drawn in a lane, in order of time, split into passes of
// one mini-batch through layers in turn.
func passes(boxes []box, period float64, k int) (list [][]item) {
	var items []item
	for _, b := range boxes {
		turn := int(math.Round((b.Start - b.pieces[0].start) / period))
		for i, p := range b.pieces {
			items = append(items, item{b, p, b.Shift - max(1, k)*(turn+i)})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.start, b.start) })
	for len(items) > 0 {
		n := 1
		for n < len(items) && follows(items[n-1], items[n]) && items[n].start-items[n-1].end < sameTime*period {
			n++
		}
		list = append(list, items[:n])
		items = items[n:]
	}
	return list
}

// follows reports whether b has the next layer of the same pass of the same
// mini-batch as a.
func follows(a, b item) bool {
	next := a.Layer + 1
	if a.box.Op.Op == plan.OpB {
		next = a.Layer - 1
	}
	return a.box.Op.Op == b.box.Op.Op && a.shift == b.shift && b.Layer == next
}

// inView returns what is in view of operations.
func (v *view) inView(boxes []box) []box {
	return slices.DeleteFunc(slices.Clone(boxes), func(b box) bool { return !slices.ContainsFunc(b.pieces, v.seen) })
}

// patternPass draws a pass of a mini-batch through layers in turn. Those without
// room for a label of their own share one with their neighbours; all do if most
// have no room. A shift without layers would be taken for a layer near labels
// that have some.
func (v *view) patternPass(y float64, items []item) {
	own := func(i item) bool { return v.room(i.piece, i.label, i.shift) }
	n := 0
	for _, i := range items {
		if own(i) {
			n++
		}
	}
	whole, layers := together(items)
	if n == 0 || 2*n < len(items) && v.room(whole, layers, items[0].shift) {
		v.patternBoxes(y, items, true)
		return
	}
	for len(items) > 0 {
		n := 1
		for n < len(items) && !own(items[0]) && !own(items[n]) {
			n++
		}
		v.patternBoxes(y, items[:n], false)
		items = items[n:]
	}
}

// together is where items of one pass are, and the label of their layers.
func together(items []item) (piece, string) {
	first, last := items[0], items[len(items)-1]
	layers := first.label
	if len(items) > 1 {
		layers += "–" + last.label
	}
	return piece{first.start, last.end}, layers
}

// patternBoxes draws operations that share a label: their layers and shift, the
// shift alone if that is allowed, or nothing, as there is room.
func (v *view) patternBoxes(y float64, items []item, alone bool) {
	whole, layers := together(items)
	fill, shift, edge := items[0].fill, items[0].shift, picture.White
	if len(items) > 1 && v.width(whole) < narrow*float64(len(items)) {
		edge = ""
		v.bar(y, laneHeight, whole, fill, picture.White)
	}
	for _, i := range items {
		v.Begin(i.title)
		v.bar(y, laneHeight, i.piece, fill, edge)
		v.End()
	}
	if alone && !v.room(whole, layers, shift) {
		layers = ""
	}
	if v.room(whole, layers, shift) {
		v.Text(picture.Text{
			X: (v.x(whole.start) + v.x(whole.end)) / 2, Y: y + laneHeight/2 + 4, Anchor: picture.Middle, Size: picture.LabelSize, Halo: fill,
			S: layers, Raised: strconv.Itoa(shift),
		})
	}
}

// room reports whether a piece has room for layers and a shift.
func (v *view) room(p piece, layers string, shift int) bool {
	return picture.TextWidth(layers, picture.LabelSize)+picture.TextWidth(strconv.Itoa(shift), picture.RaisedSize)+3 <= v.width(p)
}

func patternColour(op string) string {
	switch op {
	case plan.OpF:
		return forwardColour
	case plan.OpB:
		return backwardColour
	case plan.OpCF:
		return prefetchColour
	case plan.OpAR:
		return gradientColour
	}
	return uploadColour
}
