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
		Description: "The longest stage is as short as possible. Of a micro-batch, which is what CHAIN computes at\n" +
			"once, a stage holds its input and all that its layers save, or its input if it computes forward again;\n" +
			"beside that its weights and the largest overhead of a layer.",
		Flags: append(append([]cli.Flag{
			&cli.IntFlag{Name: "processors", Usage: "`P` GPUs", Value: 4, Destination: &o.processors, Category: "instance"},
			&cli.IntFlag{
				Name: "chunks", Usage: "`V` stages on each of them, for --placement interleaved or v", Value: 1, Destination: &o.chunks,
				Category: "instance",
			},
			&cli.StringFlag{
				Name: "split", Usage: "`PART` of the backward that is the gradient of the weights; 0: the backward is one operation",
				Value: "50%", Destination: &o.split, Category: "instance",
			},
			&cli.StringFlag{
				Name: "keep", Usage: "`PART` of what a micro-batch holds that is needed for it (default: as --split)",
				Destination: &o.keep, Category: "instance",
			},
			&cli.StringFlag{
				Name: "bandwidth", Usage: "`RATE` between GPUs, as 12GB/s or inf", Value: "12GB/s", Destination: &o.bandwidth,
				Category: "instance",
			},
			&cli.IntFlag{
				Name: "weight-copies", Usage: "`C`: how often a GPU holds its weights, as gradients and state of the optimizer",
				Value: platform.DefaultWeightCopies, Destination: &o.copies, Category: "instance",
			},
			&cli.StringFlag{Name: "recompute", Usage: "`STAGES` that compute forward again: none, all, numbers as 1,3, or auto, for --memory, " +
				"--micro-batches and --placement", Value: "none", Destination: &o.choice.Recompute, Category: "instance"},
			&cli.StringFlag{
				Name: "offload", Usage: "`STAGES` that send what they keep to the host and back: none, all, numbers as 1,3, or auto",
				Value: "none", Destination: &o.choice.Offload, Category: "instance",
			},
			&cli.StringFlag{
				Name: "offload-share", Usage: "`PART` of what a stage keeps that it sends, if it does", Value: "100%",
				Destination: &o.share, Category: "instance",
			},
			&cli.StringFlag{
				Name: "host-bandwidth", Usage: "`RATE` between a GPU and its host, either way", Value: "12GB/s", Destination: &o.host,
				Category: "instance",
			},
			&cli.StringFlag{
				Name: "memory", Usage: "`SIZE` of a GPU's memory, for --recompute auto and --offload auto",
				Destination: &o.choice.Memory, Category: "instance",
			},
			&cli.StringFlag{
				Name: "runtime", Usage: "`RULES` of the stages: paper, or torch (nothing given back before W, outputs held until " +
					"the backward, the first stage without gradient of its input, B where W follows it)", Value: "paper", Destination: &o.runtime,
				Category: "instance",
			},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the instance", Destination: &o.name, Category: "output"},
			&cli.StringFlag{
				Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE` instead of standard output", Destination: &o.out,
				Category: "output",
			},
		}, o.scheduleFlags.flags()...), o.common.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 1, 1, "stages CHAIN [flags]")
			if err != nil {
				return err
			}
			if err := o.check(s); err != nil {
				return err
			}
			return o.cut(c.Context, s, a[0])
		},
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
