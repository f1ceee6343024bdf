package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"workbench/bench/run"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/torchcsv"
)

// exporters are the formats of other programs that plans are written in.
var exporters = []struct {
	name, what string
	write      func(io.Writer, *plan.Plan) error
}{
	{"torch-csv", "a schedule of torch.distributed.pipelining, a row for each rank (plans of flush)", torchcsv.Write},
}

func exporterNames() (names []string) {
	for _, x := range exporters {
		names = append(names, x.name)
	}
	return names
}

func newExport(s streams) *cli.Command {
	o := &common{}
	var to, out string
	description := "Formats:"
	for _, x := range exporters {
		description += "\n  " + x.name + "  " + x.what
	}
	return &cli.Command{
		Name:        "export",
		Usage:       "write a plan for the program that runs it",
		ArgsUsage:   "PLAN",
		Description: description,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "`FORMAT` to write", Destination: &to, Category: "output"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE` instead of standard output", Destination: &out, Category: "output"},
		}, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 1, 1, "export PLAN --to FORMAT")
			if err != nil {
				return err
			}
			if err := o.check(s); err != nil {
				return err
			}
			for _, x := range exporters {
				if x.name != to {
					continue
				}
				p, err := readPlan(s, a[0])
				if err != nil {
					return err
				}
				return run.InputError(emit(s, out, func(w io.Writer) error { return x.write(w, p) }))
			}
			return usagef("--to %q: %s", to, nearest.Hint(to, exporterNames()))
		},
	}
}
