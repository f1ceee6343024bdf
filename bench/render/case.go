package render

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/solve"
	"workbench/model/platform"
)

// A Case is what is solved: a problem on an instance under a setting.
type Case struct {
	Problem   *solve.Problem
	Instance  *solve.Instance
	Setting   solve.Setting
	Low, High float64 // the instance's memory range
	// Budget is what the memory of a whole GPU goes to; nil: only the plan's was given.
	Budget *solve.Budget
}

// Memory writes a size of memory as the problem counts it.
func (c *Case) Memory(x float64) string { return Memory(c.Problem, x) }

// Memory writes a size of memory as a problem counts it.
func Memory(p *solve.Problem, x float64) string {
	if p.Slots {
		return fmt.Sprintf("%g slots", x)
	}
	return platform.FormatBytes(x)
}

// Link writes the GPUs and the bandwidth, for problems that have them.
func (c *Case) Link() string {
	if c.Problem.Bandwidth == "" {
		return ""
	}
	s := ", " + platform.FormatRate(c.Setting.Platform.Bandwidth) + " a link"
	switch {
	case c.Problem.Parallel && c.Problem.Scheduled:
		s = fmt.Sprintf(" on each of %d GPUs%s", c.Setting.Platform.Processors, s)
	case c.Problem.Parallel:
		s = fmt.Sprintf(" on each of %d GPUs (%s model)%s", c.Setting.Platform.Processors, c.Setting.MemoryModel, s)
	}
	return s
}

// Limit shows the limit on memory, which share it is of the peak of keeping everything, and the minimum.
func (c *Case) Limit() string {
	m := c.Setting.Platform.Memory
	s := c.Memory(m)
	switch {
	case !(c.High > c.Low):
	case m <= c.High:
		s += fmt.Sprintf(" (%.4g %% of %s, minimum %s)", 100*m/c.High, c.Memory(c.High), c.Memory(c.Low))
	default:
		s += fmt.Sprintf(" (more than %s has no use, minimum %s)", c.Memory(c.High), c.Memory(c.Low))
	}
	return s
}

// Remarks are said on standard error of words that are likely not meant: numbers without
// a unit that are absurd beside the instance.
func (c *Case) Remarks() (list []string) {
	if c.Problem.Slots || c.High < 1<<20 {
		return nil // a toy: its units are its own
	}
	p, compute := c.Setting.Platform, c.Instance.Compute()
	if rate := p.Bandwidth; rate > platform.NoLink && c.High/rate > 1e4*compute && compute > 0 {
		list = append(list, fmt.Sprintf("at %s moving the %s that are in use takes %s, and all computations take %s: bandwidths are written "+
			"12GB/s",
			platform.FormatRate(rate), c.Memory(c.High), platform.FormatSeconds(c.High/rate), platform.FormatSeconds(compute)))
	}
	switch {
	case p.Memory < 1<<20 && p.Memory < c.Low:
		list = append(list, fmt.Sprintf("%s of memory: sizes are written 16GiB", c.Memory(p.Memory)))
	case p.Memory > 1e4*c.High && !math.IsInf(p.Memory, 1):
		list = append(list, fmt.Sprintf("%s of memory, of which %s can be used", c.Memory(p.Memory), c.Memory(c.High)))
	}
	if b := c.Problem.Resident(c.Instance); b > 0 && c.Budget == nil {
		list = append(list, fmt.Sprintf("%s of weights, inputs and other resident data are not counted in this memory; --gpu SIZE counts them",
			c.Memory(b)))
	}
	return list
}

// Result prints one run for a person: what was solved, the plan, the
// proof, the time.
func Result(w io.Writer, c *Case, r *solve.Result) {
	fmt.Fprintf(w, "%s of %s: %s, memory %s%s\n", r.Problem, r.Instance.Name, c.Instance.Size(), c.Limit(), c.Link())
	line := func(label, format string, a ...any) {
		fmt.Fprintf(w, "  %-11s %s\n", label, fmt.Sprintf(format, a...))
	}
	method := fmt.Sprintf("%s (%s)", r.Method, r.Kind)
	if f := r.Formulation; f != nil {
		method += fmt.Sprintf(", MILP %s: %s (%d integer), %s", f.Name, platform.Count(f.Variables, "variable"), f.Integers,
			platform.Count(f.Constraints, "constraint"))
	}
	if b := c.Budget; b != nil {
		line("GPU", "%s", GPU(b))
	}
	line("method", "%s", method)
	if r.Backend != nil {
		line("backend", "%s %s", r.Backend.Name, r.Backend.Version)
	}
	if r.Plan != nil && r.Report != nil {
		for _, x := range c.Problem.Times(c.Instance, r) {
			line(x.Label, "%s", x.Text)
		}
		line("peak memory", "%s of %s", c.Memory(r.Report.PeakMemory), c.Memory(r.Platform.Memory))
		line("plan", "%s", planLine(c.Problem, r))
	} else {
		line("plan", "none")
	}
	if r.Throughput != nil {
		line("throughput", "%.4g samples/s", *r.Throughput)
	}
	if b := r.Bound; b != nil {
		line("lower bound", "%s, %s", c.Problem.Write(b.Value), ProvedBy(b))
	}
	if b := r.Conditional; b != nil {
		line("", "%s", Conditional(c.Problem, b))
	}
	for _, x := range r.Claims {
		line("", "%s", Claim(c.Problem, x))
	}
	if r.Gap != nil {
		line("gap", "%s", Percent(*r.Gap))
	}
	status := string(r.Status)
	switch {
	case r.Status == solve.Optimal && r.Kind == solve.Relaxed:
		status += " (of the bounding model; it makes no plan)"
	case r.Status == solve.Optimal:
		status += " (proved)"
	case len(r.OptimalWithin) > 0:
		status += " (optimal among plans that keep: " + strings.Join(r.OptimalWithin, "; ") + ")"
	case r.Status == solve.Limit && r.Kind == solve.Relaxed:
		status += " (stopped early; the bound holds)"
	}
	line("status", "%s", status)
	line("stopped", "%s", Stopped(r))
	line("time", "%.2f s wall, %.2f s processor", r.WallTime, r.CPUTime)
	if r.Note != "" {
		line("note", "%s", r.Note)
	}
}

// planLine says what the plan does.
func planLine(p *solve.Problem, r *solve.Result) string {
	verdict := "verified"
	if !r.Report.Valid() {
		verdict = "INVALID, " + BrokenRules(len(r.Report.Violations))
	}
	return fmt.Sprintf("%s; %s by replay", p.Does(r.Plan), verdict)
}

// BrokenRules counts violations.
func BrokenRules(n int) string {
	return platform.Count(n, "rule") + " broken"
}

// Comparison prints several methods on one case, under the best bound of all, and
// that of plans that keep assumptions.
func Comparison(w io.Writer, c *Case, results []*solve.Result, best, conditional *solve.Bound) {
	fmt.Fprintf(w, "%s of %s: %s, memory %s%s\n\n", c.Problem.Name, c.Instance.Name, c.Instance.Size(), c.Limit(), c.Link())
	word := c.Problem.Word
	t := Table(w, table.Row{"method", "kind", word, "gap", "peak memory", "own bound", "proof", "time", "status"}, 3, 4, 5, 6, 8)
	for _, r := range results {
		row := table.Row{r.Method, r.Kind, "-", "-", "-", "-", "-", fmt.Sprintf("%.3f s", r.WallTime), r.Status}
		if r.Objective != nil {
			row[2], row[4] = c.Problem.Write(*r.Objective), c.Memory(*r.PeakMemory)
		}
		if r.Gap != nil {
			row[3] = Percent(*r.Gap)
		}
		if r.OwnBound != nil {
			row[5], row[6] = c.Problem.Write(r.OwnBound.Value), r.OwnBound.Proof
		}
		t.AppendRow(row)
	}
	t.Render()
	if best != nil {
		fmt.Fprintf(w, "\nbound %s, %s", c.Problem.Write(best.Value), ProvedBy(best))
		separator := "; "
		if b := conditional; b != nil {
			fmt.Fprintf(w, "\nbound %s", Conditional(c.Problem, b))
			separator = "\n"
		}
		fmt.Fprintf(w, "%sgap = (%s − bound) / %s; every plan was verified by replay\n", separator, word, word)
	}
	for _, r := range results {
		for _, x := range r.Claims {
			fmt.Fprintf(w, "%s: %s\n", r.Method, Claim(c.Problem, x))
		}
	}
	for _, r := range results {
		if r.Err != nil {
			fmt.Fprintf(w, "%s: %s\n", r.Method, OneLine(r.Error))
		}
	}
}
