package remat

import (
	"context"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/solvers"
)

// rounds is how often a model gets covers.
const rounds = 30

// Phases returns the programs to solve for a chain. [Bound] comes first, with half
// of the time: as a rule its best solution fits during forwards, too, and plan
// and bound meet. Otherwise [MILP] looks for the best plan. Where a solver's
// solution does not fit, which its tolerances may let happen, the same model
// comes again with covers that forbid it. The end of ctx ends building, too, which
// takes seconds for 200 layers. The errors are those of [MILP].
func Phases(ctx context.Context, c *chain.Chain, p platform.Platform) (formulation.Next, error) {
	s := &phases{c: c, p: p}
	next := func(sofar *formulation.Result) (*formulation.Phase, error) {
		x, err := s.next(ctx, sofar)
		if ctx.Err() != nil {
			return nil, nil
		}
		return x, err
	}
	return next, s.begin(ctx, true)
}

type phases struct {
	c       *chain.Chain
	p       platform.Platform
	f       *chainMILP
	program *formulation.Program // nil: not solved yet
	rounds  int                  // that f was solved
}

func (s *phases) begin(ctx context.Context, bound bool) (err error) {
	s.program, s.rounds = nil, 0
	if s.f, err = newChainMILP(s.c, s.p, bound); err != nil {
		return err
	}
	return s.f.build(ctx, nil)
}

func (s *phases) next(ctx context.Context, sofar *formulation.Result) (*formulation.Phase, error) {
	if s.program != nil {
		if sofar.Solver.Status == solvers.Infeasible && s.f.bound {
			return nil, nil // then MILP is, too
		}
		more := s.missing(sofar)
		switch {
		case len(more) > 0 && s.rounds < rounds:
			if err := s.f.build(ctx, append(s.f.covers, more...)); err != nil {
				return nil, err
			}
		case !s.f.bound:
			return nil, nil
		default:
			if err := s.begin(ctx, false); err != nil {
				return nil, err
			}
		}
	}
	s.program = s.f.program()
	s.rounds++
	x := &formulation.Phase{Program: s.program}
	if s.f.bound {
		x.Share = 0.5
	}
	return x, nil
}

// missing returns the covers that the last solution breaks.
func (s *phases) missing(sofar *formulation.Result) []Cover {
	if sofar.Program != s.program || sofar.X == nil {
		return nil
	}
	return s.f.broken(sofar.X)
}
