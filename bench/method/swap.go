package method

import (
	"context"
	"fmt"

	"workbench/bench/run"
	"workbench/bench/timeline"
	"workbench/heuristics/swap"
	"workbench/ilp/formulation"
	ilpswap "workbench/ilp/swap"
	"workbench/model/allocator"
	"workbench/model/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/subject"
	swapview "workbench/model/swap"
)

// swapping is the problem of [003].
func Swap() *run.Problem {
	return &run.Problem{
		Name:      swapview.Problem,
		Title:     "which variables leave the GPU between the functions that use them, and when",
		Source:    "[003]",
		Objective: "makespan of a training step, seconds",
		Takes:     []string{functions.Kind},
		Word:      "makespan",
		Defaults:  []string{"swap-milp"},
		Example:   "zoo:resnet50?as=functions",
		Memory:    "40%", Bandwidth: "12GB/s",
		Range: func(in *run.Instance) (low, high float64) {
			low, high, err := swapview.Range(plan.As[*functions.Sequence](in.Instance))
			if err != nil {
				return 0, 0 // Load validates
			}
			return low, high
		},
		Fit:     swapFit,
		Bound:   swapBound,
		Methods: SwapMethods,
		Does: run.Counts(
			run.Count{Word: "functions", Ops: []string{plan.OpRun}},
			run.Count{Word: "in", Ops: []string{plan.OpIn}},
			run.Count{Word: "out", Ops: []string{plan.OpOut}},
			run.Count{Word: "drops", Ops: []string{plan.OpDrop}},
		),
		Times:    run.Waiting(false),
		Timeline: timeline.Swapping(), Tensors: allocator.OfSwapping, Late: true,
		Subjects: []*subject.Subject{subject.Swap()},
		Tiny:     map[string]string{functions.Kind: "zoo:rnn?seq=2&as=functions"},
	}
}

// swapFit checks that times, sizes and the platform are numbers one can
// calculate with.
func swapFit(in *run.Instance, p platform.Platform) error {
	bytes := 0.0
	for v := range plan.As[*functions.Sequence](in.Instance).Variables {
		bytes += plan.As[*functions.Sequence](in.Instance).Variables[v].Size
	}
	for _, x := range []struct {
		what  string
		value float64
	}{
		{"its functions take %g s", in.Compute()},
		{"its variables have %g bytes", bytes},
		{"sending all variables takes %g s", bytes / p.Bandwidth},
		{"memory is %g bytes", p.Memory},
		{"bandwidth is %g bytes per second", p.Bandwidth},
	} {
		if !(x.value <= largest) {
			return run.InputError(fmt.Errorf("functions %q: "+x.what+": choose units in which this is at most %g", in.Name, x.value, largest))
		}
	}
	return nil
}

// swapBound returns the best of swapview.Bounds. Every run on the instance asks for
// it, and of a thousand functions it takes hundredths of a second.
func swapBound(in *run.Instance, s run.Setting) run.Bound {
	p := s.Platform
	key := boundKey{swapview.Problem, p.Memory, p.Bandwidth}
	return run.Memo(in, key, func() run.Bound { return bestSwapBound(in, p) })
}

func bestSwapBound(in *run.Instance, p platform.Platform) run.Bound {
	best := run.Bound{Value: in.Compute(), By: "the sum of the functions", Proof: proof.Search, Assumptions: []string{}}
	all, err := swapview.Bounds(plan.As[*functions.Sequence](in.Instance), p)
	if err != nil {
		return best // below the least memory there are no plans and so no bounds
	}
	for _, b := range all {
		if b.Value > best.Value {
			best.Value, best.By = b.Value, "the transfers that memory forces"
		}
	}
	return best
}

// swapMethods is the table of methods for swapping.
func SwapMethods() []*run.Method {
	seeded := func(name, source, summary, complexity string, work func(context.Context, *functions.Sequence, platform.Platform, uint64) (*plan.Plan, error)) *run.Method {
		return &run.Method{
			Problem: swapview.Problem, Name: name, Kind: run.Heuristic, Source: source, Summary: summary, Complexity: complexity,
			Run: func(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
				p, err := work(ctx, plan.As[*functions.Sequence](in.Instance), s.Platform, uint64(s.Seed))
				if err != nil {
					return nil, linkError(err)
				}
				return &run.Outcome{Plan: p, Stopped: ctx.Err() != nil}, nil
			},
		}
	}
	method := func(name, source, summary, complexity string, work func(context.Context, *functions.Sequence, platform.Platform) (*plan.Plan, error)) *run.Method {
		return seeded(name, source, summary, complexity, func(ctx context.Context, q *functions.Sequence, p platform.Platform, _ uint64) (*plan.Plan, error) {
			return work(ctx, q, p)
		})
	}
	return []*run.Method{
		method("window", "[003] §3, Fig. 2", "the schedule-window slides over the functions, with the skip rules; its size by a sweep and bisection", "O(uses) a window, 32 windows", swap.WindowSearch),
		method("lms", "Le et al. 2019, [003] §2", "Large Model Support: thresholds on distances in the sequence; the best of a grid", "O(uses) a pair, 96 pairs or more", swap.LMSGrid),
		method("lms-tuned", "Le et al. 2019, [003] §2", "Large Model Support with the thresholds that its own tuning finds", "O(uses · log functions)", swap.LMSTuned),
		method("vdnn-swap", "vDNN, [003] §2", "out at the last forward use, in one function ahead of the backward", "O(uses)", swap.VDNNSwap),
		method("naive", "[003] §1", "in before each function, out after it, nothing else meanwhile", "O(uses)", swap.Naive),
		seeded("search", "ours", "transfers moved, added and dropped at random, from the best of the others, until a bound is met", "some million events", swap.Search),
		swapMILP(),
	}
}

// swapMILP solves the MILP of swapping from the plan of the search.
func swapMILP() *run.Method {
	const name = "swap-milp"
	search := func(ctx context.Context, in *run.Instance, s run.Setting) (*plan.Plan, error) {
		return swap.Search(ctx, plan.As[*functions.Sequence](in.Instance), s.Platform, uint64(s.Seed))
	}
	return &run.Method{
		Problem: swapview.Problem, Name: name, Kind: run.Heuristic, Source: "ours, in the spirit of [001] §6", Solver: true,
		Summary:    "search, then a MILP that bounds all plans",
		Complexity: "exponential; columns for some functions and the variables away then, 9000 at most",
		Run: milpOnLink(name, search, func(ctx context.Context, t *formulation.Task, in *run.Instance, p platform.Platform) (*formulation.Result, error) {
			return ilpswap.Run(ctx, t, plan.As[*functions.Sequence](in.Instance), p)
		}),
	}
}
