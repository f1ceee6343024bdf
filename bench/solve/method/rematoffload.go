package method

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	"workbench/heuristics/activationoffload"
	heuristicsrematoffload "workbench/heuristics/rematoffload"
	"workbench/heuristics/rematoffloadgraph"
	"workbench/ilp/rematoffload"
	ilpweights "workbench/ilp/weightoffload"
	"workbench/model/allocator"
	"workbench/model/instance/chain"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	combinedview "workbench/model/problem/rematoffload"
	"workbench/model/proof"
	"workbench/model/testcase"
)

// pofoSlots is the N of [004] 4.2.4: a finer division does not improve plans.
const pofoSlots = 50

// RematOffload is the problem of [004] ch. 4.
func RematOffload() *solve.Problem {
	return &solve.Problem{
		Name:      combinedview.Problem,
		Aliases:   []string{"recompute-and-offload"},
		Title:     "which activations go to the host and which are computed again",
		Source:    "[004] ch. 4",
		Objective: "makespan of a training step, seconds",
		Takes:     []string{chain.Kind, training.Kind},
		Apart:     true,
		Word:      "makespan",
		Defaults:  []string{"remat-offload-milp", "search"},
		Example:   "zoo:resnet50?image=500&batch=16",
		Moved:     activationsMoved,
		Memory:    "range 20%", Bandwidth: "12GB/s",
		Range:    combinedRange,
		Holds:    combinedHolds,
		Fit:      combinedFit,
		Bound:    combinedBound(),
		Methods:  CombinedMethods,
		Does:     combinedDoes,
		Times:    movedToHost(true),
		Timeline: timeline.Offloading(), Tensors: allocator.OfOffload,
		Subjects: []*testcase.Subject{testcase.RematOffload(), testcase.Linked()},
		Tiny:     map[string]string{chain.Kind: "zoo:table1-gpt2?depth=3&batch=16", training.Kind: "zoo:vgg16?as=training&batch=2"},
	}
}

// combinedDoes counts the operations of a plan, on a chain or on a graph.
func combinedDoes(p *plan.Plan) string {
	counts := []solve.Count{
		{Word: "F_all", Ops: []string{plan.OpFAll}},
		{Word: "F_ck", Ops: []string{plan.OpFCk}},
		{Word: "F_none", Ops: []string{plan.OpFNone}},
		{Word: "B", Ops: []string{plan.OpB}},
	}
	if slices.ContainsFunc(p.Ops, func(o plan.Op) bool { return o.Op == plan.OpC }) {
		counts = []solve.Count{{Word: "computations", Ops: []string{plan.OpC}}}
	}
	return solve.Counts(append(counts,
		solve.Count{Word: "discards", Ops: []string{plan.OpD}},
		solve.Count{Word: "offloads", Ops: []string{plan.OpO}},
		solve.Count{Word: "prefetches", Ops: []string{plan.OpP}},
	)...)(p)
}

func combinedBound() func(*solve.Instance, solve.Setting) solve.Bound {
	chains := ofChain(combinedview.Bounds)
	return closedForms(solve.Memo, combinedview.Problem, computations, func(in *solve.Instance, s solve.Setting) ([]solve.Bound, error) {
		if isStep(in) {
			return linkedBounds(in, s)
		}
		return chains(in, s)
	})
}

// combinedFit checks that one can calculate with an instance and a platform.
func combinedFit(in *solve.Instance, p platform.Platform) error {
	if isStep(in) {
		return stepFit(in, p)
	}
	return linkFit(func(c *chain.Chain) float64 { _, high := combinedview.Range(c); return high })(in, p)
}

// ofBoth are the methods that chains and training steps have.
var ofBoth = []string{"pure-remat", "pure-offload", "search"}

// CombinedMethods is the table of methods for rematerialization with
// offloading.
func CombinedMethods() []*solve.Method {
	methods := []*solve.Method{
		heuristic("pure-remat", "[004] Thm 6", "nothing is sent: the best memory-persistent plan, of long chains periodic if there is no "+
			"time, of a training step that of the search of remat", "as persistent of remat",
			either(limited(heuristicsrematoffload.PureRemat), stepAlone)),
		heuristic("pure-offload", "[004] 3.3", "nothing is computed again: dynprog of activation-offload; of a training step what is used "+
			"last leaves", "as dynprog of activation-offload",
			either(pureOffload(limited(activationoffload.DynProg)), limitedView(rematoffloadgraph.Offload))),
		heuristic("opportunist", "[004] 4.3, Superneurons",
			"keeps the link busy with the input and output of every layer it has time for, computes the rest again", "O(N³)",
			limited(heuristicsrematoffload.Opportunist)),
		heuristic("autocapper", "[004] 4.3", "the best rematerialization for 40 larger memories, from which the first activations at the "+
			"peak are sent until it fits", "40 times persistent", limited(heuristicsrematoffload.Autocapper)),
		{
			Name: "pofo", Kind: solve.Heuristic, Source: "[004] 4.2, Thm 12", Slots: pofoSlots,
			Summary: "the dynamic program of the thesis, offloading in the forward phase only; its own model frees memory byte by byte, the " +
				"plan is timed with whole tensors",
			Complexity: "O(N³·S + N²·S³)",
			Run:        pofo,
		},
		{
			Name: "search", Kind: solve.Heuristic, Source: "ours", Slots: pofoSlots,
			Summary:    "changes what is kept, sent and computed again, from the best of the others and of pofo with less memory",
			Complexity: "some pofos, and O(N) a move",
			Run:        planned(either(combinedSearch, stepSearch)),
		},
		{
			Name: "optimum", Kind: solve.Exact, Source: "ours",
			Summary: fmt.Sprintf("up to %d layers: search, then a shortest path over all states of device, host and link, directed by a bound",
				heuristicsrematoffload.MostOptimumLayers),
			Complexity: "exponential in the layers",
			Parts:      []string{"pure-remat", "opportunist", "autocapper", "search"},
		},
		{
			Name: "remat-offload-milp", Kind: solve.Heuristic, Source: "ours, in the spirit of POET", Solver: true,
			Summary: fmt.Sprintf("search, and beside it up to %d layers optimum, and up to %d a MILP that bounds all plans, but not always "+
				"as high as the best", heuristicsrematoffload.MostOptimumLayers, rematoffload.MostLayers),
			Complexity: "exponential; O(N²) columns",
			Parts:      []string{"pure-remat", "pure-offload", "opportunist", "autocapper", "pofo", "search", "optimum"},
		},
	}
	combine(methods, combinedOptimum(methods), combinedMILP(methods))
	for _, m := range methods {
		if m.Takes == nil && !slices.Contains(ofBoth, m.Name) {
			m.Takes = []string{chain.Kind}
		}
		switch m.Name {
		case "remat-offload-milp", "pure-remat":
		case "search":
			m.Run = certifiedStep(upTo(m, ilpweights.MostLayers, joinLayers))
		case "optimum":
			m.Run = whereAPlanFits(upTo(m, heuristicsrematoffload.MostOptimumLayers, joinLayers))
		default:
			m.Run = upTo(m, ilpweights.MostLayers, joinLayers)
		}
	}
	return append(methods, linkedMethods()...)
}

// pofo notes what the program claims in its own model beside what its plan
// takes.
func pofo(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	claim, p, err := heuristicsrematoffload.POFOClaim(ctx, in.Chain(), s.Platform, s.Slots)
	if err != nil {
		return nil, inputError(err)
	}
	return &solve.Outcome{
		Plan: p, Stopped: ctx.Err() != nil,
		Note: fmt.Sprintf("in its own model, which frees memory byte by byte, pofo takes %s", platform.FormatSeconds(claim)),
	}, nil
}

// pureOffload makes a method of activation offloading one of this problem, in
// which no plan of that kind is no proof that there is none.
func pureOffload(work planner) planner {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
		c := in.Chain()
		p, err := work(ctx, in, s)
		if infeasible, ok := errors.AsType[*plan.Infeasible](err); ok {
			if least, why := combinedview.Least(c); !platform.Fits(least, s.Platform.Memory) {
				return nil, &plan.Infeasible{Problem: combinedview.Problem, Memory: least, Given: s.Platform.Memory, Why: why}
			}
			return nil, fmt.Errorf("%w without computing again, which needs %.15g bytes", plan.ErrNoPlan, infeasible.Memory)
		}
		if err != nil {
			return nil, err
		}
		return heuristicsrematoffload.PureOffload(c, s.Platform, p)
	}
}

// combinedSearch searches from the best plans of this problem and of activation
// offloading.
func combinedSearch(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
	var others []*plan.Plan
	for _, work := range []planner{limited(activationoffload.DynProg), seeded(activationoffload.Search)} {
		part, cancel := plan.Portion(ctx, 0.1)
		if p, err := pureOffload(work)(part, in, s); err == nil {
			others = append(others, p)
		}
		cancel()
	}
	return heuristicsrematoffload.Search(ctx, in.Chain(), s.Platform, s.Slots, others...)
}

// whereAPlanFits says first if nothing fits, which is known of long chains, too.
func whereAPlanFits(work worker) worker {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		_, err := combinedview.New(in.Chain(), s.Platform)
		if errors.As(err, new(*plan.Infeasible)) {
			return nil, err
		}
		return work(ctx, in, s)
	}
}

// combinedOptimum is the search, and beside it the search for the optimum. Further
// rounds of the first have POFO divide the memory more finely.
func combinedOptimum(methods []*solve.Method) *combination {
	return &combination{
		name: "optimum", bound: combinedBound(),
		quick: append([]*solve.Method{
			heuristic("periodic", "", "", "", limited(heuristicsrematoffload.Periodic)),
			heuristic("greedy", "", "", "", pureOffload(limited(activationoffload.Greedy))),
		}, append(named(methods, "opportunist", "pure-remat", "autocapper"),
			heuristic("offload-all", "", "", "", limited(heuristicsrematoffload.OffloadAll)))...), // which fits where anything does
		search: func(j *joint, round int) bool {
			if unlinked(&j.s) {
				out, err := j.unlinked()
				j.addOutcome("search", out, err)
				return false
			}
			if err := atMost(j.in, "search", ilpweights.MostLayers, joinLayers); err != nil {
				j.fail("search", err)
				return false
			}
			s := j.s
			s.Slots = pofoSlots << round
			p, err := combinedSearch(j.ctx, j.in, s)
			j.addOutcome("search", &solve.Outcome{Plan: p}, inputError(err))
			return err == nil && round < mostFiner
		},
		prove: func(j *joint) error {
			if unlinked(&j.s) {
				return nil // which the search has proved
			}
			return j.combinedOptimum(1)
		},
	}
}

// combinedMILP is the same, and then the MILP of rematerialization with offloading for
// what is left of the gap, and for longer chains.
func combinedMILP(methods []*solve.Method) *combination {
	c := combinedOptimum(methods)
	c.name = "remat-offload-milp"
	c.prove = func(j *joint) error {
		if unlinked(&j.s) {
			return nil
		}
		if j.in.Chain().Len() <= heuristicsrematoffload.MostOptimumLayers && !j.s.Relax {
			if err := j.combinedOptimum(labelsShare); err != nil || !j.unproved() {
				return err
			}
		}
		return j.solved(rematoffload.Run(j.ctx, j.task("milp"), j.in.Chain(), j.s.Platform))
	}
	return c
}

// combinedOptimum searches for the optimum from the best plan, in a share of the time
// that is left.
func (j *joint) combinedOptimum(share float64) error {
	start := time.Now()
	ctx, cancel := plan.Portion(j.ctx, share)
	defer cancel()
	r, err := heuristicsrematoffload.Optimum(ctx, j.in.Chain(), j.s.Platform, j.Best(), j.s.Gap)
	if r == nil {
		return inputError(err)
	}
	reportProgress(&j.s, start, "states", r.Plan, r.Value, int64(r.States))
	j.addOutcome("optimum", &solve.Outcome{Plan: r.Plan, Bounds: []solve.Bound{r.Bound}}, err)
	return nil
}

// joinLayers is what to do with chains too long for a method.
const joinLayers = "join layers"

// unlinked reports whether there is a link in name only, over which nothing can move.
func unlinked(s *solve.Setting) bool { return s.Platform.Bandwidth <= platform.NoLink }

// unlinked is the optimum of rematerialization alone.
func (j *joint) unlinked() (*solve.Outcome, error) {
	at := j.s.Platform
	at.Bandwidth = 0
	p, bound, err := heuristicsrematoffload.WithoutLink(j.ctx, j.in.Chain(), at)
	if err != nil {
		return nil, inputError(err)
	}
	p.Platform = j.s.Platform
	return &solve.Outcome{Plan: p, Bounds: []solve.Bound{proof.BySearch(bound, "the search for the optimum without transfers")}}, nil
}

// mostFiner is how often the slots are divided at most: their programs take eight
// times as long each time.
const mostFiner = 3
