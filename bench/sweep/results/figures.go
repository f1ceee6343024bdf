package results

import (
	"math"
	"strings"

	"workbench/bench/render/picture"
	"workbench/model/platform"
)

// figure is a picture of the folder and of the page.
type figure struct {
	name, title string // name is that of its files
	figure      *picture.Figure
	// runs are those behind the points of a trade-off, -1 where there is none: of the bound, then of each series.
	runs [][]int
}

// figures returns the pictures of a problem, those without a point left out when
// they are written.
func (p *Problem) figures() []figure {
	list := []figure{
		p.shares("-gap", "Gap to the best proven bound", "gap of at most (%)", p.GapDistribution()),
		p.shares("-profile-"+p.Word, "Performance profile, "+p.Word, p.Word+" within a factor of the best", p.ObjectiveProfile()),
		p.shares("-profile-time", "Performance profile, time to a plan within 1 % of the best", "time within a factor of the least",
			p.TimeProfile()),
	}
	names := map[string]int{}
	for _, t := range p.Tradeoffs {
		list = append(list, p.tradeoff("-tradeoff-"+unique(names, slug(t.Name)), t))
	}
	return list
}

// mostLinear is the largest ratio up to which an axis is linear: a logarithmic
// one has too few labels below.
const mostLinear = 3

// shares draws step functions of shares in percent.
func (p *Problem) shares(name, title, x string, functions []Steps) figure {
	f := &picture.Figure{Title: p.Name + ": " + strings.ToLower(title[:1]) + title[1:], X: x, Y: "cases (%)", FromZero: true}
	least, most := math.Inf(1), math.Inf(-1)
	for _, s := range functions {
		for _, v := range s.X {
			least, most = min(least, v), max(most, v)
		}
	}
	f.LogX = least >= 1 && most > mostLinear
	for k, s := range functions {
		series := picture.Series{Name: s.Label, Steps: true, Style: k}
		if len(s.X) > 0 && s.X[0] > least { // nothing up to its first
			series.X, series.Y = append(series.X, least), append(series.Y, 0)
		}
		for i := range s.X {
			series.X, series.Y = append(series.X, s.X[i]), append(series.Y, 100*s.Y[i])
		}
		f.Series = append(f.Series, series)
	}
	return figure{name: p.Name + name, title: title, figure: f}
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
func (p *Problem) tradeoff(name string, t *Tradeoff) figure {
	memory, objective, x, y := p.units(t)
	f := &picture.Figure{Title: p.Name + ": " + t.Name, X: x, Y: y, Bound: &picture.Bound{Name: "excluded by proof"}}
	runs := make([][]int, 1+len(p.planners()))
	for k, m := range p.planners() {
		s := picture.Series{Name: m.Label, Steps: true, Points: true, Style: k} // what is found for a memory holds for more
		for _, c := range t.Cases {
			cell, run := c.Cells[m.Index], -1
			v := cell.Objective / objective.Size
			if math.IsInf(v, 1) {
				v = math.NaN()
			}
			if len(cell.Runs) > 0 {
				run = cell.Runs[0].Index
			}
			s.X, s.Y, runs[k+1] = append(s.X, c.Key.Memory/memory.Size), append(s.Y, v), append(runs[k+1], run)
		}
		f.Series = append(f.Series, s)
	}
	for k, b := range t.bound() {
		if !math.IsNaN(b) {
			c := t.Cases[k]
			f.Bound.X, f.Bound.Y = append(f.Bound.X, c.Key.Memory/memory.Size), append(f.Bound.Y, b/objective.Size)
			runs[0] = append(runs[0], c.boundRun())
		}
	}
	return figure{p.Name + name, t.Name, f, runs}
}

// page returns the figure as the page's script draws it.
func (f *figure) page() pageFigure {
	out := pageFigure{Title: f.title, X: f.figure.X, Y: f.figure.Y, Log: f.figure.LogX, Series: []pageSeries{}}
	add := func(name string, style, steps int, x, y []float64) {
		s := pageSeries{Name: name, Style: style, Steps: steps, X: []float64{}, Y: []*float64{}}
		if f.runs != nil {
			s.Runs = f.runs[len(out.Series)]
		}
		for i := range x {
			s.X, s.Y = append(s.X, *short(x[i])), append(s.Y, short(y[i]))
		}
		out.Series = append(out.Series, s)
	}
	if b := f.figure.Bound; b != nil {
		add("proven bound", -1, -1, b.X, b.Y)
	}
	for _, s := range f.figure.Series {
		add(s.Name, s.Style, 1, s.X, s.Y)
	}
	return out
}
