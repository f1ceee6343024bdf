package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"workbench/bench/solve"
	"workbench/heuristics/weightoffload"
	"workbench/ilp/formulation"
	ilpweights "workbench/ilp/weightoffload"
	"workbench/model/cycleratio"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// patience is the number of searches without a limit: the first as the method, the
// second from the best plan and the MILP's choices, the others afresh with other seeds.
const patience = 4

// weightsMILP is the search, and beside it the compact MILP for the bound, whose
// choices further rounds of the search begin with. Chains short enough for it end with
// the exact MILP.
func weightsMILP(methods []*solve.Method) func() *combination {
	quick := named(methods, "store-all", "l2l")
	return func() *combination {
		away := make(chan []bool, 1) // of the MILP
		return &combination{
			name: "milp", bound: weightBound(), quick: quick, rounds: patience,
			search: func(j *joint, round int) bool { return weightsRound(j, round, away) },
			prove: func(j *joint) error {
				defer close(away)
				short := j.in.Chain().Len() <= ilpweights.ExactLayers
				phase := formulation.Phase{}
				if short {
					phase.Share = beforeExact
				}
				r, err := j.solve(ilpweights.Nested, phase)
				if err != nil {
					return err
				}
				if r.X != nil {
					away <- r.Program.Hint(r.X).Away
				}
				if short && j.unproved() {
					_, err = j.solve(ilpweights.Exact, formulation.Phase{})
				}
				return err
			},
		}
	}
}

// beforeExact is the part of the time that the bound may take before the exact MILP.
const beforeExact = 0.75

// weightsRound is a round of the search: the first alone, the first one after the
// MILP from its choices and the best plan, from which the search has gone as far as it
// goes otherwise; the others afresh with other seeds.
func weightsRound(j *joint, round int, milp <-chan []bool) bool {
	if err := short(j.in, "search"); err != nil {
		j.fail("search", err)
		return false
	}
	o := searchOptions(j.in, &j.s)
	tell := o.OnBetter
	o.OnBetter = func(p *plan.Plan) {
		j.UpdateIncumbent(p)
		tell(p)
	}
	if round > 0 {
		o.Seed, o.Bound = uint64(j.s.Seed+round), max(0, j.claimed()*(1+solve.Tolerance))
		select {
		case choices, ok := <-milp:
			if ok {
				o.Away, o.Start = choices, j.Best()
			}
		default:
		}
	}
	p, err := weightoffload.Search(j.ctx, j.in.Chain(), j.s.Platform, o)
	j.addOutcome("search", &solve.Outcome{Plan: p}, err)
	return err == nil || errors.Is(err, plan.ErrNoPlan)
}

// solve solves a formulation from the best plan, and takes over what came of it.
func (j *joint) solve(build formulation.Builder[*chain.Chain], phase formulation.Phase) (r *formulation.Result, err error) {
	if phase.Program, err = build(j.in.Chain(), j.s.Platform); err != nil {
		return nil, userError(err)
	}
	r, err = j.task("milp").Run(j.ctx, formulation.Phases(&phase))
	return r, j.solved(r, err)
}

// weightsSearch is the search alone.
func weightsSearch(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	if err := short(in, "search"); err != nil {
		return nil, err
	}
	p, err := weightoffload.Search(ctx, in.Chain(), s.Platform, searchOptions(in, &s))
	if err != nil {
		return nil, err
	}
	return &solve.Outcome{Plan: p, Stopped: ctx.Err() != nil}, nil
}

// searchOptions returns the options of a search that reports progress.
func searchOptions(in *solve.Instance, s *solve.Setting) weightoffload.Options {
	start := time.Now()
	o := weightoffload.Options{Seed: uint64(s.Seed), Floor: weightBound()(in, *s).Value}
	o.OnBetter = func(p *plan.Plan) { reportProgress(s, start, "search", p, math.Inf(-1), 0) }
	return o
}

// userError marks what the user asked for and no formulation can do.
func userError(err error) error {
	switch {
	case errors.Is(err, formulation.ErrTooLong), errors.Is(err, formulation.ErrInstance):
		return solve.InputError(err)
	case tooFarApart(err):
		return solve.InputError(fmt.Errorf("times or sizes are too far apart for a MILP: %w", err))
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
func Build(f formulation.Formulation, in *solve.Instance, p platform.Platform) (*formulation.Program, error) {
	made := in.Instance
	if c := in.Chain(); f.Kind == graph.Kind && c != nil {
		made = graph.FromChain(c)
	}
	if made.Kind() != f.Kind {
		return nil, solve.InputError(fmt.Errorf("formulation %s is not about a %s, which %s is", f.Name, solve.KindWord(in.Kind()), in.Name))
	}
	program, err := f.Build(made, in.Platform(p), nil)
	return program, in.InBytes(userError(err))
}
