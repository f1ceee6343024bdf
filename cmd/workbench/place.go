package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/catalog"
	"workbench/bench/run"
	"workbench/bench/words"
	"workbench/model/allocator"
	"workbench/model/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// placeOptions are the flags of place; those of solve are for the placement.
type placeOptions struct {
	solveOptions
	out, csv, device string
	replan           bool
}

func newPlace(s streams) *cli.Command {
	o := &placeOptions{}
	return &cli.Command{
		Name:      "place",
		Usage:     "give the tensors of a plan their addresses, before the run",
		ArgsUsage: "PLAN [INSTANCE]",
		Description: "Each time a tensor is on the device is a buffer with a lifetime. Their placement is a\n" +
			"plan of the problem placement. With --replan, and if it needs more than the memory of PLAN,\n" +
			"the planner is asked for a plan of so much less, until the placement fits.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "device", Usage: "`DEVICE` of a pipeline, as gpu1 (default: the fullest)", Destination: &o.device, Category: "instance"},
			&cli.BoolFlag{Name: "replan", Usage: "ask the planner for a little less memory where the placement does not fit", Destination: &o.replan, Category: "solver"},
			&cli.StringFlag{Name: "method", Usage: "`METHOD` of placement", Value: "exact", Destination: &o.method, Category: "solver"},
			&cli.StringFlag{Name: "time-limit", Usage: "stop each placement, and each planning, after `DURATION`", Value: "60s", Destination: &o.timeLimit, Category: "solver"},
			&cli.StringFlag{Name: "plan", Usage: "write the placement to `FILE`", Destination: &o.planFile, Category: "output"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the lifetimes to `FILE`", Destination: &o.out, Category: "output"},
			&cli.StringFlag{Name: "csv", Usage: "write lifetimes and offsets as minimalloc has them to `FILE`", Destination: &o.csv, Category: "output"},
		}, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 1, 2, "place PLAN [INSTANCE]")
			if err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			return place(c.Context, s, o, append(a, "")[:2])
		},
	}
}

// mostReplans is how often the planner is asked again.
const mostReplans = 10

// place places the tensors of a plan, a[0], on an instance, a[1] or "".
func place(ctx context.Context, s streams, o *placeOptions, a []string) error {
	p, err := readPlan(s, a[0])
	if err != nil {
		return err
	}
	in, err := instanceOf(s, p, a[1])
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
	memory := p.Platform.Memory
	for again := 0; ; again++ {
		l, err := lifetimesOf(problem, in, p, o.device)
		if err != nil {
			return err
		}
		placed, err := placeAll(ctx, l, o.method, run.Setting{Time: limit})
		if err != nil {
			return err
		}
		excess := *placed.Objective - memory
		if !o.replan || problem.Slots || excess <= 0 {
			return o.report(s, l, placed, p, memory)
		}
		if again == mostReplans || ctx.Err() != nil {
			return fmt.Errorf("after %d plans the placement takes %.0f bytes more than there are: %w", again+1, excess, plan.ErrNoPlan)
		}
		if p, err = replan(ctx, problem, in, p, p.Platform.Memory-excess, limit); err != nil {
			return err
		}
	}
}

// lifetimesOf returns what a plan has on a device, "" for the fullest.
func lifetimesOf(problem *run.Problem, in *run.Instance, p *plan.Plan, device string) (*lifetimes.Lifetimes, error) {
	const slot = 1 // byte
	traces, err := allocator.Traces(problem.Tensors, in.Instance, p, slot)
	if err != nil {
		return nil, run.InputError(err)
	}
	var chosen *allocator.Trace
	for _, t := range traces {
		if t.Device == device || device == "" && (chosen == nil || t.Peak() > chosen.Peak()) {
			chosen = t
		}
	}
	if chosen == nil || len(chosen.Blocks) == 0 {
		return nil, usagef("--device %s: the plan has nothing there", device)
	}
	return chosen.Lifetimes(cmp.Or(in.Name, p.Problem) + "-" + p.Method), nil
}

// placeAll solves the placement, and fails where there is none.
func placeAll(ctx context.Context, l *lifetimes.Lifetimes, method string, setting run.Setting) (*run.Result, error) {
	problem, err := catalog.FindProblem(plan.Placement)
	if err != nil {
		return nil, err
	}
	m, err := catalog.FindMethod(problem, method)
	if err != nil {
		return nil, err
	}
	if m.Solver {
		return nil, usagef("--method %s: needs a solver; write the lifetimes with --output and solve them", m.Name)
	}
	digest, err := l.Digest()
	if err != nil {
		return nil, run.InputError(err)
	}
	in := &run.Instance{Instance: l, Name: l.Name, SHA256: digest}
	_, setting.Platform.Memory = problem.Range(in)
	r := run.Run(ctx, problem, m, in, setting)
	return r, r.Err
}

// replan asks the method of a plan for one in less memory.
func replan(ctx context.Context, problem *run.Problem, in *run.Instance, p *plan.Plan, memory float64, limit time.Duration) (*plan.Plan, error) {
	m, err := catalog.FindMethod(problem, p.Method)
	if err != nil {
		return nil, err
	}
	setting := run.Setting{Platform: p.Platform, Time: limit, Threads: 1, MemoryModel: p.MemoryModel}
	setting.Platform.Memory = memory
	if setting.Backend, err = run.Backend("highs", true); err != nil {
		return nil, err
	}
	r := run.Run(ctx, problem, m, in, setting)
	if r.Plan == nil {
		return nil, r.Err
	}
	return r.Plan, nil
}

// report prints a placement and writes the files asked for.
func (o *placeOptions) report(s streams, l *lifetimes.Lifetimes, r *run.Result, p *plan.Plan, memory float64) error {
	if o.out != "" {
		if err := emit(s, o.out, l.Write); err != nil {
			return err
		}
	}
	if o.planFile != "" {
		if err := emit(s, o.planFile, r.Plan.Write); err != nil {
			return err
		}
	}
	if o.csv != "" {
		offsets := make([]float64, len(r.Plan.Offsets)) // in the order of the buffers, in which the view makes them
		for i := range offsets {
			offsets[i] = r.Plan.Offsets[i].Offset
		}
		if err := emit(s, o.csv, func(w io.Writer) error { return l.WriteCSV(w, offsets) }); err != nil {
			return err
		}
	}
	if o.json() {
		return r.WriteJSON(s.out)
	}
	size := platform.FormatBytes
	fmt.Fprintf(s.out, "%s: %d buffers of the plan of %s by %s\n", l.Name, len(l.Buffers), p.Problem, p.Method)
	fmt.Fprintf(s.out, "  height      %s (%.0f bytes), %s above the load\n", size(*r.Objective), *r.Objective, words.Percent((*r.Objective-r.Bound.Value)/max(r.Bound.Value, 1)))
	fmt.Fprintf(s.out, "  status      %s\n", r.Status)
	if memory > 0 {
		word := "fits in"
		if *r.Objective > memory {
			word = "does not fit in"
		}
		fmt.Fprintf(s.out, "  memory      %s the %s of the plan\n", word, size(memory))
	}
	if p.Platform.Memory < memory {
		fmt.Fprintf(s.out, "  planned     anew for %s, in %s\n", size(p.Platform.Memory), platform.FormatSeconds(p.Claims.Makespan))
	}
	return nil
}
