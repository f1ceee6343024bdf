package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"workbench/bench/run"
	"workbench/heuristics/weights"
	"workbench/ilp/formulation"
	ilpweights "workbench/ilp/weights"
	"workbench/model/chain"
	"workbench/model/cycleratio"
	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// quickMoves is the patience of the search that comes before a MILP: a tenth
// of a second on the networks of [001].
const quickMoves = 1000

// patience is the number of patient searches after the MILP, the first from
// the incumbent and the MILP's choices, the others afresh with other seeds.
const patience = 3

// weightsMILP is the default method: a quick search gives the MILP its start,
// the MILP gives the bound, and a patient search that knows the MILP's choices
// and its bound follows. Chains short enough for it end with the exact MILP.
func weightsMILP(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	if err := short(in, "milp"); err != nil {
		return nil, err
	}
	start := time.Now()
	best, err := weights.Search(ctx, in.Chain(), s.Platform, searchOptions(&s, start, "search", quickMoves, math.Inf(-1), nil, nil))
	var infeasible *plan.Infeasible
	if errors.As(err, &infeasible) || err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, err
	}
	out := &run.Outcome{Plan: best}
	away, err := prove(ctx, in, &s, out, ilpweights.Nested, formulation.Phase{Share: beforeSearch})
	if err != nil {
		return nil, err
	}
	if err := searchOn(ctx, in, &s, start, out, away); err != nil {
		return nil, err
	}
	if in.Chain().Len() <= ilpweights.ExactLayers && !closed(out, s.Gap) {
		if _, err := prove(ctx, in, &s, out, ilpweights.Exact, formulation.Phase{}); err != nil {
			return nil, err
		}
	}
	if out.Plan != nil {
		out.Plan.Method = "milp"
	}
	out.Stopped = out.Stopped || ctx.Err() != nil
	return out, nil
}

// beforeSearch is the part of the time that the bound may take; the search after
// it needs some, too.
const beforeSearch = 0.75

// searchOn searches patiently from the incumbent and the MILP's choices, then
// afresh with other seeds: from the incumbent the search has gone as far as it
// goes.
func searchOn(ctx context.Context, in *run.Instance, s *run.Setting, start time.Time, out *run.Outcome, away []bool) error {
	for round := 0; round < patience && !closed(out, s.Gap) && ctx.Err() == nil; round++ {
		o := searchOptions(s, start, "search", 0, claimed(out), away, out.Plan)
		if round > 0 {
			o.Seed, o.Away, o.Start = uint64(s.Seed+round-1), nil, nil
		}
		found, err := weights.Search(ctx, in.Chain(), s.Platform, o)
		switch {
		case err == nil && (out.Plan == nil || *found.Period < *out.Plan.Period):
			out.Plan = found
		case err != nil && !errors.Is(err, plan.ErrNoPlan):
			return err
		}
	}
	return nil
}

// prove solves a formulation by the one driver, starting from out.Plan, takes
// over what came of it, and returns the gaps that the solution has weights leave
// in, nil if there is none. A model that the backend refuses costs what it would
// have proved, where there is a plan.
func prove(ctx context.Context, in *run.Instance, s *run.Setting, out *run.Outcome, build formulation.Builder[*chain.Chain], phase formulation.Phase) (away []bool, err error) {
	if phase.Program, err = build(in.Chain(), s.Platform); err != nil {
		return nil, userError(err)
	}
	r, err := s.Task(in, "milp", out.Plan).Run(ctx, formulation.Phases(&phase))
	out.Take(r)
	switch {
	case err != nil && out.Plan != nil && tooFarApart(err):
		out.Remark("no MILP bound: " + err.Error())
		return nil, nil
	case err != nil:
		return nil, userError(err)
	case r.X == nil:
		return nil, nil
	}
	return r.Program.Hint(r.X).Away, nil
}

// weightsSearch is the search alone.
func weightsSearch(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	if err := short(in, "search"); err != nil {
		return nil, err
	}
	p, err := weights.Search(ctx, in.Chain(), s.Platform, searchOptions(&s, time.Now(), "search", 0, math.Inf(-1), nil, nil))
	if err != nil {
		return nil, err
	}
	return &run.Outcome{Plan: p, Stopped: ctx.Err() != nil}, nil
}

// search returns options that report progress under the name of a phase.
func searchOptions(s *run.Setting, start time.Time, phase string, moves int, bound float64, away []bool, from *plan.Plan) weights.Options {
	o := weights.Options{Seed: uint64(s.Seed), Moves: moves, Bound: max(0, bound*(1+run.Tolerance)), Away: away, Start: from}
	o.OnBetter = func(p *plan.Plan) { tell(s, start, phase, p, bound, 0) }
	return o
}

// weightsBound is the method that only proves: the MILP of [001] §6 or one of
// its relatives, or its LP relaxation.
func weightsBound(build formulation.Builder[*chain.Chain], relax bool) worker {
	return func(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
		out := &run.Outcome{}
		_, err := prove(ctx, in, &s, out, build, formulation.Phase{Relax: relax})
		return out, err
	}
}

// claimed returns the best value that anybody proves or claims to be a bound in
// out, −Inf if there is none.
func claimed(out *run.Outcome) float64 {
	best := math.Inf(-1)
	for _, b := range out.Bounds {
		best = max(best, b.Value)
	}
	for _, c := range out.Claims {
		best = max(best, c.Value)
	}
	return best
}

// closed reports whether the plan of out meets what is claimed.
func closed(out *run.Outcome, gap float64) bool {
	return out.Plan != nil && solvers.Gap(*out.Plan.Period, claimed(out)) <= max(gap, run.Tolerance)
}

// weightsExact solves the exact MILP, starting from the search. That MILP, full
// of large constants, proves little by itself, so the bound comes first.
func weightsExact(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	best, err := weights.Search(ctx, in.Chain(), s.Platform, searchOptions(&s, time.Now(), "search", quickMoves, math.Inf(-1), nil, nil))
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, err
	}
	out := &run.Outcome{Plan: best}
	if _, err := ilpweights.Exact(in.Chain(), s.Platform); err != nil {
		return nil, userError(err) // too long: before time is spent
	}
	if _, err := prove(ctx, in, &s, out, ilpweights.Nested, formulation.Phase{Share: 0.5}); err != nil {
		return nil, err
	}
	if !closed(out, s.Gap) {
		if _, err := prove(ctx, in, &s, out, ilpweights.Exact, formulation.Phase{}); err != nil {
			return nil, err
		}
	}
	if out.Plan != nil {
		out.Plan.Method = "exact-milp"
	}
	return out, nil
}

// userError marks what the user asked for and no formulation can do.
func userError(err error) error {
	switch {
	case errors.Is(err, formulation.ErrTooLong), errors.Is(err, formulation.ErrInstance):
		return run.InputError(err)
	case tooFarApart(err):
		return run.InputError(fmt.Errorf("times or sizes are too far apart for a MILP: %w", err))
	}
	return err
}

// tooFarApart reports whether err comes of an instance whose smallest times or
// sizes are lost in the tolerances of solvers beside its largest. Formulations
// are right on all others, as their tests show.
func tooFarApart(err error) bool {
	return errors.Is(err, solvers.ErrModel) || errors.Is(err, formulation.ErrStart) || errors.Is(err, cycleratio.ErrContradiction)
}

// Build builds a formulation for an instance and a platform in bytes; one of graphs
// also for a chain. Errors that are the user's wrap ErrInput.
func Build(f formulation.Formulation, in *run.Instance, p platform.Platform) (*formulation.Program, error) {
	made := in.Instance
	if c := in.Chain(); f.Kind == graph.Kind && c != nil {
		made = graph.Of(c)
	}
	if made.Kind() != f.Kind {
		return nil, run.InputError(fmt.Errorf("formulation %s is not about a %s, which %s is", f.Name, run.KindWord(in.Kind()), in.Name))
	}
	program, err := f.Build(made, in.Platform(p), nil)
	return program, in.InBytes(userError(err))
}
