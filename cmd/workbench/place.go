package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/addressreport"
	"workbench/bench/render"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/fragmentation"
	"workbench/bench/sweep/store"
	"workbench/model/platform"
)

// placeOptions are the flags of place; those of solve are for the placement.
type placeOptions struct {
	solveOptions
	out, csv, device, align string
	replan                  bool
}

func newPlace(s streams) *cli.Command {
	o := &placeOptions{}
	return &cli.Command{
		Name:      "place",
		Usage:     "assign addresses to the tensors of a plan before the run",
		ArgsUsage: "PLAN [INSTANCE] | SWEEP",
		Description: "Each time a tensor is on the device is a buffer with a lifetime. Their placement is a\n" +
			"plan of the problem placement. With --replan, and if it needs more than the memory of PLAN,\n" +
			"the planner is run with that much less memory, until the placement fits. For the folder\n" +
			"of a sweep, a table of all its plans.",
		Flags: append([]cli.Flag{
			stringFlag("instance", "device", &o.device, "", "`DEVICE` of a pipeline, as gpu1 (default: the one with the highest peak)"),
			stringFlag("instance", "align", &o.align, "1", "addresses are multiples of `SIZE` bytes, as 512 for CUDA"),
			boolFlag("solver", "replan", &o.replan, "run the planner with slightly less memory if the placement does not fit"),
			stringFlag("solver", "method, methods", &o.method, "exact", "`METHOD` of placement"),
			stringFlag("solver", "time-limit", &o.timeLimit, "60s", "stop each placement, and each planning, after `DURATION`"),
			stringFlag("output", "plan", &o.planFile, "", "write the placement to `FILE`"),
			stringFlag("output", "output, o", &o.out, "", "write the lifetimes to `FILE`"),
			stringFlag("output", "csv", &o.csv, "", "write lifetimes and offsets in the format of minimalloc to `FILE`"),
		}, o.flags()...),
		Action: o.action(s, 1, 2, "place PLAN [INSTANCE] or place SWEEP", func(c *cli.Context, a []string) error {
			align, err := positiveBytes("--align", o.align)
			switch {
			case err != nil:
				return err
			case len(a) == 1 && store.Exists(a[0]):
				return placeSweep(c.Context, s, o, a[0], align)
			}
			return place(c.Context, s, o, append(a, "")[:2], align)
		}),
	}
}

// mostReplans is how often the planner is asked again.
const mostReplans = 10

// place places the tensors of a plan, a[0], on an instance, a[1] or "".
func place(ctx context.Context, s streams, o *placeOptions, a []string, align int64) error {
	p, in, err := planAndInstance(s, a[0], a[1])
	if err != nil {
		return err
	}
	problem, err := catalog.FindProblem(p.Problem)
	if err != nil {
		return err
	}
	limit, err := platform.ParseTimeLimit(o.timeLimit)
	if err != nil {
		return usagef("--time-limit: %v", err)
	}
	x := &fragmentation.Placer{Problem: problem, Instance: in, Device: o.device, Align: align, Method: o.method, Time: limit}
	if o.replan {
		x.Replans, x.Backend = mostReplans, backends.Default()
	}
	placed, err := x.Place(ctx, p)
	if err != nil {
		return err
	}
	if err := o.write(s, placed); err != nil {
		return err
	}
	if o.json() {
		return placed.WriteJSON(s.out)
	}
	render.Placed(s.out, placed)
	return nil
}

// placeSweep prints how high the placements of all plans of a sweep are; interrupted, of those so far.
func placeSweep(ctx context.Context, s streams, o *placeOptions, dir string, align int64) error {
	if o.replan || o.device != "" || o.planFile != "" || o.out != "" || o.csv != "" {
		return usagef("--replan, --device, --plan, --output, --csv: for one plan; %s is a sweep", dir)
	}
	last := time.Now()
	h, err := addressreport.PlaceSweep(ctx, dir, align, func(done, all int) {
		if !o.quiet && time.Since(last) > 5*time.Second {
			last = time.Now()
			fmt.Fprintf(s.err, "workbench: %d of %d plans placed\n", done, all)
		}
	})
	if h == nil {
		return err
	}
	return errors.Join(o.print(s.out, "", h, h.Write), err)
}

// write writes the files asked for.
func (o *placeOptions) write(s streams, x *fragmentation.Placed) error {
	offsets := make([]float64, len(x.Plan.Offsets)) // in the order of the buffers, in which the view makes them
	for i := range offsets {
		offsets[i] = x.Plan.Offsets[i].Offset
	}
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{o.out, x.Lifetimes.Write},
		{o.planFile, x.Plan.Write},
		{o.csv, func(w io.Writer) error { return x.Lifetimes.WriteCSV(w, offsets) }},
	} {
		if f.name != "" {
			if err := emit(s, f.name, f.write); err != nil {
				return err
			}
		}
	}
	return nil
}
