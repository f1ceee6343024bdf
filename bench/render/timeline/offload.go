package timeline

import (
	"fmt"

	"workbench/bench/render/picture"
	"workbench/model/instance/chain"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
	"workbench/model/verify/replay"
	"workbench/model/verify/weightoffload"
)

// Offloading draws plans that offload activations: what is computed and what is on
// the link, and the memory in use.
func Offloading() Drawer { return Drawer{offloadChart} }

// Weights draws one period of weight offloading: what computes and what is
// transferred when, and below it the memory in use against the limit; in a trace
// also the stays of each weight on the GPU.
func Weights() Drawer { return Drawer{weightsChart} }

// A resource is a lane and the kinds of its operations.
type resource struct {
	name  string
	kinds []string
}

var (
	// offloadLanes are those of plans with one link to the host.
	offloadLanes = []resource{
		{"compute", []string{plan.OpFAll, plan.OpFCk, plan.OpFNone, plan.OpB, plan.OpD}},
		{"link", []string{plan.OpO, plan.OpP}},
	}
	// stepLanes are those of training steps, with a link in each direction.
	stepLanes = []resource{
		{"compute", []string{plan.OpC, plan.OpD}},
		{"host → GPU", []string{plan.OpP}},
		{"GPU → host", []string{plan.OpO}},
	}
	weightLanes = []resource{
		{"compute", []string{plan.OpF, plan.OpB}},
		{"host → GPU", []string{plan.OpP}},
		{"GPU → host", []string{plan.OpO, plan.OpD}},
	}
)

func offloadChart(in plan.Instance, p *plan.Plan) (*chart, error) {
	steps, err := verify.Profile(in, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	c := newChart(p, "GPU", in.Title(), lastEnd(p))
	if c.end == 0 {
		return nil, fmt.Errorf("timeline: %w: no operation takes time", plan.ErrUnreadable)
	}
	c.memory.oneDevice(useParts, levelsOf(steps, uses))
	c.stepTime(lastEnd(p, plan.OpFAll, plan.OpFCk, plan.OpFNone, plan.OpB, plan.OpC))
	lanes, backward := offloadLanes, map[string]bool{}
	if g := plan.As[*training.Graph](in); g != nil {
		lanes = stepLanes
		for v := range g.Nodes {
			backward[g.Nodes[v].ID] = g.Nodes[v].Phase != training.Forward
		}
	}
	layers, again := plan.As[*chain.Chain](in), recomputed(p)
	seen := map[string]bool{} // kinds of operations
	for _, l := range lanes {
		boxes := c.boxesOf(p, l.kinds, func(b *box) {
			c.describeLayer(layers, b)
			seen[b.Op.Op] = true
			switch {
			case again[b.Op]:
				b.args["recomputed"], b.fill = true, picture.Hatched
			case backward[b.Node]:
				b.fill = backwardColour
			}
		})
		c.add(lane{name: l.name}, boxes, layerLabels)
	}
	for _, i := range []struct {
		drawn bool
		item  picture.Item
	}{
		{seen[plan.OpFAll], savingItem},
		{seen[plan.OpFCk] || seen[plan.OpFNone], cheapItem},
		{seen[plan.OpC], forwardItem},
		{len(again) > 0, recomputeItem},
		{true, backwardItem},
		{seen[plan.OpD], picture.Item{Name: "discard", Sample: picture.Bar}},
		{true, picture.Item{Name: "offload", Sample: picture.Swatch(uploadColour)}},
		{true, picture.Item{Name: "prefetch", Sample: picture.Swatch(prefetchColour)}},
	} {
		if i.drawn {
			c.legend = append(c.legend, i.item)
		}
	}
	return c, nil
}

func weightsChart(in plan.Instance, p *plan.Plan) (*chart, error) {
	layers := plan.As[*chain.Chain](in)
	samples, err := weightoffload.Profile(layers, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	residencies, err := weightoffload.Residencies(layers, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	c := newChart(p, "GPU", layers.Name, *p.Period)
	c.legend = []picture.Item{
		forwardItem,
		backwardItem,
		{Name: "prefetch", Sample: picture.Swatch(prefetchColour)},
		{Name: "upload", Sample: picture.Swatch(uploadColour)},
		{Name: "discard", Sample: picture.Bar},
	}
	for _, l := range weightLanes {
		c.add(lane{name: l.name}, c.boxesOf(p, l.kinds, func(b *box) { c.describeLayer(layers, b) }), layerLabels)
	}
	c.memory.oneDevice([]part{
		{"activations", "activations", activationColour}, {"weights", "weights", weightColour}, {"gradients", "gradients", gradientColour},
	}, periodic(samples, c.end, func(s replay.Sample) [4]float64 { return [4]float64{s.Activations, s.Weights, s.Gradients} }))
	_, peak := c.memory.most()
	c.measures = "period " + platform.FormatSeconds(c.end) + ", " + ofLimit(peak, p.Platform.Memory)
	for _, r := range residencies {
		// All stays of one weight have its id and follow one another; one may go on in the next period.
		parts := []piece{{r.Start, min(r.End, c.end)}}
		if r.End > c.end {
			parts = []piece{{0, min(r.End-c.end, r.Start)}, {r.Start, c.end}}
		}
		name := fmt.Sprintf("w_%d", r.Layer)
		bytes := layers.Unit.Bytes(layers.Layers[r.Layer-1].Weight)
		c.stays = append(c.stays, stay{name, "weight", name, parts, map[string]any{"bytes": bytes}})
	}
	return c, nil
}
