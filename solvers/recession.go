package solvers

import (
	"context"
	"math"
	"slices"
)

// Libraries are least reliable where the columns' bounds do not limit the objective. HiGHS 1.10 and 1.15.1 report
// unbounded models as optimal or infeasible, and bounded ones as unbounded. Whether a feasible model is unbounded
// depends only on its directions of recession: d with A·d ≥ 0 in rows that have a lower side, ≤ 0 in rows that
// have an upper one, and likewise for the columns' bounds. If one of them improves the objective, a feasible model
// with rational data is unbounded, even with integers (Meyer 1974). If none does, its relaxation is bounded.

const (
	// improving is the fraction of the greatest cost by which a direction within [−1, 1] must improve the
	// objective.
	improving = 1e-6
	// feasibilityNodes limits the search for any solution.
	feasibilityNodes = 10_000
)

// verdict classifies a model whose columns do not limit its objective.
type verdict uint8

const (
	unknown   verdict = iota
	bounded           // no direction of recession improves the objective
	recedes           // one does: infeasible or unbounded
	unlimited         // one does, and the model is feasible
	empty             // one does, and the library reports the model as infeasible
)

// recession classifies the model by its directions of recession. It solves for the best of them, a linear program
// with bounded columns. Where a reported infeasibility depends on it, it also searches for any solution.
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

// direction reports whether a direction of recession improves the objective. The result is cached.
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

// ask solves an auxiliary program; nil: no answer.
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

// judgeRecession judges a final answer on a model whose columns do not limit its objective. It returns nil if
// directions of recession do not contradict or complete the answer.
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
