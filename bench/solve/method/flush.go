package method

import (
	"context"
	"errors"
	"fmt"
	"time"

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	heuristics "workbench/heuristics/flush"
	ilpflush "workbench/ilp/flush"
	"workbench/ilp/formulation"
	"workbench/model/allocator"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
	"workbench/model/proof"
	"workbench/model/testcase"
)

// Flush is the problem of pipelines that flush.
func Flush() *solve.Problem {
	return &solve.Problem{
		Name:      flush.Problem,
		Aliases:   []string{"zero-bubble", "schedule", "scheduling"},
		Title:     "when the GPUs of a pipeline compute what, of micro-batches that pass through before the weights change",
		Source:    "Qi et al. 2024",
		Objective: "span: a GPU's time from its first start to its last end, seconds",
		Takes:     []string{stages.Kind},
		Word:      "span",
		Defaults:  []string{"exact"},
		Example:   "zoo:resnet50?as=stages",
		Memory:    "range 100%",
		Scheduled: true, Objectives: []string{plan.SpanObjective, plan.MakespanObjective},
		Range: flushRange,
		Fit: func(in *solve.Instance, p platform.Platform) error {
			_, err := flushView(in, p)
			return err
		},
		Bound:   flushBound,
		Methods: FlushMethods,
		Does: func(p *plan.Plan) string {
			list := []solve.Count{
				{Word: "forwards", Ops: []string{plan.OpF}},
				{Word: "backwards", Ops: []string{plan.OpB}},
				{Word: "of the weights", Ops: []string{plan.OpW}},
			}
			if p.Moves() {
				list = append(list, solve.Count{Word: "copies to the host", Ops: []string{plan.OpO}},
					solve.Count{Word: "to the GPU", Ops: []string{plan.OpP}})
			}
			return solve.Counts(list...)(p)
		},
		Times:    flushTimes,
		Timeline: timeline.Flushes(), Tensors: allocator.OfFlush,
		Subjects: []*testcase.Subject{testcase.Flush()},
		Tiny:     map[string]string{stages.Kind: tinyFlush},
	}
}

// tinyFlush has two stages.
const tinyFlush = `{"format":"workbench.stages/v1","name":"tiny","communication_time":1,"stages":[
			{"name":"one","forward_time":2,"backward_time":3,"weight_time":1,"forward_memory":2,"weight_memory":-1,"weight":1},
			{"name":"loss","forward_time":3,"backward_time":2,"forward_memory":1}]}`

// flushTimes says span, makespan and which part of the span the GPUs are idle.
func flushTimes(in *solve.Instance, r *solve.Result) []solve.Line {
	p := r.Platform
	v, err := flushView(in, p)
	if err != nil {
		return nil // it has been solved
	}
	load := 0.0
	for s := range v.Time {
		load += float64(v.Jobs) * (v.Time[s][flush.F] + v.Time[s][flush.B] + v.Time[s][flush.W])
	}
	span, write := r.Report.Flush.Span, platform.FormatSeconds
	return []solve.Line{
		{Label: "pipeline", Text: fmt.Sprintf("%s, %s on %s", platform.Count(v.Jobs, "micro-batch"), v.Platform.Placement,
			platform.Count(v.GPUs, "GPU"))},
		{Label: "span", Text: fmt.Sprintf("%s: idle %.2f %% of all GPUs' time", write(span),
			100*max(0, 1-load/max(span*float64(v.GPUs), 1e-300)))},
		{Label: "step time", Text: write(r.Report.Makespan)},
	}
}

// flushRange returns the minimum memory of the placement and a memory in which every GPU holds 2P micro-batches of each of its
// stages, as the first GPU of ZB-H2 almost does.
func flushRange(in *solve.Instance, s solve.Setting) (low, high float64) {
	v, err := flushView(in, s.Platform)
	if err != nil {
		return 0, 0 // Fit reports the error
	}
	for g, on := range v.On {
		most := float64(v.Overhead[g])
		for _, k := range on {
			most += v.Partition.Stages[k].Weight + float64(2*v.GPUs)*v.Partition.Stages[k].ForwardMemory
		}
		high = max(high, most)
	}
	low = v.MinMemory()
	return low, max(low, high)
}

// flushView returns the view of an instance.
func flushView(in *solve.Instance, p platform.Platform) (*flush.Instance, error) {
	v, err := flush.New(plan.As[*stages.Partition](in.Instance), p)
	if err != nil {
		return nil, solve.InputError(err)
	}
	v.Stop = in.Stop
	return v, nil
}

// flushBound returns the best bound in closed form.
func flushBound(in *solve.Instance, s solve.Setting) solve.Bound {
	return solve.Searched(in, boundKey{problem: flush.Problem, platform: s.Platform}, func() solve.Bound {
		v, err := flushView(in, s.Platform)
		if err != nil {
			return proof.BySearch(0, "nothing")
		}
		b := v.Bound()
		return proof.BySearch(b.Value, b.String())
	})
}

// FlushMethods is the table of methods for pipelines that flush.
func FlushMethods() []*solve.Method {
	named := func(name, source, summary, complexity string, order heuristics.Method) *solve.Method {
		return flushMethod(name, solve.Heuristic, source, summary, complexity,
			func(ctx context.Context, v *flush.Instance, _ heuristics.Goal) heuristics.Found {
				return heuristics.Found{Order: order(ctx, v)}
			})
	}
	return []*solve.Method{
		named("gpipe", "Huang et al. 2019", "all forwards, then all backwards", "O(operations)", heuristics.Send(heuristics.GPipe)),
		named("1f1b", "Narayanan et al. 2019", "as many forwards as stages behind, then backward and forward by turns", "O(operations)",
			heuristics.Send(heuristics.OneFOneB)),
		named("1f1b-interleaved", "Narayanan et al. 2021", "1F1B of GPUs with several stages, in groups of as many micro-batches as GPUs",
			"O(operations)", heuristics.Send(heuristics.Interleaved)),
		named("zb-h1", "Qi et al. 2024, §2.1", "1F1B with W later, in the memory of 1F1B", "O(operations)", heuristics.Send(heuristics.ZBH1)),
		named("zb-h2", "Qi et al. 2024, §2.2", "twice as many forwards at first, in twice the memory of 1F1B", "O(operations)",
			heuristics.Send(heuristics.ZBH2)),
		named("zb-auto", "Qi et al. 2024, §3.1", "the authors' heuristic: waves of forwards and backwards, W in the gaps, the best of eight ways",
			"O(operations)", heuristics.Send(heuristics.ZBAuto)),
		named("zb-v", "Qi et al. NeurIPS 2024", "building blocks of the placement V in the memory of 1F1B", "O(blocks·operations)",
			heuristics.Send(heuristics.ZBV)),
		named("v-half", "Qi et al. NeurIPS 2024", "building blocks of the placement V in about half of it", "O(blocks·operations)",
			heuristics.Send(heuristics.VHalf)),
		named("v-min", "Qi et al. NeurIPS 2024", "building blocks of the placement V in about a third of it", "O(blocks·operations)",
			heuristics.Send(heuristics.VMin)),
		named("list", "ours",
			"list scheduling by events, with caps and priorities, about 200 rules: the best of these", "O(rules·operations·log)",
			heuristics.List),
		flushMethod("modulo", solve.Heuristic, "Lam 1988",
			"software pipelining: the way of one micro-batch, repeated with periods that are tried", "O(tries·operations·log)",
			func(ctx context.Context, v *flush.Instance, g heuristics.Goal) heuristics.Found {
				return heuristics.Found{Order: heuristics.Send(heuristics.Modulo(g.Seed))(ctx, v)}
			}),
		flushMethod("search", solve.Heuristic, "ours", "the orders of the GPUs by simulated annealing, from the best of the others, and "+
			"large neighbourhoods until the limit", "O(operations) a step", heuristics.Restart),
		flushMethod("exact", solve.Exact, "ours", "search, then a complete search of start times and branch and bound over the orders",
			"exponential", heuristics.Exact),
		{
			Name: "flush-milp", Kind: solve.Exact, Source: "Qi et al. 2024, App. G; ours", Solver: true,
			Summary:    "search, then the MILP of the orders with cuts of each GPU",
			Complexity: "exponential; O(micro-batches²) binaries a stage",
			Run:        flushMILP,
		},
	}
}

// flushMethod is a method without a solver.
func flushMethod(name string, kind solve.Kind, source, summary, complexity string,
	work func(context.Context, *flush.Instance, heuristics.Goal) heuristics.Found,
) *solve.Method {
	return &solve.Method{
		Name: name, Kind: kind, Source: source, Summary: summary, Complexity: complexity,
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			v, err := flushView(in, s.Platform)
			if err != nil {
				return nil, err
			}
			if err := v.Fits(); err != nil {
				return nil, err
			}
			out := &solve.Outcome{}
			if s.Document { // before the search, which may take all the time there is
				if out.Bounds, err = certifiedRoot(ctx, in, s, func() (*formulation.Program, error) {
					return ilpflush.Bounds(v.Partition, s.Platform)
				}); err != nil {
					return nil, err
				}
			}
			ctx, stop := reserveTime(ctx, time.Duration(v.Ops())*replayTime)
			defer stop()
			found := work(ctx, v, flushGoal(in, name, s))
			out.Stopped = ctx.Err() != nil
			addFlushBound(out, found)
			if out.Plan, err = flushPlan(v, name, found.Order); err != nil {
				return nil, err
			}
			return out, nil
		},
	}
}

// addFlushBound adds what a search proves, if anything.
func addFlushBound(out *solve.Outcome, found heuristics.Found) {
	if found.Bound > 0 {
		b := proof.BySearch(found.Bound, found.By)
		b.Why = found.Why
		out.Bounds = append(out.Bounds, b)
	}
}

// replayTime is what a plan of one operation takes to be made and replayed after the search.
const replayTime = 4 * time.Microsecond

// reserveTime returns ctx with a deadline, if it has one, that is earlier by rest.
func reserveTime(ctx context.Context, rest time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-rest))
}

// flushGoal tells a method what there is to tell.
func flushGoal(in *solve.Instance, name string, s solve.Setting) heuristics.Goal {
	bound := flushBound(in, s).Value
	return heuristics.Goal{Bound: bound, Seed: uint64(s.Seed), OnProgress: objectives(&s, name, bound)}
}

// flushPlan returns the plan of an order. The error says that a method has none that
// fits.
func flushPlan(v *flush.Instance, name string, o flush.Order) (*plan.Plan, error) {
	if o == nil || !v.Complete(o) {
		return nil, fmt.Errorf("%s on placement %s: %w in this memory", name, v.Platform.Placement, plan.ErrNoPlan)
	}
	if !v.KeepsMemory(o) {
		return nil, fmt.Errorf("%s: %w: its order takes more than %.f bytes on some GPU", name, plan.ErrNoPlan,
			v.Partition.Unit.Bytes(v.Platform.Memory))
	}
	s, err := v.Schedule(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, plan.ErrNoPlan, err)
	}
	return v.Plan(name, s), nil
}

// flushMILP solves the MILP from what the search finds.
func flushMILP(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	const name = "flush-milp"
	v, err := flushView(in, s.Platform)
	if err != nil {
		return nil, err
	}
	if err := v.Fits(); err != nil {
		return nil, err
	}
	goal := flushGoal(in, name, s)
	goal.Steps = heuristics.FewSteps
	out := &solve.Outcome{}
	found := heuristics.Improve(ctx, v, goal)
	addFlushBound(out, found)
	first, err := flushPlan(v, name, found.Order)
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, err
	}
	out.UpdateIncumbent(in, first)
	r, err := s.Task(in, "milp", out.Plan).Run(ctx, ilpflush.Phases(v.Partition, s.Platform))
	if err := takeProof(out, r, err); err != nil {
		return nil, err
	}
	if out.Plan != nil {
		out.Plan.Method = name
	}
	out.Stopped = ctx.Err() != nil
	return out, nil
}
