package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/fragmentation"
	"workbench/bench/solve/method"
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
		"torch-snapshot", "a memory snapshot that torch.cuda._memory_viz opens (any plan of one GPU; its tensors are placed first)", false,
		writeSnapshot,
	},
	{
		"torch-tags", "policies of torch.compile's partitioner for nodes (plans of remat and remat-offload of a graph/v2)",
		false, torchtags.Write,
	},
}

// writeSnapshot writes a plan of placement, or one whose tensors it places.
func writeSnapshot(w io.Writer, p *plan.Plan, in plan.Instance) error {
	if len(p.Offsets) > 0 {
		return torchsnapshot.Write(w, p, in)
	}
	problem, err := catalog.FindProblem(p.Problem)
	if err != nil {
		return err
	}
	known, err := solve.NewInstance(in)
	if err != nil {
		return err
	}
	x := &fragmentation.Placer{Problem: problem, Instance: known, Align: cudaAlignment, Method: "exact", Time: snapshotLimit}
	placed, err := x.Place(context.Background(), p)
	if err != nil {
		return err
	}
	return torchsnapshot.Write(w, placed.Plan, placed.Lifetimes)
}

// What a snapshot is placed with: addresses as PyTorch's allocator has them, and a time in which good placements are found.
const (
	cudaAlignment = 512
	snapshotLimit = 10 * time.Second
)

func newExport(s streams) *cli.Command {
	o := &common{}
	var to, out string
	var check bool
	description, names := "Formats:", []string{}
	for _, x := range exporters {
		names = append(names, x.name)
		description += "\n  " + x.name + "  " + x.what
	}
	description += "\n  megatron, torchtitan, deepspeed  cut of a plan of layout, and recomputation where the program has a setting for it" +
		"\n  layout  cut, recomputation and schedule of it, as a layout/v1 document"
	return &cli.Command{
		Name:        "export",
		Usage:       "write a plan, or lifetimes, in the format of another program",
		ArgsUsage:   "PLAN [INSTANCE] | INSTANCE",
		Description: description,
		Flags: append([]cli.Flag{
			stringFlag("output", "to", &to, "", "`FORMAT` to write"),
			boolFlag("output", "check", &check, "read back what is written and compare it with the plan; of torch-csv, say the step time with "+
				"free links and with queues of transfers"),
			stringFlag("output", "output, o", &out, "", "write to `FILE` instead of standard output"),
		}, o.flags()...),
		Action: o.action(s, 1, 2, "export PLAN [INSTANCE] --to FORMAT or export INSTANCE --to minimalloc",
			func(_ *cli.Context, a []string) (err error) {
				if done, err := exportLayout(s, a, to, out, check); done {
					return err
				}
				for _, x := range exporters {
					if x.name != to {
						continue
					}
					p, in := (*plan.Plan)(nil), &solve.Instance{}
					switch {
					case check && x.name != "torch-csv":
						return usagef("--check: %s is not read back; torch-csv, %s are", to, strings.Join(layoutTargets, ", "))
					case x.alone && len(a) > 1:
						return usagef("--to %s: one instance, and no plan; a placement is written with its offsets by workbench place --csv", to)
					case x.alone:
						in, err = solve.Load(a[0], s.in)
					case x.name == "torch-csv" && !check: // needs no instance
						p, err = readPlan(s, a[0])
					default:
						p, in, err = planAndInstance(s, a[0], append(a, "")[1])
					}
					if err != nil {
						return err
					}
					write := func(w io.Writer) error { return x.write(w, p, in.Instance) }
					if check {
						write = checked(write, func(written string) error { return checkSchedule(s, p, in, written) })
					}
					err = emit(s, out, write)
					if err == nil && x.name == "torch-csv" && p.Recompute != nil {
						_, err = fmt.Fprintln(s.err, "workbench: "+method.LayoutScheduleNote)
					}
					return solve.InputError(err)
				}
				if to == "" {
					return usagef("export: --to is needed: %s", strings.Join(names, ", "))
				}
				return usagef("--to %q: %s", to, nearest.Hint(to, names))
			}),
	}
}
