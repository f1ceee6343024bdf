package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/compare"
	"workbench/bench/history"
	"workbench/bench/report/rows"
	"workbench/model/platform"
)

// mostDifferences are listed where not all are asked for.
const mostDifferences = 50

// Nights prints two sweeps against each other; all says: every difference, not the
// first [mostDifferences] only.
func Nights(w io.Writer, c *compare.Comparison, all bool) {
	for _, x := range []struct {
		word string
		side compare.Side
	}{{"old", c.Old}, {"new", c.New}} {
		fmt.Fprintf(w, "%s  %s, version %s: %s, %s, %d failed", x.word, x.side.Sweep, strings.Join(x.side.Versions, " and "), platform.Count(x.side.Rows, "row"), platform.Count(x.side.Tasks, "task"), x.side.Failed)
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
	if c.Noise != nil {
		fmt.Fprintf(w, ", noise between repetitions %.1f %%", 100**c.Noise)
	}
	fmt.Fprint(w, "\n\n")
	if c.TimesWhy != "" {
		fmt.Fprintf(w, "%s\n\n", c.TimesWhy)
	}
	header := table.Row{"problem", "method", "tasks", "objective", "p", "bound", "p", "time", "p", "PAR-10"}
	if c.Spreads() {
		header = append(header, "spread")
	}
	t := Table(w, append(header, "verdict"), 3, 4, 5, 6, 7, 8, 9, 10)
	for i := range c.Groups {
		g := &c.Groups[i]
		row := table.Row{
			g.Problem, g.Method, g.Tasks, meanRatio(g.Objective), pValue(g.Objective.Adjusted),
			meanRatio(g.Bound), pValue(g.Bound.Adjusted), meanRatio(g.Time), pValue(g.Time.Adjusted), seconds(g.NewPAR),
		}
		if c.Spreads() {
			row = append(row, fmt.Sprintf("%s → %s", g.OldSpread, g.NewSpread))
		}
		t.AppendRow(append(row, groupVerdict(g)))
	}
	t.Render()
	if c.Spreads() {
		fmt.Fprintln(w, "spread: longest over shortest time of a case over seeds and repetitions, of the median case (the worst)")
	}
	fmt.Fprintln(w, "new / old, geometric means; p of Wilcoxon's signed-rank test, after Holm's correction; PAR-10 of the new")
	fmt.Fprintln(w, c.Options.TimesRule())
	printFindings(w, c, all)
	verdict := "no regression"
	if c.Regressed {
		verdict = "REGRESSION"
	}
	names, counts := c.Counts()
	for i, k := range names {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		verdict += fmt.Sprintf("%s%d %s", sep, counts[i], k)
	}
	fmt.Fprintln(w, verdict)
}

func printFindings(w io.Writer, c *compare.Comparison, all bool) {
	fmt.Fprintln(w)
	if len(c.Findings) == 0 {
		return
	}
	shown := c.Findings
	if !all {
		shown = shown[:min(len(shown), mostDifferences)]
	}
	t := Table(w, table.Row{"what", "problem", "method", "instance", "memory", "change", "p", "detail"}, 6, 7)
	for i := range shown {
		f := &shown[i]
		change := ""
		if f.Change != nil {
			change = fmt.Sprintf("%+.3g %%", 100**f.Change)
		}
		t.AppendRow(table.Row{f.Kind, f.Task.Problem, f.Task.Method, f.Name, rows.Limits(&f.Task), change, pValue(f.P), Wrap(OneLine(f.Detail), 60)})
	}
	t.Render()
	if n := len(c.Findings) - len(shown); n > 0 {
		fmt.Fprintf(w, "… and %d more: --all lists them\n", n)
	}
	for i := range shown {
		if f := &shown[i]; f.Regression {
			fmt.Fprintf(w, "\nthe first again:\n  %s\n", rows.Command(&f.Task))
			break
		}
	}
	fmt.Fprintln(w)
}

func meanRatio(r compare.Ratio) string {
	if r.Mean == nil {
		return "-"
	}
	return fmt.Sprintf("×%.4f", *r.Mean)
}

func seconds(x *float64) string {
	if x == nil {
		return "-"
	}
	return platform.FormatSeconds(*x)
}

func pValue(p *float64) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%.2g", *p)
}

// groupVerdict says what of a method changed over all tasks.
func groupVerdict(g *compare.Group) string {
	var words []string
	for _, x := range []struct {
		name string
		r    compare.Ratio
	}{{"plans", g.Objective}, {"bounds", g.Bound}, {"times", g.Time}} {
		if x.r.Verdict != "" {
			words = append(words, x.name+" "+x.r.Verdict)
		}
	}
	return strings.Join(words, ", ")
}

// History prints many sweeps side by side; all as for [Nights].
func History(w io.Writer, h *history.History, all bool) {
	t := Table(w, table.Row{"night", "begun", "folder", "version", "rows", "proved", "without a result"}, 1, 5, 6, 7)
	for k, n := range h.Nights {
		t.AppendRow(table.Row{k, n.Started.UTC().Format("2006-01-02 15:04"), n.Folder, listed(n.Versions), n.Rows, n.Proved, n.Failed})
	}
	t.Render()
	fmt.Fprintln(w)
	shown := h.Changes
	if !all {
		shown = shown[:min(len(shown), mostDifferences)]
	}
	if len(shown) > 0 {
		t = Table(w, table.Row{"what", "stands", "since", "problem", "method", "instance", "limits", "detail"})
		for i := range shown {
			c := &shown[i]
			state := "over"
			if c.Stands {
				state = "stands"
			}
			t.AppendRow(table.Row{
				c.Kind, state, fmt.Sprintf("night %d, %s", c.Night, listed(h.Nights[c.Night].Versions)),
				c.Task.Problem, c.Task.Method, c.Name, rows.Limits(&c.Task), Wrap(OneLine(c.Detail), 60),
			})
		}
		t.Render()
	}
	if n := len(h.Changes) - len(shown); n > 0 {
		fmt.Fprintf(w, "… and %d more: --all lists them\n", n)
	}
	if i := slices.IndexFunc(h.Changes, func(c history.Change) bool { return c.Stands && c.Regression }); i >= 0 {
		fmt.Fprintf(w, "standing: %s; the first again:\n  %s\n", platform.Count(h.Standing(), "regression"), rows.Command(&h.Changes[i].Task))
		return
	}
	fmt.Fprintln(w, "no regression stands")
}

// listed writes versions for a table.
func listed(versions []string) string {
	if len(versions) == 0 || versions[0] == "" {
		return "unknown"
	}
	s := versions[0]
	for _, v := range versions[1:] {
		s += " and " + v
	}
	return s
}
