package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/formulate"
	"workbench/ilp"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/solvers"
)

// programOptions are the flags of the subcommands that solve a program as it is.
type programOptions struct {
	formulationOptions
	raw        cli.StringSlice
	log, write string
	relax      bool
	values     bool
	solutions  bool
}

func (o *programOptions) flags() []cli.Flag {
	return append(o.formulationOptions.flags(),
		stringFlag("solver", "backend, b", &o.backend, "highs", "MILP `BACKEND`: "+strings.Join(backends.Names(), ", ")),
		stringFlag("solver", "time-limit", &o.timeLimit, "60s", "stop after `DURATION`"),
		stringFlag("solver", "gap", &o.gap, "0", "relative `GAP` at which the solver may stop, as 0.01 or 1%"),
		intFlag("solver", "threads", &o.threads, 1, "`N` threads"),
		intFlag("solver", "seed", &o.seed, 0, "`N` seeds the solver"),
		&cli.StringSliceFlag{
			Name: "option", Usage: "an option of the library's own, as mip_heuristic_effort=0.1; may be repeated: `NAME=VALUE`",
			Destination: &o.raw, Category: "solver",
		},
		stringFlag("output", "log", &o.log, "", "the solver's own log to `FILE`, - for standard error"),
	)
}

// options are those of the solver, tried on a model of one column before one is built that a
// memory may be too small for; done closes the log.
func (o *programOptions) options(ctx context.Context, s streams, j *job) (options solvers.Options, done func() error, err error) {
	options = solvers.Options{
		Time: j.Setting.Time, RelGap: solvers.Some(j.Setting.Gap), Threads: solvers.Some(o.threads),
		Relax: o.relax, Raw: map[string]string{},
	}
	if o.seed > 0 {
		options.Seed = solvers.Some(o.seed)
	}
	for _, word := range o.raw.Value() {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			return options, nil, usagef("--option %s: write NAME=VALUE", word)
		}
		options.Raw[name] = value
	}
	m := milp.New("options")
	m.Group("row", "any").AtMost(new(milp.Expr).Add(1, m.Var("x", milp.Binary, 0, 1)), 1)
	if _, err := j.Setting.Backend.Solve(ctx, m, options); errors.Is(err, solvers.ErrOption) {
		return options, nil, err
	}
	options.Log, done, err = atomicfile.Later(o.log, s.err)
	return options, done, err
}

func newFormulationSolve(s streams) *cli.Command {
	o := &programOptions{}
	return &cli.Command{
		Name: "solve",
		Usage: "solve one formulation unchanged, without heuristics, a start or certificates, or the model of a file, with a certified " +
			"bound of its root",
		ArgsUsage: "NAME [INSTANCE] | MODEL.mps",
		Flags: append(
			o.flags(),
			boolFlag("solver", "relax", &o.relax, "the LP relaxation"),
			boolFlag("output", "values", &o.values,
				"with --format json: columns, and of a relaxation duals and reduced costs, that are not zero"),
			boolFlag("output", "solutions", &o.solutions,
				"the solutions that the solver finds on its way, each better than the one before, and the plans they make"),
			stringFlag("output", "write", &o.write, "", "write the model to `FILE`.mps or .lp, too"),
		),
		Action: o.ofFile(s, func(ctx context.Context, a []string) error { return o.solveFile(ctx, s, a[0], true, "") },
			func(c *cli.Context) error {
				f, j, program, unbuilt := o.build(c, s, tiny)
				if j == nil {
					return unbuilt
				}
				options, done, err := o.options(c.Context, s, j)
				if err := cmp.Or(err, unbuilt); err != nil {
					return err
				}
				if o.write != "" {
					write := modelFormats[modelFormat(o.write)]
					if write == nil {
						return usagef("--write %s: a name that ends in .mps or .lp is needed", o.write)
					}
					if err := atomicfile.Write(o.write, s.out, func(w io.Writer) error {
						comment := map[string]string{".mps": "*", ".lp": "\\"}[modelFormat(o.write)]
						// The model's writer reports a failed write.
						fmt.Fprintf(w, "%s an objective of 1 is %g %s\n", comment, program.Objective(1)-program.Objective(0), j.Problem.Unit())
						return write(program.Model, w)
					}); err != nil {
						return err
					}
				}
				r, err := formulate.Solve(c.Context, j.Setting.Backend, f, j.Instance, program, options,
					formulate.Wants{Values: o.values, Solutions: o.solutions})
				if err != nil {
					return err
				}
				if err := done(); err != nil {
					return err
				}
				r.Unit = j.Problem.Unit()
				return o.print(s.out, "", r, r.Text)
			}),
	}
}

func newFormulationDiff(s streams) *cli.Command {
	o := &programOptions{}
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare two formulations of one instance: rows and columns by group, relaxations, bounds, nodes, times",
		ArgsUsage: "A B INSTANCE | A.mps B.mps",
		Description: "With --without GROUPS the second is built without these groups; A and B may be the\n" +
			"same formulation then.",
		Flags: o.flags(),
		Action: o.ofFile(s, func(ctx context.Context, a []string) error { return o.diffFiles(ctx, s, a) },
			o.action(s, 3, 3, "formulation diff A B INSTANCE [flags]", func(c *cli.Context, a []string) (err error) {
				var both [2]formulate.Built
				for k, name := range a[:2] {
					if both[k].Formulation, err = findFormulation(name); err != nil {
						return err
					}
				}
				if p, q := both[0].Formulation.Problem, both[1].Formulation.Problem; p != q {
					return usagef("%s is about %s and %s about %s: there is nothing to compare", a[0], p, a[1], q)
				}
				o.problem, o.slots = both[0].Formulation.Problem, noSlots
				j, err := o.job(c, s, a[2])
				if err != nil {
					return err
				}
				options, done, err := o.options(c.Context, s, j)
				if err != nil {
					return err
				}
				for k, without := range []string{o.without, ""} { // first that of which groups may be unknown
					if both[1-k].Program, err = formulate.Build(j.Problem, both[1-k].Formulation, j.Instance, j.Setting.Platform, without); err != nil {
						return fmt.Errorf("%s: %w", a[1-k], err)
					}
				}
				if !o.quiet {
					fmt.Fprintf(s.err, "solving four times, up to %s each\n", platform.FormatSeconds(max(j.Setting.Time, time.Second).Seconds()))
				}
				d, err := formulate.Compare(c.Context, j.Setting.Backend, j.Instance.Name, j.Instance, both, options)
				if err != nil {
					return err
				}
				if err := done(); err != nil {
					return err
				}
				if o.json() {
					return writeJSON(s.out, d)
				}
				return d.Text(s.out)
			})),
	}
}

func newFormulationExport(s streams) *cli.Command {
	o := &solveOptions{}
	flags := append(o.instanceFlags(), stringFlag("solver", "time-limit", &o.timeLimit, "60s",
		"look for a plan and a bound of each instance for `DURATION`"))
	return &cli.Command{
		Name:      "export",
		Usage:     "write a dated set of models of a problem for solver developers: MPS, the best plan as a start, proved bounds, README",
		ArgsUsage: "FOLDER INSTANCE…",
		Flags:     append(flags, o.flags()...),
		Action: o.action(s, 2, 1<<16, "formulation export FOLDER INSTANCE… [--problem P]", func(c *cli.Context, a []string) error {
			o.backend, o.threads, o.slots = "highs", 1, noSlots
			set := &formulate.Set{
				Format: formulate.SetFormat, Date: time.Now().UTC().Format(time.DateOnly), Licence: formulate.Licence,
				Models: []formulate.SetModel{},
			}
			for _, spec := range a[1:] {
				j, err := o.job(c, s, spec)
				if err != nil {
					return err
				}
				m, err := catalog.FindMethod(j.Problem, catalog.DefaultMethod(j.Problem, j.Instance))
				if err != nil {
					return err
				}
				r := solve.Run(c.Context, j.Problem, m, j.Instance, j.Setting)
				if r.Err != nil {
					return r.Err
				}
				list := slices.DeleteFunc(ilp.Formulations(), func(f formulation.Formulation) bool { return f.Problem != j.Problem.Name })
				if err := set.Export(a[0], list, j.Instance, j.Setting.Platform, r); err != nil {
					return err
				}
			}
			if err := set.Write(a[0]); err != nil {
				return err
			}
			return o.print(s.out, "", set, func(w io.Writer) {
				fmt.Fprintf(w, "%s in %s, with README.md, LICENSE and index.json\n", platform.Count(len(set.Models), "model"), a[0])
			})
		}),
	}
}
