package solvers

import (
	"context"
	"math"
	"slices"
)

// Libraries are least reliable where the columns' bounds do not limit the objective: HiGHS
// 1.10 and 1.15.1 call unbounded models optimal or infeasible, and bounded ones unbounded.
// Whether such a model is unbounded does not depend on where its solutions are, but on
// its directions of recession: d with A·d ≥ 0 in rows that have a lower side, ≤ 0 in rows
// that have an upper one, and likewise for the columns' bounds. If one of them improves the
// objective, a model of rational numbers with a solution is unbounded, with integers too
// (Meyer 1974); if none does, its relaxation is bounded.

const (
	// improving is by how much of the greatest cost a direction within [−1, 1] has to
	// improve the objective.
	improving = 1e-6
	// feasibilityNodes limits the search for any solution.
	feasibilityNodes = 10_000
)

// verdict is what is known of a model whose columns do not limit its objective.
type verdict uint8

const (
	unknown   verdict = iota
	bounded           // no direction of recession improves the objective
	recedes           // one does: infeasible or unbounded
	unlimited         // one does, and there is a solution
	empty             // one does, and the library says that there is no solution
)

// recession returns what directions of recession say of the model. It asks the library
// for the best of them, a linear program of bounded columns, and, where a claimed
// infeasibility depends on it, for any solution.
func (s *solving) recession(ctx context.Context, claimed Status) verdict {
	switch improves, known := s.direction(ctx); {
	case !known:
		return unknown
	case !improves:
		return bounded
	case s.best != nil:
		return unlimited
	}
	if claimed != Infeasible && claimed != InfeasibleOrUnbounded && claimed != Unbounded {
		return recedes
	}
	p := s.problem
	p.Model.Cost = make([]float64, len(p.Model.Cost))
	p.Start, p.Attempt = nil, 0
	if p.Nodes < 0 && s.engine.Can()&CanNodes != 0 {
		p.Nodes = feasibilityNodes
	}
	a := s.ask(ctx, &p)
	switch {
	case a == nil:
		return recedes
	case a.Status == Infeasible:
		return empty
	}
	if s.takePoint(ctx, a); s.best != nil {
		return unlimited
	}
	return recedes
}

// direction reports whether a direction of recession improves the objective. The answer is
// kept.
func (s *solving) direction(ctx context.Context) (improves, known bool) {
	if s.directed {
		return s.improves, true
	}
	p := s.problem
	d := &p.Model
	most := 0.0
	for _, c := range d.Cost {
		most = math.Max(most, math.Abs(c))
	}
	cone := func(lower, upper []float64, size float64) (lo, up []float64) {
		lo, up = make([]float64, len(lower)), make([]float64, len(lower))
		for i := range lower {
			if math.IsInf(lower[i], 0) {
				lo[i] = -size
			}
			if math.IsInf(upper[i], 0) {
				up[i] = size
			}
		}
		return lo, up
	}
	d.Lower, d.Upper = cone(d.Lower, d.Upper, 1)
	d.RowLower, d.RowUpper = cone(d.RowLower, d.RowUpper, math.Inf(1))
	d.Integer, d.Offset = make([]bool, len(d.Cost)), 0
	p.Start, p.Nodes, p.Attempt = nil, -1, 0
	a := s.ask(ctx, &p)
	if a == nil || a.Status != Optimal || !finitePoint(a.X, len(d.Cost)) {
		return false, false
	}
	x, wrong := polish(s.model, d, a.X)
	if wrong != "" {
		return false, false
	}
	s.directed, s.improves = true, s.sense()*objective(d, x) < -improving*most
	return s.improves, true
}

// ask solves another program on the way to an answer; nil: there is none.
func (s *solving) ask(ctx context.Context, p *Problem) *Answer {
	if ctx.Err() != nil {
		return nil
	}
	p.OnProgress, p.Log = func(Progress) {}, nil
	p.Raw = nil
	a, err := s.call(ctx, p)
	if err != nil || a == nil || s.panicked != nil {
		return nil
	}
	return a
}

// judgeRecession judges a final answer on a model whose columns do not limit its objective.
// It returns nil if directions of recession do not contradict or complete the answer.
func (s *solving) judgeRecession(ctx context.Context, a *Answer) *Result {
	final := []Status{Optimal, Infeasible, InfeasibleOrUnbounded, Unbounded}
	if !math.IsInf(boxBound(&s.problem.Model), 0) || !slices.Contains(final, a.Status) {
		return nil
	}
	v := s.recession(ctx, a.Status)
	switch {
	case v == unlimited:
		if a.Status != Unbounded {
			s.note("%v claimed, but a direction improves the objective without end from a solution", a.Status)
		}
		r := s.result(Unbounded, NotStopped)
		r.Proof = "a solution and a direction that improves the objective without end"
		return r
	case v == empty:
		return s.result(Infeasible, NotStopped)
	case v == recedes:
		return s.result(InfeasibleOrUnbounded, NotStopped)
	case v == bounded && (a.Status == Unbounded || a.Status == InfeasibleOrUnbounded):
		s.doubtf("%v claimed, but no direction improves the objective without end", a.Status)
		if s.best == nil {
			return s.result(Numerical, Unknown)
		}
		return s.result(Feasible, Unknown)
	}
	return nil
}
