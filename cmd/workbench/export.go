package main

import (
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/solve"
	"workbench/model/importer/torchcsv"
	"workbench/model/importer/torchsnapshot"
	"workbench/model/importer/torchtags"
	"workbench/model/nearest"
	"workbench/model/plan"
)

// exporters are the formats of other programs that plans, or instances alone, are written in.
var exporters = []struct {
	name, what string
	alone      bool // an instance without a plan
	write      func(io.Writer, *plan.Plan, plan.Instance) error
}{
	{
		"minimalloc", "CSV of buffers of minimalloc and idealloc (an INSTANCE of lifetimes alone)", true,
		func(w io.Writer, _ *plan.Plan, in plan.Instance) error { return solve.ExportLifetimes(w, in) },
	},
	{
		"dsa-solver", "a problem of dsa-solver, schema v1 (an INSTANCE of lifetimes alone)", true,
		func(w io.Writer, _ *plan.Plan, in plan.Instance) error { return solve.ExportDSA(w, in) },
	},
	{
		"torch-csv", "a schedule of torch.distributed.pipelining, a row for each rank (plans of flush and layout)", false,
		func(w io.Writer, p *plan.Plan, _ plan.Instance) error { return torchcsv.Write(w, p) },
	},
	{
		"torch-snapshot", "a memory snapshot that torch.cuda._memory_viz opens (plans of placement, with their INSTANCE)", false,
		torchsnapshot.Write,
	},
	{
		"torch-tags", "policies of torch.compile's partitioner for nodes (plans of remat and remat-offload, with their INSTANCE of graph/v2)",
		false, torchtags.Write,
	},
}

func newExport(s streams) *cli.Command {
	o := &common{}
	var to, out string
	description, names := "Formats:", []string{}
	for _, x := range exporters {
		names = append(names, x.name)
		description += "\n  " + x.name + "  " + x.what
	}
	description += "\n  megatron, torchtitan, deepspeed  cut and recomputation of a plan of layout" +
		"\n  layout  the same, with the schedule, as a layout/v1 document"
	return &cli.Command{
		Name:        "export",
		Usage:       "write a plan, or lifetimes, for the program that takes it",
		ArgsUsage:   "PLAN [INSTANCE] | INSTANCE",
		Description: description,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "`FORMAT` to write", Destination: &to, Category: "output"},
			&cli.StringFlag{
				Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE` instead of standard output", Destination: &out,
				Category: "output",
			},
		}, o.flags()...),
		Action: o.action(s, 1, 2, "export PLAN [INSTANCE] --to FORMAT or export INSTANCE --to minimalloc",
			func(_ *cli.Context, a []string) (err error) {
				if done, err := exportLayout(s, a, to, out); done {
					return err
				}
				for _, x := range exporters {
					if x.name != to {
						continue
					}
					var p *plan.Plan
					if !x.alone {
						if p, err = readPlan(s, a[0]); err != nil {
							return err
						}
						a = a[1:]
					}
					in := &solve.Instance{}
					if len(a) > 1 {
						return usagef("--to %s: one instance, and no plan; a placement is written with its offsets by workbench place --csv", to)
					} else if len(a) > 0 {
						if in, err = solve.Load(a[0], s.in); err != nil {
							return err
						}
					}
					return solve.InputError(emit(s, out, func(w io.Writer) error { return x.write(w, p, in.Instance) }))
				}
				if to == "" {
					return usagef("export: --to is needed: %s", strings.Join(names, ", "))
				}
				return usagef("--to %q: %s", to, nearest.Hint(to, names))
			}),
	}
}
