package method

import (
	"context"
	"fmt"
	"math"

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	"workbench/heuristics/activationoffload"
	ilpoffload "workbench/ilp/activationoffload"
	ilpweights "workbench/ilp/weightoffload"
	"workbench/model/allocator"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	offloadview "workbench/model/problem/activationoffload"
	"workbench/model/proof"
	"workbench/model/testcase"
	"workbench/model/verify/rematoffload"
)

// ActivationOffload is the problem of [000] and [004] ch. 3.
func ActivationOffload() *solve.Problem {
	return &solve.Problem{
		Name:      offloadview.Problem,
		Aliases:   []string{"offload", "offloading"},
		Title:     "which activations go to the host between forward and backward, and when",
		Source:    "[000], [004] ch. 3",
		Objective: "makespan of a training step, seconds",
		Takes:     []string{chain.Kind},
		Apart:     true,
		Word:      "makespan",
		Defaults:  []string{"offload-milp"},
		Example:   "zoo:resnet50?image=500&batch=16",
		Moved:     activationsMoved,
		Memory:    "range 50%", Bandwidth: "12GB/s",
		Range:   func(in *solve.Instance, _ solve.Setting) (low, high float64) { return offloadview.Range(in.Chain()) },
		Fit:     linkFit(func(c *chain.Chain) float64 { _, high := offloadview.Range(c); return high }),
		Bound:   offloadBound(),
		Methods: OffloadMethods,
		Does: solve.Counts(
			solve.Count{Word: "computations", Ops: []string{plan.OpFAll, plan.OpB}},
			solve.Count{Word: "offloads", Ops: []string{plan.OpO}},
			solve.Count{Word: "prefetches", Ops: []string{plan.OpP}},
		),
		Times:    movedToHost(false),
		Timeline: timeline.Offloading(), Tensors: allocator.OfOffload,
		Subjects: []*testcase.Subject{testcase.Offload()},
		Tiny:     map[string]string{chain.Kind: "zoo:table1-gpt2?depth=3&batch=16"},
	}
}

func offloadBound() func(*solve.Instance, solve.Setting) solve.Bound {
	return closedForms(solve.Memo, offloadview.Problem, computations, ofChain(offloadview.Bounds))
}

// activationsMoved is what plans with transfers of activations send to the host,
// as part of ā_0..ā_{N-1} ([004] Figures 4.4 and 4.5), of a training step of all values.
func activationsMoved(in *solve.Instance, p *plan.Plan) float64 {
	if isStep(in) {
		return stepMoved(in, p)
	}
	s, err := rematoffload.Summarize(in.Chain(), p)
	if err != nil {
		return math.NaN()
	}
	return s.OffloadShare
}

// movedToHost says where the time of a plan goes, and what it sends.
func movedToHost(again bool) func(*solve.Instance, *solve.Result) []solve.Line {
	waiting := solve.Waiting(again)
	return func(in *solve.Instance, r *solve.Result) []solve.Line {
		return append(waiting(in, r), solve.Line{
			Label: "moved",
			Text:  fmt.Sprintf("%.1f %% of the activations to the host", 100*activationsMoved(in, r.Plan)),
		})
	}
}

// shorter is what to do with chains too long for most methods.
const shorter = "use greedy or vdnn, or join layers"

// OffloadMethods is the table of methods for activation offloading.
func OffloadMethods() []*solve.Method {
	slots := heuristic("dynprog-slots", "[000], [004] Alg. 5, 3.3.3.2",
		"dynprog with sizes rounded to S slots, the rounding repaired until the set fits", "O(N·S³)", slotted(activationoffload.DynProgSlots))
	slots.Slots = solve.DefaultSlots
	methods := []*solve.Method{
		heuristic("greedy", "[000], [004] 3.2", "offloads ā_0, ā_1, … until the rest fits: Theorem 8 rounded to whole tensors", "O(N log N)",
			limited(activationoffload.Greedy)),
		heuristic("vdnn", "vDNN++, [004] 3.4.1", "thresholds on uF/ā, all or every other of those above; the best schedule", "O(N²)",
			limited(activationoffload.VDNN)),
		heuristic("tflms", "TFLMS, [004] 3.4.1", "the first n activations, fetched so many layers ahead; the best of the grid", "O(N³)",
			limited(activationoffload.TFLMS)),
		heuristic("autoswap", "AutoSwap, [004] 3.4.1", "four priority scores, weighted; the weights by a seeded search",
			"O(N²), some hundred schedules", seeded(activationoffload.AutoSwap)),
		slots,
		heuristic("dynprog", "[000], [004] Alg. 5, Thm 10",
			"the best set with transfers in parts, scheduled whole; exact numbers, dominated states dropped; not optimal, though printed so",
			"O(N·states²), states limited", limited(activationoffload.DynProg)),
		heuristic("search", "ours", "changes sets and orders at random, from the best of the others, until a bound is met", "a schedule a move",
			seeded(activationoffload.Search)),
		{
			Name: "fractional", Kind: solve.Relaxed, Source: "[004] Thm 8",
			Summary:    "the optimum when parts of activations may move: a lower bound, no plan",
			Complexity: "O(N)",
			Run: func(_ context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
				o, err := offloadview.Fractional(in.Chain(), s.Platform)
				if err != nil {
					return nil, inputError(err)
				}
				return &solve.Outcome{Bounds: []solve.Bound{proof.BySearch(o.Bound, "fractional")}}, nil
			},
		},
		{
			Name: "optimum", Kind: solve.Exact, Source: "ours",
			Summary:    "search, then a shortest path over partial plans, the dominated ones dropped, within bounds that close on the makespan",
			Complexity: "exponential in the number of different sizes of activations",
			Parts:      []string{"greedy", "vdnn", "autoswap", "search"},
		},
		{
			Name: "offload-milp", Kind: solve.Exact, Source: "ours, in the spirit of [001] §6", Solver: true,
			Summary: fmt.Sprintf("search, and beside it optimum, then a MILP that bounds all plans, and up to %d layers the exact one",
				ilpoffload.ExactLayers),
			Complexity: "exponential; O(N²) columns",
			Parts:      []string{"greedy", "vdnn", "tflms", "autoswap", "dynprog", "search", "optimum"},
		},
	}
	combine(methods, offloadOptimum(methods), offloadMILP(methods))
	for _, m := range methods {
		switch m.Name {
		case "greedy", "vdnn", "fractional", "optimum", "offload-milp":
		default:
			m.Run = upTo(m, ilpweights.MostLayers, shorter)
		}
	}
	return methods
}
