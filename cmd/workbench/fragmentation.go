package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/render"
	"workbench/bench/render/picture"
	"workbench/bench/render/plots"
	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/fragmentation"
	"workbench/bench/solve/method"
	"workbench/model/allocator"
	"workbench/model/nearest"
	"workbench/model/platform"
)

// fragmentationOptions are the flags of fragmentation; those of solve are for
// plans that it makes itself.
type fragmentationOptions struct {
	solveOptions
	instance, allocator, chunks, capacity, slot, plot, largest, batches, quantity string
	steps                                                                         int
	late                                                                          bool
}

const (
	bestFit  = "best-fit"
	virtual  = "virtual"
	mixed    = "mixed"
	bothFits = "both"
	allFits  = "all"
)

// kindsOfAllocator are the values of --allocator.
var kindsOfAllocator = []string{bestFit, virtual, mixed, fragmentation.Static, bothFits, allFits}

// mostSteps bounds --steps: a few show all there is to see.
const mostSteps = 1000

func newFragmentation(s streams) *cli.Command {
	o := &fragmentationOptions{}
	return &cli.Command{
		Name:      "fragmentation",
		Usage:     "simulate the memory that a plan needs: its tensors through a caching best fit and through virtual addressing",
		ArgsUsage: "[PLAN]",
		Description: "Replays every allocation of PLAN, step after step. With --largest-batch it makes\n" +
			"plans of a built-in network itself, for budgets from the whole capacity down to\n" +
			"30 % of it, and takes the first whose tensors fit; --batches lists the\n" +
			"batches to try instead of looking for the largest.",
		Flags: append([]cli.Flag{
			stringFlag("instance", "instance, i", &o.instance, "", "`INSTANCE` the plan was made for (default: the one recorded in the plan)"),
			stringFlag("allocator", "allocator", &o.allocator, bothFits,
				"`ALLOCATOR`: best-fit, virtual, mixed (virtual with a best fit for small tensors), static (addresses before the run), both "+
					"(best-fit and virtual, and static) or all"),
			stringFlag("allocator", "chunk", &o.chunks, "2MiB,20MiB,40MiB",
				"`LIST` of sizes of the chunks of virtual addressing, separated by commas"),
			stringFlag("allocator", "capacity", &o.capacity, "", "`SIZE` of each device, as 16GiB (default: unlimited)"),
			intFlag("allocator", "steps", &o.steps, 3, "run the plan `N` times with a persistent cache"),
			boolFlag("allocator", "late", &o.late,
				"for plans of swapping: memory of evicted variables is freed only when it is needed, as in [003] §3 (b)"),
			stringFlag("allocator", "slot", &o.slot, "64MiB", "`SIZE` of a slot of a join"),
			stringFlag("batches", "largest-batch", &o.largest, "",
				"look for the largest batch of `INSTANCE`, a built-in network, that fits"),
			stringFlag("batches", "batches", &o.batches, "", "`LIST` of batches to try, separated by commas"),
			stringFlag("batches", "problem, p", &o.problem, "swap", "`PROBLEM` that --largest-batch solves"),
			stringFlag("batches", "method, methods", &o.methods, "",
				"`LIST` of methods that --largest-batch tries, separated by commas (default: the problem's own)"),
			stringFlag("batches", "bandwidth", &o.bandwidth, "", "`RATE` of each link, as 12GB/s (default: the problem's)"),
			stringFlag("batches", "time-limit", &o.timeLimit, "60s", "stop each method after `DURATION`"),
			stringFlag("output", "plot", &o.plot, "",
				"draw memory over time, or with --batches a quantity over them, to `FILE`.svg or .png"),
			stringFlag("output", "quantity", &o.quantity, string(plots.BatchSpeed), "`QUANTITY` to draw over batches: speed or memory"),
		}, o.flags()...),
		Action: o.action(s, 0, 1, "fragmentation PLAN [--instance INSTANCE], or fragmentation --largest-batch INSTANCE",
			func(c *cli.Context, a []string) error {
				switch {
				case o.largest != "" && len(a) > 0:
					return usagef("--largest-batch %s: makes its own plans; leave out %s", o.largest, a[0])
				case o.largest == "" && len(a) == 0:
					return usagef("name a plan, or a network with --largest-batch")
				case o.largest == "" && o.batches != "":
					return usagef("--batches %s: name the network with --largest-batch", o.batches)
				case o.steps < 1 || o.steps > mostSteps:
					return usagef("--steps %d: from 1 to %d", o.steps, mostSteps)
				}
				if o.largest != "" {
					return largestBatch(c.Context, s, o)
				}
				return fragment(c.Context, s, o, a[0])
			}),
	}
}

// choices returns the allocators asked for.
func (o *fragmentationOptions) choices() (list []fragmentation.AllocatorChoice, err error) {
	if !slices.Contains(kindsOfAllocator, o.allocator) {
		return nil, usagef("--allocator %q: %s", o.allocator, nearest.Hint(o.allocator, kindsOfAllocator))
	}
	if o.allocator == bestFit || o.allocator == bothFits || o.allocator == allFits {
		list = append(list, fragmentation.AllocatorChoice{})
	}
	if o.largest == "" && (o.allocator == fragmentation.Static || o.allocator == bothFits || o.allocator == allFits) {
		list = append(list, fragmentation.AllocatorChoice{Static: true})
	}
	if o.allocator == bestFit || o.allocator == fragmentation.Static {
		return list, nil
	}
	var chunks []int64
	for _, word := range strings.Split(o.chunks, ",") {
		chunk, err := positiveBytes("--chunk", word)
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, chunk)
	}
	for _, chunk := range chunks {
		if o.allocator != mixed {
			list = append(list, fragmentation.AllocatorChoice{Chunk: chunk})
		}
	}
	for _, chunk := range chunks {
		if o.allocator == mixed || o.allocator == allFits {
			list = append(list, fragmentation.AllocatorChoice{Chunk: chunk, Mixed: true})
		}
	}
	return list, nil
}

// positiveBytes reads a size of at least a byte.
func positiveBytes(flag, word string) (int64, error) {
	x, err := platform.ParseBytes(strings.TrimSpace(word))
	switch {
	case err != nil:
		return 0, usagef("%s: %v", flag, err)
	case x < 1 || x > 1<<50:
		return 0, usagef("%s %q: a size from 1 byte to 1 PiB is needed, as 2MiB", flag, word)
	}
	return fragmentation.Capacity(x), nil
}

// device returns the capacity asked for, or an unlimited one.
func (o *fragmentationOptions) device() (int64, error) {
	if o.capacity == "" {
		return allocator.Unlimited, nil
	}
	return positiveBytes("--capacity", o.capacity)
}

// fragmentation replays one plan.
func fragment(ctx context.Context, s streams, o *fragmentationOptions, name string) error {
	choices, err := o.choices()
	if err != nil {
		return err
	}
	capacity, err := o.device()
	if err != nil {
		return err
	}
	slot, err := positiveBytes("--slot", o.slot)
	if err != nil {
		return err
	}
	format, err := plotFormat(o.plot)
	if err != nil {
		return err
	}
	p, err := readPlan(s, name)
	if err != nil {
		return err
	}
	in, err := solve.LoadOf(p, name, o.instance, s.in)
	if err != nil {
		return err
	}
	problem, err := catalog.FindProblem(p.Problem)
	if err != nil {
		return err
	}
	f, err := fragmentation.Fragment(ctx, problem, in, p, fragmentation.FragmentationOptions{
		Allocators: choices, Capacity: capacity, Steps: o.steps, Unit: slot, Late: o.late, Record: o.plot != "",
	})
	if err != nil {
		return err
	}
	if o.plot != "" {
		if err := drawFigure(s, o.plot, format, plots.Fragmentation(f)); err != nil {
			return err
		}
		for i := range f.Runs {
			f.Runs[i].Samples = nil // they are in the picture
		}
	}
	err = o.print(s.out, "", f, func(w io.Writer) { render.Fragmentation(w, f, capacity) })
	return cmp.Or(err, f.Err())
}

// drawFigure writes a figure; one without points is an error of the user's.
func drawFigure(s streams, name, format string, figure *picture.Figure) error {
	err := atomicfile.Write(name, s.out, func(w io.Writer) error { return figure.Write(w, format) })
	if errors.Is(err, picture.ErrEmpty) {
		return solve.InputError(err)
	}
	return err
}

// batcher turns the flags for batches into values.
func (o *fragmentationOptions) batcher() (b *fragmentation.Batcher, methods []*solve.Method, err error) {
	if o.capacity == "" {
		return nil, nil, usagef("--largest-batch %s: the memory is missing; give it with --capacity, as 16GiB", o.largest)
	}
	b = &fragmentation.Batcher{Network: o.largest, Steps: o.steps}
	if b.Capacity, err = o.device(); err != nil {
		return nil, nil, err
	}
	p, err := catalog.FindProblem(o.problem)
	if err != nil {
		return nil, nil, err
	}
	b.Problem = p
	if b.Late = o.late; b.Late && !p.Late {
		return nil, nil, usagef("--late: memory of plans of %s cannot be freed late", p.Name)
	}
	spec, err := fragmentation.WithBatch(o.largest, 1)
	if err != nil {
		return nil, nil, err
	}
	in, err := solve.Load(spec, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := p.Accepts(in); err != nil {
		return nil, nil, err
	}
	if err := o.link(p, &b.Setting); err != nil {
		return nil, nil, err
	}
	if p.Parallel {
		b.Setting.Platform.Processors, b.Setting.Platform.WeightCopies = method.DefaultProcessors, platform.DefaultWeightCopies
	}
	if b.Setting.Time, err = platform.ParseTimeLimit(o.timeLimit); err != nil {
		return nil, nil, usagef("--time-limit: %v", err)
	}
	b.Setting.Threads, b.Setting.Backend = 1, backends.Default()
	list := o.methods
	if list == "" {
		list = catalog.DefaultMethod(p, in)
	}
	if methods, err = chosen(&job{Case: render.Case{Problem: p, Instance: in}}, list); err != nil {
		return nil, nil, err
	}
	for _, m := range methods {
		if m.Kind == solve.Relaxed {
			return nil, nil, usagef("--method %s: proves a bound and makes no plan", m.Name)
		}
	}
	return b, methods, nil
}

// batchSizes reads --batches.
func (o *fragmentationOptions) batchSizes() (sizes []int, err error) {
	if o.batches == "" {
		return nil, nil
	}
	for _, word := range strings.Split(o.batches, ",") {
		var n int
		if _, err := fmt.Sscanf(strings.TrimSpace(word)+" ", "%d ", &n); err != nil || n < 1 || n > 1<<16 ||
			fmt.Sprint(n) != strings.TrimSpace(word) {
			return nil, usagef("--batches %q: integers from 1 to %d are needed, separated by commas", o.batches, 1<<16)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// largestBatch tries batches of a network.
func largestBatch(ctx context.Context, s streams, o *fragmentationOptions) error {
	choices, err := o.choices()
	if err != nil {
		return err
	}
	sizes, err := o.batchSizes()
	if err != nil {
		return err
	}
	quantity := plots.BatchQuantity(o.quantity)
	if quantity != plots.BatchSpeed && quantity != plots.BatchMemory {
		return usagef("--quantity %q: %s", o.quantity, nearest.Hint(o.quantity, []string{string(plots.BatchSpeed), string(plots.BatchMemory)}))
	}
	if o.plot != "" && len(sizes) == 0 {
		return usagef("--plot %s: over which batches? list them with --batches", o.plot)
	}
	format, err := plotFormat(o.plot)
	if err != nil {
		return err
	}
	b, methods, err := o.batcher()
	if err != nil {
		return err
	}
	var points []*fragmentation.BatchPoint
	for _, m := range methods {
		for _, a := range choices {
			if len(sizes) == 0 {
				x, err := b.Largest(ctx, m, a)
				if err != nil {
					return err
				}
				points = append(points, x)
			}
			for _, batch := range sizes {
				x, err := b.Fastest(ctx, m, a, batch)
				if err != nil {
					return err
				}
				points = append(points, x)
			}
		}
	}
	if o.plot != "" {
		title := fmt.Sprintf("%s, %s, %s", o.problem, o.largest, platform.FormatBytes(float64(b.Capacity)))
		if err := drawFigure(s, o.plot, format, plots.Batches(title, points, quantity, b.Capacity)); err != nil {
			return err
		}
	}
	err = o.print(s.out, "", b.Batches(points), func(w io.Writer) { render.Batches(w, o.batches != "", b, points) })
	return cmp.Or(err, fragmentation.NoBatch(points))
}
