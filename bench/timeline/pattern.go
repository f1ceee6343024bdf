package timeline

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"workbench/model/plan"
	"workbench/model/platform"
)

// A resource is a lane of a pattern: a GPU or a link.
type resource struct {
	name string
	ops  []drawnOp
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
	rank := func(name string) (int, string) {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "gpu")); err == nil {
			return n, ""
		}
		return 1 << 30, name
	}
	slices.SortFunc(list, func(a, b resource) int {
		i, s := rank(a.name)
		j, t := rank(b.name)
		return cmp.Or(cmp.Compare(i, j), cmp.Compare(s, t))
	})
	for i := range list {
		slices.SortStableFunc(list[i].ops, func(a, b drawnOp) int { return cmp.Compare(a.pieces[0].start, b.pieces[0].start) })
	}
	return list
}

// patternSVG draws one period of a pattern: a lane for each GPU and link, and
// on each operation its layer and, raised, the shift: of which mini-batch,
// counted from the newest, it is in this period.
func patternSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	if p.Period == nil || !(*p.Period > 0) {
		return fmt.Errorf("timeline: %w: a pattern has a period", plan.ErrUnreadable)
	}
	lanes := resources(p)
	if len(lanes) == 0 {
		return fmt.Errorf("timeline: %w: no operation has a resource", plan.ErrUnreadable)
	}
	d := &drawing{Writer: bufio.NewWriter(w), chain: in.Chain, plan: p}
	d.lay(o, *p.Period, heightOf(len(lanes)))
	d.curveTop, d.curveEnd = d.lanesEnd, d.lanesEnd+4 // there is no curve
	d.open(d.curveEnd + bottom)
	t := platform.TimeUnit(d.period)
	d.heading("", fmt.Sprintf("T = %s %s for %d mini-batches", number(d.period/t.Size), t.Name, max(1, p.K)))
	d.legend([]legendItem{
		{"forward", swatch(forwardColour, 1)},
		{"backward", swatch(backwardColour, 1)},
		{"activation sent", swatch(prefetchColour, 1)},
		{"gradient sent", swatch(uploadColour, 1)},
		{"layer, shift raised", ""},
	})
	d.grid()
	for i, lane := range lanes {
		y := d.band(i, lane.name)
		for _, op := range lane.ops {
			d.patternBox(y, op)
		}
	}
	d.printf("</svg>\n")
	return d.Flush()
}

// patternBox draws an operation in one or two pieces, with its layer and shift
// in those that have room for them.
func (d *drawing) patternBox(y float64, o drawnOp) {
	u := platform.TimeUnit(d.period)
	d.printf("<g><title>%s</title>", escape(fmt.Sprintf("%s of mini-batch j·%d + %d: %.6g to %.6g %s", o.Op, max(1, d.plan.K), o.Shift, o.Start/u.Size, o.End/u.Size, u.Name)))
	for _, p := range o.pieces {
		d.bar(y, p, patternColour(o.Op.Op))
		layer, shift := strconv.Itoa(o.Layer), strconv.Itoa(o.Shift)
		if textWidth(layer, labelSize)+textWidth(shift, 7)+2 <= (p.end-p.start)*d.scale {
			d.printf("<text x=\"%s\" y=\"%s\" font-size=\"%g\" text-anchor=\"middle\" pointer-events=\"none\">%s<tspan font-size=\"7\" dy=\"-4\">%s</tspan></text>",
				px(d.x((p.start+p.end)/2)), px(y+laneHeight/2+4), labelSize, layer, shift)
		}
	}
	d.printf("</g>\n")
}

func patternColour(op string) string {
	switch op {
	case plan.OpF:
		return forwardColour
	case plan.OpB:
		return backwardColour
	case plan.OpCF:
		return prefetchColour
	}
	return uploadColour
}

// patternTrace writes one period of a pattern: a track for each resource.
func patternTrace(w io.Writer, p *plan.Plan) error {
	if p.Period == nil || !(*p.Period > 0) {
		return fmt.Errorf("trace: %w: a pattern has a period", plan.ErrUnreadable)
	}
	events := []traceEvent{process("pipeline")}
	for i, lane := range resources(p) {
		tid := i + 1
		events = append(events, thread(tid, lane.name)...)
		for _, o := range lane.ops {
			for _, x := range o.pieces {
				start := inMicroseconds(x.start)
				dur := inMicroseconds(x.end) - start
				events = append(events, traceEvent{Name: o.String(), Phase: "X", Cat: o.Op.Op, Time: start, Dur: &dur, PID: 1, TID: tid, Args: map[string]any{
					"layer": o.Layer, "shift": o.Shift,
				}})
			}
		}
	}
	return writeTrace(w, events)
}
