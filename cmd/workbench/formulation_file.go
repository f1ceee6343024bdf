package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/formulate"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// ofFile returns the action of a subcommand about the file of a model where the first argument
// names one, .mps or .lp, and else the one about a formulation. Both share o's flags.
func (o *solveOptions) ofFile(s streams, file func(ctx context.Context, a []string) error, otherwise cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if !milp.IsFile(c.Args().First()) {
			return otherwise(c)
		}
		most := 1
		if c.Command.Name == "diff" {
			most = 2
		}
		a, err := args(c, most, most, "formulation "+c.Command.Name+" MODEL.mps [flags]")
		if err != nil {
			return err
		}
		if err := o.check(s); err != nil {
			return err
		}
		return file(c.Context, a)
	}
}

// solver returns the backend and the limits that the flags name.
func (o *solveOptions) solver() (b solvers.Backend, options solvers.Options, err error) {
	if b, err = backends.New(o.backend, true); err != nil {
		return nil, options, err
	}
	if options.Time, err = platform.ParseTimeLimit(cmp.Or(o.timeLimit, "60s")); err != nil {
		return nil, options, usagef("--time-limit: %v", err)
	}
	options.Threads = solvers.Some(max(1, o.threads))
	if options.Threads.Value == 1 || b.Can()&solvers.CanThreads == 0 {
		options.Threads = solvers.Opt[int]{}
	}
	return b, options, nil
}

func newFormulationCertify(s streams) *cli.Command {
	o := &programOptions{}
	var certificate string
	return &cli.Command{
		Name:      "certify",
		Usage:     "solve the model of an MPS or LP file, and prove its bound in exact arithmetic",
		ArgsUsage: "MODEL.mps",
		Flags: append(
			o.flags(),
			stringFlag("output", "certificate", &certificate, "", "write the proof to `FILE`, for workbench verify --bound"),
		),
		Action: o.ofFile(s, func(ctx context.Context, a []string) error {
			return o.solveFile(ctx, s, a[0], false, certificate)
		}, func(*cli.Context) error {
			return usagef("formulation certify MODEL.mps: the file of a model is needed, .mps or .lp; bounds of formulations are certified by " +
				"workbench solve")
		}),
	}
}

// solveFile solves the model of a file and proves what it can, at least at the root.
func (o *programOptions) solveFile(ctx context.Context, s streams, path string, root bool, certificate string) error {
	f, err := formulate.OpenFile(path)
	if err != nil {
		return err
	}
	b, options, err := o.solver()
	if err != nil {
		return err
	}
	if certificate != "" {
		if err := atomicfile.Check(certificate); err != nil {
			return err
		}
	}
	r, err := f.Certify(ctx, b, solvers.New(highs.Engine{}), options, root)
	if err != nil {
		return err
	}
	if !o.values {
		r.Columns = nil
	}
	if c := r.Certificate; c != nil && certificate != "" {
		if err := atomicfile.Write(certificate, s.out, c.Write); err != nil {
			return err
		}
	} else if certificate != "" {
		fmt.Fprintf(s.err, "--certificate %s: nothing to write: nothing was certified\n", certificate)
	}
	if err := o.print(s.out, "", r, r.Text); err != nil {
		return err
	}
	switch {
	case r.Status == "infeasible" && r.Certified:
		return &exitError{exitInfeasible}
	case r.Objective == nil:
		return &exitError{exitNoPlan}
	}
	return nil
}

// statsOfFile prints the size of the model of a file.
func (o *formulationOptions) statsOfFile(ctx context.Context, s streams, path string) error {
	f, err := formulate.OpenFile(path)
	if err != nil {
		return err
	}
	stats, err := formulate.StatsOf(ctx, solvers.New(highs.Engine{}), f.Model)
	if err != nil {
		return err
	}
	return o.print(s.out, formulate.StatsFormat, stats, stats.Text)
}

// explainFile says why the model of a file has no solution.
func (o *formulationOptions) explainFile(ctx context.Context, s streams, path string, probe time.Duration) error {
	f, err := formulate.OpenFile(path)
	if err != nil {
		return err
	}
	b, _, err := o.solver()
	if err != nil {
		return err
	}
	return explain(ctx, s, o, b, f.Program(), probe)
}

// diffFiles compares the models of two files.
func (o *programOptions) diffFiles(ctx context.Context, s streams, paths []string) error {
	var both [2]formulate.Built
	for k, path := range paths {
		f, err := formulate.OpenFile(path)
		if err != nil {
			return err
		}
		both[k] = formulate.Built{Formulation: formulation.Formulation{Name: f.Name, Promise: formulation.Equal}, Program: f.Program()}
	}
	b, options, err := o.solver()
	if err != nil {
		return err
	}
	d, err := formulate.Compare(ctx, b, "files", nil, both, options)
	if err != nil {
		return err
	}
	if o.json() {
		return writeJSON(s.out, d)
	}
	return d.Text(s.out)
}
