package method

import (
	"context"
	"fmt"
	"math"

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	"workbench/heuristics/weightoffload"
	ilpweights "workbench/ilp/weightoffload"
	"workbench/model/allocator"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	problemweightoffload "workbench/model/problem/weightoffload"
	"workbench/model/proof"
	"workbench/model/testcase"
	"workbench/model/zoo"
)

// WeightOffload is the problem of [001].
func WeightOffload() *solve.Problem {
	return &solve.Problem{
		Name:      weightoffload.Problem,
		Aliases:   []string{"weights"},
		Title:     "which weights leave the GPU between uses, and when they move",
		Source:    "[001]",
		Objective: "period of a training step, seconds",
		Defaults:  []string{"milp"},
		Example:   zoo.Default,
		Takes:     []string{chain.Kind},
		Word:      "period",
		Memory:    "range 25%", Bandwidth: "12GB/s", Models: true,
		Range: func(in *solve.Instance, _ solve.Setting) (low, high float64) {
			return problemweightoffload.FromChain(in.Chain()).Range()
		},
		Fit:      fit,
		Bound:    weightBound(),
		Methods:  WeightMethods,
		Does:     func(p *plan.Plan) string { return weightOperations(p) + " a cycle" },
		Times:    cycleTimes,
		Timeline: timeline.Weights(), Tensors: allocator.OfWeights,
		Subjects: []*testcase.Subject{testcase.Weights()},
		Tiny:     map[string]string{chain.Kind: "zoo:table1-gpt2?depth=3&batch=16"},
	}
}

var weightOperations = solve.Counts(
	solve.Count{Word: "computations", Ops: []string{plan.OpF, plan.OpB}},
	solve.Count{Word: "prefetches", Ops: []string{plan.OpP}},
	solve.Count{Word: "uploads", Ops: []string{plan.OpO}},
	solve.Count{Word: "deletions", Ops: []string{plan.OpD}},
)

// cycleTimes splits the period into computing and waiting.
func cycleTimes(in *solve.Instance, r *solve.Result) []solve.Line {
	idle := r.Report.Makespan - in.Compute()
	if idle < plan.Tolerance*in.Compute() {
		idle = 0 // the rounding of a sum
	}
	return []solve.Line{{Label: "period", Text: fmt.Sprintf("%s: compute %s, idle %s", platform.FormatSeconds(r.Report.Makespan),
		platform.FormatSeconds(in.Compute()), platform.FormatSeconds(idle))}, counted(r.Platform)}
}

// counted says what the memory of a plan counts.
func counted(p platform.Platform) solve.Line {
	text := "the outputs of layers only, as the papers print it; autograd saves more (--model saved)"
	if p.Model == platform.SavedModel {
		text = "all that autograd saves, and overheads (--model saved)"
	}
	return solve.Line{Label: "counted", Text: text}
}

// fit checks that a step takes time and that times, sizes and the platform are
// numbers one can calculate with. O(L).
func fit(in *solve.Instance, p platform.Platform) error {
	y := problemweightoffload.FromChain(in.Chain())
	_, high := y.Range()
	transfers := 0.0
	for _, w := range y.W {
		transfers += 3 * w / p.Bandwidth
	}
	if y.Compute() == 0 {
		return solve.InputError(fmt.Errorf("chain %q: no computation takes time, so there is no step to plan: a layer with a time above 0 is "+
			"needed", in.Name))
	}
	if p.Memory == 0 {
		return solve.InputError(fmt.Errorf("memory is 0 bytes: a memory above 0 is needed, even by layers without weights and activations"))
	}
	all := []quantity{
		ofStep(in), {"the transfers of a step take %g s", transfers}, {"all weights and activations take %g bytes", high}, ofMemory(p), ofLink(p),
	}
	for _, x := range all {
		if x.value != 0 && !(x.value >= 1/largest) {
			return solve.InputError(fmt.Errorf("chain %q: "+x.what+": choose units in which this is at least %g", in.Name, x.value, 1/largest))
		}
	}
	return calculable(in, all...)
}

func weightBound() func(*solve.Instance, solve.Setting) solve.Bound {
	return closedForms(solve.Memo, weightoffload.Problem, func(in *solve.Instance, _ solve.Setting) solve.Bound {
		return proof.BySearch(problemweightoffload.FromChain(in.Chain()).Compute(), proof.SumOfComputations) // rounded down
	}, func(in *solve.Instance, s solve.Setting) ([]solve.Bound, error) {
		y, err := problemweightoffload.New(in.Chain(), s.Platform)
		if err != nil {
			return nil, err
		}
		if _, most := y.Range(); platform.Fits(most, s.Platform.Memory) {
			return nil, nil // keeping everything takes the computations alone
		}
		return y.Bounds(), nil
	})
}

// cubicLayers is the length of the longest chain that methods of O(L³) take,
// some ten seconds; no network comes near.
const cubicLayers = ilpweights.MostLayers

// short refuses chains too long for a method of O(L³).
func short(in *solve.Instance, method string) error {
	if n := in.Chain().Len(); n > cubicLayers {
		seconds := 10 * math.Pow(float64(n)/cubicLayers, 3)
		return solve.InputError(fmt.Errorf("%s takes O(L³) time, about %.2g s for %d layers; it is for at most %d layers, use l2l or join layers",
			method, seconds, n, cubicLayers))
	}
	return nil
}

// WeightMethods is the table of methods for weight offloading.
func WeightMethods() []*solve.Method {
	cubic := func(name, source, summary string, work func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan,
		error),
	) *solve.Method {
		return heuristic(name, source, summary, "O(L³)", func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
			if err := short(in, name); err != nil {
				return nil, err
			}
			return work(ctx, in.Chain(), s.Platform)
		})
	}
	methods := []*solve.Method{
		heuristic("store-all", "ours", "keeps every weight on the GPU", "O(L)",
			limited(func(_ context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
				return weightoffload.StoreAll(c, p)
			})),
		cubic("greedy", "[001] Alg. 1, Alg. 2", "chooses weights by saved memory per byte moved, an upload serving two gaps; schedules with "+
			"every cut point; the best of Alg. 1 as printed and corrected, and of smaller memories", weightoffload.Greedy),
		cubic("greedy-printed", "[001] Alg. 1, Alg. 2", "greedy to the letter; may find no plan where there is one", weightoffload.GreedyPrinted),
		cubic("greedy-nodiscount", "[001] Greedy*", "greedy in which every choice pays its own upload", weightoffload.GreedyNoDiscount),
		heuristic("l2l", "L2L, [001] §7", "one layer on the GPU at a time, prefetches never overlap computations", "O(L)",
			func(_ context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
				return weightoffload.L2L(in.Chain(), s.Platform)
			}),
		cubic("first-half", "M6-10T, [001] §2", "offloads layers from the first on until the rest fits, schedules as greedy; the best of "+
			"smaller memories", weightoffload.FirstHalf),
		{
			Name: "search", Kind: solve.Heuristic, Source: "ours",
			Summary:    "changes choices and orders at random, with the least period for each order found exactly, until a bound is met",
			Complexity: "O(L log L) a move, then some passes over O(L) constraints",
			Run:        weightsSearch,
		},
		{
			Name: "milp", Kind: solve.Exact, Source: "[001] (2)–(8), corrected; ours",
			Summary:    "search, with it the compact MILP for the bound, then search again with its choices; short chains end with an exact MILP",
			Complexity: "exponential; O(L) columns", Solver: true,
			Parts: []string{"store-all", "l2l", "greedy", "greedy-nodiscount", "first-half", "search"},
		},
	}
	made := weightsMILP(methods)
	named(methods, "milp")[0].Run = func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		return made().run(ctx, in, s)
	}
	return methods
}
