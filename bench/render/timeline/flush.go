package timeline

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/flush"
	"workbench/model/verify/layout"
)

// Flushes draws pipelines that flush: a lane for each GPU with the micro-batch on every
// operation, and what each GPU holds over time.
func Flushes() Drawer { return Drawer{flushSVG, flushTrace} }

// Layouts draws layouts of pipelines as [Flushes] draws the schedules of their stages.
func Layouts() Drawer {
	return Drawer{
		func(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
			cut, q, err := layout.Schedule(plan.As[*chain.Chain](in), p)
			if err != nil {
				return fmt.Errorf("timeline: %w", err)
			}
			return flushSVG(w, cut, q, o)
		},
		func(w io.Writer, in plan.Instance, p *plan.Plan) error {
			cut, q, err := layout.Schedule(plan.As[*chain.Chain](in), p)
			if err != nil {
				return fmt.Errorf("trace: %w", err)
			}
			return flushTrace(w, cut, q)
		},
	}
}

// flushLanes returns the operations of each GPU that can be drawn, and when the last
// ends.
func flushLanes(p *plan.Plan) (lanes map[string][]*plan.Op, end float64) {
	lanes = map[string][]*plan.Op{}
	for k := range p.Ops {
		if o := &p.Ops[k]; plan.Finite(o.Start) && plan.Finite(o.End) && o.End >= o.Start && o.Start >= 0 {
			lanes[o.Resource], end = append(lanes[o.Resource], o), max(end, o.End)
		}
	}
	return lanes, end
}

func flushSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	list := plan.As[*stages.Partition](in).Stages
	s, err := flush.Summarize(plan.As[*stages.Partition](in), p)
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	steps, err := flush.Profile(plan.As[*stages.Partition](in), p)
	if err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	lanes, end := flushLanes(p)
	if !(end > 0) {
		end = 1
	}
	if o.Width == 0 {
		o.Width = min(max(defaultWidth, flushWidth(p, end)), mostWidth)
	}
	d := &drawing{Writer: bufio.NewWriter(w), plan: p}
	shown := flushNames(p, len(s.GPUs))
	d.lay(o, end, heightOf(make([]lane, len(shown))))
	memory := d.flushPanels(steps, s)
	d.curveEnd = d.curveTop + memory.height()
	d.open(d.curveEnd + bottom)
	u := platform.TimeUnit(end)
	d.heading(in.Title(), fmt.Sprintf("span %s %s, makespan %s %s", number(s.Span/u.Size), u.Name, number(s.Makespan/u.Size), u.Name))
	var again []legendItem
	if slices.ContainsFunc(list, func(s stages.Stage) bool { return s.RecomputeTime > 0 }) {
		again = []legendItem{{"recomputed forward", swatch(recomputeFill)}}
	}
	kinds := []legendItem{{"forward", swatch(forwardColour)}, {"backward", swatch(backwardColour)}}
	if slices.ContainsFunc(list, func(s stages.Stage) bool { return s.Split() }) {
		kinds[1].name = "backward (input)"
		kinds = append(kinds, legendItem{"backward (weights)", swatch(prefetchColour)})
	}
	kinds = append(kinds, again...)
	kinds = append(kinds, legendItem{"micro-batch", `<text y="9">3</text>`})
	if len(list) > len(s.GPUs) {
		kinds = append(kinds, legendItem{"of a later stage of the GPU", `<text y="9" font-weight="bold">3</text>`})
	}
	if p.Moves() {
		kinds = append(kinds, legendItem{"to the host", swatch(uploadColour)}, legendItem{"back", swatch(lightColour)})
	}
	d.legend(kinds)
	d.legendAt(d.curveTop-13, memory.legend())
	d.grid()
	for i, name := range shown {
		y := top + float64(i)*(laneHeight+laneGap)
		d.band(y, lane{name: name})
		for _, x := range lanes[name] {
			d.flushBox(y, x, len(s.GPUs), recomputedPart(x, list))
		}
	}
	memory.draw()
	d.printf("</svg>\n")
	return d.Flush()
}

// leastSize is that of the smallest numbers in boxes.
const leastSize = 6

// flushWidth returns how wide a picture is in which the numbers of micro-batches have room on three of four
// operations of the GPUs that take time.
func flushWidth(p *plan.Plan, end float64) int {
	var times []float64
	for _, o := range p.Ops {
		if d := o.End - o.Start; d > 0 && (o.Op == plan.OpF || o.Op == plan.OpB || o.Op == plan.OpW) {
			times = append(times, d)
		}
	}
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return left + right + int(math.Ceil(min(numberWidth(p)*end/times[len(times)/4], mostWidth)))
}

// numberWidth returns what the largest number of a micro-batch takes in a box, not to touch the next one.
func numberWidth(p *plan.Plan) float64 {
	return textWidth(strconv.Itoa(p.Platform.MicroBatches), labelSize) + 1.5
}

// flushNames returns the GPUs of a plan, and behind each its link to the host if that copies something.
func flushNames(p *plan.Plan, gpus int) (names []string) {
	for g := range gpus {
		link := "link" + strconv.Itoa(g)
		if names = append(names, "gpu"+strconv.Itoa(g)); slices.ContainsFunc(p.Ops, func(o plan.Op) bool { return o.Resource == link }) {
			names = append(names, link)
		}
	}
	return names
}

// recomputedPart returns the part of a backward in which forward is computed again.
func recomputedPart(o *plan.Op, list []stages.Stage) float64 {
	if o.Op != plan.OpB || o.Stage < 1 || o.Stage > len(list) {
		return 0
	}
	return min(list[o.Stage-1].RecomputeTime, o.End-o.Start)
}

// flushBox draws an operation, with its micro-batch. So much of it, at its start, computes forward again.
func (d *drawing) flushBox(y float64, o *plan.Op, gpus int, again float64) {
	colour := map[string]string{
		plan.OpF: forwardColour, plan.OpB: backwardColour, plan.OpW: prefetchColour, plan.OpO: uploadColour, plan.OpP: lightColour,
	}[o.Op]
	u := platform.TimeUnit(d.period)
	d.printf("<g><title>%s</title>", escape(fmt.Sprintf("%s: %.6g to %.6g %s", o, o.Start/u.Size, o.End/u.Size, u.Name)))
	d.bar(y, piece{o.Start, o.End}, colour)
	if again > 0 {
		d.bar(y, piece{o.Start, o.Start + again}, recomputeFill)
	}
	d.flushNumber(y, o, gpus)
	d.printf("</g>\n")
}

// flushNumber writes the micro-batch of an operation into its box: upright where the largest number of the picture has room, else
// turned, in smaller type where boxes are narrow. So all boxes of a width look alike, whichever their number is. Less than
// leastSize cannot be read and is left out.
func (d *drawing) flushNumber(y float64, o *plan.Op, gpus int) {
	x, size, middle := d.x((o.Start+o.End)/2), labelSize, y+laneHeight/2
	style := ""
	if o.Stage > gpus {
		style = ` font-weight="bold"`
	}
	room := (o.End - o.Start) * d.scale
	if room < numberWidth(d.plan) {
		if size = min(labelSize, room); size < leastSize {
			return
		}
		style += fmt.Sprintf(` transform="rotate(-90 %s %s)"`, px(x), px(middle))
	}
	d.text(x, middle+3.5*size/labelSize, "middle", fmt.Sprintf("font-size=\"%s\"%s", px(size), style), strconv.Itoa(o.MicroBatch))
}

func flushTrace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	steps, err := flush.Profile(plan.As[*stages.Partition](in), p)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	lanes, _ := flushLanes(p)
	events := []traceEvent{process("pipeline")}
	for i, name := range flushNames(p, p.Platform.Processors) {
		events = append(events, thread(i+1, name)...)
		free := microseconds(0)
		for _, o := range lanes[name] {
			start := max(free, inMicroseconds(o.Start))
			free = max(start, inMicroseconds(o.End))
			dur := free - start
			events = append(events, traceEvent{
				Name: o.String(), Phase: "X", Cat: o.Op, Time: start, Dur: &dur, PID: 1, TID: i + 1,
				Args: map[string]any{"stage": o.Stage, "micro_batch": o.MicroBatch, "start": o.Start, "end": o.End},
			})
		}
	}
	for _, s := range steps {
		events = append(events, traceEvent{
			Name: fmt.Sprintf("memory of gpu%d (bytes)", s.GPU), Phase: "C", Time: inMicroseconds(math.Max(s.Time, 0)), PID: 1,
			Args: map[string]any{"held": s.Held},
		})
	}
	return writeTrace(w, events)
}
