package timeline

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/pipeline"
)

// A resource is a lane of a pattern: a GPU or a link.
type resource struct {
	name   string
	ops    []drawnOp
	passes [][]item // to draw
}

// resources returns the lanes of a pattern, GPUs first, each with its
// operations in order of start.
func resources(p *plan.Plan) (list []resource) {
	at := map[string]int{}
	for k := range p.Ops {
		o := &p.Ops[k]
		ps := pieces(o, *p.Period)
		if o.Resource == "" || ps == nil {
			continue
		}
		i, known := at[o.Resource]
		if !known {
			i = len(list)
			at[o.Resource] = i
			list = append(list, resource{name: o.Resource})
		}
		list[i].ops = append(list[i].ops, drawnOp{o, ps})
	}
	slices.SortFunc(list, func(a, b resource) int {
		return cmp.Or(slices.Compare(rank(a.name), rank(b.name)), cmp.Compare(a.name, b.name))
	})
	for i := range list {
		slices.SortStableFunc(list[i].ops, func(a, b drawnOp) int { return cmp.Compare(a.pieces[0].start, b.pieces[0].start) })
	}
	return list
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

// patternSVG draws one period of a pattern: a lane for each GPU and link, below them
// the memory of each GPU, and on each operation its layer and, raised, the shift: of which mini-batch it is
// in this period, also where it goes on from the period before. Where there is no room for
// that, neighbours of one mini-batch share a label.
func patternSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	c, err := drawable(in, p)
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	lanes := resources(p)
	most := 0 // passes in a lane
	for i := range lanes {
		lanes[i].passes = passes(lanes[i].ops, *p.Period, p.K)
		most = max(most, len(lanes[i].passes))
	}
	if o.Width == 0 {
		o.Width = min(max(defaultWidth, passWidth*most), mostWidth)
	}
	d := &drawing{Writer: bufio.NewWriter(w), chain: c, instance: in, plan: p}
	d.lay(o, *p.Period, heightOf(make([]lane, len(lanes))))
	memory := d.patternPanels()
	d.curveEnd = d.curveTop + memory.height()
	d.open(d.curveEnd + bottom)
	d.heading("", d.patternMeasures())
	items := []legendItem{
		{"forward", swatch(forwardColour)},
		{"backward", swatch(backwardColour)},
		{"activation sent", swatch(prefetchColour)},
		{"gradient sent", swatch(uploadColour)},
	}
	example := "layer 5 of " + miniBatch(p.K, 2)
	if slices.ContainsFunc(p.Ops, func(o plan.Op) bool { return o.Op == plan.OpAR }) {
		items = append(items, legendItem{"all-reduce", swatch(gradientColour)})
	} else { // there is room for it
		example += " in period j"
	}
	items = append(items, legendItem{example, fmt.Sprintf(`<text y="9">5%s</text>`, raised(2))})
	d.legend(append(items, memory.legend()...))
	d.grid()
	for i, r := range lanes {
		y := top + float64(i)*(laneHeight+laneGap)
		d.band(y, lane{name: r.name})
		for _, pass := range r.passes {
			d.patternPass(y, pass)
		}
	}
	memory.draw()
	d.printf("</svg>\n")
	return d.Flush()
}

// patternMeasures are the period and, of a plan that can be replayed, the GPUs
// in use and their memory.
func (d *drawing) patternMeasures() string {
	s := "T = " + platform.FormatSeconds(d.period)
	if d.plan.K > 1 {
		s += fmt.Sprintf(" for %d mini-batches", d.plan.K)
	}
	sum, err := pipeline.Summarize(d.instance, d.plan)
	if err != nil {
		return s
	}
	used := 0
	for _, g := range sum.GPUs {
		used += min(1, len(g.Stages))
	}
	s += fmt.Sprintf(", %d of %d GPUs", used, len(sum.GPUs))
	if sum.PeakMemory > 0 {
		s += ", " + ofLimit(sum.PeakMemory, sum.Memory)
	}
	return s
}

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
	*plan.Op
	piece
	shift int // of the period that is drawn, whatever the operation counts from
}

// label names an operation by its layer; an all-reduce is of all layers of its stage.
func (i item) label() string {
	if i.Op.Op == plan.OpAR {
		return plan.OpAR
	}
	return strconv.Itoa(i.Layer)
}

const (
	// narrow is the width in pixels below which operations that share a label
	// are drawn without lines between them, which would be all that one sees.
	narrow = 4
	// sameTime is the part of a period that cannot be seen.
	sameTime = 5e-4
	// passWidth is for a pass through a GPU, where a picture is as wide as its
	// patterns ask for, up to mostWidth.
	passWidth, mostWidth = 24, 4000
)

// passes returns what is drawn in a lane, in order of time, split into passes of
// one mini-batch through layers in turn.
func passes(ops []drawnOp, period float64, k int) (list [][]item) {
	var items []item
	for _, o := range ops {
		turn := int(math.Round((o.Start - o.pieces[0].start) / period))
		for i, p := range o.pieces {
			items = append(items, item{o.Op, p, o.Shift - max(1, k)*(turn+i)})
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
	if a.Op.Op == plan.OpB {
		next = a.Layer - 1
	}
	return a.Op.Op == b.Op.Op && a.shift == b.shift && b.Layer == next
}

// patternPass draws a pass of a mini-batch through layers in turn. Those without
// room for a label of their own share one with their neighbours; all do if most
// have no room. A shift without layers would be taken for a layer beside labels
// that have some.
func (d *drawing) patternPass(y float64, items []item) {
	own := func(i item) bool { return d.room(i.piece, i.label(), i.shift) }
	n := 0
	for _, i := range items {
		if own(i) {
			n++
		}
	}
	whole, layers := together(items)
	if n == 0 || 2*n < len(items) && d.room(whole, layers, items[0].shift) {
		d.patternBoxes(y, items, true)
		return
	}
	for len(items) > 0 {
		n := 1
		for n < len(items) && !own(items[0]) && !own(items[n]) {
			n++
		}
		d.patternBoxes(y, items[:n], false)
		items = items[n:]
	}
}

// together is where items of one pass are, and the label of their layers.
func together(items []item) (piece, string) {
	first, last := items[0], items[len(items)-1]
	layers := first.label()
	if len(items) > 1 {
		layers += "–" + last.label()
	}
	return piece{first.start, last.end}, layers
}

// patternBoxes draws operations that share a label: their layers and shift, the
// shift alone if that is allowed, or nothing, as there is room.
func (d *drawing) patternBoxes(y float64, items []item, alone bool) {
	whole, layers := together(items)
	colour, shift := patternColour(items[0].Op.Op), items[0].shift
	one := len(items) > 1 && (whole.end-whole.start)*d.scale < narrow*float64(len(items))
	if one {
		d.bar(y, whole, colour)
	}
	u := platform.TimeUnit(d.period)
	for _, i := range items {
		d.printf("<g pointer-events=\"all\"><title>%s</title>",
			escape(fmt.Sprintf("%s of %s: %.6g to %.6g %s", d.named(i.Op), miniBatch(d.plan.K, i.Shift), i.Start/u.Size, i.End/u.Size, u.Name)))
		if one {
			d.area(y, i.piece)
		} else {
			d.bar(y, i.piece, colour)
		}
		d.printf("</g>\n")
	}
	if alone && !d.room(whole, layers, shift) {
		layers = ""
	}
	if d.room(whole, layers, shift) {
		d.printf("<text x=\"%s\" y=\"%s\" font-size=\"%g\" text-anchor=\"middle\" pointer-events=\"none\" stroke=\"%s\" stroke-width=\"2.5\" "+
			"paint-order=\"stroke\">%s%s</text>\n",
			px(d.x((whole.start+whole.end)/2)), px(y+laneHeight/2+4), labelSize, colour, layers, raised(shift))
	}
}

// shiftSize is the font size of shifts.
const shiftSize = 7

// raised writes a shift behind its layer.
func raised(shift int) string {
	return fmt.Sprintf(`<tspan font-size="%d" dy="-4">%d</tspan>`, shiftSize, shift)
}

// room reports whether a piece has room for layers and a shift.
func (d *drawing) room(p piece, layers string, shift int) bool {
	return textWidth(layers, labelSize)+textWidth(strconv.Itoa(shift), shiftSize)+3 <= (p.end-p.start)*d.scale
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

// patternTrace writes one period of a pattern: a track for each resource.
func patternTrace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	c, err := drawable(in, p)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	d := &drawing{chain: c, instance: in, plan: p, period: *p.Period}
	events := []traceEvent{process("pipeline")}
	for i, lane := range resources(p) {
		events = append(events, thread(i+1, lane.name)...)
		events = append(events, d.track(i+1, lane.ops)...)
	}
	return writeTrace(w, events)
}
