package solvers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"
)

const (
	// lateness is how long an engine may take to return after its context has ended before it is abandoned.
	lateness = time.Second
	// repairTime limits the repair of the incumbent of a search that has ended.
	repairTime = 500 * time.Millisecond
)

// errAbandoned is the error of an abandoned engine.
var errAbandoned = errors.New("library had not returned one second after the end of its time and was abandoned")

// run solves trivial models itself, and otherwise calls the engine, a second time if the first answer fails its
// check.
func (s *solving) run(ctx context.Context) (*Result, error) {
	if ctx.Err() != nil {
		return s.judge(ctx, nothing()), nil
	}
	if why := contradiction(s.model, &s.problem.Model); why != "" {
		s.note("%s", why)
		r := s.result(Infeasible, NotStopped)
		r.Proof = why
		return r, nil
	}
	if len(s.data.Cost) == 0 || len(s.data.RowLower) == 0 {
		x, ok := boxOptimum(&s.problem.Model)
		if !ok {
			r := s.result(Unbounded, NotStopped)
			r.Proof = columnBounds
			return r, nil
		}
		s.best, s.bestObj = x, objective(&s.data, x)
		s.bound, s.boundBy = s.bestObj, columnBounds
		return s.result(Optimal, NotStopped), nil
	}
	r, err := s.attempt(ctx, 0)
	if len(s.doubt) == 0 || s.engine.Can()&CanRetry == 0 || ctx.Err() != nil {
		return r, err
	}
	s.note("asked a second time")
	s.doubt = nil
	again, errAgain := s.attempt(ctx, 1)
	if r != nil && (errAgain != nil || again.X == nil && r.X != nil) {
		r.Note = s.noteText()
		return r, nil
	}
	return again, errAgain
}

// attempt runs the engine once and judges its answer. Contradictions in the answer are recorded in s.doubt and
// noted.
func (s *solving) attempt(ctx context.Context, number int) (*Result, error) {
	p := s.problem
	p.Attempt = number
	a, err := s.call(ctx, &p)
	if s.panicked != nil {
		panic(s.panicked)
	}
	switch {
	case errors.Is(err, errAbandoned):
		s.note("%v", err)
		a = nothing()
	case err != nil:
		return s.judgeFailure(ctx, err)
	case a == nil:
		return s.judgeFailure(ctx, errors.New("no answer and no error"))
	}
	r := s.judge(ctx, a)
	if len(s.doubt) != 0 {
		s.notes = append(s.notes, s.doubt...)
		r.Note = s.noteText()
	}
	return r, nil
}

// nothing returns the answer of an abandoned library.
func nothing() *Answer { return &Answer{Status: NoSolution, Bound: math.NaN()} }

// call runs the engine on p in a goroutine of its own until it returns or is late. It accepts progress only during
// that time.
func (s *solving) call(ctx context.Context, p *Problem) (*Answer, error) {
	p.Time = 0
	if end, ok := ctx.Deadline(); ok {
		if p.Time = time.Until(end); p.Time <= 0 {
			a := nothing()
			a.Stop = Time // ctx may not have ended yet
			return a, nil
		}
	}
	s.setOpen(true)
	defer s.setOpen(false)
	type outcome struct {
		answer *Answer
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		// This is sent, still empty, if the engine ends its goroutine.
		o := outcome{err: fmt.Errorf("%w: engine did not return", ErrSolver)}
		defer func() {
			if v := recover(); v != nil {
				o = outcome{err: fmt.Errorf("%w: engine panicked: %v\n%s", ErrSolver, v, debug.Stack())}
			}
			done <- o
		}()
		a, err := s.engine.Run(ctx, p)
		o = outcome{a, err}
	}()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-ctx.Done():
	}
	late := time.NewTimer(lateness)
	defer late.Stop()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-late.C:
		return nil, errAbandoned
	}
}

func (s *solving) setOpen(open bool) {
	s.mu.Lock()
	s.open = open
	s.mu.Unlock()
}

// repair solves for the continuous columns with the integers of x fixed, and returns a point that passes its
// check, or nil. Libraries accept integers that are off by 1e-6. Where those are multiplied by a large constant,
// the rounded point violates its row, although other continuous values often satisfy it.
func (s *solving) repair(ctx context.Context, x []float64) []float64 {
	d := &s.problem.Model
	n := len(d.Cost)
	lower, upper := append([]float64(nil), d.Lower...), append([]float64(nil), d.Upper...)
	continuous := 0
	y, _ := polish(s.model, d, x)
	for j := range n {
		if !d.Integer[j] {
			continuous++
			continue
		}
		if v := x[j] - y[j]; v > integrality || v < -integrality {
			return nil
		}
		lower[j], upper[j] = y[j], y[j]
	}
	if !s.integer || continuous == 0 {
		return nil
	}
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), repairTime)
		defer cancel()
	}
	p := s.problem
	p.Model.Lower, p.Model.Upper, p.Model.Integer = lower, upper, make([]bool, n)
	p.Start, p.Nodes = nil, -1
	p.OnProgress = func(Progress) {}
	a, err := s.call(ctx, &p)
	if err != nil || a == nil || !finitePoint(a.X, n) {
		return nil
	}
	y, wrong := polish(s.model, &s.data, a.X)
	if wrong != "" {
		return nil
	}
	return y
}
