package results

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/render"
	"workbench/model/platform"
)

// mostDifferences are listed where not all are asked for.
const mostDifferences = 50

// WriteText prints two sweeps against each other; the last line is the verdict. all says: every
// difference, not the first [mostDifferences] only.
func (c *Comparison) WriteText(w io.Writer, all bool) {
	for _, x := range []struct {
		word string
		side Side
	}{{"old", c.Old}, {"new", c.New}} {
		fmt.Fprintf(w, "%s  %s, version %s: %s, %s, %d failed", x.word, x.side.Sweep, listed(x.side.Versions),
			platform.Count(x.side.Rows, "row"), platform.Count(x.side.Tasks, "task"), x.side.Failed)
		if x.side.Damaged > 0 {
			fmt.Fprintf(w, ", %s damaged", platform.Count(x.side.Damaged, "line"))
		}
		if x.side.Damage != "" {
			fmt.Fprintf(w, ": %s", x.side.Damage)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s in both", platform.Count(c.Matched, "task"))
	if c.Drift != nil {
		fmt.Fprintf(w, "; all times together ×%.3f", *c.Drift)
	}
	fmt.Fprint(w, "\n\n")
	if c.TimesWhy != "" {
		fmt.Fprintf(w, "%s\n\n", c.TimesWhy)
	}
	t := render.Table(w, table.Row{"problem", "method", "tasks", "objective", "p", "bound", "p", "time", "p", "verdict"}, 3, 4, 5, 6, 7, 8, 9)
	for i := range c.Groups {
		g := &c.Groups[i]
		t.AppendRow(table.Row{
			g.Problem, g.Method, g.Tasks, meanRatio(g.Objective), pValue(g.Objective.P),
			meanRatio(g.Bound), pValue(g.Bound.P), meanRatio(g.Time), pValue(g.Time.P), g.verdict(),
		})
	}
	t.Render()
	fmt.Fprintln(w, "new / old, geometric means; p of the median change over the tasks, after Holm's correction; ~: cannot be told")
	fmt.Fprintln(w, c.Options.TimesRule())
	c.writeFindings(w, all)
	fmt.Fprintln(w, c.Verdict())
}

func (c *Comparison) writeFindings(w io.Writer, all bool) {
	fmt.Fprintln(w)
	if len(c.Findings) == 0 {
		return
	}
	shown := c.Findings
	if !all {
		shown = shown[:min(len(shown), mostDifferences)]
	}
	t := render.Table(w, table.Row{"what", "problem", "method", "instance", "memory", "change", "p", "detail"}, 6, 7)
	for i := range shown {
		f := &shown[i]
		t.AppendRow(append(f.columns(), change(f.Change), pValue(f.P), render.Wrap(render.OneLine(f.Detail), 60)))
	}
	t.Render()
	if n := len(c.Findings) - len(shown); n > 0 {
		fmt.Fprintf(w, "… and %d more: --all lists them\n", n)
	}
	if f := &shown[0]; f.Regression {
		fmt.Fprintf(w, "\nthe first again:\n  %s\n", Command(&f.Task))
	}
	fmt.Fprintln(w)
}

// columns say what a finding is and about which task.
func (f *Finding) columns() table.Row {
	if f.Name == "" {
		return table.Row{f.Kind, f.Task.Problem, f.Method, "", ""}
	}
	if f.Kind == OtherInstance {
		return table.Row{f.Kind, "", "", f.Name, ""}
	}
	return table.Row{f.Kind, f.Task.Problem, f.Method, f.Name, Limits(&f.Task)}
}

func meanRatio(r Ratio) string {
	if r.Mean == nil {
		return "-"
	}
	return fmt.Sprintf("×%.4f", *r.Mean)
}

// verdict says what of a method changed over all tasks.
func (g *Group) verdict() string {
	var parts []string
	for _, x := range []struct {
		name string
		r    Ratio
	}{{"plans", g.Objective}, {"bounds", g.Bound}, {"times", g.Time}} {
		if x.r.Verdict != "" {
			parts = append(parts, x.name+" "+x.r.Verdict)
		}
	}
	return strings.Join(parts, ", ")
}

// WriteText prints many sweeps side by side; the last line is the verdict. all as for comparisons.
func (h *History) WriteText(w io.Writer, all bool) {
	t := render.Table(w, table.Row{"night", "begun", "folder", "version", "rows", "proved", "without a result"}, 1, 5, 6, 7)
	for k, n := range h.Nights {
		t.AppendRow(table.Row{k, n.Started.UTC().Format("2006-01-02 15:04"), n.Folder, listed(n.Versions), n.Rows, n.Proved, n.Failed})
	}
	t.Render()
	fmt.Fprintln(w)
	for _, s := range h.Steps {
		fmt.Fprintf(w, "%s: %s\n", state(s.Stands), s)
	}
	shown := h.Changes
	if !all {
		shown = shown[:min(len(shown), mostDifferences)]
	}
	if len(shown) > 0 {
		t = render.Table(w, table.Row{"what", "problem", "method", "instance", "limits", "stands", "since", "detail"})
		for i := range shown {
			c := &shown[i]
			t.AppendRow(append(c.columns(), state(c.Stands), fmt.Sprintf("night %d, %s", c.Night, c.Versions),
				render.Wrap(render.OneLine(c.Detail), 60)))
		}
		t.Render()
	}
	if n := len(h.Changes) - len(shown); n > 0 {
		fmt.Fprintf(w, "… and %d more: --all lists them\n", n)
	}
	if changes, _ := h.standing(); len(changes) > 0 {
		fmt.Fprintf(w, "the first again:\n  %s\n", Command(&changes[0].Task))
	}
	fmt.Fprintln(w, h.Verdict())
}

func state(stands bool) string {
	if stands {
		return "stands"
	}
	return "over"
}

// listed writes versions for people.
func listed(versions []string) string {
	if len(versions) == 0 || versions[0] == "" {
		return "unknown"
	}
	return strings.Join(versions, " and ")
}
