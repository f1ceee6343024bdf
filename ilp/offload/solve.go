package offload

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// Moves of the search for each tensor, before the model is solved and around its
// solution.
const (
	offloadMoves = 5000
	nearbyMoves  = 2500
)

// Solve looks for a plan of activation offloading of least makespan and
// proves a lower bound. start is a verified plan, or nil; o.Seed seeds the
// search. There is always a plan, even when ctx has ended. The search ends at a
// limit in o, or when the gap between plan and bound is o.RelGap or less. The
// error is a *plan.Infeasible if no plan exists.
//
// A search over sets and orders of transfers comes first, then the bound of
// Offload, with the plan as a start, then a search around its solution. For
// chains of up to ExactLayers the exact MILP answers what is left.
func Solve(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, start *plan.Plan, o solvers.Options) (*formulation.Found, error) {
	in, err := newOffloadInstance(c, p)
	if err != nil {
		return nil, err
	}
	s := &offloadSolver{ctx: ctx, b: b, in: in, o: o, rng: rand.New(rand.NewPCG(uint64(o.Seed.Value), 0)), r: &formulation.Found{}}
	if o.Time > 0 {
		s.end = time.Now().Add(o.Time)
	}
	if start != nil {
		if _, err := in.times(start); err != nil {
			return nil, err
		}
		s.r.Keep(start)
	}
	s.search(s.everything(true), offloadMoves)
	s.r.Raise(c.TotalTime(), "the sum of the computations")
	if s.done() {
		return s.r, nil
	}
	f := buildOffload(in, 1)
	solution, err := s.solve(f.m.Name(), &formulation.Program{Model: f.m, Start: f.start})
	if err != nil {
		return nil, err
	}
	if solution != nil {
		s.search(f.orders(solution), nearbyMoves)
	}
	if s.done() || in.n > ExactLayers {
		return s.r, nil
	}
	return s.r, s.exact()
}

// offloadSolver is one run of Solve.
type offloadSolver struct {
	ctx context.Context
	b   solvers.Backend
	in  *offloadInstance
	o   solvers.Options
	end time.Time
	rng *rand.Rand
	r   *formulation.Found
}

// done says whether the gap is what is asked for, or time is over.
func (s *offloadSolver) done() bool {
	return s.r.Gap() <= max(s.o.RelGap.Value, plan.Tolerance) || s.ctx.Err() != nil ||
		!s.end.IsZero() && !time.Now().Before(s.end)
}

// everything offloads all that can be, which always makes a plan; if worth, only
// what takes more than an instant.
func (s *offloadSolver) everything(worth bool) *orders {
	all := &orders{}
	for i := range s.in.tensors() {
		if s.in.movable(i) && (!worth || s.in.worth(i)) {
			all.O, all.P = append(all.O, i), append(all.P, i)
		}
	}
	return all
}

// search looks for a better plan around one.
func (s *offloadSolver) search(from *orders, moves int) {
	w := newNoWait(s.in)
	if math.IsInf(w.run(from.O, from.P), 1) {
		from = s.everything(false)
	}
	best := w.search(s.ctx, s.rng, from, moves*s.in.tensors())
	w.run(best.O, best.P)
	s.r.Keep(s.in.write(w.times(best), "offload-milp"))
}

// solve solves a model whose objective is in units, with the best plan as a
// start, until the gap to this plan is closed. It returns nil if there is no
// solution.
func (s *offloadSolver) solve(name string, program *formulation.Program) ([]float64, error) {
	o := s.o
	if !s.end.IsZero() {
		o.Time = max(time.Millisecond, time.Until(s.end))
	}
	if !o.Relax && s.b.Can()&solvers.CanStart != 0 {
		if x, err := program.Start(s.r.Plan); err == nil {
			o.Start = x
		}
	}
	if o.AbsGap.Set {
		o.AbsGap.Value /= s.in.unit
	}
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	if s.b.Can()&solvers.CanProgress != 0 {
		o.RelGap = solvers.Opt[float64]{} // the model's own optimum may be far below the plan
		o.OnProgress = func(p solvers.Progress) {
			p.Bound *= s.in.unit
			if s.o.OnProgress != nil {
				q := p
				q.Objective = s.r.Plan.Claims.Makespan
				q.Bound = max(p.Bound, s.r.Bound)
				q.Gap, q.X = solvers.Gap(q.Objective, q.Bound), nil
				s.o.OnProgress(q)
			}
			if p.Bound >= s.r.Plan.Claims.Makespan*(1-s.o.RelGap.Value) {
				stop()
			}
		}
	}
	r, err := s.b.Solve(ctx, program.Model, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch r.Status {
	case solvers.Infeasible, solvers.Unbounded, solvers.InfeasibleOrUnbounded:
		return nil, fmt.Errorf("%s: %w: %s calls it %v, but plans exist", name, solvers.ErrSolver, r.Backend, r.Status)
	}
	r.Obj *= s.in.unit
	r.Bound *= s.in.unit
	s.r.Result = r
	s.r.Raise(r.Bound, fmt.Sprintf("%s (%s, %s)", name, r.BoundBy, r.Backend))
	if x, ok := r.Solution(); ok && !o.Relax {
		return x, nil
	}
	return nil, nil
}

// orders reads the orders of the transfers off a solution: by the middle of the
// intervals that carry them.
func (f *offload) orders(x []float64) *orders {
	o := &orders{}
	when := func(s Span) float64 {
		t := 0.0
		for j := range s.Cols.Len() {
			t += float64(s.From+j) * x[s.Cols.At(j).Index()]
		}
		return t
	}
	for i := range f.O {
		if f.movable(i) && x[f.moves.At(i).Index()] > 0.5 {
			o.O, o.P = append(o.O, i), append(o.P, i)
		}
	}
	slices.SortStableFunc(o.O, func(i, j int) int { return cmp.Compare(when(f.O[i]), when(f.O[j])) })
	slices.SortStableFunc(o.P, func(i, j int) int { return cmp.Compare(when(f.P[j]), when(f.P[i])) })
	return o
}
