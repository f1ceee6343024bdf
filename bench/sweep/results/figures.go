package results

import (
	"math"

	"workbench/bench/render/plots"
	"workbench/model/platform"
)

// figure is a picture of the folder, and the numbers in it.
type figure struct {
	name   string // of its files
	figure *plots.Figure
}

// figures returns the pictures of a problem, those without a point left out when
// they are written.
func (p *Problem) figures() []figure {
	list := []figure{
		{p.Name + "-gap", p.shares("gap to the best proven bound", "gap of at most (%)", p.GapDistribution())},
		{p.Name + "-profile-" + p.Word, p.shares("performance profile, "+p.Word, p.Word+" within a factor of the best", p.ObjectiveProfile())},
		{p.Name + "-profile-time", p.shares("performance profile, time to a plan within 1 % of the best", "time within a factor of the least",
			p.TimeProfile())},
	}
	names := map[string]int{}
	for _, t := range p.Tradeoffs {
		list = append(list, figure{p.Name + "-tradeoff-" + unique(names, slug(t.Name)), p.tradeoff(t)})
	}
	return list
}

// mostLinear is the largest ratio up to which an axis is linear: a logarithmic
// one has too few labels below.
const mostLinear = 3

// shares draws step functions of shares in percent.
func (p *Problem) shares(title, x string, functions []Steps) *plots.Figure {
	f := &plots.Figure{Title: p.Name + ": " + title, X: x, Y: "cases (%)", FromZero: true}
	least, most := math.Inf(1), math.Inf(-1)
	for _, s := range functions {
		for _, v := range s.X {
			least, most = min(least, v), max(most, v)
		}
	}
	f.LogX = least >= 1 && most > mostLinear
	for k, s := range functions {
		series := plots.Series{Name: s.Label, Steps: true, Style: k}
		if len(s.X) > 0 && s.X[0] > least { // nothing up to its first
			series.X, series.Y = append(series.X, least), append(series.Y, 0)
		}
		for i := range s.X {
			series.X, series.Y = append(series.X, s.X[i]), append(series.Y, 100*s.Y[i])
		}
		f.Series = append(f.Series, series)
	}
	return f
}

// units of the axes of trade-offs.
func (p *Problem) units(t *Tradeoff) (memory, objective platform.AxisUnit, x, y string) {
	most := 0.0
	for _, c := range t.Cases {
		for _, cell := range c.Cells {
			if !math.IsInf(cell.Objective, 1) {
				most = max(most, cell.Objective)
			}
		}
	}
	objective = platform.TimeUnit(most)
	memory = platform.ByteUnit(t.Cases[len(t.Cases)-1].Key.Memory)
	if slots(p.Name) {
		memory = platform.AxisUnit{Name: "slots", Size: 1}
	}
	return memory, objective, "memory (" + memory.Name + ")", p.Word + " (" + objective.Name + ")"
}

// tradeoff draws the objectives over the memory.
func (p *Problem) tradeoff(t *Tradeoff) *plots.Figure {
	memory, objective, x, y := p.units(t)
	f := &plots.Figure{Title: p.Name + ": " + t.Name, X: x, Y: y, Bound: &plots.Bound{Name: "excluded by proof"}}
	for k, m := range p.planners() {
		s := plots.Series{Name: m.Label, Steps: true, Points: true, Style: k} // what is found for a memory holds for more
		for _, c := range t.Cases {
			v := c.Cells[m.Index].Objective
			if math.IsInf(v, 1) {
				v = math.NaN()
			}
			s.X, s.Y = append(s.X, c.Key.Memory/memory.Size), append(s.Y, v/objective.Size)
		}
		f.Series = append(f.Series, s)
	}
	for k, b := range t.bound() {
		if !math.IsNaN(b) {
			f.Bound.X, f.Bound.Y = append(f.Bound.X, t.Cases[k].Key.Memory/memory.Size), append(f.Bound.Y, b/objective.Size)
		}
	}
	return f
}
