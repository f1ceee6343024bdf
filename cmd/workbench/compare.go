package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/progress"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
)

func newCompare(s streams) *cli.Command {
	o := &solveOptions{}
	flags := append(o.instanceFlags(), o.limitFlags()...)
	flags = append(flags, stringFlag("solver", "methods, method", &o.methods, "all", "`LIST` of methods separated by commas, or all"))
	return &cli.Command{
		Name:      "compare",
		Usage:     "run every method on one instance; all plans are verified and share one bound",
		ArgsUsage: "INSTANCE",
		Flags:     append(flags, o.flags()...),
		Action: o.action(s, 0, 1, "compare INSTANCE [flags]", func(c *cli.Context, a []string) error {
			j, err := o.job(c, s, first(a))
			if err != nil {
				return err
			}
			methods, err := chosen(j, o.methods)
			if err != nil {
				return err
			}
			results := compare(c.Context, s, o, j, methods)
			best, conditional := solve.JudgeTogether(results)
			err = o.print(s.out, "", results, func(w io.Writer) {
				render.Comparison(w, &j.Case, results, best, conditional)
				interrupted(c.Context, w, methods, len(results))
			})
			return cmp.Or(err, comparisonError(results))
		}),
	}
}

// chosen returns the methods a list names; all are those for the instance.
func chosen(j *job, list string) ([]*solve.Method, error) {
	if list == "all" {
		return catalog.MethodsFor(j.Problem, j.Instance), nil
	}
	var out []*solve.Method
	for _, name := range strings.Split(list, ",") {
		m, err := catalog.FindMethod(j.Problem, strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// compare runs the methods one after the other.
func compare(ctx context.Context, s streams, o *solveOptions, j *job, methods []*solve.Method) []*solve.Result {
	var results []*solve.Result
	for _, m := range methods {
		setting := j.Setting
		var line *progress.Solve
		if !o.quiet {
			line = progress.NewSolve(s.err, j.Problem, j.Setting.Time)
			setting.OnProgress = line.Live
		}
		r := solve.Run(ctx, j.Problem, m, j.Instance, setting)
		line.Done()
		results = append(results, r)
		if ctx.Err() != nil {
			break
		}
	}
	return results
}

// comparisonError is nil if any method has a plan; else the error of the
// first, so that the exit status says why there is none. A plan that fails
// verification (unless the method is known for it, as printed ones are), a bound that a plan beats or a solver that fails is never
// passed over; a method that is not made for the instance is.
func comparisonError(results []*solve.Result) error {
	var firstErr error
	planned := false
	for _, r := range results {
		if r.Status == solve.Failed && !errors.Is(r.Err, solve.ErrInput) && !r.Unverified {
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

// interrupted says of a run of several methods that was stopped what is missing;
// done of them have run, the last of them until then.
func interrupted(ctx context.Context, w io.Writer, methods []*solve.Method, done int) {
	if ctx.Err() == nil || done == 0 {
		return
	}
	fmt.Fprintf(w, "interrupted: %s has what it had by then", methods[done-1].Name)
	for i, m := range methods[done:] {
		fmt.Fprint(w, []string{"; not run: ", ", "}[min(i, 1)], m.Name)
	}
	fmt.Fprintln(w)
}
