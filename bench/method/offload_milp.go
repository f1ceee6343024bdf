package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"workbench/bench/run"
	"workbench/heuristics/offload"
	"workbench/ilp/formulation"
	ilpoffload "workbench/ilp/offload"
	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/solvers"
)

// searchShare is the part of the time that the search before a MILP may take. It
// ends by itself, mostly: the plan is then that of the search alone.
const searchShare = 0.6

// linkSolver is a solver of package ilp for a problem with a link.
type linkSolver func(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*formulation.Found, error)

// milpOnLink is a method that searches, then solves a MILP from what was found.
func milpOnLink(name string, search func(context.Context, *run.Instance, run.Setting) (*plan.Plan, error), solve linkSolver, model func(*run.Instance, platform.Platform) (*milp.Model, error)) func(context.Context, *run.Instance, run.Setting) (*run.Outcome, error) {
	return func(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
		start := time.Now()
		part, cancel := portion(ctx, searchShare)
		defer cancel()
		best, err := search(part, in, s)
		if err != nil && !errors.Is(err, plan.ErrNoPlan) && part.Err() == nil {
			return nil, linkError(err)
		}
		out := &run.Outcome{Plan: best}
		if best != nil {
			tell(&s, start, "search", best, math.Inf(-1), 0)
		}
		if s.Platform.Memory > 0 { // else nothing has a size, and all is kept
			if err := improveOnLink(ctx, in, &s, start, out, solve, model); err != nil {
				return nil, err
			}
		}
		if out.Plan != nil {
			out.Plan.Method = name
		}
		return out, nil
	}
}

// improveOnLink solves the MILP, starting from out.Plan, and keeps what is
// better.
func improveOnLink(ctx context.Context, in *run.Instance, s *run.Setting, start time.Time, out *run.Outcome, solve linkSolver, model func(*run.Instance, platform.Platform) (*milp.Model, error)) error {
	o, ok := solverOptions(s, ctx, start, &run.Outcome{}) // all the time that is left
	if !ok {
		out.Stopped = true
		return nil
	}
	o.OnProgress = func(p solvers.Progress) { tell(s, start, "milp", out.Plan, p.Bound, p.Nodes) }
	r, err := solve(ctx, s.Backend, in.Chain, s.Platform, out.Plan, o)
	if err != nil {
		var infeasible *plan.Infeasible
		if errors.As(err, &infeasible) {
			return err
		}
		_, err := withoutMILP(out, err)
		return err
	}
	if r.Plan != nil {
		out.Plan = r.Plan
	}
	out.Stopped = out.Stopped || ctx.Err() != nil
	if r.Result == nil {
		return nil // no model was needed
	}
	out.Bounds = append(out.Bounds, run.Bound{Value: r.Bound, By: "the MILP " + r.By, Proof: proof.Solver, Assumptions: []string{}})
	built, err := model(in, s.Platform)
	if err != nil {
		return err
	}
	ran(out, r.Result, built)
	return nil
}

// offloadOptimum closes in on the least makespan from the best heuristic.
func offloadOptimum(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	start := time.Now()
	part, cancel := portion(ctx, searchShare)
	defer cancel()
	found, err := offload.Search(part, in.Chain, s.Platform, uint64(s.Seed))
	if err != nil {
		return nil, linkError(err)
	}
	tell(&s, start, "search", found, math.Inf(-1), 0)
	r, err := offload.Optimum(ctx, in.Chain, s.Platform, found, s.Gap)
	if err != nil {
		return nil, linkError(err)
	}
	tell(&s, start, "labels", r.Plan, r.Value, int64(r.Labels))
	r.Plan.Method = "optimum"
	if r.By == "labels" {
		r.By = fmt.Sprintf("the search for the optimum (%d labels)", r.Labels)
	}
	return &run.Outcome{Plan: r.Plan, Stopped: !r.Proved, Bounds: []run.Bound{{Value: r.Value, By: r.By, Proof: proof.Search, Assumptions: []string{}}}}, nil
}

// offloadMILP closes in on the least makespan as offloadOptimum for half of the
// time, and by the MILP of activation offloading for what is left of the gap.
func offloadMILP() *run.Method {
	const name = "offload-milp"
	model := modelOf(ilpoffload.Amounts)
	return &run.Method{
		Problem: offload.Problem, Name: name, Kind: run.Exact, Source: "ours, in the spirit of [001] §6", Solver: true,
		Summary:    fmt.Sprintf("search and optimum, then a MILP that bounds all plans, then a search around its solution; exact up to %d layers", ilpoffload.ExactLayers),
		Complexity: "exponential; O(N²) columns",
		Run: func(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
			half, cancel := context.WithTimeout(ctx, unlimited)
			if _, ok := ctx.Deadline(); ok {
				cancel()
				half, cancel = portion(ctx, 0.5)
			}
			defer cancel()
			first, err := offloadOptimum(half, in, s)
			if err != nil {
				return nil, err
			}
			if first.Plan.Method = name; closedWithin(first, &s) {
				return first, nil
			}
			known := func(context.Context, *run.Instance, run.Setting) (*plan.Plan, error) { return first.Plan, nil }
			out, err := milpOnLink(name, known, ilpoffload.Solve, model)(ctx, in, s)
			if err != nil {
				return nil, err
			}
			out.Bounds = append(out.Bounds, first.Bounds...)
			return out, nil
		},
		Model: model,
	}
}
