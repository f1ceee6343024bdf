package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"workbench/bench/run"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/torchcsv"
	"workbench/model/torchtags"
)

// exporters are the formats of other programs that plans are written in.
var exporters = []struct {
	name, what string
	write      func(io.Writer, *plan.Plan, plan.Instance) error
}{
	{"torch-csv", "a schedule of torch.distributed.pipelining, a row for each rank (plans of flush)", func(w io.Writer, p *plan.Plan, _ plan.Instance) error { return torchcsv.Write(w, p) }},
	{"torch-tags", "policies of torch.compile's partitioner for nodes (plans of remat, with their INSTANCE of graph/v2)", torchtags.Write},
}

func newExport(s streams) *cli.Command {
	o := &common{}
	var to, out string
	description, names := "Formats:", []string{}
	for _, x := range exporters {
		names = append(names, x.name)
		description += "\n  " + x.name + "  " + x.what
	}
	return &cli.Command{
		Name:        "export",
		Usage:       "write a plan for the program that runs it",
		ArgsUsage:   "PLAN [INSTANCE]",
		Description: description,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "`FORMAT` to write", Destination: &to, Category: "output"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE` instead of standard output", Destination: &out, Category: "output"},
		}, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 1, 2, "export PLAN [INSTANCE] --to FORMAT")
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
				in := &run.Instance{}
				if len(a) > 1 {
					if in, err = run.Load(a[1], s.in); err != nil {
						return err
					}
				}
				return run.InputError(emit(s, out, func(w io.Writer) error { return x.write(w, p, in.Instance) }))
			}
			return usagef("--to %q: %s", to, nearest.Hint(to, names))
		},
	}
}
