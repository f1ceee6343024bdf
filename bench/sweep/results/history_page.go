package results

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"workbench/bench/solve/catalog"
	"workbench/bench/sweep"
	"workbench/model/platform"
)

//go:embed history.html
var historyHTML string

// mostChanges are listed on the page.
const mostChanges = 500

// WriteHTML writes all nights on one page, which needs neither a network nor a
// script. O(k·n) for each change listed of k nights of n rows.
func (h *History) WriteHTML(w io.Writer, sources []Source) error {
	t, err := template.New("history").Funcs(template.FuncMap{
		"day":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"count": platform.Count[int],
		"join":  func(s []string) string { return strings.Join(s, " and ") },
		"line": func(values []*float64, s scale) template.HTML {
			return sparkline(values, s, func(v float64) string { return fmt.Sprintf("×%.4g", v) })
		},
		"limits":  func(t sweep.Task) string { return Limits(&t) },
		"command": func(t sweep.Task) string { return Command(&t) },
		"change":  change,
		"values": func(c Change) template.HTML {
			values := changedValues(sources, c)
			return sparkline(values, scaleOf(values), unitOf(&c))
		},
	}).Parse(historyHTML)
	if err != nil {
		return err
	}
	listed := h.Changes[:min(len(h.Changes), mostChanges)]
	return t.Execute(w, map[string]any{
		"H": h, "Changes": listed, "More": len(h.Changes) - len(listed), "Style": template.CSS(pageCSS),
		"Charts": h.charts(), "Scales": h.scales(),
	})
}

// unitOf returns how the values of a change are written: times in seconds, sizes in bytes, times of plans by the problem.
func unitOf(c *Change) func(float64) string {
	switch c.Kind {
	case Slower, Faster, ProofLost, ProofGained, AtEdge:
		return platform.FormatSeconds
	}
	if p, err := catalog.FindProblem(c.Task.Problem); err == nil {
		return p.Write
	}
	return func(v float64) string { return fmt.Sprintf("%.5g", v) }
}

// changedValues returns over the nights what a change is about: the objective, the bound, or
// the time.
func changedValues(sources []Source, c Change) []*float64 {
	list := make([]*float64, len(sources))
	for k, r := range RowsOf(sources, c.Task) {
		if r == nil {
			continue
		}
		var x float64
		known := true
		switch c.Kind {
		case WeakerBound, StrongerBound:
			b, ok := Bound(r)
			if known = ok; ok {
				x = b.Value
			}
		case Slower, Faster, ProofLost, ProofGained, AtEdge:
			x = Time(r)
		default:
			x, known = Objective(r)
		}
		if known {
			list[k] = &x
		}
	}
	return list
}

// scale is the range of an axis, which charts share so that they compare.
type scale struct{ low, high float64 }

// scaleOf returns the range of all values, at least a hundredth of the largest: noise is not to look like a slope.
func scaleOf(lists ...[]*float64) scale {
	s := scale{math.Inf(1), math.Inf(-1)}
	for _, list := range lists {
		for _, v := range list {
			if v != nil {
				s.low, s.high = min(s.low, *v), max(s.high, *v)
			}
		}
	}
	if missing := 0.01*math.Abs(s.high) - (s.high - s.low); missing > 0 {
		s.low, s.high = s.low-missing/2, s.high+missing/2
	}
	return s
}

// part returns where a value is from low, 0, to high, 1.
func (s scale) part(v float64) float64 {
	if s.high == s.low {
		return 0.5
	}
	return (v - s.low) / (s.high - s.low)
}

// ticks returns the values that the axis names: 1, from which ratios differ, and each end that is not next to it.
func (s scale) ticks() (list []float64) {
	one := s.part(1)
	if one >= 0 && one <= 1 {
		list = append(list, 1)
	}
	for _, end := range []float64{s.low, s.high} {
		if math.Abs(s.part(end)-one) > 0.15 {
			list = append(list, end)
		}
	}
	return list
}

// sparkline draws values over nights on a scale, with the last, the smallest and the largest as numbers; night by night for
// screen readers. Holes break the line.
func sparkline(values []*float64, s scale, number func(float64) string) template.HTML {
	low, high, last := math.Inf(1), math.Inf(-1), ""
	var words []string
	for k, v := range values {
		if v == nil {
			continue
		}
		low, high, last = min(low, *v), max(high, *v), number(*v)
		words = append(words, fmt.Sprintf("night %d: %s", k, last))
	}
	if last == "" {
		return "–"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="line" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="%s"><title>%[1]s</title>`,
		strings.Join(words, ", "))
	polylines(&b, values, func(k int) float64 { return 100 * across(k, len(values)) }, func(v float64) float64 { return 22 - 20*s.part(v) })
	fmt.Fprintf(&b, "</svg> %s (%s to %s)", last, number(low), number(high))
	return template.HTML(b.String()) // numbers and words of ours only
}

// across returns where night k of n is from the first, 0, to the last, 1.
func across(k, n int) float64 { return float64(k) / float64(max(1, n-1)) }

// polylines draws values, which holes break into several lines.
func polylines(b *strings.Builder, values []*float64, x func(int) float64, y func(float64) float64) {
	var points []string
	flush := func() {
		if len(points) > 0 {
			fmt.Fprintf(b, `<polyline points="%s"/>`, strings.Join(points, " "))
		}
		points = nil
	}
	for k, v := range values {
		if v == nil {
			flush()
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(k), y(*v)))
	}
	flush()
}

// Size of a chart and its margins.
const (
	chartWidth, chartHeight = 420, 150
	chartLeft, chartBottom  = 52, 30
	chartRight, chartTop    = 8, 8
)

// mostNightTicks are named on the axis of a chart.
const mostNightTicks = 10

// lineChart is a measure of the methods of a problem over the nights.
type lineChart struct {
	Title   string
	Picture template.HTML
	Legend  []string // of the methods that moved most, in the order of their colours
}

// lineMeasure is one of the lists of a [Line].
type lineMeasure struct {
	name string
	of   func(*Line) []*float64
}

func lineMeasures() []lineMeasure {
	return []lineMeasure{
		{"objective", func(l *Line) []*float64 { return l.Objective }},
		{"bound", func(l *Line) []*float64 { return l.Bound }},
		{"processor time", func(l *Line) []*float64 { return l.Time }},
	}
}

// scales returns the scale of each measure, over all methods, so that their lines compare.
func (h *History) scales() (list []scale) {
	for _, m := range lineMeasures() {
		var all [][]*float64
		for i := range h.Methods {
			all = append(all, m.of(&h.Methods[i]))
		}
		list = append(list, scaleOf(all...))
	}
	return list
}

// charts returns a chart for each problem and measure in which a method changed.
func (h *History) charts() (list []lineChart) {
	byProblem := map[string][]*Line{}
	for i := range h.Methods {
		l := &h.Methods[i]
		byProblem[l.Problem] = append(byProblem[l.Problem], l)
	}
	scales := h.scales()
	for i, m := range lineMeasures() {
		moved := func(l *Line) (most float64) {
			for _, v := range m.of(l) {
				if v != nil {
					most = max(most, math.Abs(*v-1))
				}
			}
			return most
		}
		for _, problem := range slices.Sorted(maps.Keys(byProblem)) {
			lines := slices.DeleteFunc(slices.Clone(byProblem[problem]), func(l *Line) bool { return moved(l) <= exact })
			slices.SortStableFunc(lines, func(a, b *Line) int { return cmp.Compare(moved(b), moved(a)) })
			c := lineChart{Title: strings.TrimSpace(problem + " " + m.name)}
			var values [][]*float64
			for k, l := range lines {
				values = append(values, m.of(l))
				if k < mostCurves {
					c.Legend = append(c.Legend, l.Method)
				}
			}
			if len(lines) > 0 {
				c.Picture = drawLines(c.Title, values, scales[i], len(h.Nights))
				list = append(list, c)
			}
		}
	}
	return list
}

// drawLines draws ratios over the nights, with both axes named. Lines beyond the eighth have no colour.
func drawLines(title string, lines [][]*float64, s scale, nights int) template.HTML {
	x := func(k int) float64 { return chartLeft + (chartWidth-chartLeft-chartRight)*across(k, nights) }
	y := func(v float64) float64 {
		return chartHeight - chartBottom - (chartHeight-chartTop-chartBottom)*s.part(v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" viewBox="0 0 %d %d" role="img" aria-label="%s over the nights">`, chartWidth, chartHeight,
		template.HTMLEscapeString(title))
	for _, v := range s.ticks() {
		fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text x="%d" y="%.1f" class="end">×%.3g</text>`, chartLeft, y(v),
			chartWidth-chartRight, chartLeft-5, y(v)+3.5, v)
	}
	for k := 0; k < nights; k += (nights + mostNightTicks - 1) / mostNightTicks {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %dv4"/><text x="%.1f" y="%d" class="middle">%d</text>`, x(k), chartHeight-chartBottom,
			x(k), chartHeight-chartBottom+14, k)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" class="middle">night</text>`, (chartLeft+chartWidth-chartRight)/2, chartHeight-4)
	for i := len(lines) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, `<g class="c%d">`, min(i, mostCurves))
		polylines(&b, lines[i], x, y)
		b.WriteString("</g>")
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers, and words that are escaped
}
