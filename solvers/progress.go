package solvers

import (
	"math"
	"time"

	"workbench/model/platform"
)

// progress implements Problem.OnProgress.
func (s *solving) progress(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open || s.panicked != nil {
		return
	}
	before := s.best
	if finitePoint(p.X, len(s.data.Cost)) {
		s.updateIncumbent(p.X)
	}
	s.tighten(p.Bound, branchAndBound)
	s.nodes, s.iters = max(s.nodes, p.Nodes), max(s.iters, p.Iterations)
	if s.user == nil {
		return
	}
	q := Progress{
		Elapsed: time.Since(s.begin), Objective: math.NaN(), Bound: s.bound, Gap: math.NaN(),
		Nodes: s.nodes, Iterations: s.iters,
	}
	if s.best != nil {
		q.Objective = s.bestObj
		q.Gap = math.Abs(platform.Excess(q.Objective, q.Bound))
	}
	if s.best != nil && (before == nil || &s.best[0] != &before[0]) {
		q.X = append([]float64(nil), s.best...)
	}
	defer s.catch()
	s.user(q)
}

// catch keeps the panic of a callback for Solve's caller and ends the search.
func (s *solving) catch() {
	if v := recover(); v != nil {
		s.panicked = v
		s.cancel()
	}
}

// logSink implements Problem.Log: it records the first error of the user's writer and returns none, since
// libraries cannot handle it.
type logSink struct{ s *solving }

func (l logSink) Write(b []byte) (int, error) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open || s.panicked != nil || s.logErr != nil {
		return len(b), nil
	}
	defer s.catch()
	if _, err := s.log.Write(b); err != nil {
		s.logErr = err
	}
	return len(b), nil
}
