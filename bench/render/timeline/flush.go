package timeline

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"workbench/bench/render/picture"
	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/verify/flush"
	"workbench/model/verify/layout"
)

// Flushes draws pipelines that flush: a lane for each GPU with the micro-batch on every
// operation, and what each GPU holds over time.
func Flushes() Drawer { return Drawer{flushChart} }

// Layouts draws layouts of pipelines as [Flushes] draws the schedules of their stages.
func Layouts() Drawer {
	return Drawer{func(in plan.Instance, p *plan.Plan) (*chart, error) {
		cut, q, err := layout.Schedule(plan.As[*chain.Chain](in), p)
		if err != nil {
			return nil, fmt.Errorf("timeline: %w", err)
		}
		return flushChart(cut, q)
	}}
}

// flushColours are those of the operations of a pipeline that flushes.
var flushColours = map[string]string{
	plan.OpF: forwardColour, plan.OpB: backwardColour, plan.OpW: prefetchColour, plan.OpO: uploadColour, plan.OpP: keptOutput,
}

func flushChart(in plan.Instance, p *plan.Plan) (*chart, error) {
	list := plan.As[*stages.Partition](in).Stages
	s, err := flush.Summarize(plan.As[*stages.Partition](in), p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	steps, err := flush.Profile(plan.As[*stages.Partition](in), p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	gpus := len(s.GPUs)
	ops := map[string][]*plan.Op{} // by resource, those that can be drawn
	end := 0.0
	for k := range p.Ops {
		if o := &p.Ops[k]; plan.Finite(o.Start) && plan.Finite(o.End) && o.End >= o.Start && o.Start >= 0 {
			ops[o.Resource], end = append(ops[o.Resource], o), max(end, o.End)
		}
	}
	if end == 0 {
		end = 1
	}
	c := newChart(p, "pipeline", in.Title(), end)
	c.measures = fmt.Sprintf("span %s, makespan %s", formatted(s.Span, c.unit), formatted(s.Makespan, c.unit))
	c.legend = flushLegend(list, gpus, p)
	c.width = flushWidth(p, end)
	for _, name := range flushNames(p, gpus) {
		var boxes []box
		for _, o := range ops[name] {
			boxes = append(boxes, box{
				Op: o, pieces: []piece{{o.Start, o.End}}, fill: flushColours[o.Op], recomputed: recomputedPart(o, list),
				title: o.String() + c.times(o, false), name: o.String(), args: map[string]any{"stage": o.Stage, "micro_batch": o.MicroBatch},
			})
		}
		c.add(lane{name: name}, boxes, func(v *view, y, height float64, boxes []box) {
			for _, b := range boxes {
				flushNumber(v, y, b, gpus, numberWidth(p))
			}
		})
	}
	c.memory.parts = []part{{"weights, overhead", "fixed", weightColour}, {"activations", "activations", activationColour}}
	c.memory.limit, c.memory.devices = s.Memory, flushMemory(steps, gpus)
	return c, nil
}

// flushMemory is what each GPU holds; before its first operation that is weights and overhead.
func flushMemory(steps []flush.Step, gpus int) []device {
	list := make([]device, gpus)
	for g := range list {
		list[g].name = "gpu" + strconv.Itoa(g)
	}
	for _, x := range steps {
		d := &list[x.GPU]
		fixed := x.Held
		if len(d.levels) > 0 {
			fixed = d.levels[0].parts[0]
		}
		d.levels = append(d.levels, level{max(x.Time, 0), [4]float64{fixed, x.Held - fixed}})
	}
	return list
}

// flushLegend names the kinds of operations that a plan has.
func flushLegend(list []stages.Stage, gpus int, p *plan.Plan) []picture.Item {
	number := picture.Text{S: "3"}
	items := []picture.Item{forwardItem, backwardItem}
	if slices.ContainsFunc(list, func(s stages.Stage) bool { return s.Split() }) {
		items[1].Name = "backward (input)"
		items = append(items, picture.Item{Name: "backward (weights)", Sample: picture.Swatch(prefetchColour)})
	}
	if slices.ContainsFunc(list, func(s stages.Stage) bool { return s.RecomputeTime > 0 }) {
		items = append(items, recomputeItem)
	}
	items = append(items, picture.Item{Name: "micro-batch", Sample: picture.Letter(number)})
	if len(list) > gpus {
		number.Bold = true
		items = append(items, picture.Item{Name: "of a later stage of the GPU", Sample: picture.Letter(number)})
	}
	if p.Moves() {
		items = append(
			items, picture.Item{Name: "to the host", Sample: picture.Swatch(uploadColour)},
			picture.Item{Name: "to the GPU", Sample: picture.Swatch(keptOutput)},
		)
	}
	return items
}

// leastSize is that of the smallest numbers in boxes.
const leastSize = 6

// flushWidth returns how wide a picture is in which the numbers of micro-batches have room on three of four
// operations of the GPUs that take time.
func flushWidth(p *plan.Plan, end float64) float64 {
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
	return left + right + math.Ceil(numberWidth(p)*end/times[len(times)/4])
}

// numberWidth returns what the largest number of a micro-batch takes in a box, not to touch the next one.
func numberWidth(p *plan.Plan) float64 {
	return picture.TextWidth(strconv.Itoa(p.Platform.MicroBatches), picture.LabelSize) + 1.5
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

// recomputedPart returns the part of a backward, in seconds, in which its forward is recomputed.
func recomputedPart(o *plan.Op, list []stages.Stage) float64 {
	if o.Op != plan.OpB || o.Stage < 1 || o.Stage > len(list) {
		return 0
	}
	return min(list[o.Stage-1].RecomputeTime, o.End-o.Start)
}

// flushNumber writes the micro-batch of an operation into its box: across where the largest number of the picture has room, else
// upright, in smaller type where boxes are narrow. So all boxes of a width look alike, whichever their number is. Less than
// leastSize cannot be read and is left out.
func flushNumber(v *view, y float64, b box, gpus int, largest float64) {
	p := piece{b.Start, b.End}
	room := v.width(p)
	t := picture.Text{
		X: (v.x(p.start) + v.x(p.end)) / 2, Anchor: picture.Middle, Size: picture.LabelSize, Bold: b.Stage > gpus, S: strconv.Itoa(b.MicroBatch),
	}
	middle := y + laneHeight/2
	if room < largest {
		if t.Size = min(picture.LabelSize, room); t.Size < leastSize {
			return
		}
		t.Upright = true
		t.X, t.Y = t.X+3.5*t.Size/picture.LabelSize, middle
	} else {
		t.Y = middle + 3.5
	}
	v.Text(t)
}
