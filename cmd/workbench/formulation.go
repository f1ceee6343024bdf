package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/formulate"
	"workbench/ilp"
	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/model/nearest"
	"workbench/model/platform"
	"workbench/solvers"
)

func newFormulation(s streams) *cli.Command {
	return &cli.Command{
		Name:  "formulation",
		Usage: "the MILPs, for researchers: list, show, stats, solve, certify, diff, check, explain, export; or the model of an MPS or LP file",
		Subcommands: []*cli.Command{
			newFormulationList(s), newFormulationShow(s), newFormulationStats(s), newFormulationSolve(s), newFormulationCertify(s),
			newFormulationDiff(s), newFormulationCheck(s), newFormulationExplain(s), newFormulationExport(s),
		},
	}
}

// findFormulation returns the formulation of that name.
func findFormulation(name string) (formulation.Formulation, error) {
	var names []string
	for _, f := range ilp.Formulations() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return formulation.Formulation{}, usagef("unknown formulation %q: %s", name, nearest.Hint(name, names))
}

func newFormulationList(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:  "list",
		Usage: "list the formulations",
		Flags: o.flags(),
		Action: o.action(s, 0, 0, "formulation list", func(c *cli.Context, _ []string) error {
			entries := formulate.Entries(ilp.Formulations())
			return o.print(s.out, "", entries, func(w io.Writer) { formulate.PrintEntries(w, entries) })
		}),
	}
}

// formulationOptions are the flags of the subcommands that build a model.
type formulationOptions struct {
	solveOptions
	without string
}

func (o *formulationOptions) flags() []cli.Flag {
	flags := append(o.instanceFlags()[1:], stringFlag("instance", "without", &o.without, "",
		"leave out the `GROUPS` named, separated by commas"))
	return append(flags, o.common.flags()...)
}

// tiny is the instance of formulation show.
func tiny(f formulation.Formulation) string {
	p, err := catalog.FindProblem(f.Problem)
	if err != nil {
		return "" // as if none were named
	}
	return p.Tiny[f.Kind]
}

// build builds the formulation and instance the arguments name.
func (o *formulationOptions) build(c *cli.Context, s streams,
	otherwise func(formulation.Formulation) string,
) (formulation.Formulation, *job, *formulation.Program, error) {
	a, err := args(c, 1, 2, "formulation "+c.Command.Name+" NAME [INSTANCE] [flags]")
	if err != nil {
		return formulation.Formulation{}, nil, nil, err
	}
	f, err := findFormulation(a[0])
	if err != nil {
		return f, nil, nil, err
	}
	if err := o.check(s); err != nil {
		return f, nil, nil, err
	}
	spec := ""
	switch {
	case len(a) == 2:
		spec = a[1]
	case otherwise != nil:
		if spec = otherwise(f); strings.HasPrefix(spec, "{") {
			s.in, spec = strings.NewReader(spec), "-"
			if o.memory == "" {
				o.memory = platform.RangeWord + "0%" // the least, which keeps the coefficients round
			}
			if !c.IsSet("processors") {
				o.processors = 2 // as many as a tiny pipeline needs
			}
		}
	}
	o.problem, o.slots = f.Problem, noSlots
	o.backend, o.timeLimit, o.threads = cmp.Or(o.backend, "highs"), cmp.Or(o.timeLimit, "60s"), cmp.Or(o.threads, 1)
	j, err := o.job(c, s, spec)
	if err != nil {
		return f, nil, nil, err
	}
	program, err := formulate.Build(j.Problem, f, j.Instance, j.Setting.Platform, o.without)
	return f, j, program, err
}

func newFormulationShow(s streams) *cli.Command {
	o := &formulationOptions{}
	return &cli.Command{
		Name:      "show",
		Usage:     "print every constraint of a formulation with its group and equation number, on a small instance",
		ArgsUsage: "NAME [INSTANCE]",
		Flags:     o.flags(),
		Action: func(c *cli.Context) error {
			f, j, program, err := o.build(c, s, tiny)
			if err != nil {
				return err
			}
			if o.json() {
				return writeJSON(s.out, formulate.ModelOf(f.Name, j.Instance.Name, program.Model))
			}
			fmt.Fprintf(s.out, "%s: %s (%s), on %s\n\n", f.Name, f.Title, f.Source, j.Instance.Name)
			return program.Model.Print(s.out)
		},
	}
}

func newFormulationStats(s streams) *cli.Command {
	o := &formulationOptions{}
	return &cli.Command{
		Name:      "stats",
		Usage:     "print size and coefficients of a formulation by constraint group, on an instance, or of a model's file",
		ArgsUsage: "NAME [INSTANCE] | MODEL.mps",
		Flags:     o.flags(),
		Action: o.ofFile(s, func(ctx context.Context, a []string) error { return o.statsOfFile(ctx, s, a[0]) }, func(c *cli.Context) error {
			_, j, program, err := o.build(c, s, nil)
			if err != nil {
				return err
			}
			stats, err := formulate.StatsOf(c.Context, j.Setting.Backend, program.Model)
			if err != nil {
				return err
			}
			return o.print(s.out, formulate.StatsFormat, stats, func(w io.Writer) {
				fmt.Fprintf(w, "on %s, memory %s\n", j.Instance.Name, j.Limit())
				stats.Text(w)
			})
		}),
	}
}

func newFormulationCheck(s streams) *cli.Command {
	o := &common{}
	var options check.Options
	var named string
	var seed int
	var timeLimit, without string
	return &cli.Command{
		Name: "check",
		Usage: "compare a formulation with exhaustive search on random small instances, on every backend, and print the smallest " +
			"counterexample",
		ArgsUsage: "NAME",
		Flags: append([]cli.Flag{
			intFlag("check", "cases", &options.Cases, check.DefaultCases,
				"`N` random instances and no more; else they grow by a layer each 200 until the time limit"),
			intFlag("check", "layers", &options.Layers, 0,
				"instances of up to `N` layers, or nodes of graphs (default: as many as are searched in a moment, 3 to 6)"),
			intFlag("check", "seed", &seed, 0, "`N` seeds the instances"),
			stringFlag("check", "without", &without, "", "leave out the `GROUPS` named, separated by commas: does the promise need them?"),
			stringFlag("check", "time-limit", &timeLimit, "1m", "end after `DURATION` with the instances until then, as 5m"),
			stringFlag("check", "backend", &named, "all", "`LIST` of backends separated by commas, or all that are installed"),
		}, o.flags()...),
		Action: o.action(s, 1, 1, "formulation check NAME [--cases N] [--seed N]", func(c *cli.Context, a []string) error {
			f, err := findFormulation(a[0])
			if err != nil {
				return err
			}
			switch {
			case options.Cases < 1:
				return usagef("--cases %d: at least 1 is needed", options.Cases)
			case c.IsSet("layers") && options.Layers < 1:
				return usagef("--layers %d: at least 1 is needed", options.Layers)
			case seed < 0:
				return usagef("--seed %d: 0 or more is needed", seed)
			}
			options.Seed = uint64(seed)
			options.Grow = !c.IsSet("cases") && !c.IsSet("layers")
			if without != "" {
				options.Without = strings.Split(without, ",")
			}
			list, err := checkBackends(named)
			if err != nil {
				return err
			}
			problem, err := catalog.FindProblem(f.Problem)
			if err != nil {
				return err
			}
			options.Known = formulate.KnownPlans(problem)
			limit, err := platform.ParseTimeLimit(timeLimit)
			if err != nil {
				return usagef("--time-limit: %v", err)
			}
			if limit == 0 {
				options.Grow = false
			}
			ctx := c.Context
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			report, err := check.Run(ctx, f, problem.SubjectOf(f), list, options)
			if err != nil {
				return solve.InputError(err)
			}
			found := formulate.CheckOf(report, options.Without)
			if err := o.print(s.out, "", found, found.Text); err != nil {
				return err
			}
			if len(report.Failures) > 0 && f.Promise != formulation.Nothing {
				return &exitError{exitInternal}
			}
			return nil
		}),
	}
}

// checkBackends returns the backends of a list, in this process: a check
// solves thousands of models of a millisecond.
func checkBackends(list string) (out []solvers.Backend, err error) {
	if list != "all" {
		for _, name := range strings.Split(list, ",") {
			b, err := backends.New(strings.TrimSpace(name), false)
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
		return out, nil
	}
	for _, b := range backends.All() {
		if b.Available() == nil {
			out = append(out, solvers.New(b.Engine))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: none of %s is installed; run workbench doctor", solvers.ErrMissing, strings.Join(backends.Names(), ", "))
	}
	return out, nil
}

func newFormulationExplain(s streams) *cli.Command {
	o := &formulationOptions{}
	var probe time.Duration = 10 * time.Second
	return &cli.Command{
		Name:      "explain",
		Usage:     "explain why a formulation is infeasible on an instance: which constraint groups and rows conflict, and by how much",
		ArgsUsage: "NAME [INSTANCE] | MODEL.mps",
		Flags: append([]cli.Flag{
			stringFlag("solver", "backend", &o.backend, "highs", "MILP `BACKEND`"),
		}, o.flags()...),
		Action: o.ofFile(s, func(ctx context.Context, a []string) error { return o.explainFile(ctx, s, a[0], probe) },
			func(c *cli.Context) error {
				_, j, program, err := o.build(c, s, nil)
				if err != nil {
					return err
				}
				return explain(c.Context, s, o, j.Setting.Backend, program, probe)
			}),
	}
}

func explain(ctx context.Context, s streams, o *formulationOptions, b solvers.Backend, program *formulation.Program,
	probe time.Duration,
) error {
	e, err := solvers.Explain(ctx, b, program.Model, solvers.Options{Time: probe})
	if err != nil {
		return err
	}
	if o.json() {
		return writeJSON(s.out, formulate.ExplanationOf(program.Model, e))
	}
	_, err = fmt.Fprint(s.out, e.Text(program.Model))
	return err
}
