package timeline

import (
	"fmt"
	"io"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
	"workbench/model/verify/replay"
)

// Measures of the names of variables, in pixels: of lanes in which they stand upright,
// and of their font.
const (
	namesHeight = 100
	nameSize    = 8
)

// swapLanes are those of plans of swapping, of the GPU and its two links.
var swapLanes = []lane{
	{name: "compute", kinds: []string{plan.OpRun, plan.OpDrop}},
	{name: "host → GPU", kinds: []string{plan.OpIn}, high: namesHeight},
	{name: "GPU → host", kinds: []string{plan.OpOut}, high: namesHeight},
}

// swapParts are what memory is used for in swapping.
var swapParts = []memoryPart{
	{"in memory", activationColour, func(m replay.MemoryParts) float64 { return m.Activations }},
	{"arriving", prefetchColour, func(m replay.MemoryParts) float64 { return m.Saved }},
}

// swapDrawing is a picture of a plan of swapping being written.
type swapDrawing struct {
	*stepsDrawing
	sequence *functions.Sequence
	size     map[string]float64 // of variables in bytes, by id
}

// swapSVG draws a plan of swapping: what computes and what is on either link,
// and below it the memory in use against the limit.
func swapSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	steps, err := newStepsDrawing(w, in, p)
	if err != nil {
		return err
	}
	d := newSwapDrawing(in, steps)
	if err := d.lay(o, lastEnd(p), heightOf(swapLanes)); err != nil {
		return err
	}
	d.open(d.curveEnd + bottom)
	d.swapHeader()
	d.grid()
	y := float64(top)
	for _, l := range swapLanes {
		d.swapLane(y, l)
		y += l.height() + laneGap
	}
	d.curve()
	d.printf("</svg>\n")
	return d.Flush()
}

func newSwapDrawing(in plan.Instance, steps *stepsDrawing) *swapDrawing {
	sequence := plan.As[*functions.Sequence](in)
	d := &swapDrawing{stepsDrawing: steps, sequence: sequence, size: make(map[string]float64, len(sequence.Variables))}
	d.parts = swapParts
	for _, v := range sequence.Variables {
		d.size[v.ID] = sequence.Unit.Bytes(v.Size)
	}
	return d
}

// function returns the function that o runs, nil if there is none.
func (d *swapDrawing) function(o *plan.Op) *functions.Function {
	if o.Op != plan.OpRun || o.Function < 1 || o.Function > d.sequence.Len() {
		return nil
	}
	return &d.sequence.Functions[o.Function-1]
}

// swapHeader writes what is drawn, and the legend.
func (d *swapDrawing) swapHeader() {
	d.heading(d.sequence.Name, lastEnd(d.plan, plan.OpRun))
	d.legend(append([]legendItem{
		{"forward", swatch(forwardColour)},
		{"backward", swatch(backwardColour)},
		{"to the GPU", swatch(prefetchColour)},
		{"to the host", swatch(uploadColour)},
		{"drop", `<path d="M5 0v10" stroke="#000" stroke-width="1.5"/>`},
	}, d.memoryLegend()...))
}

// swapColour is that of an operation: of functions, by their kind.
func (d *swapDrawing) swapColour(o *plan.Op) string {
	switch o.Op {
	case plan.OpIn:
		return prefetchColour
	case plan.OpOut:
		return uploadColour
	}
	if f := d.function(o); f != nil && f.Kind == functions.Backward {
		return backwardColour
	}
	return forwardColour
}

// swapLane writes the operations of one resource; functions have numbers, and
// transfers the names of their variables.
func (d *swapDrawing) swapLane(y float64, l lane) {
	d.band(y, l)
	var numbered, drops []drawnOp
	for _, o := range d.ops(l.kinds) {
		if o.Op.Op == plan.OpDrop {
			drops = append(drops, o)
			continue
		}
		d.box(y, o, d.swapTitle(o.Op), d.swapColour(o.Op))
		if o.Op.Op == plan.OpRun {
			number := *o.Op
			number.Layer = o.Function // what labels writes
			numbered = append(numbered, drawnOp{&number, o.pieces})
		} else {
			d.transferName(y, o)
		}
	}
	for _, o := range drops { // in front
		d.tick(y, o, d.swapTitle(o.Op))
	}
	d.labels(y, numbered)
}

// transferName writes which variable is on a link, across where there is room,
// else upright, or not at all.
func (d *swapDrawing) transferName(y float64, o drawnOp) {
	p := o.pieces[0]
	middle, room := d.x((p.start+p.end)/2), (p.end-p.start)*d.scale
	attributes := fmt.Sprintf(`font-size="%d" pointer-events="none"`, nameSize)
	switch {
	case textWidth(o.Variable, nameSize)+4 <= room:
		d.text(middle, y+d.high/2+3, "middle", attributes, o.Variable)
	case nameSize < room-1:
		most := int(d.high / textWidth("n", nameSize))
		x, y := px(middle+3), px(y+d.high/2)
		d.printf("<text transform=\"translate(%s %s) rotate(-90)\" text-anchor=\"middle\" %s>%s</text>\n", x, y, attributes,
			escape(short(o.Variable, most)))
	}
}

// swapTitle describes an operation for whoever points at it.
func (d *swapDrawing) swapTitle(o *plan.Op) string {
	u := platform.TimeUnit(d.period)
	s := o.String()
	if f := d.function(o); f != nil && f.Name != "" {
		s += " (" + f.Name + ")"
	}
	if bytes, known := d.size[o.Variable]; known && o.Variable != "" {
		s += size(bytes)
	}
	if o.Op == plan.OpDrop {
		return fmt.Sprintf("%s: at %.6g %s", s, o.Start/u.Size, u.Name)
	}
	return fmt.Sprintf("%s: %.6g to %.6g %s", s, o.Start/u.Size, o.End/u.Size, u.Name)
}

// swapTrace writes a plan of swapping: its functions and its transfers on a
// track each, and the memory in use.
func swapTrace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	memory, err := verify.Profile(in, p)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	events := []traceEvent{process("GPU")}
	d := newSwapDrawing(in, &stepsDrawing{drawing: drawing{plan: p, period: lastEnd(p)}})
	for k, l := range swapLanes {
		events = append(events, thread(k+1, l.name)...)
		var free microseconds // when the last operation has ended
		for _, o := range d.ops(l.kinds) {
			e := traceEvent{
				Name: o.String(), Phase: "X", Cat: o.Op.Op, Time: inMicroseconds(o.pieces[0].start), PID: 1, TID: k + 1,
				Args: map[string]any{"start": o.Start, "end": o.End},
			}
			if f := d.function(o.Op); f != nil && f.Name != "" {
				e.Args["name"] = f.Name
			}
			if bytes, known := d.size[o.Variable]; known && o.Variable != "" {
				e.Args["bytes"] = bytes
			}
			if o.Op.Op == plan.OpDrop {
				e.Phase, e.Scope = "i", "t"
			} else {
				e.Time = max(free, e.Time)
				free = max(e.Time, inMicroseconds(o.pieces[0].end))
				dur := free - e.Time
				e.Dur = &dur
			}
			events = append(events, e)
		}
	}
	at := func(t float64, m replay.MemoryParts) traceEvent {
		return traceEvent{Name: "memory (bytes)", Phase: "C", Time: inMicroseconds(t), PID: 1, Args: map[string]any{"variables": m.Total()}}
	}
	return writeTrace(w, append(events, memoryEvents(memory, at)...))
}
