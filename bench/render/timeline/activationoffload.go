package timeline

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/verify"
)

// lightColour is that of forwards that keep no ā, beside those that do.
const lightColour = "#7c93a6"

// offloadLanes are those of plans with one link to the host.
var offloadLanes = []lane{
	{name: "compute", kinds: []string{plan.OpFAll, plan.OpFCk, plan.OpFNone, plan.OpB, plan.OpD}},
	{name: "link", kinds: []string{plan.OpO, plan.OpP}},
}

// stepLanes are those of plans with a link in each direction.
var stepLanes = []lane{
	{name: "compute", kinds: []string{plan.OpC, plan.OpD}},
	{name: "host → GPU", kinds: []string{plan.OpP}},
	{name: "GPU → host", kinds: []string{plan.OpO}},
}

// lanesOf returns the lanes of plans for an instance.
func lanesOf(in plan.Instance) []lane {
	if in.Kind() == training.Kind {
		return stepLanes
	}
	return offloadLanes
}

// notForward returns the nodes of a training step that are no forwards, nil of a chain.
func notForward(in plan.Instance) map[string]bool {
	g := plan.As[*training.Graph](in)
	if g == nil {
		return nil
	}
	nodes := map[string]bool{}
	for v := range g.Nodes {
		if n := &g.Nodes[v]; n.Phase != training.Forward {
			nodes[n.ID] = true
		}
	}
	return nodes
}

// offloadSVG draws a plan with transfers of activations: what is computed and
// what is on the link, and below it the memory in use against the limit.
func offloadSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	d, err := newStepsDrawing(w, in, p)
	if err != nil {
		return err
	}
	lanes := lanesOf(in)
	d.backward, d.again = notForward(in), recomputed(p)
	if err := d.lay(o, lastEnd(p), heightOf(lanes)); err != nil {
		return err
	}
	d.open(d.curveEnd + bottom)
	d.offloadHeader(in)
	d.grid()
	d.lanes(lanes)
	d.curve()
	d.printf("</svg>\n")
	return d.Flush()
}

// lastEnd returns when the last operation of these kinds, without any: of all,
// ends whose times are numbers.
func lastEnd(p *plan.Plan, kinds ...string) (end float64) {
	for k := range p.Ops {
		o := &p.Ops[k]
		if (len(kinds) == 0 || slices.Contains(kinds, o.Op)) && !math.IsInf(o.End, 0) && o.End > end {
			end = o.End
		}
	}
	return end
}

// offloadHeader writes what is drawn, and the legend.
func (d *stepsDrawing) offloadHeader(in plan.Instance) {
	cheap, discards := false, false
	for k := range d.plan.Ops {
		switch d.plan.Ops[k].Op {
		case plan.OpFCk, plan.OpFNone:
			cheap = true
		case plan.OpD:
			discards = true
		}
	}
	d.heading(in.Title(), lastEnd(d.plan, plan.OpFAll, plan.OpFCk, plan.OpFNone, plan.OpB, plan.OpC))
	items := []legendItem{{"forward", swatch(forwardColour)}}
	if cheap {
		items = []legendItem{{"forward (saves for backward)", swatch(forwardColour)}, {"forward (checkpoint)", swatch(lightColour)}}
	}
	if slices.Contains(slices.Collect(maps.Values(d.again)), true) {
		items = append(items, legendItem{"recomputed forward", swatch(recomputeFill)})
	}
	items = append(items, legendItem{"backward", swatch(backwardColour)})
	if discards {
		items = append(items, legendItem{"discard", `<path d="M5 0v10" stroke="#000" stroke-width="1.5"/>`})
	}
	items = append(items, legendItem{"offload", swatch(uploadColour)}, legendItem{"prefetch", swatch(prefetchColour)})
	d.legend(items)
	d.legendAt(d.curveTop-13, d.memoryLegend())
}

// offloadTrace writes a plan with transfers of activations: its computations
// and its transfers on a track each, and the memory in use.
func offloadTrace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	memory, err := verify.Profile(in, p)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	events := []traceEvent{process("GPU")}
	d := &drawing{chain: plan.As[*chain.Chain](in), plan: p, again: recomputed(p), period: lastEnd(p)}
	for k, l := range lanesOf(in) {
		events = append(events, thread(k+1, l.name)...)
		events = append(events, d.track(k+1, d.ops(l.kinds))...)
	}
	return writeTrace(w, append(events, memoryEvents(memory, memoryEvent)...))
}
