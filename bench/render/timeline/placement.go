package timeline

import (
	"bufio"
	"fmt"
	"io"
	"math"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/placement"
)

// Placements draws where buffers lie: time across, addresses up, a rectangle for
// each; the memory, the height and the load are lines. In a trace every buffer is an
// event of its own, an instant a millisecond.
func Placements() Drawer { return Drawer{placementSVG, placementTrace} }

// placementHeight is that of the memory in the picture, in pixels.
const placementHeight = 520

// heights is a picture of a placement.
type heights struct {
	drawing
	l       *lifetimes.Lifetimes
	at      map[string]float64 // bytes
	from    float64            // the first instant
	summary *placement.Summary
	most    float64 // bytes at the top of the picture
}

func newAddresses(in plan.Instance, p *plan.Plan) (*heights, error) {
	l := plan.As[*lifetimes.Lifetimes](in)
	s, err := placement.Summarize(l, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	a := &heights{l: l, summary: s, at: make(map[string]float64, len(p.Offsets)), from: math.Inf(1), most: s.Height}
	for _, o := range p.Offsets {
		a.at[o.ID] = p.Unit.Bytes(o.Offset)
	}
	end := math.Inf(-1)
	for i := range l.Buffers {
		x := &l.Buffers[i]
		a.from, end = min(a.from, float64(x.Lower)), max(end, float64(x.Upper))
		a.most = max(a.most, a.at[x.ID]+l.Unit.Bytes(x.Size))
	}
	a.plan, a.period = p, end-a.from
	if s.Memory <= 2*a.most {
		a.most = max(a.most, s.Memory)
	}
	a.most = max(a.most, 1)
	return a, nil
}

func placementSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	a, err := newAddresses(in, p)
	if err != nil {
		return err
	}
	a.Writer = bufio.NewWriter(w)
	a.lay(o, a.period, 0)
	a.curveTop, a.curveEnd = top, top+placementHeight
	a.open(a.curveEnd + bottom)
	u := platform.ByteUnit(a.most)
	a.heading(a.l.Name, fmt.Sprintf("%s, load %s, height %s, memory %s", platform.Count(len(a.l.Buffers), "buffer"),
		platform.FormatBytes(a.summary.Load), platform.FormatBytes(a.summary.Height), platform.FormatBytes(a.summary.Memory)))
	for i, t := range ticks(a.period, int(a.width/90)) {
		if i > 0 {
			a.text(a.x(t), a.curveEnd+16, "middle", "", number(a.from+t))
		}
	}
	a.text(a.x(a.period/2), a.curveEnd+32, "middle", "", "time (steps)")
	a.printf("<text transform=\"translate(14 %s) rotate(-90)\" text-anchor=\"middle\">address (%s)</text>\n", px((a.curveTop+a.curveEnd)/2),
		u.Name)
	for _, y := range ticks(a.most/u.Size, 8) {
		a.text(left-8, a.y(y*u.Size)+4, "end", "", number(y))
	}
	a.printf("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%d\" fill=\"#888\" fill-opacity=\"0.13\"/>\n", px(left), px(top),
		px(a.period*a.scale), placementHeight)
	for i := range a.l.Buffers {
		a.buffer(i)
	}
	a.levels()
	a.printf("</svg>\n")
	return a.Flush()
}

// y returns where an address is drawn.
func (a *heights) y(bytes float64) float64 { return a.curveEnd - bytes/a.most*placementHeight }

// buffer draws a rectangle, with its name if there is room for it.
func (a *heights) buffer(i int) {
	x := &a.l.Buffers[i]
	at, ok := a.at[x.ID]
	if !ok || x.Size == 0 {
		return
	}
	size := a.l.Unit.Bytes(x.Size)
	begin, end := a.x(float64(x.Lower)-a.from), a.x(float64(x.Upper)-a.from)
	upper, lower := a.y(at+size), a.y(at)
	fill := [...]string{forwardColour, backwardColour, prefetchColour, weightColour, uploadColour, activationColour}[i%6]
	a.printf("<g><title>%s: [%d, %d), %s from %s on</title><rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\" "+
		"stroke=\"#fff\" stroke-width=\"0.5\"/>",
		escape(x.ID), x.Lower, x.Upper, platform.FormatBytes(size), platform.FormatBytes(at), px(begin), px(upper), px(end-begin),
		px(lower-upper), fill)
	if lower-upper > fontSize && end-begin > textWidth(x.ID, labelSize)+4 {
		a.text((begin+end)/2, (upper+lower)/2+3.5, "middle", fmt.Sprintf("font-size=\"%g\"", labelSize), x.ID)
	}
	a.printf("</g>\n")
}

// levels draws lines across and says above the picture which is which; of equal ones the last
// is seen, and named for all. A memory that is far above is not drawn.
func (a *heights) levels() {
	var legend []legendItem
	before := math.NaN()
	for _, l := range []struct {
		name, colour string
		bytes        float64
	}{{"load", uploadColour, a.summary.Load}, {"height", gradientColour, a.summary.Height}, {"memory", "#000", a.summary.Memory}} {
		if l.bytes > a.most {
			continue
		}
		style := fmt.Sprintf("stroke=\"%s\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"", l.colour)
		a.printf("<path d=\"M%s %sH%s\" %s><title>%s: %s</title></path>\n", px(left), px(a.y(l.bytes)), px(a.width-right), style, l.name,
			platform.FormatBytes(l.bytes))
		item := legendItem{l.name, "<path d=\"M-10 5h20\" " + style + "/>"}
		if last := len(legend) - 1; l.bytes == before {
			item.name = legend[last].name + " = " + item.name
			legend = legend[:last]
		}
		legend, before = append(legend, item), l.bytes
	}
	a.legend(legend)
}

func placementTrace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	a, err := newAddresses(in, p)
	if err != nil {
		return err
	}
	const instant = 1e-3
	events := []traceEvent{process("memory")}
	for i := range a.l.Buffers {
		x := &a.l.Buffers[i]
		args := map[string]any{"offset": a.at[x.ID], "size": a.l.Unit.Bytes(x.Size)}
		for _, edge := range []struct {
			phase string
			at    int64
		}{{"b", x.Lower}, {"e", x.Upper}} {
			events = append(events, traceEvent{
				Name: x.ID, Phase: edge.phase, Cat: "buffer", ID: x.ID, Time: inMicroseconds((float64(edge.at) - a.from) * instant), PID: 1, Args: args,
			})
		}
	}
	return writeTrace(w, events)
}
