package timeline

import (
	"fmt"
	"math"
	"strings"

	"workbench/model/periodic"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Measures of the memory of one GPU of a pattern in pixels.
const (
	panelHeight = 46
	panelGap    = 10
)

// patternMemory is the part of a pattern's picture that shows the memory of each GPU
// that computes something, all in one scale.
type patternMemory struct {
	*drawing
	panels []panel
	most   float64 // bytes
	stage  bool    // the limit is about the stage model
}

// A panel is the memory of a GPU over the period.
type panel struct {
	name    string
	samples []periodic.Sample
	counted float64 // by the stage model, bytes
}

// patternMemory replays the plan; of one that cannot be, there are no panels.
func (d *drawing) patternMemory() *patternMemory {
	m := &patternMemory{drawing: d, stage: d.plan.MemoryModel == plan.StageModel}
	profile, err := periodic.PipelineProfile(d.instance, d.plan)
	if err != nil || profile == nil {
		return m
	}
	sum, err := periodic.SummarizePipeline(d.instance, d.plan)
	if err != nil {
		return m
	}
	if !math.IsInf(sum.Memory, 1) {
		m.most = sum.Memory
	}
	for i, g := range sum.GPUs {
		if len(g.Stages) > 0 {
			m.panels = append(m.panels, panel{g.Name, profile[i], g.StageMemory})
			m.most = max(m.most, g.TaskMemory, g.StageMemory)
		}
	}
	m.most = max(m.most, 1)
	return m
}

// height of all panels.
func (m *patternMemory) height() float64 {
	if len(m.panels) == 0 {
		return 4
	}
	return float64(len(m.panels))*(panelHeight+panelGap) - panelGap
}

func (m *patternMemory) legend() []legendItem {
	if len(m.panels) == 0 {
		return nil
	}
	return []legendItem{{"weights, buffers", swatch(weightColour, curveOpacity)}, {"activations", swatch(activationColour, curveOpacity)}}
}

func (m *patternMemory) draw() {
	if len(m.panels) == 0 {
		return
	}
	u := platform.ByteUnit(m.most)
	m.printf("<text transform=\"translate(14 %s) rotate(-90)\" text-anchor=\"middle\">memory (%s)</text>\n", px(m.curveTop+m.height()/2), u.Name)
	lines := "dashed: the limit"
	if m.stage {
		lines += "; red: what the stage model counts"
	}
	m.text(m.x(m.period), m.curveTop-4, "end", `font-size="10"`, lines)
	for i := range m.panels {
		m.panel(&m.panels[i], m.curveTop+float64(i)*(panelHeight+panelGap), u)
	}
}

// panel draws the memory of one GPU below y.
func (m *patternMemory) panel(p *panel, top float64, u platform.AxisUnit) {
	bottom := top + panelHeight
	y := func(bytes float64) float64 { return bottom - bytes/(1.08*m.most)*panelHeight }
	for _, t := range ticks(m.most/u.Size, 2) {
		m.printf("<path d=\"M%s %sH%s\" stroke=\"#ddd\"/>\n", px(left), px(y(t*u.Size)), px(m.x(m.period)))
		m.text(left-8, y(t*u.Size)+3.5, "end", `font-size="9"`, number(t))
	}
	m.text(left-32, top+panelHeight/2+4, "end", "", p.name)
	var all, fixed strings.Builder
	for k, s := range p.samples {
		end := m.period
		if k+1 < len(p.samples) {
			end = p.samples[k+1].Time
		}
		fmt.Fprintf(&all, "L%s %sH%s", px(m.x(s.Time)), px(y(s.Total())), px(m.x(end)))
		fmt.Fprintf(&fixed, "L%s %sH%s", px(m.x(s.Time)), px(y(s.Weights)), px(m.x(end)))
	}
	for _, area := range []struct{ name, colour, outline string }{
		{"activations", activationColour, all.String()},
		{"weights, buffers", weightColour, fixed.String()},
	} {
		m.printf("<path fill=\"%s\" fill-opacity=\"%g\" d=\"M%s %s%sV%sZ\"><title>%s of %s</title></path>\n",
			area.colour, curveOpacity, px(left), px(bottom), area.outline, px(bottom), area.name, p.name)
	}
	m.printf("<path d=\"M%s %sV%sH%s\" fill=\"none\" stroke=\"#222\"/>\n", px(left), px(top), px(bottom), px(m.x(m.period)))
	if m.stage {
		m.printf("<path d=\"M%s %sH%s\" stroke=\"%s\"><title>%s by the stage model: %s</title></path>\n",
			px(left), px(y(p.counted)), px(m.x(m.period)), gradientColour, p.name, platform.FormatBytes(p.counted))
	}
	if limit := m.plan.Platform.Memory; !math.IsInf(limit, 1) {
		m.printf("<path d=\"M%s %sH%s\" stroke=\"#000\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"><title>limit: %s</title></path>\n",
			px(left), px(y(limit)), px(m.x(m.period)), platform.FormatBytes(limit))
	}
}
