package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/method"
	"workbench/bench/solve/strategy"
	"workbench/ilp/formulation"
	"workbench/model/nearest"
	"workbench/model/platform"
)

// planOptions are the flags of plan.
type planOptions struct {
	common
	gpuFlags
	memory, link, gpuLink, allow, timeLimit, backend, out string
	threads, seed, gpus, microBatches                     int
	open                                                  bool
}

// defaultLink is the bandwidth to the host where neither --link nor a preset of --gpu says one.
const defaultLink = "12GB/s"

func newPlan(s streams) *cli.Command {
	o := &planOptions{}
	return &cli.Command{
		Name:      "plan",
		Usage:     "rank every way to fit a training step into one GPU or several, with a proven bound",
		ArgsUsage: "INSTANCE",
		Description: "Runs recomputation, offloading, both and pipelines on one instance, and common practice;\n" +
			"verifies each plan by replay and ranks them by step time. Example:\n\n" +
			"   workbench plan zoo:resnet50?batch=128 --gpu 8GiB -o plan.json",
		Flags: append([]cli.Flag{
			stringFlag("instance", "gpu", &o.gpu, "",
				"memory `SIZE` of the whole GPU, as 16GiB, or a preset as h100; --gpu list lists them. State and reserve are subtracted"),
			stringFlag("instance", "memory, m", &o.memory, "",
				"`SIZE` for activations alone, in place of --gpu, as 4GiB or 50% of the peak"),
			stringFlag("instance", "link", &o.link, "",
				"`RATE` of copies to the host, as 25GB/s; 0: none (default: the preset's, else "+defaultLink+")"),
			stringFlag("instance", "reserve", &o.reserve, "4%",
				"`SIZE` that is left to the driver and to fragmentation, or a part of the GPU"),
			stringFlag("instance", "optimizer", &o.optimizer, "adam",
				"`NAME` of the optimizer whose state is counted: "+strings.Join(optimizerNames(), ", ")),
			intFlag("instance", "gpus", &o.gpus, 1, "`N` GPUs share a step: pipelines, and the other strategies as replicas"),
			intFlag("instance", "micro-batches", &o.microBatches, 0, "a step on several GPUs is `N` times the instance", "4 a GPU"),
			stringFlag("instance", "gpu-link", &o.gpuLink, "",
				"`RATE` of copies between two GPUs, as 300GB/s (default: the preset's, else "+defaultLink+")"),
			stringFlag("solver", "allow", &o.allow, strings.Join(strategy.Words(), ","),
				"`LIST` of what plans may do: "+strings.Join(strategy.Words(), ",")),
			stringFlag("solver", "time-limit", &o.timeLimit, "30s", "stop after `DURATION` with the best plans so far"),
			stringFlag("solver", "backend, b", &o.backend, "highs", "MILP `BACKEND`: "+strings.Join(backends.Names(), " or ")),
			intFlag("solver", "threads", &o.threads, 1, "`N` threads for the MILP backend of each strategy"),
			intFlag("solver", "seed", &o.seed, 0, "`N` seeds every random choice"),
			stringFlag("output", "output, o", &o.out, "", "write the fastest plan to `FILE`"),
			boolFlag("output", "open", &o.open, "with --output, open the plan as a page in a browser"),
		}, o.common.flags()...),
		Action: func(c *cli.Context) error {
			if o.gpu == "list" {
				listGPUs(s)
				return nil
			}
			return o.action(s, 1, 1, "plan INSTANCE --gpu SIZE", func(c *cli.Context, a []string) error {
				return o.plan(c.Context, s, a[0])
			})(c)
		},
	}
}

// listGPUs prints the presets of --gpu.
func listGPUs(s streams) {
	for _, g := range solve.GPUs() {
		fmt.Fprintf(s.out, "%-8s %9s  host link %9s  between GPUs %s\n", g.Name, platform.FormatBytes(g.Memory), platform.FormatRate(g.Link),
			platform.FormatRate(g.Peer))
	}
}

// preset returns the GPU that --gpu names, nil for a size.
func (o *planOptions) preset() (*solve.GPU, error) {
	if o.gpu == "" || strings.ContainsAny(o.gpu[:1], "0123456789.+-") {
		return nil, nil
	}
	var names []string
	for _, g := range solve.GPUs() {
		if g.Name == strings.ToLower(o.gpu) {
			return &g, nil
		}
		names = append(names, g.Name)
	}
	return nil, usagef("--gpu %s: no such preset: %s; a size is written 16GiB", o.gpu, nearest.Hint(o.gpu, names))
}

// options turns the flags into values.
func (o *planOptions) options(ctx context.Context, in *solve.Instance) (out strategy.Options, err error) {
	if (o.gpu == "") == (o.memory == "") {
		return out, usagef("exactly one of --gpu SIZE (the whole device) and --memory SIZE (activations alone) is needed")
	}
	g, err := o.preset()
	if err != nil {
		return out, err
	}
	link, peer := defaultLink, defaultLink
	if g != nil {
		out.GPU, link, peer = g.Memory, fmt.Sprintf("%gGB/s", g.Link/1e9), fmt.Sprintf("%gGB/s", g.Peer/1e9)
	}
	if out.Setting.Platform.Bandwidth, err = platform.ParseRate(cmp.Or(o.link, link)); err != nil {
		return out, usagef("--link: %v", err)
	}
	if out.GPUs, err = o.several(peer); err != nil {
		return out, err
	}
	if o.memory != "" {
		m, err := platform.ParseMemory(o.memory)
		if err != nil || m.Range {
			return out, usagef("--memory %s: a size is needed, as 4GiB, or a part of the peak of keeping everything, as 50%%", o.memory)
		}
		peak := 0.0
		if m.Percent { // the search of the minimum is not waited for
			_, peak = method.Remat().InBytes().RangeWithin(ctx, in, solve.Setting{Time: time.Nanosecond}, false)
		}
		if out.Setting.Platform.Memory = in.Resolve(m, 0, peak); !(out.Setting.Platform.Memory > 0) {
			return out, usagef("--memory %s: some memory is needed, as 4GiB", o.memory)
		}
	} else if g == nil {
		if out.GPU, err = platform.ParseBytes(o.gpu); err != nil {
			return out, usagef("--gpu: %v", err)
		}
	}
	if o.memory == "" {
		if out.GPU < 1<<20 {
			return out, usagef("--gpu %s: these are %s; a GPU has more, as 24GiB", o.gpu, platform.FormatBytes(out.GPU))
		}
		reserve, err := platform.ParseMemory(o.reserve)
		if err != nil {
			return out, usagef("--reserve %s: a size is needed, as 1GiB, or a part of the GPU, as 4%%", o.reserve)
		}
		if out.Reserve = in.Resolve(reserve, 0, out.GPU); out.Reserve >= out.GPU {
			return out, usagef("--reserve %s: it leaves nothing of %s", o.reserve, platform.FormatBytes(out.GPU))
		}
		if out.Optimizer, err = optimizerNamed(o.optimizer); err != nil {
			return out, err
		}
	}
	for word := range strings.SplitSeq(o.allow, ",") {
		if !slices.Contains(strategy.Words(), word) {
			return out, usagef("--allow %q: %s", word, nearest.Hint(word, strategy.Words()))
		}
		out.Allow = append(out.Allow, word)
	}
	if out.Setting.Time, err = platform.ParseTimeLimit(o.timeLimit); err != nil {
		return out, usagef("--time-limit: %v", err)
	}
	if o.threads < 1 || o.threads > mostThreads || o.seed < 0 {
		return out, usagef("--threads from 1 to %d, --seed from 0", mostThreads)
	}
	out.Setting.Threads, out.Setting.Seed, out.Setting.Certify = o.threads, o.seed, formulation.Full
	return out, backends.Use(&out.Setting, o.backend, true)
}

// microBatchesOfGPU is how many a GPU of a pipeline has where the user does not say it.
const microBatchesOfGPU = 4

// several returns the GPUs of a step; link is between two of them where the user does not say it.
func (o *planOptions) several(link string) (x strategy.GPUs, err error) {
	switch {
	case o.gpus < 1 || o.gpus > mostProcessors:
		return x, usagef("--gpus %d: from 1 to %d", o.gpus, mostProcessors)
	case o.gpus == 1 && (o.gpuLink != "" || o.microBatches != 0):
		return x, usagef("--gpu-link and --micro-batches: they are about several GPUs, as --gpus 8")
	case o.microBatches < 0:
		return x, usagef("--micro-batches %d: at least one is needed", o.microBatches)
	}
	x.N, x.MicroBatches = o.gpus, cmp.Or(o.microBatches, microBatchesOfGPU*o.gpus)
	if x.Link, err = platform.ParseRate(cmp.Or(o.gpuLink, link)); err != nil || x.Link <= platform.NoLink || math.IsInf(x.Link, 1) {
		err = usagef("--gpu-link %s: a rate is needed, as 300GB/s", o.gpuLink)
	}
	return x, err
}

// plan ranks the strategies on one instance.
func (o *planOptions) plan(ctx context.Context, s streams, spec string) error {
	in, err := solve.Load(spec, s.in)
	if err != nil {
		return err
	}
	options, err := o.options(ctx, in)
	if err != nil {
		return err
	}
	if o.open && o.out == "" {
		return usagef("--open: a page is of a plan file: --output FILE names it")
	}
	if o.out != "" {
		if err := atomicfile.Check(o.out); err != nil {
			return err
		}
	}
	r, err := strategy.Rank(ctx, in, options)
	if err != nil {
		return err
	}
	best := r.Best()
	if o.out != "" && best != nil {
		if err := atomicfile.Write(o.out, s.out, best.Write); err != nil {
			return err
		}
	}
	if o.open && best != nil {
		if err := writePage(s, pageOf(o.out), spec, o.out); err != nil {
			return err
		}
		if err := openPage(pageOf(o.out)); err != nil {
			return err
		}
	}
	if o.json() {
		if err := render.Document(s.out, "workbench.ranking/v1", r); err != nil {
			return err
		}
		return r.Err()
	}
	render.Strategies(s.out, r, o.gpu)
	if ctx.Err() != nil {
		fmt.Fprintln(s.out, "interrupted: these are the plans and bounds that were known by then")
	}
	if best != nil && o.out != "" {
		next := "show " + o.out + " --html plan.html"
		if best.Result.Plan.Recompute != nil { // a layout
			next = "export " + o.out + " --to megatron (torchtitan, deepspeed, torch-csv)"
		}
		fmt.Fprintf(s.out, "wrote %s (%s); next: workbench %s\n", o.out, best.Strategy, next)
	}
	return r.Err()
}
