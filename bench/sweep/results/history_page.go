package results

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

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
		"day":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"count":   platform.Count[int],
		"join":    func(s []string) string { return strings.Join(s, " and ") },
		"line":    sparkline,
		"limits":  func(t sweep.Task) string { return Limits(&t) },
		"command": func(t sweep.Task) string { return Command(&t) },
		"change": func(x *float64) string {
			if x == nil {
				return ""
			}
			return fmt.Sprintf("%+.3g %%", 100**x)
		},
		"values": func(c Change) template.HTML { return sparkline(changedValues(sources, c)) },
	}).Parse(historyHTML)
	if err != nil {
		return err
	}
	listed := h.Changes[:min(len(h.Changes), mostChanges)]
	return t.Execute(w, map[string]any{
		"H": h, "Changes": listed, "More": len(h.Changes) - len(listed), "Style": template.CSS(pageCSS),
	})
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

// sparkline draws values over nights, with the last, the smallest and the largest as numbers; night by night for those
// who hear it. Holes break the line.
func sparkline(values []*float64) template.HTML {
	low, high, last := math.Inf(1), math.Inf(-1), ""
	var words []string
	for k, v := range values {
		if v == nil {
			continue
		}
		low, high, last = min(low, *v), max(high, *v), fmt.Sprintf("%.5g", *v)
		words = append(words, fmt.Sprintf("night %d: %s", k, last))
	}
	if last == "" {
		return "–"
	}
	// A hundredth is the least that fills the height: noise is not to look like a slope.
	middle, height := (low+high)/2, max(high-low, 0.01*math.Abs(high), math.SmallestNonzeroFloat64)
	y := func(v float64) float64 { return 12 - 20*(v-middle)/height }
	x := func(k int) float64 { return 100 * float64(k) / float64(max(1, len(values)-1)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="line" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label="%s"><title>%[1]s</title>`,
		strings.Join(words, ", "))
	var points []string
	flush := func() {
		if len(points) > 0 {
			fmt.Fprintf(&b, `<polyline points="%s"/>`, strings.Join(points, " "))
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
	fmt.Fprintf(&b, "</svg> %s (%.4g to %.4g)", last, low, high)
	return template.HTML(b.String()) // numbers and words of ours only
}
