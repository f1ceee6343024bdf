package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"workbench/bench/solve"
	"workbench/heuristics/remat"
	"workbench/heuristics/rematgraph"
	"workbench/ilp/formulation"
	ilprematgraph "workbench/ilp/rematgraph"
	"workbench/model/plan"
	"workbench/model/platform"
	problemrematgraph "workbench/model/problem/rematgraph"
	"workbench/model/proof"
	verifyremat "workbench/model/verify/remat"
)

// CheckmateMethods is the table of Checkmate's methods. They take chains, too:
// as the graph of the chain, in which every value is an ā.
func CheckmateMethods() []*solve.Method {
	methods := []*solve.Method{
		{
			Name: "checkmate", Kind: solve.Exact, Source: "Checkmate (1)–(9), strengthened; ours", Solver: true,
			Parts:      []string{"store-all", "chen", "linearised", "search"},
			Summary:    "search, and beside it Checkmate's stages in a stronger model whose memory rows are added as they are broken",
			Complexity: "exponential; O(n²) binaries",
			Run:        checkmateCombination().run,
		},
		{
			Name: "checkmate-plain", Kind: solve.Exact, Source: "Checkmate (1)–(9)", Solver: true,
			Summary:    "the MILP of the paper, equation by equation; started from store-all where that fits",
			Complexity: "exponential; O(n²) binaries, O(n·edges) for FREE",
			Run:        checkmatePlain,
		},
		{
			Name: "checkmate-lp-round", Kind: solve.Heuristic, Source: "Checkmate §5", Solver: true,
			Summary: "LP relaxation of the paper's MILP, two-phase rounding at 0.5 and at random; what breaks the limit is told and then " +
				"repaired",
			Complexity: "polynomial; O(n²) columns",
			Run:        checkmateRounding(false),
		},
		{
			Name: "checkmate-lp-round-strong", Kind: solve.Heuristic, Source: "Checkmate §5; ours", Solver: true,
			Summary:    "the same on the LP relaxation of the strengthened model, which is smaller and closer",
			Complexity: "polynomial; O(n²) columns",
			Run:        checkmateRounding(true),
		},
	}
	for _, m := range methods {
		m.Run = asGraph(m.Run)
	}
	return methods
}

// asGraph makes a method for graphs one for chains, too, of which it solves the graph.
// Its plans become those of the chain. Its bounds are none of the chain, so nothing is
// certified; and what fits in no memory, which is proved of the chain alone, is told
// apart from what does not fit for its graph, in which every value is an ā.
func asGraph(work worker) worker {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		if in.Chain() == nil {
			return work(ctx, in, s)
		}
		s.Certify = formulation.Off
		out, err := work(ctx, graphOf(in), s)
		var infeasible *plan.Infeasible
		if !errors.As(err, &infeasible) {
			if out != nil {
				out.Bounds, out.Claims = nil, nil
			}
			if err == nil {
				out.Plan, err = onChain(in, out.Plan)
			}
			return out, err
		}
		if _, err := remat.Bounds(in.Chain(), s.Platform); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: as a graph, in which every value is an ā, %s needs at least %v bytes, there are %v", plan.ErrNoPlan, in.Name,
			infeasible.Memory, infeasible.Given)
	}
}

// checkmateRounding rounds a relaxation, and says what the roundings were
// before they were repaired.
func checkmateRounding(strong bool) worker {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		v, err := graphView(in)
		if err != nil {
			return nil, err
		}
		r, err := ilprematgraph.Round(ctx, s.Task(in, "milp", nil), v, s.Platform, ilprematgraph.RoundingOptions{Strong: strong})
		if err != nil {
			return nil, userError(err)
		}
		name := "checkmate-lp-round"
		if strong {
			name += "-strong"
		}
		out := &solve.Outcome{Stopped: ctx.Err() != nil, Note: roundingNote(r, s.Platform.Memory)}
		return takeAs(out, r.Result, name), nil
	}
}

// takeAs takes over what came of a task for a method.
func takeAs(out *solve.Outcome, r *formulation.Result, name string) *solve.Outcome {
	out.AddResult(r)
	if out.Plan != nil {
		out.Plan.Method = name
	}
	return out
}

// roundingNote says how far the roundings are above the limit.
func roundingNote(r *ilprematgraph.RoundingResult, memory float64) string {
	fit, worst, least := 0, 0.0, math.Inf(1)
	for _, x := range r.Rounded {
		if x.Fits {
			fit++
			continue
		}
		over := x.Plan.Claims.PeakMemory/memory - 1
		worst, least = max(worst, over), min(least, over)
	}
	note := fmt.Sprintf("%d of %d roundings keep the limit", fit, len(r.Rounded))
	if fit < len(r.Rounded) {
		note += fmt.Sprintf("; the others exceed it by %.1f to %.1f %% and were repaired", 100*least, 100*worst)
	}
	return note
}

// checkmateCombination is the search, and beside it the MILPs of stages.
func checkmateCombination() *combination {
	quick := func(name string, work func(context.Context, *problemrematgraph.View, platform.Platform) (*plan.Plan, error)) *solve.Method {
		return &solve.Method{Name: name, Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			v, err := graphView(in)
			if err != nil {
				return nil, err
			}
			p, err := work(ctx, v, s.Platform)
			return &solve.Outcome{Plan: p}, err
		}}
	}
	return &combination{
		name: "checkmate", bound: rematBound(), quick: []*solve.Method{
			quick("store-all", func(_ context.Context, v *problemrematgraph.View, p platform.Platform) (*plan.Plan, error) {
				return rematgraph.StoreAll(v, p)
			}),
			quick("chen", rematgraph.Chen),
			quick("linearised", func(ctx context.Context, v *problemrematgraph.View, p platform.Platform) (*plan.Plan, error) {
				part, cancel := plan.Portion(ctx, 0.1) // of long chains it may take any time
				defer cancel()
				return rematgraph.Linearised(part, v, p)
			}),
		},
		search: searched("search", func(j *joint, round int) (*plan.Plan, error) {
			v, err := graphView(j.in)
			if err != nil {
				return nil, err
			}
			return rematgraph.Search(j.ctx, v, j.s.Platform, uint64(j.s.Seed+round), searchRounds<<min(round, mostPatient))
		}),
		prove: func(j *joint) error { return checkmateProof(j, ilprematgraph.Run) },
	}
}

// mostPatient is how often further rounds of the search are twice as long.
const mostPatient = 8

// checkmateProof solves the MILPs of one of Checkmate's solvers from the best plan,
// unless that, being of least memory, is no schedule of stages.
func checkmateProof(j *joint, solve func(context.Context, *formulation.Task, *problemrematgraph.View,
	platform.Platform) (*formulation.Result, error),
) error {
	v, err := graphView(j.in)
	if err != nil {
		return err
	}
	task := j.task("milp")
	if task.Start != nil {
		if _, err := v.FromPlan(task.Start); err != nil {
			task.Start = nil
		}
	}
	return j.solved(solve(j.ctx, task, v, j.s.Platform))
}

// checkmatePlain is the MILP alone, from the plan that keeps everything where that
// fits.
func checkmatePlain(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	v, err := graphView(in)
	if err != nil {
		return nil, err
	}
	best, err := storeAllOnGraph(v, s.Platform)
	if err != nil {
		return nil, err
	}
	out := &solve.Outcome{}
	out.UpdateIncumbent(in, best)
	r, err := ilprematgraph.RunPrinted(ctx, s.Task(in, "milp", out.Plan), v, s.Platform)
	if err != nil {
		return withoutMILP(out, err)
	}
	out.Stopped = r.Ended == proof.TimeLimit || r.Ended == proof.Interrupted
	return takeAs(out, r, "checkmate-plain"), nil
}

// storeAllOnGraph returns the plan that keeps everything, nil where it does not
// fit.
func storeAllOnGraph(v *problemrematgraph.View, at platform.Platform) (*plan.Plan, error) {
	p, err := rematgraph.StoreAll(v, at)
	if _, ok := errors.AsType[*plan.Infeasible](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, nil // the MILP may find one
	}
	return p, nil
}

// onChain turns a plan for the graph of a chain into one for the chain:
// computing F_ℓ is F_all ℓ, its value ā_ℓ, which B_ℓ consumes.
func onChain(in *solve.Instance, p *plan.Plan) (*plan.Plan, error) {
	if in.Chain() == nil || p == nil {
		return p, nil
	}
	out := plan.New(plan.Remat, p.Method, in.Chain(), p.Platform)
	out.Ops = make([]plan.Op, 0, len(p.Ops))
	stored := make([]bool, in.Chain().Len()+1)
	for k := range p.Ops {
		o := p.Ops[k]
		l, err := strconv.Atoi(strings.TrimLeft(o.Node, "FB"))
		if err != nil || l < 1 || l > in.Chain().Len() {
			return nil, fmt.Errorf("plan of the graph of %s: node %q is none of a chain", in.Name, o.Node)
		}
		kind := o.Node[0]
		o.Node, o.Layer = "", l
		switch {
		case o.Op == plan.OpC && kind == 'F':
			o.Op, stored[l] = plan.OpFAll, true
		case o.Op == plan.OpC:
			o.Op, stored[l] = plan.OpB, false
		case kind == 'F' && stored[l]:
			o.Tensor, stored[l] = plan.TensorAbar, false
		default:
			continue // consumed by its backward
		}
		out.Ops = append(out.Ops, o)
	}
	// The graph counts what the chain frees, so its peak is none of the chain.
	report, err := verifyremat.Verify(in.Chain(), out)
	if err != nil {
		return nil, err
	}
	out.Claims = plan.Claims{Makespan: p.Claims.Makespan, PeakMemory: report.PeakMemory}
	return out, nil
}
