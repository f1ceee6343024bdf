package solvers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/milp"
)

// Session solves the linear relaxation of a model repeatedly while the model changes: rows and columns are added,
// and costs, bounds and sides replaced by the methods of the model itself. Cutting-plane loops, Benders
// decomposition and column generation build on it. It is for one goroutine, like the model, and must be closed.
//
// HiGHS keeps the program and starts from the previous basis. Other backends solve from scratch, with the same
// results.
type Session struct {
	backend Backend
	model   *milp.Model
	lp      LP        // nil: not yet loaded, or the backend keeps none
	loaded  milp.Data // the program in lp
	cold    bool      // the backend keeps none
}

// NewSession returns a session of a model, which may still be empty.
func NewSession(b Backend, m *milp.Model) *Session { return &Session{backend: b, model: m} }

// Close frees the library's program.
func (s *Session) Close() {
	if s.lp != nil {
		s.lp.Close()
		s.lp = nil
	}
}

// Solve solves the relaxation of the current model, until ctx ends. Infeasibility and the end of ctx are answers.
// Points are checked: one that violates the model is Imprecise, after a second solve from scratch. Only HiGHS
// returns rays. The error wraps ErrModel for an invalid model; other errors are those of [Backend].
//
// In addition to the library's time, it takes O(columns + rows + nonzeros).
func (s *Session) Solve(ctx context.Context) (*LPResult, error) {
	if err := s.model.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	d := s.model.Data()
	d.Integer = make([]bool, len(d.Cost))
	p, err := problem(s.model, &d, new(Options))
	if err != nil {
		return nil, err
	}
	d = p.Model
	if why := contradiction(s.model, &d); why != "" {
		return &LPResult{Status: Infeasible, Objective: math.NaN(), Raw: why}, nil
	}
	if s.cold || len(d.Cost) == 0 || len(d.RowLower) == 0 {
		return s.anew(ctx)
	}
	if err := s.load(&d); errors.Is(err, ErrUnsupported) {
		s.cold = true
		return s.anew(ctx)
	} else if err != nil {
		s.Close() // its state is unknown after a partial update
		return nil, fmt.Errorf("%s: %w", s.backend.Name(), err)
	}
	for attempt := 0; ; attempt++ {
		r, err := s.lp.Solve(ctx, LPOptions{Attempt: attempt})
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("%s: %w", s.backend.Name(), err)
		}
		wrong := ""
		if r.Status == Optimal {
			_, wrong = polish(s.model, &d, r.X)
		}
		if attempt > 0 && wrong != "" {
			r.Status, r.Raw = Imprecise, wrong
		}
		if attempt > 0 || wrong == "" && r.Status != Numerical {
			return r, nil
		}
	}
}

// anew solves the relaxation from scratch.
func (s *Session) anew(ctx context.Context) (*LPResult, error) {
	r, err := s.backend.Solve(ctx, s.model, Options{Relax: true})
	if err != nil {
		return nil, err
	}
	out := &LPResult{Status: r.Status, Stop: r.Stop, Objective: r.Obj, X: r.X, Iterations: r.Iterations, Raw: r.Raw}
	if r.Dual != nil {
		out.Dual, out.Reduced = r.Dual.Row, r.Dual.Reduced
	} else if r.Status == Optimal && len(s.model.Data().RowLower) == 0 {
		out.Reduced = slices.Clone(s.model.Data().Cost)
	}
	return out, nil
}

// load updates the library's program to d.
func (s *Session) load(d *milp.Data) error {
	if s.lp != nil && (d.Sense != s.loaded.Sense || d.Offset != s.loaded.Offset) {
		s.Close()
	}
	if s.lp == nil {
		lp, err := OpenLP(s.backend, d)
		if err != nil {
			return err
		}
		s.lp, s.loaded = lp, *d
		s.loaded.Cost = slices.Clone(d.Cost) // the others are copies, or never written to
		return nil
	}
	was := &s.loaded
	if err := errors.Join(s.change(was, d), s.changeCoefs(was, d), s.addCols(was, d), s.addRows(was, d)); err != nil {
		return err
	}
	s.loaded = *d
	s.loaded.Cost = slices.Clone(d.Cost)
	return nil
}

// change passes on changed bounds, costs and sides of existing columns and rows.
func (s *Session) change(was, d *milp.Data) error {
	var bounds, costs []int32
	var lower, upper, cost []float64
	for j := range was.Cost {
		if was.Lower[j] != d.Lower[j] || was.Upper[j] != d.Upper[j] {
			bounds, lower, upper = append(bounds, int32(j)), append(lower, d.Lower[j]), append(upper, d.Upper[j])
		}
		if was.Cost[j] != d.Cost[j] {
			costs, cost = append(costs, int32(j)), append(cost, d.Cost[j])
		}
	}
	err := errors.Join(s.lp.SetBounds(bounds, lower, upper), s.lp.SetCosts(costs, cost))
	for i := range was.RowLower {
		if was.RowLower[i] != d.RowLower[i] || was.RowUpper[i] != d.RowUpper[i] {
			err = errors.Join(err, s.lp.SetSides(int32(i), d.RowLower[i], d.RowUpper[i]))
		}
	}
	return err
}

// changeCoefs passes on changed coefficients of existing columns in existing rows.
func (s *Session) changeCoefs(was, d *milp.Data) (err error) {
	cols, now := len(was.Cost), map[int32]float64{} // by column, of one row
	for i := range was.RowLower {
		a, b := was.Start[i], was.Start[i+1]
		if from, to := d.Start[i], d.Start[i+1]; slices.Equal(was.Col[a:b], d.Col[from:to]) && slices.Equal(was.Val[a:b], d.Val[from:to]) {
			continue
		}
		clear(now)
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			now[d.Col[k]] = d.Val[k]
		}
		for k := a; k < b; k++ {
			if x := now[was.Col[k]]; x != was.Val[k] {
				err = errors.Join(err, s.lp.SetCoef(int32(i), was.Col[k], x))
			}
			delete(now, was.Col[k])
		}
		for j, x := range now {
			if int(j) < cols { // new columns bring their own
				err = errors.Join(err, s.lp.SetCoef(int32(i), j, x))
			}
		}
	}
	return err
}

// addCols passes on the new columns, with their entries in existing rows.
func (s *Session) addCols(was, d *milp.Data) error {
	first := len(was.Cost)
	if first == len(d.Cost) {
		return nil
	}
	rows, vals := make([][]int32, len(d.Cost)-first), make([][]float64, len(d.Cost)-first)
	for i := range was.RowLower {
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			if j := int(d.Col[k]) - first; j >= 0 {
				rows[j], vals[j] = append(rows[j], int32(i)), append(vals[j], d.Val[k])
			}
		}
	}
	start := []int32{0}
	for _, r := range rows {
		start = append(start, start[len(start)-1]+int32(len(r)))
	}
	return s.lp.AddCols(d.Cost[first:], d.Lower[first:], d.Upper[first:], start, slices.Concat(rows...), slices.Concat(vals...))
}

// addRows passes on the new rows.
func (s *Session) addRows(was, d *milp.Data) error {
	first := len(was.RowLower)
	if first == len(d.RowLower) {
		return nil
	}
	base := d.Start[first]
	start := make([]int32, 0, len(d.RowLower)-first+1)
	for _, p := range d.Start[first:] {
		start = append(start, p-base)
	}
	return s.lp.AddRows(d.RowLower[first:], d.RowUpper[first:], start, d.Col[base:], d.Val[base:])
}
