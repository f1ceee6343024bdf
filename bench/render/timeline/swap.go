package timeline

import (
	"fmt"
	"slices"
	"strconv"

	"workbench/bench/render/picture"
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/verify"
	"workbench/model/verify/replay"
)

// Swapping draws plans of swapping: what is computed and what is on either link,
// and the memory in use.
func Swapping() Drawer { return Drawer{swapChart} }

// Measures of the names of variables, in pixels: of lanes in which they stand upright,
// and of their font.
const (
	namesHeight = 100
	nameSize    = 8
)

var swapLanes = []resource{
	{"compute", []string{plan.OpRun, plan.OpDrop}},
	{"host → GPU", []string{plan.OpIn}},
	{"GPU → host", []string{plan.OpOut}},
}

func swapChart(in plan.Instance, p *plan.Plan) (*chart, error) {
	steps, err := verify.Profile(in, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	sequence := plan.As[*functions.Sequence](in)
	c := newChart(p, "GPU", sequence.Name, lastEnd(p))
	if c.end == 0 {
		return nil, fmt.Errorf("timeline: %w: no operation takes time", plan.ErrUnreadable)
	}
	c.memory.oneDevice(
		[]part{{"in memory", "variables", activationColour}, {"arriving", "arriving", prefetchColour}},
		levelsOf(steps, func(m replay.MemoryParts) [4]float64 { return [4]float64{m.Activations, m.Saved} }),
	)
	c.stepTime(lastEnd(p, plan.OpRun))
	c.legend = []picture.Item{
		forwardItem,
		backwardItem,
		{Name: "to the GPU", Sample: picture.Swatch(prefetchColour)},
		{Name: "to the host", Sample: picture.Swatch(uploadColour)},
		{Name: "drop", Sample: picture.Bar},
	}
	for _, l := range swapLanes {
		boxes := c.boxesOf(p, l.kinds, func(b *box) { c.describeVariable(sequence, b) })
		if l.name == "compute" {
			c.add(lane{name: l.name}, boxes, layerLabels)
		} else {
			c.add(lane{name: l.name, height: namesHeight}, boxes, variableLabels)
		}
	}
	return c, nil
}

// describeVariable completes a function or a transfer.
func (c *chart) describeVariable(s *functions.Sequence, b *box) {
	b.title, b.instant = b.String(), b.Op.Op == plan.OpDrop
	b.fill, b.label = forwardColour, b.Variable
	switch b.Op.Op {
	case plan.OpIn:
		b.fill = prefetchColour
	case plan.OpOut:
		b.fill = uploadColour
	case plan.OpDrop:
		b.label = ""
	case plan.OpRun:
		b.label = strconv.Itoa(b.Function)
		if b.Function < 1 || b.Function > s.Len() {
			break
		}
		f := &s.Functions[b.Function-1]
		if f.Kind == functions.Backward {
			b.fill = backwardColour
		}
		if f.Name != "" {
			b.args["name"], b.title = f.Name, b.title+" ("+f.Name+")"
		}
	}
	if k := slices.IndexFunc(s.Variables, func(v functions.Variable) bool { return v.ID == b.Variable }); k >= 0 && b.Variable != "" {
		bytes := s.Unit.Bytes(s.Variables[k].Size)
		b.args["bytes"], b.title = bytes, b.title+size(bytes)
	}
	b.title += c.times(b.Op, b.instant)
}

// variableLabels writes which variables are on a link, across where there is room,
// else upright, or not at all.
func variableLabels(v *view, y, height float64, boxes []box) {
	for _, b := range boxes {
		p := b.pieces[0]
		if !v.seen(p) {
			continue
		}
		t := picture.Text{X: (v.x(p.start) + v.x(p.end)) / 2, Y: y + height/2, Anchor: picture.Middle, Size: nameSize, S: b.label}
		switch room := v.width(p); {
		case picture.TextWidth(b.label, nameSize)+4 <= room:
			t.Y += 3
			v.Text(t)
		case nameSize < room-1:
			t.X, t.Upright, t.S = t.X+3, true, picture.Short(b.label, int(height/picture.TextWidth("n", nameSize)))
			v.Text(t)
		}
	}
}
