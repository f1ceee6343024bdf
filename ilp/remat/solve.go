package remat

import (
	"context"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/solvers"
)

// rounds is the maximum number of times that a model gets covers.
const rounds = 30

// Phases returns the programs to solve for a chain. [Bound] comes first, with half of the time:
// usually its best solution also fits during forwards, and plan and bound meet. Otherwise [MILP]
// searches for the best plan. If a solution of a solver does not fit, which its tolerances may
// allow, the same model is solved again with covers that exclude it. The end of ctx also ends
// building, which takes seconds for 200 layers. The errors are those of [MILP].
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
