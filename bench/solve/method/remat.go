// Package method has the methods of every problem: heuristics and searches as they
// are, and their combinations with MILPs, a file or two for each problem.
package method

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	"workbench/heuristics/remat"
	"workbench/heuristics/rematgraph"
	"workbench/ilp/formulation"
	ilpremat "workbench/ilp/remat"
	"workbench/model/allocator"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	problemrematgraph "workbench/model/problem/rematgraph"
	"workbench/model/proof"
	"workbench/model/testcase"
	"workbench/solvers"
)

// Remat is the problem of [002], [004] ch. 2 and Checkmate.
func Remat() *solve.Problem {
	return &solve.Problem{
		Name: plan.Remat,
		Aliases: []string{
			"checkpoint", "checkpointing", "rematerialization", "gradient-checkpointing", "activation-checkpointing", "recompute",
			"recomputation",
		},
		Title:     "which activations are kept and which are computed again",
		Source:    "[002], [004] ch. 2, Checkmate",
		Objective: "makespan of a training step, seconds",
		Takes:     []string{chain.Kind, graph.Kind, training.Kind},
		Apart:     true,
		Word:      "makespan",
		Defaults:  []string{"chain-milp", "checkmate"},
		Example:   "zoo:resnet50",
		Memory:    "range 25%",
		Range:     rematRange,
		Fit:       rematFit,
		Bound:     rematBound(),
		Meets:     meetsOnGraph,
		Methods: func() []*solve.Method {
			return WithoutMemory(slices.Concat(RematMethods(), GraphMethods(), CheckmateMethods()))
		},
		Does:     recomputes,
		Times:    solve.RecomputeTime,
		Timeline: timeline.Steps(), Tensors: allocator.OfRemat,
		Subjects: []*testcase.Subject{testcase.Remat(), testcase.Graphs(), testcase.Stages(), testcase.Training()},
		Tiny:     map[string]string{chain.Kind: tinyChain, graph.Kind: tinyGraph},
	}
}

const (
	tinyChain = `{"format":"workbench.chain/v1","name":"tiny","input":{"activation":1},"layers":[
			{"name":"one","forward_time":2,"backward_time":3,"activation":2,"saved":4},
			{"name":"loss","forward_time":1,"backward_time":1,"activation":1}]}`
	tinyGraph = `{"format":"workbench.graph/v1","name":"tiny","nodes":[
			{"id":"f","time":1,"memory":2}, {"id":"g","time":2,"memory":3},
			{"id":"loss","kind":"loss","time":1,"memory":1},
			{"id":"g'","kind":"backward","time":3,"memory":2}, {"id":"f'","kind":"backward","time":2,"memory":1}],
			"edges":[["f","g"],["g","loss"],["loss","g'"],["f","g'"],["f","f'"],["g'","f'"]]}`
)

// recomputes counts the operations of a plan, on a chain or on a graph.
func recomputes(p *plan.Plan) string {
	discards := solve.Count{Word: "discards", Ops: []string{plan.OpD}}
	if slices.ContainsFunc(p.Ops, func(o plan.Op) bool { return o.Op == plan.OpC }) {
		return solve.Counts(solve.Count{Word: "computations", Ops: []string{plan.OpC}}, discards)(p)
	}
	return solve.Counts(
		solve.Count{Word: "F_all", Ops: []string{plan.OpFAll}},
		solve.Count{Word: "F_ck", Ops: []string{plan.OpFCk}},
		solve.Count{Word: "F_none", Ops: []string{plan.OpFNone}},
		solve.Count{Word: "B", Ops: []string{plan.OpB}},
		discards,
	)(p)
}

// memoryRange is what percentages of memory refer to, bytes.
type memoryRange struct{ low, high float64 }

func rematRange(in *solve.Instance, _ solve.Setting) (low, high float64) {
	r := solve.Searched(in, memoryRange{}, func() (r memoryRange) {
		if !isGraph(in) {
			r.low, r.high = remat.Range(in.Chain())
		} else if v, err := graphView(in); err == nil { // else rematFit refuses it
			r.low, r.high = rematgraph.Range(v)
		}
		return r
	})
	return r.low, r.high
}

// keepingAll is the high end of that.
func keepingAll(in *solve.Instance) (high float64) {
	if !isGraph(in) {
		_, high = rematRange(in, solve.Setting{})
		return high
	}
	if v, err := graphView(in); err == nil {
		high = v.StoreAllPeak()
	}
	return high
}

// rematFit checks that a graph is not too large for everything, and that the
// numbers are ones that one can calculate with.
func rematFit(in *solve.Instance, p platform.Platform) error {
	if isGraph(in) {
		if _, err := graphView(in); err != nil {
			return solve.InputError(err)
		}
	}
	return calculable(in, ofStep(in), quantity{"keeping everything takes %g bytes", keepingAll(in)}, ofMemory(p))
}

func rematBound() func(*solve.Instance, solve.Setting) solve.Bound {
	return closedForms(solve.Searched, plan.Remat, computations, rematBounds)
}

// rematBounds returns the bounds in closed form.
func rematBounds(in *solve.Instance, s solve.Setting) ([]solve.Bound, error) {
	if !isGraph(in) {
		return remat.Bounds(in.Chain(), s.Platform)
	}
	v, err := graphView(in)
	if err != nil {
		return nil, err
	}
	b := v.TimeBound(s.Platform.Memory)
	return []solve.Bound{proof.BySearch(b.Seconds, b.Why)}, nil
}

// meetsOnGraph tests the assumptions of models in stages.
func meetsOnGraph(in *solve.Instance, p *plan.Plan, assumption string) (meets, known bool) {
	if !isGraph(in) {
		return false, false
	}
	v, err := graphView(in)
	if err != nil {
		return false, false
	}
	return v.Meets(p, assumption)
}

// RematMethods is the table of methods for rematerialization.
func RematMethods() []*solve.Method {
	chains := []string{chain.Kind}
	onChain := func(name, source, summary, complexity string, work planner, slots int, curve curveOnChain) *solve.Method {
		m := heuristic(name, source, summary, complexity, work)
		m.Takes, m.Slots, m.Curve = chains, slots, curve
		return m
	}
	printed := onChain("floating-printed", "[004] Thm 5 as printed", "the floating recurrence to the letter: its plans may not fit",
		"exponential at worst", limited(remat.FloatingPrinted), 0, nil)
	printed.Unverified = true
	storeAll := heuristic("store-all", "[004] 2.4.4, PyTorch's default", "keeps everything, computes nothing again", "O(N)",
		func(_ context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
			if !isGraph(in) {
				return remat.StoreAll(in.Chain(), s.Platform)
			}
			v, err := graphView(in)
			if err != nil {
				return nil, err
			}
			return rematgraph.StoreAll(v, s.Platform)
		})
	methods := []*solve.Method{
		storeAll,
		onChain("per-layer", "PyTorch checkpoint of every block",
			"keeps the inputs of layers, recomputes each layer but the last right before its backward", "O(N)", limited(remat.PerLayer), 0, nil),
		onChain("periodic", "PyTorch checkpoint_sequential, [004] 2.4.4",
			"segments of equal length, the last kept whole; the best number of segments that fits", "O(N²)", limited(remat.Periodic), 0, nil),
		onChain("revolve", "[002] §5, [004] 2.4.4", "checkpoints a only, F_all right before each B; the best such plan",
			"exponential at worst; see persistent", limited(remat.Revolve), 0, exactCurve(remat.RevolveCurve)),
		onChain("persistent-slots", "[004] Thm 6, Alg. 3, Alg. 4", "the best memory-persistent plan, sizes rounded up to S slots", "O(N³·S)",
			slotted(remat.PersistentSlots), solve.DefaultSlots, slottedCurve(remat.PersistentSlotsCurve)),
		onChain("persistent", "[004] Thm 6, without slots", "the best memory-persistent plan, in exact arithmetic",
			"exponential at worst; N³ steps times the breakpoints that matter", limited(remat.Persistent), 0, exactCurve(remat.PersistentCurve)),
		onChain("floating-slots", "[004] Thm 5, Alg. 1, Alg. 2, repaired (findings)",
			"the floating recurrence, sizes rounded up to S slots; not optimal, though printed so", "O(N⁴·S)", slotted(remat.FloatingSlots),
			solve.DefaultSlots, slottedCurve(remat.FloatingSlotsCurve)),
		onChain("floating", "[004] Thm 5, repaired (findings)",
			"the floating recurrence in exact arithmetic; not optimal, though printed so", "exponential at worst", limited(remat.Floating), 0,
			exactCurve(remat.FloatingCurve)),
		printed,
		{
			Name: "optimum", Kind: solve.Exact, Source: "ours", Takes: chains,
			Summary:    "searches the stored sets between backwards for the true optimum, and proves it",
			Complexity: "exponential at worst",
			Run:        rematOptimum,
		},
		{
			Name: "chain-milp", Kind: solve.Exact, Source: "ours", Takes: chains, Solver: true,
			Summary: "the search for the optimum, and beside it, where it does not end, a search over stages and a MILP of the rules, which " +
				"tells a from ā",
			Complexity: "exponential; O(N²) binaries",
			Parts:      []string{"store-all", "periodic", "persistent", "optimum"},
		},
	}
	combine(methods, chainMILP(methods))
	return methods
}

// curveOnChain makes a whole curve.
type curveOnChain = func(ctx context.Context, in *solve.Instance, s solve.Setting, most float64) (solve.Tradeoff, error)

func exactCurve(work func(context.Context, *chain.Chain, float64) (*remat.Curve, error)) curveOnChain {
	return slottedCurve(func(ctx context.Context, c *chain.Chain, most float64, _ int) (*remat.Curve, error) {
		return work(ctx, c, most)
	})
}

func slottedCurve(work func(context.Context, *chain.Chain, float64, int) (*remat.Curve, error)) curveOnChain {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting, most float64) (solve.Tradeoff, error) {
		t, err := work(ctx, in.Chain(), most, s.Slots)
		if err != nil {
			return solve.Tradeoff{}, tooLarge(err)
		}
		out := solve.Tradeoff{Plan: t.Plan}
		for _, p := range t.Points() {
			out.Points = append(out.Points, solve.Breakpoint(p))
		}
		return out, nil
	}
}

// tooLarge marks instances that are too large for a method as the user's.
func tooLarge(err error) error {
	if _, ok := errors.AsType[*remat.TooLargeError](err); ok {
		return solve.InputError(err)
	}
	return err
}

// quickOnChain offers the plans of heuristics that are quick on chains. The error is
// Infeasible.
func quickOnChain(ctx context.Context, in *solve.Instance, s *solve.Setting, offer func(*plan.Plan),
	heuristics ...func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error),
) error {
	start := time.Now()
	for _, work := range heuristics {
		p, err := work(ctx, in.Chain(), s.Platform)
		switch {
		case errors.As(err, new(*plan.Infeasible)):
			return err
		case err == nil:
			offer(p)
			reportProgress(s, start, "heuristics", p, math.Inf(-1), 0)
		}
	}
	return nil
}

// rematOptimum searches for the true optimum.
func rematOptimum(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	first := &solve.Outcome{}
	if err := quickOnChain(ctx, in, &s, func(p *plan.Plan) { first.UpdateIncumbent(in, p) }, remat.Persistent, remat.Floating); err != nil {
		return nil, err
	}
	out, err := optimumFrom(ctx, in, &s, first.Plan)
	if err == nil {
		out.Refused = first.Refused
	}
	return out, err
}

// optimumFrom searches for the true optimum from a plan, or nil.
func optimumFrom(ctx context.Context, in *solve.Instance, s *solve.Setting, first *plan.Plan) (*solve.Outcome, error) {
	r, err := remat.Optimum(ctx, in.Chain(), s.Platform, first)
	if err != nil {
		return nil, tooLarge(err)
	}
	return &solve.Outcome{Plan: r.Plan, Stopped: !r.Proved, Bounds: []solve.Bound{r.Bound}}, nil
}

// chainMILP is the search for the optimum, which proves nearly all chains of networks
// in less than a second, and the MILP of the rules where it does not.
func chainMILP(methods []*solve.Method) *combination {
	return &combination{
		name: "chain-milp", bound: rematBound(),
		quick: append(named(methods, "store-all"), inPart(0.25, named(methods, "periodic")[0]), onLongChains(searchAsGraph(fewRounds)),
			onLongChains(named(methods, "persistent")[0])),
		search: func(j *joint, _ int) bool {
			if j.s.Relax {
				return false
			}
			if j.in.Chain().Len() < longChain {
				j.fail("persistent", quickOnChain(j.ctx, j.in, &j.s, j.UpdateIncumbent, remat.Persistent))
			}
			j.fail("floating", quickOnChain(j.ctx, j.in, &j.s, j.UpdateIncumbent, remat.Floating))
			out, err := optimumFrom(j.ctx, j.in, &j.s, j.Best())
			j.addOutcome("optimum", out, err)
			return false
		},
		prove: func(j *joint) error {
			out, err := searchAsGraph(searchRounds).Run(j.ctx, j.in, j.s) // of chains too long for a MILP, too
			j.addOutcome("search", out, err)
			next, err := ilpremat.Phases(j.ctx, j.in.Chain(), j.s.Platform)
			if err != nil {
				return userError(err)
			}
			return j.solved(j.task("milp").Run(j.ctx, next))
		},
	}
}

// fewRounds are a tenth of a second on chains of 200 layers, which are long: the search
// for the optimum does not take them.
const (
	fewRounds = 50
	longChain = 64
)

// A chain is searched as a graph if it has mostAsGraph layers at most, as many as stages take, as nodes, and
// asGraphLeast for each pair of layers: stages take O(N²) time that nothing interrupts.
const (
	mostAsGraph  = problemrematgraph.Most / 2
	asGraphLeast = 400 * time.Nanosecond
)

// onLongChains is a method for chains that the search for the optimum does not take; on
// shorter ones a plan that is 1e-7 from the bound would keep that from the best one.
func onLongChains(m *solve.Method) *solve.Method {
	return &solve.Method{
		Name: m.Name, Slots: m.Slots,
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			if in.Chain().Len() < longChain {
				return nil, nil
			}
			return m.Run(ctx, in, s)
		},
	}
}

// searchAsGraph is the search on graphs for a chain, with so many rounds and half of the
// time at most: it is near the bound on chains that are too long for the optimum.
func searchAsGraph(rounds int) *solve.Method {
	return inPart(0.5, &solve.Method{Name: "search", Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome,
		error,
	) {
		n := in.Chain().Len()
		if end, limited := ctx.Deadline(); n > mostAsGraph || limited && time.Until(end) < time.Duration(n*n)*asGraphLeast {
			return nil, nil
		}
		return asGraph(func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			v, err := graphView(in)
			if err != nil {
				return nil, err
			}
			p, err := rematgraph.Search(ctx, v, s.Platform, uint64(s.Seed), rounds)
			return &solve.Outcome{Plan: p}, err
		})(ctx, in, s)
	}})
}

// inPart is a method that has a part of the time that is left: on the longest chains none would be for others.
func inPart(part float64, m *solve.Method) *solve.Method {
	return &solve.Method{
		Name: m.Name, Slots: m.Slots,
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			ctx, cancel := plan.Portion(ctx, part)
			defer cancel()
			return m.Run(ctx, in, s)
		},
	}
}

// withoutMemory lets the MILPs' methods take a memory of nothing, which gives a
// model no scale: either nothing has a size and all of it can be kept, or
// nothing fits.
func WithoutMemory(methods []*solve.Method) []*solve.Method {
	keepAll := methods[0] // store-all
	for _, m := range methods {
		if !m.Solver {
			continue
		}
		work := m.Run
		m.Run = func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			if s.Platform.Memory > 0 {
				return work(ctx, in, s)
			}
			out, err := keepAll.Run(ctx, in, s)
			if err == nil {
				out.Plan.Method = m.Name
			}
			return out, err
		}
	}
	return methods
}

// withoutMILP returns what a method has when its MILP cannot be built or
// solved for this instance.
func withoutMILP(out *solve.Outcome, err error) (*solve.Outcome, error) {
	if out.Plan != nil && (tooFarApart(err) || errors.Is(err, formulation.ErrTooLong) || errors.Is(err, solvers.ErrModel)) {
		out.Note = "no MILP bound: " + err.Error()
		return out, nil
	}
	return nil, userError(err)
}
