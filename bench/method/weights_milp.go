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
	"workbench/ilp/timing"
	ilpweights "workbench/ilp/weights"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
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
	best, err := weights.Search(ctx, in.Chain, s.Platform, searchOptions(&s, start, "search", quickMoves, math.Inf(-1), nil, nil))
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
	if in.Chain.Len() <= ilpweights.ExactLayers && !closed(out, s.Gap) {
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
		found, err := weights.Search(ctx, in.Chain, s.Platform, o)
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
func prove(ctx context.Context, in *run.Instance, s *run.Setting, out *run.Outcome, build formulation.Builder, phase formulation.Phase) (away []bool, err error) {
	if phase.Program, err = build(in.Chain, s.Platform); err != nil {
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
	p, err := weights.Search(ctx, in.Chain, s.Platform, searchOptions(&s, time.Now(), "search", 0, math.Inf(-1), nil, nil))
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
func weightsBound(build formulation.Builder, relax bool) func(context.Context, *run.Instance, run.Setting) (*run.Outcome, error) {
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
	best, err := weights.Search(ctx, in.Chain, s.Platform, searchOptions(&s, time.Now(), "search", quickMoves, math.Inf(-1), nil, nil))
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, err
	}
	out := &run.Outcome{Plan: best}
	if _, err := ilpweights.Exact(in.Chain, s.Platform); err != nil {
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
	return errors.Is(err, solvers.ErrModel) || errors.Is(err, formulation.ErrStart) || errors.Is(err, timing.ErrCyclic)
}

// ran notes the last solve of a method.
func ran(out *run.Outcome, r *solvers.Result, m *milp.Model) {
	out.Solver, out.Formulation = r, run.Describe(m)
	out.Stopped = out.Stopped || r.Stop != solvers.NotStopped
}

// options are those of a setting for its backend; false if there is no time
// left.
func solverOptions(s *run.Setting, ctx context.Context, start time.Time, out *run.Outcome) (o solvers.Options, ok bool) {
	o = solvers.Options{
		RelGap: solvers.Some(max(s.Gap, run.Tolerance/10)), Threads: solvers.Some(max(1, s.Threads)),
		Log: s.Log, Relax: s.Relax,
	}
	if s.Backend.Can()&solvers.CanSeed != 0 {
		o.Seed = solvers.Some(s.Seed)
	}
	if s.Backend.Can()&solvers.CanThreads == 0 {
		o.Threads = solvers.Opt[int]{}
	}
	if deadline, ok := ctx.Deadline(); ok {
		o.Time = time.Until(deadline)
		if out.Plan != nil {
			o.Time = o.Time / 4 * 3 // the search after the MILP needs time, too
		}
		if o.Time <= 0 {
			return o, false
		}
	}
	o.OnProgress = func(p solvers.Progress) { tell(s, start, "milp", out.Plan, p.Bound, p.Nodes) }
	return o, true
}

// errNoSolution is a solver's word that a model has no solution, where no plan
// is at hand that says otherwise.
var errNoSolution = errors.New("no solution")

// solveProgram solves the model of a formulation, starting from out.Plan if
// there is one, and adds its bound to out. It returns the solution, nil if
// there is none or it is that of a relaxation.
func solveProgram(ctx context.Context, s *run.Setting, start time.Time, out *run.Outcome, program *formulation.Program) (x []float64, err error) {
	name := program.Model.Name()
	o, ok := solverOptions(s, ctx, start, out)
	if !ok {
		out.Stopped = true
		return nil, nil
	}
	o.OnProgress = func(p solvers.Progress) {
		tell(s, start, "milp", out.Plan, program.Objective(p.Bound), p.Nodes)
	}
	if out.Plan != nil && !s.Relax && s.Backend.Can()&solvers.CanStart != 0 {
		o.Start, err = program.Start(out.Plan)
	}
	var r *solvers.Result
	if err == nil {
		r, err = s.Backend.Solve(ctx, program.Model, o)
	}
	switch {
	case err != nil && out.Plan != nil && tooFarApart(err):
		out.Note = "no MILP bound: " + err.Error()
		return nil, nil
	case err != nil:
		return nil, userError(err)
	}
	if r.Status == solvers.Infeasible {
		if out.Plan != nil {
			out.Note = fmt.Sprintf("no MILP bound: %s calls %s infeasible, which the plan disproves: times or sizes may be too far apart", r.Backend, name)
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %s calls %s infeasible", errNoSolution, r.Backend, name)
	}
	ran(out, r, program.Model)
	if !math.IsInf(r.Bound, 0) {
		by := "the MILP " + name + " (" + r.BoundBy + ", " + r.Backend + ")"
		if s.Relax {
			by = "the LP relaxation of the MILP " + name + " (" + r.Backend + ")"
		}
		out.Bounds = append(out.Bounds, run.Bound{Value: program.Objective(r.Bound), By: by, Proof: proof.Solver, Assumptions: []string{}})
	}
	x, ok = r.Solution()
	if !ok || s.Relax {
		return nil, nil
	}
	return x, nil
}

// Build builds a formulation for an instance; one of graphs also for a chain.
// Errors that are the user's wrap ErrInput.
func Build(f formulation.Formulation, in *run.Instance, p platform.Platform) (*formulation.Program, error) {
	switch {
	case f.BuildFunctions != nil && in.Functions != nil:
		program, err := f.BuildFunctions(in.Functions, p)
		return program, userError(err)
	case f.BuildGraph != nil && (in.Graph != nil || in.Chain != nil):
		program, err := f.BuildGraph(in.AsGraph(), p)
		return program, userError(err)
	case f.Build != nil && in.Chain != nil:
		program, err := f.Build(in.Chain, p)
		return program, userError(err)
	}
	return nil, run.InputError(fmt.Errorf("formulation %s is not about a %s, which %s is", f.Name, in.Form(), in.Name))
}

// modelOf returns what builds the model of a formulation alone.
func modelOf(build formulation.Builder) func(*run.Instance, platform.Platform) (*milp.Model, error) {
	return func(in *run.Instance, p platform.Platform) (*milp.Model, error) {
		program, err := build(in.Chain, p)
		if err != nil {
			return nil, userError(err)
		}
		return program.Model, nil
	}
}
