package solvers

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"workbench/model/milp"
)

// backend wraps an Engine as a Backend, see New.
type backend struct{ engine Engine }

func (b *backend) Name() string  { return b.engine.Name() }
func (b *backend) Can() Features { return b.engine.Can() }

func (b *backend) Solve(ctx context.Context, m *milp.Model, o Options) (*Result, error) {
	r, err := b.solve(ctx, m, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.engine.Name(), err)
	}
	return r, nil
}

func (b *backend) solve(ctx context.Context, m *milp.Model, o Options) (*Result, error) {
	s := solving{engine: b.engine, model: m, begin: time.Now(), user: o.OnProgress, log: o.Log}
	if m == nil {
		return nil, fmt.Errorf("%w: there is none", ErrModel)
	}
	if err := m.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if err := o.validate(m.NumCols()); err != nil {
		return nil, err
	}
	s.data = m.Data()
	if o.Relax {
		s.data.Integer = make([]bool, m.NumCols())
	}
	s.integer = slices.Contains(s.data.Integer, true)
	needs := o.needs()
	if s.integer {
		needs |= CanInteger
	}
	if missing := needs &^ b.engine.Can(); missing != 0 {
		return nil, fmt.Errorf("%w: %v", ErrUnsupported, missing)
	}
	p, err := problem(m, &s.data, &o)
	if err != nil {
		return nil, err
	}
	s.problem = *p
	// Integer bounds are rounded for the check, too.
	s.data.Lower, s.data.Upper = p.Model.Lower, p.Model.Upper
	s.problem.OnProgress = s.progress
	if o.Log != nil {
		s.problem.Log = logSink{&s}
	}
	s.resetBound()
	s.takeStart(o.Start)
	if o.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Time)
		defer cancel()
	}
	// A callback that panics ends the search.
	ctx, s.cancel = context.WithCancel(ctx)
	defer s.cancel()
	return s.run(ctx)
}

// solving is one call of Solve.
type solving struct {
	engine  Engine
	model   *milp.Model
	data    milp.Data // as the user gave it, except for Relax and integer bounds
	integer bool      // whether data has integer columns
	problem Problem
	begin   time.Time
	user    func(Progress)
	log     io.Writer
	cancel  context.CancelFunc
	start   StartUse
	notes   []string
	doubt   []string // contradictions in the last answer
	raw     string
	// The result of direction.
	directed, improves bool

	mu       sync.Mutex // guards the following fields while the engine runs
	open     bool       // the engine runs; later calls of an abandoned one are ignored
	best     []float64  // best checked incumbent; nil: none
	bestObj  float64
	bound    float64 // best bound not yet contradicted; infinite: none
	boundBy  string
	nodes    int64
	iters    int64
	panicked any
	logErr   error
}

func (s *solving) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// sense is 1 if smaller objectives are better, else −1.
func (s *solving) sense() float64 { return float64(s.data.Sense) }

// columnBounds is [Result.BoundBy] and [Result.Proof] of results that follow from the columns' bounds alone.
const columnBounds = "column bounds"

// resetBound resets the bound to that of the box of the columns.
func (s *solving) resetBound() {
	s.bound, s.boundBy = boxBound(&s.problem.Model), columnBounds
	if math.IsInf(s.bound, 0) || math.IsNaN(s.bound) {
		s.bound, s.boundBy = s.noBound(), ""
	}
}

func (s *solving) noBound() float64 { return math.Inf(-int(s.data.Sense)) }

// takeStart keeps the user's start as the first incumbent if it is complete and passes its check. No result is
// then worse, whatever the library does with it. A complete start that fails and leaves no column open is withheld
// from the library.
func (s *solving) takeStart(start []float64) {
	if start == nil {
		return
	}
	s.start = StartRejected
	if !finitePoint(start, len(s.data.Cost)) {
		return
	}
	if s.updateIncumbent(start) == "" {
		s.start = StartAccepted
	} else if !slices.Contains(s.data.Integer, false) {
		s.problem.Start = nil
	}
}

// updateIncumbent keeps x if it passes its check and is better. It returns what is wrong with x.
func (s *solving) updateIncumbent(x []float64) (wrong string) {
	y, wrong := polish(s.model, &s.data, x)
	if wrong != "" {
		return wrong
	}
	obj := objective(&s.data, y)
	if s.best == nil || s.sense()*obj < s.sense()*s.bestObj {
		s.best, s.bestObj = y, obj
		if s.isCutOff(s.bound) {
			s.resetBound() // the old bound is refuted
		}
	}
	return ""
}

// isCutOff reports whether the incumbent is better than b, so that b is no bound.
func (s *solving) isCutOff(b float64) bool {
	return s.best != nil && s.sense()*b > s.sense()*s.bestObj+objectiveTol(s.bestObj)
}

// tighten updates the bound to b if b is credible and better.
func (s *solving) tighten(b float64, by string) (credible bool) {
	if math.IsNaN(b) || math.IsInf(b, 0) {
		return true
	}
	if s.isCutOff(b) {
		return false
	}
	if s.sense()*b >= s.sense()*s.bound {
		s.bound, s.boundBy = b, by
	}
	return true
}
