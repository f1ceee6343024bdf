package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/model/instance/stages"
	"workbench/model/platform"
)

// stagesOptions are the flags of stages.
type stagesOptions struct {
	common
	scheduleFlags
	processors, chunks, copies                              int
	split, keep, bandwidth, name, share, host, out, runtime string
	choice                                                  method.Choice
}

func newStages(s streams) *cli.Command {
	o := &stagesOptions{}
	return &cli.Command{
		Name:      "stages",
		Usage:     "cut a chain into the stages of a pipeline, for --problem flush",
		ArgsUsage: "CHAIN",
		Description: "The longest stage is as short as possible. For a micro-batch, which is what CHAIN computes at\n" +
			"once, a stage holds its input and all that its layers save, or only its input if it recomputes;\n" +
			"in addition, it holds its weights and the largest overhead of a layer.",
		Flags: append(append([]cli.Flag{
			intFlag("instance", "processors", &o.processors, 4, "`P` GPUs"),
			intFlag("instance", "chunks", &o.chunks, 1, "`V` stages on each of them, for --placement interleaved or v"),
			stringFlag("instance", "split", &o.split, "50%",
				"`PART` of the backward that is the gradient of the weights; 0: the backward is one operation"),
			stringFlag("instance", "keep", &o.keep, "", "`PART` of what a micro-batch holds that is needed for it (default: as --split)"),
			stringFlag("instance", "bandwidth", &o.bandwidth, "12GB/s", "`RATE` between GPUs, as 12GB/s or inf"),
			intFlag("instance", "weight-copies", &o.copies, platform.DefaultWeightCopies,
				"`C`: how often a GPU holds its weights, as gradients and state of the optimizer"),
			stringFlag("instance", "recompute", &o.choice.Recompute, "none",
				"`STAGES` that recompute their forward: none, all, numbers as 1,3, or auto, for --memory, --micro-batches and --placement"),
			stringFlag("instance", "offload", &o.choice.Offload, "none",
				"`STAGES` that offload what they keep to the host: none, all, numbers as 1,3, or auto"),
			stringFlag("instance", "offload-share", &o.share, "100%", "`PART` of what a stage keeps that it offloads, if it does"),
			stringFlag("instance", "host-bandwidth", &o.host, "12GB/s", "`RATE` between a GPU and its host, either way"),
			stringFlag("instance", "memory", &o.choice.Memory, "", "`SIZE` of a GPU's memory, for --recompute auto and --offload auto"),
			stringFlag("instance", "runtime", &o.runtime, "paper",
				"`RULES` of the stages: paper, or torch (nothing freed before W, outputs held until the backward, the first stage "+
					"without gradient of its input, B where W follows it)"),
			stringFlag("output", "name", &o.name, "", "`NAME` of the instance"),
			stringFlag("output", "output, o", &o.out, "", "write to `FILE` instead of standard output"),
		}, o.scheduleFlags.flags()...), o.common.flags()...),
		Action: o.action(s, 1, 1, "stages CHAIN [flags]", func(c *cli.Context, a []string) error { return o.cut(c.Context, s, a[0]) }),
	}
}

// cut writes the stages of a chain.
func (o *stagesOptions) cut(ctx context.Context, s streams, spec string) error {
	in, err := solve.Load(spec, s.in)
	if err != nil {
		return err
	}
	c := in.Chain()
	switch {
	case c == nil:
		return usagef("%s is no chain, and only a chain is cut into stages", in.Name)
	case o.processors < 1 || o.processors > mostProcessors:
		return usagef("--processors %d: from 1 to %d", o.processors, mostProcessors)
	case o.chunks < 1 || o.chunks > stages.MostStages/o.processors:
		return usagef("--chunks %d: from 1 to %d", o.chunks, stages.MostStages/o.processors)
	case o.copies < 0 || o.copies > mostProcessors:
		return usagef("--weight-copies %d: from 0 to %d", o.copies, mostProcessors)
	}
	if o.runtime != "paper" && o.runtime != stages.Torch {
		return usagef("--runtime %q: torch or paper", o.runtime)
	}
	cut := stages.Cutting{Stages: o.processors * o.chunks, Copies: float64(o.copies), SendShare: 1, Torch: o.runtime == stages.Torch}
	if o.share != "100%" {
		if cut.SendShare, err = part("--offload-share", o.share); err != nil {
			return err
		}
	}
	if cut.Weight, err = part("--split", o.split); err != nil {
		return err
	}
	if cut.WeightMemory, err = part("--keep", cmp.Or(o.keep, o.split)); err != nil {
		return err
	}
	rate, err := platform.ParseRate(o.bandwidth)
	if err != nil {
		return usagef("--bandwidth: %v", err)
	}
	cut.Bandwidth = c.Unit.Rate(rate)
	if rate, err = platform.ParseRate(o.host); err != nil {
		return usagef("--host-bandwidth: %v", err)
	}
	cut.HostBandwidth = c.Unit.Rate(rate)
	at := platform.Platform{Processors: o.processors, MicroBatches: o.microBatches, Placement: o.placement, Objective: o.objective}
	p, said, err := method.Stages(ctx, c, cut, o.choice, at)
	if err != nil {
		return err
	}
	if said != "" {
		fmt.Fprintf(s.err, "workbench: %s\n", said)
	}
	p.Name = cmp.Or(o.name, p.Name)
	return emit(s, o.out, p.Write)
}
