// Package render writes results, bounds, instances and replays for a person.
package render

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"workbench/bench/solve"
	"workbench/model/plan"
	"workbench/model/proof"
)

// Table returns a table in the house style: headers as written, numbers
// aligned right in the columns named.
func Table(w io.Writer, header table.Row, right ...int) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Format.Header, style.Format.Footer = text.FormatDefault, text.FormatDefault
	style.Options.DrawBorder, style.Options.SeparateColumns = false, false
	t.SetStyle(style)
	t.AppendHeader(header)
	configs := make([]table.ColumnConfig, len(right))
	for i, n := range right {
		configs[i] = table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
	return t
}

// Wrap breaks words into lines of at most width cells.
func Wrap(s string, width int) string { return strings.TrimSpace(text.WrapSoft(s, width)) }

// ProvedBy says who proved a bound and how that was checked.
func ProvedBy(b *solve.Bound) string {
	switch b.Proof {
	case proof.Certified:
		return "certified: " + b.By
	case proof.Search:
		return "proved by " + b.By
	}
	return "by the word of " + b.By
}

// Conditional shows a bound that holds under assumptions.
func Conditional(p *solve.Problem, b *solve.Bound) string {
	return fmt.Sprintf("%s, %s, of plans that keep: %s", p.Write(b.Value), ProvedBy(b), strings.Join(b.Assumptions, "; "))
}

// Claim describes a bound that a solver reports and nothing has proved.
func Claim(p *solve.Problem, c proof.Claim) string {
	what := p.Write(c.Value)
	if math.IsInf(c.Value, 0) {
		what = c.Status
	}
	why := c.Why
	if why == "" {
		why = "not certified"
	}
	return fmt.Sprintf("uncertified solver bound of %s: %s; %s", c.By, what, why)
}

// Stopped says why a run stopped.
func Stopped(r *solve.Result) string {
	switch r.Ended {
	case proof.Closed:
		switch {
		case r.Status == solve.Infeasible:
			return "infeasibility proved"
		case r.Plan == nil:
			return "the bounding model is solved"
		case len(r.OptimalWithin) > 0:
			return "optimality proved among such plans"
		}
		return "optimality proved"
	case proof.Gap:
		return "the gap asked for is reached"
	case proof.NoProof:
		return "heuristic finished; optimality is not proved"
	}
	return strings.ReplaceAll(string(r.Ended), "-", " ") // "time limit"
}

// Percent writes a fraction; what rounding leaves below zero is zero.
func Percent(x float64) string {
	if x < 0 && x > -plan.Tolerance {
		x = 0
	}
	return fmt.Sprintf("%.3f %%", 100*x)
}

// OneLine puts a text on one line.
func OneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\n", "; ")), " ")
}
