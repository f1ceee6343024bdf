package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"workbench/bench/catalog"
	"workbench/bench/live"
	"workbench/bench/run"
	"workbench/bench/words"
)

func newCompare(s streams) *cli.Command {
	o := &solveOptions{}
	flags := append(o.instanceFlags(), o.limitFlags()...)
	flags = append(flags, &cli.StringFlag{Name: "methods", Usage: "`LIST` of methods separated by commas, or all", Value: "all", Destination: &o.methods, Category: "solver"})
	return &cli.Command{
		Name:      "compare",
		Usage:     "every method on one instance, all plans verified, one bound",
		ArgsUsage: "INSTANCE",
		Flags:     append(flags, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 0, 1, "compare INSTANCE [flags]")
			if err != nil {
				return err
			}
			log, err := o.check(s)
			if err != nil {
				return err
			}
			j, err := o.job(c.Context, s, log, first(a))
			if err != nil {
				return err
			}
			methods, err := chosen(j, o.methods)
			if err != nil {
				return err
			}
			results := compare(c.Context, s, o, j, methods)
			best, conditional := run.JudgeTogether(results)
			if o.json() {
				if err := writeJSON(s.out, results); err != nil {
					return err
				}
			} else {
				printComparison(s, j, results, best, conditional)
				interrupted(c.Context, s.out, methods, len(results))
			}
			return comparisonError(results)
		},
	}
}

// chosen returns the methods a list names; all are those for the instance.
func chosen(j *job, list string) ([]*run.Method, error) {
	if list == "all" {
		return catalog.MethodsFor(j.problem, j.in), nil
	}
	var out []*run.Method
	for _, name := range strings.Split(list, ",") {
		m, err := catalog.FindMethod(j.problem, strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// compare runs the methods one after the other.
func compare(ctx context.Context, s streams, o *solveOptions, j *job, methods []*run.Method) []*run.Result {
	var results []*run.Result
	for _, m := range methods {
		setting := j.setting
		var line *live.Solve
		if !o.quiet {
			line = live.NewSolve(s.err, j.problem)
			setting.OnProgress = line.Live
		}
		r := run.Run(ctx, j.problem, m, j.in, setting)
		line.Done()
		results = append(results, r)
		if ctx.Err() != nil {
			break
		}
	}
	return results
}

func printComparison(s streams, j *job, results []*run.Result, best, conditional *run.Bound) {
	fmt.Fprintf(s.out, "%s of %s: %s, memory %s%s\n\n", j.problem.Name, j.in.Name, j.in.Size(), memoryLine(j), j.link())
	word := j.problem.Word
	t := words.Table(s.out, table.Row{"method", "kind", word, "gap", "peak memory", "own bound", "proof", "time", "status"}, 3, 4, 5, 6, 8)
	for _, r := range results {
		row := table.Row{r.Method, r.Kind, "-", "-", "-", "-", "-", fmt.Sprintf("%.3f s", r.WallTime), r.Status}
		if r.Objective != nil {
			row[2], row[4] = j.problem.Write(*r.Objective), j.memory(*r.PeakMemory)
		}
		if r.Gap != nil {
			row[3] = words.Percent(*r.Gap)
		}
		if r.OwnBound != nil {
			row[5], row[6] = j.problem.Write(r.OwnBound.Value), r.OwnBound.Proof
		}
		t.AppendRow(row)
	}
	t.Render()
	if best != nil {
		fmt.Fprintf(s.out, "\nbound %s, %s", j.problem.Write(best.Value), words.ProvedBy(best))
		separator := "; "
		if b := conditional; b != nil {
			fmt.Fprintf(s.out, "\nbound %s", words.Conditional(j.problem, b))
			separator = "\n"
		}
		fmt.Fprintf(s.out, "%sgap = (%s − bound) / %s; every plan was verified by replay\n", separator, word, word)
	}
	for _, r := range results {
		for _, x := range r.Claims {
			fmt.Fprintf(s.out, "%s: %s\n", r.Method, words.Claim(j.problem, x))
		}
	}
	for _, r := range results {
		if r.Err != nil {
			fmt.Fprintf(s.out, "%s: %s\n", r.Method, words.OneLine(r.Error))
		}
	}
}

// comparisonError is nil if any method has a plan; else the error of the
// first, so that the exit status says why there is none. A plan that fails
// verification (unless the method is known for it, as printed ones are), a bound that a plan beats or a solver that fails is never
// passed over; a method that is not made for the instance is.
func comparisonError(results []*run.Result) error {
	var firstErr error
	planned := false
	for _, r := range results {
		if r.Status == run.Failed && !errors.Is(r.Err, run.ErrInput) && !r.Unverified {
			return r.Err
		}
		planned = planned || r.Objective != nil
		if firstErr == nil {
			firstErr = r.Err
		}
	}
	if planned {
		return nil
	}
	return firstErr
}
