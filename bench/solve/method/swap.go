package method

import (
	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	"workbench/heuristics/swap"
	ilpswap "workbench/ilp/swap"
	"workbench/model/allocator"
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	swapview "workbench/model/problem/swap"
	"workbench/model/proof"
	"workbench/model/testcase"
)

// Swap is the problem of [003].
func Swap() *solve.Problem {
	return &solve.Problem{
		Name:      swapview.Problem,
		Aliases:   []string{"out-of-core"},
		Title:     "which variables leave the GPU between the functions that use them, and when",
		Source:    "[003]",
		Objective: "makespan of a training step, seconds",
		Takes:     []string{functions.Kind},
		Word:      "makespan",
		Defaults:  []string{"swap-milp"},
		Example:   "zoo:resnet50?as=functions",
		Memory:    "range 40%", Bandwidth: "12GB/s",
		Range: func(in *solve.Instance, _ solve.Setting) (low, high float64) {
			low, high, err := swapview.Range(plan.As[*functions.Sequence](in.Instance))
			if err != nil {
				return 0, 0 // Load validates
			}
			return low, high
		},
		Fit:     swapFit,
		Bound:   swapBound(),
		Methods: SwapMethods,
		Does: solve.Counts(
			solve.Count{Word: "functions", Ops: []string{plan.OpRun}},
			solve.Count{Word: "in", Ops: []string{plan.OpIn}},
			solve.Count{Word: "out", Ops: []string{plan.OpOut}},
			solve.Count{Word: "drops", Ops: []string{plan.OpDrop}},
		),
		Times:    solve.Waiting(false),
		Timeline: timeline.Swapping(), Tensors: allocator.OfSwapping, Late: true,
		Subjects: []*testcase.Subject{testcase.Swap()},
		Tiny:     map[string]string{functions.Kind: "zoo:rnn?seq=2&as=functions"},
	}
}

// swapFit checks that one can calculate with times, sizes and the platform.
func swapFit(in *solve.Instance, p platform.Platform) error {
	bytes := 0.0
	for _, x := range plan.As[*functions.Sequence](in.Instance).Variables {
		bytes += x.Size
	}
	return calculable(in, ofStep(in), quantity{"its variables have %g bytes", bytes},
		quantity{"sending all variables takes %g s", bytes / p.Bandwidth}, ofMemory(p), ofLink(p))
}

func swapBound() func(*solve.Instance, solve.Setting) solve.Bound {
	return closedForms(solve.Memo, swapview.Problem, func(in *solve.Instance, _ solve.Setting) solve.Bound {
		return proof.BySearch(atLeast(in), "the sum of the functions")
	}, func(in *solve.Instance, s solve.Setting) ([]solve.Bound, error) {
		return swapview.Bounds(plan.As[*functions.Sequence](in.Instance), s.Platform)
	})
}

// SwapMethods is the table of methods for swapping.
func SwapMethods() []*solve.Method {
	methods := []*solve.Method{
		heuristic("window", "[003] §3, Fig. 2", "the schedule-window slides over the functions, with the skip rules; its size by a sweep and "+
			"bisection", "O(uses) a window, 32 windows", limited(swap.WindowSearch)),
		heuristic("lms", "Le et al. 2019, [003] §2", "Large Model Support: thresholds on distances in the sequence; the best of a grid",
			"O(uses) a pair, 96 pairs or more", limited(swap.LMSGrid)),
		heuristic("lms-tuned", "Le et al. 2019, [003] §2", "Large Model Support with the thresholds that its own tuning finds",
			"O(uses · log functions)", limited(swap.LMSTuned)),
		heuristic("vdnn-swap", "vDNN, [003] §2", "out at the last forward use, in one function ahead of the backward", "O(uses)",
			limited(swap.VDNNSwap)),
		heuristic("naive", "[003] §1", "in before each function, out after it, nothing else meanwhile", "O(uses)",
			limited(swap.Naive)),
		heuristic("search", "ours", "transfers moved, added and dropped at random, from the best of the others, until a bound is met",
			"some million events", seeded(swap.Search)),
		{
			Name: "swap-milp", Kind: solve.Heuristic, Source: "ours, in the spirit of [001] §6", Solver: true,
			Summary:    "search, and beside it a MILP that bounds all plans",
			Complexity: "exponential; columns for some functions and the variables away then, 9000 at most",
			Parts:      []string{"window", "lms", "lms-tuned", "vdnn-swap", "naive", "search"},
		},
	}
	combine(methods, swapMILP(methods))
	return methods
}

// swapMILP is the search, and the MILP of swapping beside it.
func swapMILP(methods []*solve.Method) *combination {
	return &combination{
		name: "swap-milp", bound: swapBound(), quick: named(methods, "naive", "vdnn-swap", "lms-tuned", "window"),
		search: searched("search", func(j *joint, round int) (*plan.Plan, error) {
			p, err := swap.Search(j.ctx, plan.As[*functions.Sequence](j.in.Instance), j.s.Platform, uint64(j.s.Seed+round))
			return p, inputError(err)
		}),
		prove: func(j *joint) error {
			return j.solved(ilpswap.Run(j.ctx, j.task("milp"), plan.As[*functions.Sequence](j.in.Instance), j.s.Platform))
		},
	}
}
