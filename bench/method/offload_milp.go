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
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// searchShare is the part of the time that the search before a MILP may take. It
// ends by itself, mostly: the plan is then that of the search alone.
const searchShare = 0.6

// prover runs the formulations of a problem by the one driver.
type prover func(context.Context, *formulation.Task, *run.Instance, platform.Platform) (*formulation.Result, error)

// takeProof takes over what came of a MILP after a search. One that cannot be built or
// solved costs what it would have proved: that is an error only where there is no plan.
func takeProof(out *run.Outcome, r *formulation.Result, err error) error {
	if r != nil {
		out.Take(r)
	}
	var infeasible *plan.Infeasible
	switch {
	case errors.As(err, &infeasible):
		return err
	case err != nil && out.Plan == nil:
		return userError(err)
	case err != nil:
		out.Remark("no MILP bound: " + err.Error())
	}
	return nil
}

// milpOnLink is a method that searches, then solves MILPs from what was found. A
// MILP that cannot be built or solved costs what it would have proved.
func milpOnLink(name string, search planner, prove prover) worker {
	return func(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
		start := time.Now()
		part, cancel := portion(ctx, searchShare)
		defer cancel()
		out := &run.Outcome{}
		best, err := search(part, in, s)
		switch {
		case err != nil && !errors.Is(err, plan.ErrNoPlan) && part.Err() == nil:
			return nil, inputError(err)
		case err != nil:
			out.Remark("search: " + err.Error())
		default:
			out.Plan = best
			tell(&s, start, "search", best, math.Inf(-1), 0)
		}
		r, err := prove(ctx, s.Task(in, "milp", out.Plan), in, s.Platform)
		if err := takeProof(out, r, err); err != nil {
			return nil, err
		}
		out.Stopped = out.Stopped || ctx.Err() != nil
		if out.Plan != nil {
			out.Plan.Method = name
		}
		return out, nil
	}
}

// offloadOptimum closes in on the least makespan from the best heuristic.
func offloadOptimum(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	start := time.Now()
	part, cancel := portion(ctx, searchShare)
	defer cancel()
	found, err := offload.Search(part, in.Chain(), s.Platform, uint64(s.Seed))
	if err != nil {
		return nil, inputError(err)
	}
	tell(&s, start, "search", found, math.Inf(-1), 0)
	r, err := offload.Optimum(ctx, in.Chain(), s.Platform, found, s.Gap)
	if err != nil {
		return nil, inputError(err)
	}
	tell(&s, start, "labels", r.Plan, r.Value, int64(r.Labels))
	r.Plan.Method = "optimum"
	if r.By == "labels" {
		r.By = fmt.Sprintf("the search for the optimum (%d labels)", r.Labels)
	}
	return &run.Outcome{Plan: r.Plan, Stopped: !r.Proved, Bounds: []run.Bound{proof.BySearch(r.Value, r.By)}}, nil
}

// offloadMILP closes in on the least makespan as offloadOptimum for half of the
// time, and by the MILP of activation offloading for what is left of the gap.
func offloadMILP() *run.Method {
	const name = "offload-milp"
	return &run.Method{
		Name: name, Kind: run.Exact, Source: "ours, in the spirit of [001] §6", Solver: true,
		Summary:    fmt.Sprintf("search and optimum, then a MILP that bounds all plans, and up to %d layers the exact one", ilpoffload.ExactLayers),
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
			if first.Plan.Method = name; closedWithin(first, &s) && !s.Document {
				return first, nil
			}
			known := func(context.Context, *run.Instance, run.Setting) (*plan.Plan, error) { return first.Plan, nil }
			prove := func(ctx context.Context, t *formulation.Task, in *run.Instance, p platform.Platform) (*formulation.Result, error) {
				t.Bounds = first.Bounds
				return ilpoffload.Run(ctx, t, in.Chain(), p)
			}
			out, err := milpOnLink(name, known, prove)(ctx, in, s)
			if err != nil {
				return nil, err
			}
			return out, nil
		},
	}
}
