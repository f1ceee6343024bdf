package solvers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"workbench/model/platform"
)

// branchAndBound is Result.BoundBy unless an engine sets it.
const branchAndBound = "branch and bound"

// judge derives a result from a library's answer, by these rules. A point counts if it passes its check; a bound
// counts if no point contradicts it; the status follows from the two. The library's own status is used where it is
// the only evidence: Infeasible, Unbounded, and the reason why a search stopped. Contradictions are recorded in
// s.doubt.
func (s *solving) judge(ctx context.Context, a *Answer) *Result {
	s.nodes, s.iters = max(s.nodes, a.Nodes), max(s.iters, a.Iterations)
	s.raw = a.Raw
	if a.Note != "" {
		s.note("%s", a.Note)
	}
	if a.StartAccepted && s.problem.Start != nil {
		s.start = StartAccepted
	}
	wrong := s.takePoint(ctx, a)
	stop := s.stop(ctx, a.Stop)
	if r := s.judgeRecession(ctx, a); r != nil {
		return r
	}
	switch a.Status {
	case Infeasible, InfeasibleOrUnbounded, Unbounded:
		return s.judgeProof(a)
	}
	by := a.BoundBy
	if by == "" {
		by = branchAndBound
	}
	if a.Status != Numerical && !s.tighten(a.Bound, by) {
		s.doubtf("claimed bound %g is beyond objective %g", a.Bound, s.bestObj)
	}
	switch a.Status {
	case Optimal:
		switch {
		case wrong != "":
			s.doubtf("claimed optimum is no solution: %s", wrong)
		case a.X == nil:
			s.doubtf("optimum claimed, but no point given")
		case s.closed():
			r := s.result(Optimal, NotStopped)
			r.Dual = s.duals(a)
			return r
		default:
			s.doubtf("optimum claimed, but objective %g and bound %g leave a gap", s.bestObj, s.bound)
		}
		stop = Unknown
	case Feasible:
		if wrong != "" {
			s.doubtf("claimed solution is none: %s", wrong)
		}
	case Imprecise, Numerical:
		s.doubtf("library in trouble")
		if wrong != "" {
			s.doubtf("%s", wrong)
		}
	}
	switch {
	case s.closed():
		return s.result(Optimal, NotStopped)
	case s.best != nil:
		return s.result(Feasible, stop)
	case wrong != "" && finitePoint(a.X, len(s.data.Cost)):
		return s.imprecise(a, stop)
	case a.Status == Numerical || a.Status == Imprecise || a.Status == Optimal:
		return s.result(Numerical, stop)
	}
	return s.result(NoSolution, stop)
}

// doubtf records a contradiction in the answer.
func (s *solving) doubtf(format string, args ...any) {
	s.doubt = append(s.doubt, fmt.Sprintf(format, args...))
}

// takePoint offers the reported point as incumbent, repaired if necessary. It returns what is wrong with a point
// that cannot be used.
func (s *solving) takePoint(ctx context.Context, a *Answer) (wrong string) {
	if a.X == nil {
		return ""
	}
	if !finitePoint(a.X, len(s.data.Cost)) {
		return fmt.Sprintf("%s for %s, or not all finite", platform.Count(len(a.X), "value"), platform.Count(len(s.data.Cost), "column"))
	}
	if wrong = s.updateIncumbent(a.X); wrong == "" {
		return ""
	}
	y := s.repair(ctx, a.X)
	if y == nil {
		return wrong
	}
	s.note("repaired: %s before the continuous columns were re-solved", wrong)
	return s.updateIncumbent(y)
}

// judgeProof judges the statuses that no point can confirm, by what could contradict them: a solution, or finite
// bounds on all columns in the objective.
func (s *solving) judgeProof(a *Answer) *Result {
	status := a.Status
	bounded := !math.IsInf(boxBound(&s.problem.Model), 0)
	switch {
	case status == Unbounded && bounded:
		s.doubtf("library says unbounded, but the column bounds limit the objective")
		if s.best == nil {
			return s.result(Numerical, Unknown)
		}
	case status == InfeasibleOrUnbounded && bounded:
		status = Infeasible
	case status == InfeasibleOrUnbounded && s.best != nil:
		status = Unbounded
	}
	if s.best != nil && status != Unbounded {
		s.doubtf("library says infeasible, but a solution is known")
	}
	if len(s.doubt) == 0 {
		return s.result(status, NotStopped)
	}
	if s.closed() {
		return s.result(Optimal, NotStopped)
	}
	return s.result(Feasible, Unknown)
}

// judgeFailure turns an error of the engine into a result if a solution is known.
func (s *solving) judgeFailure(ctx context.Context, err error) (*Result, error) {
	if errors.Is(err, ErrUnsupported) || errors.Is(err, ErrOption) || errors.Is(err, ErrMissing) {
		return nil, err
	}
	if !errors.Is(err, ErrSolver) {
		err = fmt.Errorf("%w: %w", ErrSolver, err)
	}
	s.doubtf("%v", err)
	s.note("%v", err)
	if s.best == nil {
		return nil, err
	}
	if s.closed() {
		return s.result(Optimal, NotStopped), nil
	}
	return s.result(Feasible, s.stop(ctx, Unknown)), nil
}

// closed reports whether incumbent and bound are within the requested gap.
func (s *solving) closed() bool {
	return s.best != nil && s.problem.Closed(s.bestObj, s.bound, objectiveTolerance)
}

// Closed reports whether the difference between an objective and a bound, in either sense, is at most the requested absolute or relative
// gap, whichever is larger, and a tolerance, relative but for objectives below 1. It differs from [platform.Closed] in all of this.
func (p *Problem) Closed(objective, bound, tolerance float64) bool {
	scale := math.Abs(objective)
	asked := math.Max(p.AbsGap, p.RelGap*scale)
	return float64(p.Model.Sense)*(objective-bound) <= asked+tolerance*math.Max(1, scale)
}

// stop returns why the search ended early. Known facts take precedence over what the library reports.
func (s *solving) stop(ctx context.Context, claimed Stop) Stop {
	switch claimed {
	case Nodes, Iterations, Solutions, Objective, Memory:
		return claimed
	}
	switch ctx.Err() {
	case context.DeadlineExceeded:
		return Time
	case context.Canceled:
		return Cancelled
	}
	// The library's clock may be slightly ahead of the context's.
	if _, limited := ctx.Deadline(); limited && claimed == Time {
		return Time
	}
	return Unknown
}

// imprecise keeps the reported point although it fails its check.
func (s *solving) imprecise(a *Answer, stop Stop) *Result {
	x, _ := polish(s.model, &s.data, a.X)
	r := s.result(Imprecise, stop)
	r.X, r.Obj = x, objective(&s.data, x)
	return r
}

// duals returns the reported duals of a continuous model if they are complete.
func (s *solving) duals(a *Answer) *Duals {
	if a.Dual == nil || s.integer || !finitePoint(a.Dual.Row, len(s.data.RowLower)) || !finitePoint(a.Dual.Reduced, len(s.data.Cost)) {
		return nil
	}
	return a.Dual
}

// result returns a Result. It sets incumbent and bound where the status is about them.
func (s *solving) result(status Status, stop Stop) *Result {
	r := &Result{
		Status: status, Stop: stop, Bound: s.noBound(), Start: s.start,
		Nodes: s.nodes, Iterations: s.iters,
		Wall: time.Since(s.begin), Backend: s.engine.Name(), Raw: s.raw, Note: s.noteText(), Obj: math.NaN(),
	}
	switch status {
	case Optimal, Feasible:
		r.X, r.Obj = s.best, s.bestObj
		r.Bound, r.BoundBy = s.bound, s.boundBy
		if status == Optimal && s.boundBy == columnBounds {
			r.Proof = columnBounds
		}
	case NoSolution:
		r.Bound, r.BoundBy = s.bound, s.boundBy
	}
	return r
}

func (s *solving) noteText() string {
	notes := s.notes
	if s.logErr != nil {
		notes = append(notes[:len(notes):len(notes)], fmt.Sprintf("log writer: %v", s.logErr))
	}
	return strings.Join(notes, "; ")
}
