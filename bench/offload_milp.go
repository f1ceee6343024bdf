package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"workbench/heuristics/offload"
	"workbench/ilp"
	"workbench/model/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// searchShare is the part of the time that the search before a MILP may take.
const searchShare = 0.2

// linkSolver is a solver of package ilp for a problem with a link.
type linkSolver func(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*ilp.OffloadResult, error)

// milpOnLink is a method that searches, then solves a MILP from what was found.
func milpOnLink(name string, search func(context.Context, *Instance, Setting) (*plan.Plan, error), solve linkSolver, model func(*Instance, platform.Platform) (*milp.Model, error)) func(context.Context, *Instance, Setting) (*Outcome, error) {
	return func(ctx context.Context, in *Instance, s Setting) (*Outcome, error) {
		start := time.Now()
		part, cancel := portion(ctx, searchShare)
		defer cancel()
		best, err := search(part, in, s)
		if err != nil && !errors.Is(err, plan.ErrNoPlan) && part.Err() == nil {
			return nil, linkError(err)
		}
		out := &Outcome{Plan: best}
		if best != nil {
			s.tell(start, "search", best, math.Inf(-1), 0)
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
func improveOnLink(ctx context.Context, in *Instance, s *Setting, start time.Time, out *Outcome, solve linkSolver, model func(*Instance, platform.Platform) (*milp.Model, error)) error {
	o, ok := s.options(ctx, start, &Outcome{}) // all the time that is left
	if !ok {
		out.Stopped = true
		return nil
	}
	o.OnProgress = func(p solvers.Progress) { s.tell(start, "milp", out.Plan, p.Bound, p.Nodes) }
	r, err := solve(ctx, s.Backend, in.Chain, s.Platform, out.Plan, o)
	if err != nil {
		var infeasible *plan.Infeasible
		if errors.As(err, &infeasible) {
			return err
		}
		_, err := out.withoutMILP(err)
		return err
	}
	if r.Plan != nil {
		out.Plan = r.Plan
	}
	out.Stopped = out.Stopped || ctx.Err() != nil
	if r.Result == nil {
		return nil // no model was needed
	}
	out.Bounds = append(out.Bounds, Bound{Value: r.Bound, By: "the MILP " + r.By, Assumptions: []string{}})
	built, err := model(in, s.Platform)
	if err != nil {
		return err
	}
	out.ran(r.Result, built)
	return nil
}

// offloadMILP solves the MILP of activation offloading from the best heuristic.
func offloadMILP() *Method {
	model := modelOf(ilp.Offload)
	search := func(ctx context.Context, in *Instance, s Setting) (*plan.Plan, error) {
		return offload.Search(ctx, in.Chain, s.Platform, uint64(s.Seed))
	}
	return &Method{
		Problem: offload.Problem, Name: "offload-milp", Kind: Exact, Source: "ours, in the spirit of [001] §6", Solver: true,
		Summary:    fmt.Sprintf("search, then a MILP that bounds all plans, then a search around its solution; exact up to %d layers", ilp.OffloadExactLayers),
		Complexity: "exponential; O(N²) columns",
		Run:        milpOnLink("offload-milp", search, ilp.SolveOffload, model), Model: model,
	}
}
