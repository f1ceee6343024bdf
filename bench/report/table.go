package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"workbench/bench/compare/stats"
	"workbench/bench/report/rows"
)

// tables are what the cells of a table may say, and what its last line does of
// all cases.
var tables = map[string]struct {
	title string
	cell  func(x *Cell) string
	last  string
	all   func(m *Method) string
}{
	"objective": {"%s, ms", func(x *Cell) string { return milliseconds(x.Objective) }, "over the best", func(m *Method) string { return factor(m.ToBest) }},
	"gap":       {"gap of the %s to the best bound", func(x *Cell) string { return share(x.Gap) }, "mean", func(m *Method) string { return share(stats.ShiftedGeometricMean(m.Gaps, gapShift)) }},
	"proof":     {"how the %s ended", func(x *Cell) string { return x.proof() }, "proved", func(m *Method) string { return fmt.Sprintf("%d of %d", m.Proofs, m.Runs) }},
	"time":      {"time until the %s was found or proved, s", func(x *Cell) string { return clock(x.Time) }, "mean", func(m *Method) string { return clock(m.MeanTime) }},
}

// gapShift is that of the mean of gaps.
const gapShift = 0.01

// Tables returns what the cells of a table may say.
func Tables() []string { return []string{"objective", "gap", "proof", "time"} }

// WriteTable writes a Markdown table a problem: a line for each instance and
// limits, a column a method, in the cells what name says, one of [Tables]. Before them stands the best bound that is proved, in milliseconds;
// the last line has geometric means over the cases that a method has an answer
// to.
func (r *Report) WriteTable(w io.Writer, name string) error {
	t, ok := tables[name]
	if !ok {
		return fmt.Errorf("table %q: there are %s", name, strings.Join(Tables(), ", "))
	}
	var b strings.Builder
	for i, p := range r.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s\n\n| instance | limits | bound |", p.Name, fmt.Sprintf(t.title, p.Word))
		for _, m := range p.Methods {
			fmt.Fprintf(&b, " %s |", m.Label)
		}
		b.WriteString("\n|---|---|--:|" + strings.Repeat("--:|", len(p.Methods)) + "\n")
		for _, c := range p.Cases {
			bound := math.NaN()
			if c.Bound != nil {
				bound = c.Bound.Result.Bound.Value
			}
			fmt.Fprintf(&b, "| %s | %s | %s |", c.Instance, c.Limits, milliseconds(bound))
			for _, x := range c.Cells {
				switch {
				case !x.asked():
					b.WriteString(" |")
				case len(x.Runs) == 0:
					fmt.Fprintf(&b, " %s |", x.Outcome)
				default:
					fmt.Fprintf(&b, " %s |", t.cell(x))
				}
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "| **%s** | | |", t.last)
		for _, m := range p.Methods {
			fmt.Fprintf(&b, " %s |", t.all(m))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// proof says how the run in the middle ended and, where it has a bound, how that
// is known.
func (cell *Cell) proof() string {
	for _, r := range cell.Runs {
		if b, ok := rows.Bound(r.Row); ok && r.Outcome() == cell.Outcome && b.Proof != "" {
			return fmt.Sprintf("%s, %s", cell.Outcome, b.Proof)
		}
	}
	return cell.Outcome
}

func milliseconds(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return fmt.Sprintf("%.1f", 1e3*x)
}

func clock(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return fmt.Sprintf("%.2f", x)
}

func factor(x float64) string {
	if math.IsNaN(x) {
		return "–"
	}
	return fmt.Sprintf("%.4f", x)
}
