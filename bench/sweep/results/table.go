package results

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/bench/solve"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Table is what to print of a sweep: what its cells say, one of [Tables]; By, one of
// [Groups], folds the cases that are alike in it into a line; Over is the method that
// ratios are to. By and Over may be empty.
type Table struct{ Cells, By, Over string }

// An entry is a method's cell of a case, what ratios are to, and how objectives are
// written.
type entry struct {
	of    *Case
	is    *Cell
	base  float64
	write func(float64) string
}

// A layout is what a cell says of an entry, and what the last line and the lines of
// groups say of many; "" if there is nothing to say.
type layout struct {
	name, title, last string
	one               func(e entry) string
	all               func(list []entry) string
}

var layouts = []layout{
	{"objective", "%s, UNIT", "over the best", func(e entry) string { return e.write(e.is.Objective) }, func(list []entry) string {
		return factor(shiftedGeometricMean(finite(list, func(e entry) float64 {
			if e.of.Best == nil {
				return math.NaN()
			}
			return e.is.Objective / *e.of.Best.Result.Objective
		}), 0))
	}},
	{
		"ratio", "%s over the best bound; of many the geometric mean and the largest", "mean, largest",
		func(e entry) string { return factor(e.ratio()) }, ratios,
	},
	{"gap", "gap of the %s to the best bound", "mean", func(e entry) string { return percent(e.is.Gap) }, func(list []entry) string {
		return percent(max(0, shiftedGeometricMean(finite(list, func(e entry) float64 { return e.is.Gap }), gapShift)))
	}},
	{
		"bound", "bound on the %s that each method ends with, UNIT; in the last line over the best", "over the best",
		func(e entry) string { return e.write(e.is.Ratio * e.of.bound()) }, func(list []entry) string {
			return factor(shiftedGeometricMean(finite(list, func(e entry) float64 { return e.is.Ratio }), 0))
		},
	},
	{"proof", "how the %s ended", "proved", func(e entry) string { return e.is.proof() }, func(list []entry) string {
		runs, proofs := 0, 0
		for _, e := range list {
			for _, r := range e.is.Runs {
				runs++
				if Proved(r.Row) {
					proofs++
				}
			}
		}
		return fmt.Sprintf("%d of %d", proofs, runs)
	}},
	{
		"time", "time until the %s was found or proved, s", "mean",
		func(e entry) string { return written(e.is.Time, "%.2f") },
		func(list []entry) string {
			ended := slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return e.is.Stopped })
			return written(shiftedGeometricMean(finite(ended, func(e entry) float64 { return e.is.Time }), timeShift), "%.2f")
		},
	},
}

// gapShift is that of the mean of gaps.
const gapShift = 0.01

// Tables returns what the cells of a table may say.
func Tables() (names []string) {
	for _, l := range layouts {
		names = append(names, l.name)
	}
	return names
}

// ratio is the objective over the base; NaN: one of them is missing.
func (e entry) ratio() float64 {
	if r := e.is.Objective / e.base; !math.IsInf(r, 0) {
		return r
	}
	return math.NaN()
}

// ratios are the geometric mean and the largest ratio, and of how many cases where
// some have none.
func ratios(list []entry) string {
	x := finite(list, entry.ratio)
	if len(x) == 0 {
		return "–"
	}
	s := fmt.Sprintf("%.3f, %.3f", shiftedGeometricMean(x, 0), slices.Max(x))
	if len(x) < len(list) {
		s += fmt.Sprintf(" (%d)", len(x))
	}
	return s
}

// finite are those of the entries that have one.
func finite(list []entry, of func(e entry) float64) (all []float64) {
	for _, e := range list {
		if x := of(e); !math.IsNaN(x) && !math.IsInf(x, 0) {
			all = append(all, x)
		}
	}
	return all
}

// groups are what cases may be alike in: a name, and where it stands among others.
var groups = []struct {
	name string
	of   func(c *Case) (string, float64)
}{
	{"network", func(c *Case) (string, float64) { return c.Network, 0 }},
	{"memory", func(c *Case) (string, float64) {
		if m, err := platform.ParseMemory(c.MemoryName); err == nil && m.Percent {
			return c.MemoryName, m.Value
		}
		return c.MemoryName, c.Key.Memory
	}},
	{"bandwidth", func(c *Case) (string, float64) { return platform.FormatRate(c.Key.Bandwidth), c.Key.Bandwidth }},
	{"processors", func(c *Case) (string, float64) { return strconv.Itoa(c.Key.Processors), float64(c.Key.Processors) }},
}

// Groups returns what the cases of a line may be alike in.
func Groups() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// WriteTable writes a Markdown table a problem, a column a method. There is a line for
// each instance and limits, with the best bound that is proved; or one
// for each group, with the number of its cases. The last line is of all cases. Means are
// geometric, over the cases that a method has an answer to. Errors are the user's.
func (r *Report) WriteTable(w io.Writer, t Table) error {
	k := slices.Index(Tables(), t.Cells)
	if k < 0 {
		return solve.InputError(fmt.Errorf("table %s: there are %s", t.Cells, nearest.Hint(t.Cells, Tables())))
	}
	if t.By != "" && !slices.Contains(Groups(), t.By) {
		return solve.InputError(fmt.Errorf("lines by %s: there are %s", t.By, nearest.Hint(t.By, Groups())))
	}
	var b strings.Builder
	for i, p := range r.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		list, err := p.entries(t.Over)
		if err != nil {
			return err
		}
		l := layouts[k]
		unit := "ms"
		if plan.MinimisesMemory(p.Name) {
			unit = "bytes"
		}
		words := strings.NewReplacer("UNIT", unit, "the best bound", cmp.Or(t.Over, "the best bound"))
		fmt.Fprintf(&b, "%s: %s\n\n", p.Name, words.Replace(fmt.Sprintf(l.title, p.Word)))
		if t.By == "" {
			p.writeCases(&b, l, list)
		} else {
			p.writeGroups(&b, l, list, t.By)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// entries are those of each case, a method each.
func (p *Problem) entries(over string) (list [][]entry, err error) {
	base := slices.IndexFunc(p.Methods, func(m *Method) bool { return m.Label == over })
	if over != "" && base < 0 {
		var labels []string
		for _, m := range p.Methods {
			labels = append(labels, m.Label)
		}
		return nil, solve.InputError(fmt.Errorf("ratios over %s: %s has %s", over, p.Name, nearest.Hint(over, labels)))
	}
	for _, c := range p.Cases {
		x := c.bound()
		if base >= 0 {
			x = c.Cells[base].Objective
		}
		var line []entry
		for _, cell := range c.Cells {
			line = append(line, entry{c, cell, x, p.write})
		}
		list = append(list, line)
	}
	return list, nil
}

// writeCases writes a line a case.
func (p *Problem) writeCases(b *strings.Builder, l layout, list [][]entry) {
	p.writeHead(b, "| instance | limits | bound |", "|---|---|--:|")
	for k, c := range p.Cases {
		fmt.Fprintf(b, "| %s | %s | %s |", c.Instance, c.Limits, p.write(c.bound()))
		for _, e := range list[k] {
			switch {
			case !e.is.asked():
				b.WriteString(" |")
			case len(e.is.Runs) == 0:
				fmt.Fprintf(b, " %s |", e.is.Outcome)
			default:
				fmt.Fprintf(b, " %s |", l.one(e))
			}
		}
		b.WriteByte('\n')
	}
	p.writeAll(b, l, fmt.Sprintf("| **%s** | | |", l.last), list)
}

// writeGroups writes a line a group of cases.
func (p *Problem) writeGroups(b *strings.Builder, l layout, list [][]entry, by string) {
	g := groups[slices.Index(Groups(), by)]
	lines, place := map[string][][]entry{}, map[string]float64{}
	for k, c := range p.Cases {
		name, at := g.of(c)
		lines[name], place[name] = append(lines[name], list[k]), at
	}
	var names []string
	for name := range lines {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(place[a], place[b]), cmp.Compare(a, b)) })
	p.writeHead(b, fmt.Sprintf("| %s | cases |", by), "|---|--:|")
	for _, name := range names {
		p.writeAll(b, l, fmt.Sprintf("| %s | %d |", name, len(lines[name])), lines[name])
	}
	p.writeAll(b, l, fmt.Sprintf("| **%s** | %d |", l.last, len(list)), list)
}

func (p *Problem) writeHead(b *strings.Builder, words, rule string) {
	b.WriteString(words)
	for _, m := range p.Methods {
		fmt.Fprintf(b, " %s |", m.Label)
	}
	b.WriteString("\n" + rule + strings.Repeat("--:|", len(p.Methods)) + "\n")
}

// writeAll writes what there is to say of each method over many cases, those that it
// was to do.
func (p *Problem) writeAll(b *strings.Builder, l layout, head string, list [][]entry) {
	b.WriteString(head)
	for k := range p.Methods {
		var mine []entry
		for _, line := range list {
			if line[k].is.asked() {
				mine = append(mine, line[k])
			}
		}
		fmt.Fprintf(b, " %s |", l.all(mine))
	}
	b.WriteByte('\n')
}

// proof says how the run in the middle ended and, where it has a bound, how that
// is known.
func (cell *Cell) proof() string {
	for _, r := range cell.Runs {
		if b, ok := Bound(r.Row); ok && r.Outcome() == cell.Outcome && b.Proof != "" {
			return fmt.Sprintf("%s, %s", cell.Outcome, b.Proof)
		}
	}
	return cell.Outcome
}

// bound is the best one that is proved; NaN: none is.
func (c *Case) bound() float64 {
	if c.Bound == nil {
		return math.NaN()
	}
	return c.Bound.Result.Bound.Value
}

// boundRun is the index of the run that proved it; -1: none did.
func (c *Case) boundRun() int {
	if c.Bound == nil {
		return -1
	}
	return c.Bound.Index
}

// write writes an objective: milliseconds, below a second with two decimals, or bytes.
func (p *Problem) write(x float64) string {
	switch {
	case plan.MinimisesMemory(p.Name):
		return written(x, "%.0f")
	case x < 1:
		return written(1e3*x, "%.2f")
	}
	return written(1e3*x, "%.1f")
}
