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
	program, x, err := solveFormulation(ctx, in, &s, start, out, ilpweights.Nested)
	if err != nil {
		return nil, err
	}
	var away []bool
	if x != nil {
		away = program.Hint(x).Away
	}
	for round := 0; round < patience && !closed(out, s.Gap) && ctx.Err() == nil; round++ {
		o := searchOptions(&s, start, "search", 0, proven(out), away, out.Plan)
		if round > 0 {
			// From the incumbent the search has gone as far as it goes.
			o.Seed, o.Away, o.Start = uint64(s.Seed+round-1), nil, nil
		}
		found, err := weights.Search(ctx, in.Chain, s.Platform, o)
		switch {
		case err == nil && (out.Plan == nil || *found.Period < *out.Plan.Period):
			out.Plan = found
		case err != nil && !errors.Is(err, plan.ErrNoPlan):
			return nil, err
		}
	}
	if in.Chain.Len() <= ilpweights.ExactLayers && !closed(out, s.Gap) {
		if err := improveExactly(ctx, in, &s, start, out); err != nil {
			return nil, err
		}
	}
	if out.Plan != nil {
		out.Plan.Method = "milp"
	}
	out.Stopped = out.Stopped || ctx.Err() != nil
	return out, nil
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
		s.Relax = relax
		_, _, err := solveFormulation(ctx, in, &s, time.Now(), out, build)
		return out, err
	}
}

// proven returns the best bound in out, −Inf if there is none.
func proven(out *run.Outcome) float64 {
	best := math.Inf(-1)
	for _, b := range out.Bounds {
		best = max(best, b.Value)
	}
	return best
}

// closed reports whether the plan of out meets its bound.
func closed(out *run.Outcome, gap float64) bool {
	return out.Plan != nil && solvers.Gap(*out.Plan.Period, proven(out)) <= max(gap, run.Tolerance)
}

// weightsExact solves the exact MILP, starting from the search.
func weightsExact(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	start := time.Now()
	best, err := weights.Search(ctx, in.Chain, s.Platform, searchOptions(&s, start, "search", quickMoves, math.Inf(-1), nil, nil))
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, err
	}
	out := &run.Outcome{Plan: best}
	// The exact MILP, full of large constants, proves little by itself.
	if _, _, err := solveFormulation(ctx, in, &s, start, out, ilpweights.Nested); err != nil {
		return nil, err
	}
	if err := improveExactly(ctx, in, &s, start, out); err != nil {
		return nil, err
	}
	if out.Plan != nil {
		out.Plan.Method = "exact-milp"
	}
	return out, nil
}

// improveExactly solves the exact MILP, starting from out.Plan, and keeps what
// is better. Its plans are timed anew from the solver's integers; one that does
// not hold is missing.
func improveExactly(ctx context.Context, in *run.Instance, s *run.Setting, start time.Time, out *run.Outcome) error {
	program, x, err := solveFormulation(ctx, in, s, start, out, ilpweights.Exact)
	if err != nil || x == nil {
		return err
	}
	found, err := program.Plan(x)
	if err == nil {
		err = replay(in, found)
	}
	switch {
	case err != nil:
		out.Note = "a solution of the exact MILP makes no plan: " + err.Error()
	case out.Plan == nil || *found.Period < *out.Plan.Period:
		out.Plan = found
	}
	return nil
}

// replay returns what is wrong with a plan, nil if nothing is.
func replay(in *run.Instance, p *plan.Plan) error {
	r, err := plan.Verify(in.Chain, p)
	if err == nil && !r.Valid() {
		err = &run.InvalidPlanError{Method: p.Method, Report: r}
	}
	return err
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

// solveFormulation solves a formulation of a chain, see solveProgram, and
// returns its program, too.
func solveFormulation(ctx context.Context, in *run.Instance, s *run.Setting, start time.Time, out *run.Outcome, build formulation.Builder) (program *formulation.Program, x []float64, err error) {
	program, err = build(in.Chain, s.Platform)
	if err != nil {
		return nil, nil, userError(err)
	}
	x, err = solveProgram(ctx, s, start, out, program)
	return program, x, err
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
