package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/sweep/results"
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
	rules := results.Defaults()
	return &cli.Command{
		Name:      "compare",
		Usage:     "compare two sweeps, regressions first; ends with status 1 if there are any",
		ArgsUsage: "OLD NEW",
		Description: "OLD and NEW are folders of sweeps, or files of rows. Tasks are the same up to\n" +
			"version and repetition. Status 1: a plan got worse, a bound weaker, a proof was\n" +
			"lost, a task fails that did not, or is missing, or takes longer than noise explains.",
		Flags: append([]cli.Flag{
			floatFlag("rules", "slower", &o.time, rules.Time,
				"`SHARE` by which times must grow to be a regression, with repetitions or over all tasks of a method"),
			floatFlag("rules", "alpha", &o.alpha, rules.Alpha, "`CHANCE` of seeing a change of times where there is none"),
			boolFlag("rules", "partial", &o.partial, "tasks may be missing in NEW"),
			boolFlag("output", "all", &o.all, "list every difference, not the first 50 only"),
			stringFlag("output", "html", &o.html, "", "write the report of NEW with the comparison to `FILE`.html, too"),
		}, o.flags()...),
		Action: o.action(s, 2, 2, "bench compare OLD NEW [flags]", func(c *cli.Context, a []string) error {
			if rules.Time, rules.Alpha, rules.Partial = o.time, o.alpha, o.partial; !(rules.Time > 0) || rules.Time > 100 {
				return usagef("--slower %v: a share above 0 is needed, as 0.1 for a tenth", o.time)
			}
			if !(rules.Alpha > 0 && rules.Alpha < 1) {
				return usagef("--alpha %v: a chance between 0 and 1 is needed, as 0.01", o.alpha)
			}
			return benchCompare(s, o, rules, a[0], a[1])
		}),
	}
}

func benchCompare(s streams, o *nightsOptions, rules results.Options, before, after string) error {
	old, err := readNight(before)
	if err != nil {
		return err
	}
	night, err := readNight(after)
	if err != nil {
		return err
	}
	c, err := results.Compare(old, night, rules)
	if err != nil {
		return err
	}
	if o.html != "" {
		r, err := results.NewReportAfter(night, []*results.Night{old}, rules)
		if err != nil {
			return err
		}
		if err := atomicfile.Write(o.html, s.out, r.WriteHTML); err != nil {
			return err
		}
	}
	err = o.print(s.out, "", c, func(w io.Writer) { c.WriteText(w, o.all) })
	if err == nil && c.Regressed {
		return &exitError{exitInternal}
	}
	return err
}
