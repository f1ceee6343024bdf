package timeline

import (
	"math"
	"strconv"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/flush"
	"workbench/model/verify/pipeline"
	"workbench/model/verify/replay"
)

// Measures of the memory of one GPU in pixels.
const (
	panelHeight = 46
	panelGap    = 10
)

// panels are the part of a pipeline's picture that shows the memory of each GPU that
// computes something, all in one scale.
type panels struct {
	*drawing
	list  []panel
	fixed string  // what Weights of the samples are
	limit float64 // bytes
	most  float64 // bytes
	stage bool    // the limit is about the stage model
}

// A panel is the memory of a GPU over time.
type panel struct {
	name    string
	samples []replay.Sample
	counted float64 // by the stage model, bytes
}

// patternPanels replays a pattern; of one that cannot be, there are no panels.
func (d *drawing) patternPanels() *panels {
	m := &panels{drawing: d, fixed: "weights, buffers", stage: d.plan.MemoryModel == plan.StageModel}
	profile, err := pipeline.Profile(d.instance, d.plan)
	if err != nil || profile == nil {
		return m
	}
	sum, err := pipeline.Summarize(d.instance, d.plan)
	if err != nil {
		return m
	}
	for i, g := range sum.GPUs {
		if len(g.Stages) > 0 {
			m.list = append(m.list, panel{g.Name, profile[i], g.StageMemory})
			m.most = max(m.most, g.TaskMemory, g.StageMemory)
		}
	}
	m.scaled(sum.Memory)
	return m
}

// flushPanels shows what each GPU holds of a plan that flushes.
func (d *drawing) flushPanels(steps []flush.Step, s *flush.Summary) *panels {
	m := &panels{drawing: d, fixed: "weights, overhead", list: make([]panel, len(s.GPUs))}
	for g := range m.list {
		m.list[g].name = "gpu" + strconv.Itoa(g)
		m.most = max(m.most, s.GPUs[g].Memory)
	}
	for _, x := range steps {
		p := &m.list[x.GPU]
		fixed := x.Held
		if len(p.samples) > 0 {
			fixed = p.samples[0].Weights
		}
		p.samples = append(p.samples, replay.Sample{Time: x.Time, Weights: fixed, Activations: x.Held - fixed})
	}
	m.scaled(s.Memory)
	return m
}

// scaled makes room for the limit, in bytes, if there is one.
func (m *panels) scaled(limit float64) {
	m.limit = limit
	if !math.IsInf(limit, 1) {
		m.most = max(m.most, limit)
	}
	m.most = max(m.most, 1)
}

// height of all panels.
func (m *panels) height() float64 {
	if len(m.list) == 0 {
		return 4
	}
	return float64(len(m.list))*(panelHeight+panelGap) - panelGap
}

func (m *panels) legend() []legendItem {
	if len(m.list) == 0 {
		return nil
	}
	return []legendItem{{m.fixed, swatch(weightColour)}, {"activations", swatch(activationColour)}}
}

func (m *panels) draw() {
	if len(m.list) == 0 {
		return
	}
	u := platform.ByteUnit(m.most)
	m.printf("<text transform=\"translate(14 %s) rotate(-90)\" text-anchor=\"middle\">memory (%s)</text>\n", px(m.curveTop+m.height()/2),
		u.Name)
	lines := "dashed: the limit"
	if m.stage {
		lines += "; red: what the stage model counts"
	}
	m.text(m.x(m.period), m.curveTop-4, "end", `font-size="10"`, lines)
	for i := range m.list {
		m.panel(&m.list[i], m.curveTop+float64(i)*(panelHeight+panelGap), u)
	}
}

// panel draws the memory of one GPU below y.
func (m *panels) panel(p *panel, top float64, u platform.AxisUnit) {
	bottom := top + panelHeight
	y := func(bytes float64) float64 { return bottom - bytes/(1.08*m.most)*panelHeight }
	for _, t := range ticks(m.most/u.Size, 2) {
		m.printf("<path d=\"M%s %sH%s\" stroke=\"#ddd\"/>\n", px(left), px(y(t*u.Size)), px(m.x(m.period)))
		m.text(left-8, y(t*u.Size)+3.5, "end", `font-size="9"`, number(t))
	}
	m.text(left-32, top+panelHeight/2+4, "end", "", p.name)
	for _, area := range []struct {
		name, colour string
		bytes        func(replay.Sample) float64
	}{
		{"activations", activationColour, replay.Sample.Total},
		{m.fixed, weightColour, func(s replay.Sample) float64 { return s.Weights }},
	} {
		m.printf("<path fill=\"%s\" d=\"M%s %s", area.colour, px(left), px(bottom))
		m.steps(p.samples, "L", area.bytes, y, false)
		m.printf("V%sZ\"><title>%s of %s</title></path>\n", px(bottom), area.name, p.name)
	}
	m.printf("<path d=\"M%s %sV%sH%s\" fill=\"none\" stroke=\"#222\"/>\n", px(left), px(top), px(bottom), px(m.x(m.period)))
	if m.stage {
		m.printf("<path d=\"M%s %sH%s\" stroke=\"%s\"><title>%s by the stage model: %s</title></path>\n",
			px(left), px(y(p.counted)), px(m.x(m.period)), gradientColour, p.name, platform.FormatBytes(p.counted))
	}
	if !math.IsInf(m.limit, 1) {
		m.printf("<path d=\"M%s %sH%s\" stroke=\"#000\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"><title>limit: %s</title></path>\n",
			px(left), px(y(m.limit)), px(m.x(m.period)), platform.FormatBytes(m.limit))
	}
}
