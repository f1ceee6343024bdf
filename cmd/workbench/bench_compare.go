package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	nights "workbench/bench/compare"
	"workbench/bench/outfile"
	pages "workbench/bench/report"
	"workbench/bench/report/rows"
	"workbench/bench/words"
	"workbench/model/platform"
)

// nightsOptions are the flags of bench compare.
type nightsOptions struct {
	common
	html        string
	all         bool
	time, alpha float64
	partial     bool
}

func newBenchCompare(s streams) *cli.Command {
	o := &nightsOptions{}
	rules := nights.Defaults()
	return &cli.Command{
		Name:      "compare",
		Usage:     "two sweeps against each other, regressions first; ends with status 1 if there are any",
		ArgsUsage: "OLD NEW",
		Description: "OLD and NEW are folders of sweeps, or files of rows. Tasks are the same up to\n" +
			"version and repetition. Status 1: a plan got worse, a bound weaker, a proof was\n" +
			"lost, a task fails that did not, or is missing, or takes longer than noise explains.",
		Flags: append([]cli.Flag{
			&cli.Float64Flag{Name: "slower", Usage: "`SHARE` by which times must grow to be a regression, with repetitions or over all tasks of a method", Value: rules.Time, Destination: &o.time, Category: "rules"},
			&cli.Float64Flag{Name: "alpha", Usage: "`CHANCE` of seeing a change of times where there is none", Value: rules.Alpha, Destination: &o.alpha, Category: "rules"},
			&cli.BoolFlag{Name: "partial", Usage: "tasks may be missing in NEW", Destination: &o.partial, Category: "rules"},
			&cli.BoolFlag{Name: "all", Usage: "list every difference, not the first 50 only", Destination: &o.all, Category: "output"},
			&cli.StringFlag{Name: "html", Usage: "write the report of NEW with the comparison to `FILE`.html, too", Destination: &o.html, Category: "output"},
		}, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 2, 2, "bench compare OLD NEW [flags]")
			if err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			if rules.Time, rules.Alpha, rules.Partial = o.time, o.alpha, o.partial; !(rules.Time > 0) || rules.Time > 100 {
				return usagef("--slower %v: a share above 0 is needed, as 0.1 for a tenth", o.time)
			}
			if !(rules.Alpha > 0 && rules.Alpha < 1) {
				return usagef("--alpha %v: a chance between 0 and 1 is needed, as 0.01", o.alpha)
			}
			return benchCompare(s, o, rules, a[0], a[1])
		},
	}
}

func benchCompare(s streams, o *nightsOptions, rules nights.Options, before, after string) error {
	old, err := readNight(before)
	if err != nil {
		return err
	}
	night, err := readNight(after)
	if err != nil {
		return err
	}
	c, err := nights.Nights(old, night, rules)
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := outfile.Write(o.html, s.out, pages.New(night, c).WriteHTML); err != nil {
			return err
		}
	}
	if o.json() {
		err = writeJSON(s.out, c)
	} else {
		printNights(s.out, c, o.all)
	}
	if err == nil && c.Regressed {
		return &exitError{exitInternal}
	}
	return err
}

// mostDifferences are listed where not all are asked for.
const mostDifferences = 50

func printNights(w io.Writer, c *nights.Comparison, all bool) {
	for _, x := range []struct {
		word string
		side nights.Side
	}{{"old", c.Old}, {"new", c.New}} {
		fmt.Fprintf(w, "%s  %s, version %s: %d rows, %d tasks, %d failed", x.word, x.side.Sweep, strings.Join(x.side.Versions, " and "), x.side.Rows, x.side.Tasks, x.side.Failed)
		if x.side.Damaged > 0 {
			fmt.Fprintf(w, ", %d damaged lines", x.side.Damaged)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%d tasks in both", c.Matched)
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
	t := words.Table(w, table.Row{"problem", "method", "tasks", "objective", "p", "bound", "p", "time", "p", "PAR-10", "verdict"}, 3, 4, 5, 6, 7, 8, 9, 10)
	for i := range c.Groups {
		g := &c.Groups[i]
		t.AppendRow(table.Row{
			g.Problem, g.Method, g.Tasks, meanRatio(g.Objective), pValue(g.Objective.Adjusted),
			meanRatio(g.Bound), pValue(g.Bound.Adjusted), meanRatio(g.Time), pValue(g.Time.Adjusted), seconds(g.NewPAR), groupVerdict(g),
		})
	}
	t.Render()
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

func printFindings(w io.Writer, c *nights.Comparison, all bool) {
	fmt.Fprintln(w)
	if len(c.Findings) == 0 {
		return
	}
	shown := c.Findings
	if !all {
		shown = shown[:min(len(shown), mostDifferences)]
	}
	t := words.Table(w, table.Row{"what", "problem", "method", "instance", "memory", "change", "p", "detail"}, 6, 7)
	for i := range shown {
		f := &shown[i]
		change := ""
		if f.Change != nil {
			change = fmt.Sprintf("%+.3g %%", 100**f.Change)
		}
		t.AppendRow(table.Row{f.Kind, f.Task.Problem, f.Task.Method, f.Name, rows.Limits(&f.Task), change, pValue(f.P), words.Wrap(words.OneLine(f.Detail), 60)})
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

func meanRatio(r nights.Ratio) string {
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
func groupVerdict(g *nights.Group) string {
	var words []string
	for _, x := range []struct {
		name string
		r    nights.Ratio
	}{{"plans", g.Objective}, {"bounds", g.Bound}, {"times", g.Time}} {
		if x.r.Verdict != "" {
			words = append(words, x.name+" "+x.r.Verdict)
		}
	}
	return strings.Join(words, ", ")
}
