package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/solve"
	"workbench/bench/solve/method"
	heuristics "workbench/heuristics/layout"
	"workbench/model/instance/layout"
	"workbench/model/platform"
	problem "workbench/model/problem/layout"
)

// layoutProblem is solved by solve, without the tables of other problems: its plans are files of their own.
const layoutProblem = "layout"

// layoutFlags are those of layouts alone.
type layoutFlags struct{ split, latency, runtime string }

func (f *layoutFlags) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "split", Usage: "`PART` of the backward of layers that do not say it that is the gradient of the weights, for " +
			"--problem layout", Value: "50%", Destination: &f.split, Category: "instance"},
		&cli.StringFlag{
			Name: "latency", Usage: "`DURATION` of each transfer between GPUs beside its bytes, for --problem layout", Value: "0s",
			Destination: &f.latency, Category: "instance",
		},
		&cli.StringFlag{Name: "runtime", Usage: "`RULES` for --problem layout: paper, or torch (outputs held until the backward, the first " +
			"stage without gradient of its input, B where W follows it)", Value: "paper", Destination: &f.runtime, Category: "instance"},
	}
}

// solveLayout is solve --problem layout.
func solveLayout(ctx context.Context, s streams, o *solveOptions, spec string) error {
	in, err := solve.Load(spec, s.in)
	if err != nil {
		return err
	}
	c := in.Chain()
	if c == nil {
		return usagef("%s is no chain, and only a chain is laid out", in.Name)
	}
	m, err := platform.ParseMemory(o.memory)
	if err != nil || m.Percent || math.IsInf(m.Value, 0) {
		return usagef("--memory %q: --problem layout needs the size of a GPU's memory, as 80GB", o.memory)
	}
	p := platform.Platform{
		Memory: math.Floor(c.Unit.FromBytes(m.Value)), Processors: o.processors, WeightCopies: o.weightCopies,
		MicroBatches: o.schedule.microBatches, Placement: o.schedule.placement, Objective: o.schedule.objective,
	}
	rate, err := platform.ParseRate(cmp.Or(o.bandwidth, "inf"))
	if err != nil {
		return usagef("--bandwidth: %v", err)
	}
	if p.Bandwidth = c.Unit.Rate(rate); math.IsInf(p.Bandwidth, 1) {
		p.Bandwidth = 0
	}
	var set problem.Setting
	if set.Split, err = part("--split", o.layout.split); err != nil {
		return err
	}
	if set.Latency, err = platform.ParseSeconds(o.layout.latency); err != nil {
		return usagef("--latency: %v", err)
	}
	if set.Torch = o.layout.runtime == "torch"; !set.Torch && o.layout.runtime != "paper" {
		return usagef("--runtime %q: torch or paper", o.layout.runtime)
	}
	limit, err := platform.ParseTimeLimit(o.timeLimit)
	if err != nil {
		return usagef("--time-limit: %v", err)
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if o.planFile != "" {
		if err := atomicfile.Check(o.planFile); err != nil {
			return err
		}
	}
	f, proved, err := method.Layout(ctx, c, p, set, o.method, heuristics.Goal{Seed: uint64(o.seed)})
	if err != nil {
		return err
	}
	if o.planFile != "" {
		if err := atomicfile.Write(o.planFile, s.out, f.Write); err != nil {
			return err
		}
	}
	if o.format == "json" {
		return f.Write(s.out)
	}
	_, err = fmt.Fprint(s.out, method.LayoutText(f, proved))
	return err
}

// layoutTargets are what layouts are exported to.
var layoutTargets = []string{"megatron", "torchtitan", "deepspeed"}

// showLayout prints a layout file.
func showLayout(s streams, o *common, data []byte, name string) error {
	f, err := layout.Read(data, name)
	if err != nil {
		return solve.InputError(err)
	}
	if o.json() {
		return f.Write(s.out)
	}
	_, err = fmt.Fprint(s.out, method.LayoutText(f, false))
	return err
}

// exportLayout writes a layout for a training script.
func exportLayout(s streams, name, to, out string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return solve.InputError(err)
	}
	f, err := layout.Read(data, name)
	if err != nil {
		return solve.InputError(err)
	}
	text, err := method.LayoutFor(f, to)
	if err != nil {
		return solve.InputError(err)
	}
	return emit(s, out, text)
}
