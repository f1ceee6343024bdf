// Package milp builds mixed-integer linear programs as plain data.
//
// A [Model] is columns, rows as flat sparse triples, an objective, and names
// that are made only when somebody reads them. It knows no solver: backends
// (package workbench/solvers) receive [Model.Data]. Mistakes made while
// building are collected, each with its group, row and variable, and reported
// together by [Model.Err]; a model that has one is refused by every backend.
//
// Rows belong to constraint groups that carry their source in the literature
// ("[001] (4)"). Groups drive statistics, ablation ([Model.Without]) and the
// explanation of infeasibility.
package milp

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// Kind says which values a column may take.
type Kind uint8

const (
	Continuous Kind = iota // any real within the bounds
	Integer                // any integer within the bounds
	Binary                 // an integer with bounds intersected with [0, 1]
)

// Sense is the direction of optimisation.
type Sense int8

const (
	Minimize Sense = 1
	Maximize Sense = -1
)

// Sentinel errors, wrapped with the place of the mistake by [Model.Err].
var (
	ErrForeignVar = errors.New("variable belongs to another model")
	ErrNotFinite  = errors.New("value is not finite")
	ErrBounds     = errors.New("lower bound above upper bound")
)

// maxErrs is how many mistakes are kept; the rest is only counted.
const maxErrs = 20

// tags numbers the models of a process, so that a variable of one is
// recognised as foreign by another. Tags start at 1: the zero Var is foreign
// everywhere.
var tags atomic.Uint32

// Var is a column of one Model. It is comparable and may be a map key;
// arithmetic on it does not compile. The zero Var is invalid.
type Var struct{ id, tag uint32 }

// Index returns the column number of v, for reading solution vectors.
func (v Var) Index() int { return int(v.id) }

// Constr is a row of one Model. The zero Constr is invalid.
type Constr struct{ id, tag uint32 }

// Index returns the row number of c, for reading activities and duals.
func (c Constr) Index() int { return int(c.id) }

// Model is a mixed-integer linear program under construction:
//
//	min or max  offset + Σ cost_j x_j
//	subject to  rowLower_i ≤ Σ_j a_ij x_j ≤ rowUpper_i   for every row i
//	            lower_j ≤ x_j ≤ upper_j                  for every column j
//	            x_j integer                              for the integer columns
//
// The zero Model is not ready for use; call [New]. A Model is not safe for
// concurrent building; once built it may be read concurrently.
type Model struct {
	name string
	tag  uint32

	// Columns.
	lower, upper, cost []float64
	kind               []Kind
	families           []family // in column order, contiguous

	// Rows, compressed by row.
	start              []int32 // len(rows)+1
	col                []int32
	val                []float64
	rowLower, rowUpper []float64
	rowGroup           []int32 // group of each row
	rowInGroup         []int32 // number of the row within its group
	groups             []group

	sense  Sense
	offset float64

	stamp  []int32 // per column: 1 + position of its entry in the open row
	errs   []error
	unkept int // mistakes beyond maxErrs
}

// New returns an empty minimisation model.
func New(name string) *Model {
	return &Model{name: name, tag: tags.Add(1), sense: Minimize, start: []int32{0}}
}

// Name returns the name given to New.
func (m *Model) Name() string { return m.name }

// NumCols, NumRows and NumNonzeros return the size of the model.
func (m *Model) NumCols() int     { return len(m.lower) }
func (m *Model) NumRows() int     { return len(m.rowLower) }
func (m *Model) NumNonzeros() int { return len(m.col) }

// NumIntegers returns the number of integer and binary columns.
func (m *Model) NumIntegers() int {
	n := 0
	for _, k := range m.kind {
		if k != Continuous {
			n++
		}
	}
	return n
}

// Grow prepares for cols more columns, rows more rows and nonzeros more
// entries, so that building allocates once. It is an optimisation only.
func (m *Model) Grow(cols, rows, nonzeros int) {
	m.lower, m.upper, m.cost = grow(m.lower, cols), grow(m.upper, cols), grow(m.cost, cols)
	m.kind, m.stamp = grow(m.kind, cols), grow(m.stamp, cols)
	m.start, m.rowGroup, m.rowInGroup = grow(m.start, rows), grow(m.rowGroup, rows), grow(m.rowInGroup, rows)
	m.rowLower, m.rowUpper = grow(m.rowLower, rows), grow(m.rowUpper, rows)
	m.col, m.val = grow(m.col, nonzeros), grow(m.val, nonzeros)
}

func grow[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	return append(make([]T, 0, len(s)+n), s...)
}

// addCols appends n columns of one family and returns the number of the first.
func (m *Model) addCols(f family, k Kind, lo, up float64) uint32 {
	first := len(m.lower)
	f.first = first
	m.families = append(m.families, f)
	if math.IsNaN(lo) || math.IsNaN(up) || math.IsInf(lo, 1) || math.IsInf(up, -1) {
		m.failf("variable %s: bounds [%v, %v]: %w", f.name, lo, up, ErrNotFinite)
	}
	if k == Binary {
		lo, up = math.Max(lo, 0), math.Min(up, 1)
	}
	if lo > up {
		m.failf("variable %s: bounds [%v, %v]: %w", f.name, lo, up, ErrBounds)
	}
	for range f.n {
		m.lower, m.upper, m.cost = append(m.lower, lo), append(m.upper, up), append(m.cost, 0)
		m.kind, m.stamp = append(m.kind, k), append(m.stamp, 0)
	}
	return uint32(first)
}

// SetBounds replaces the bounds of v. For a Binary they are intersected with
// [0, 1].
func (m *Model) SetBounds(v Var, lo, up float64) {
	if !m.owns(v) {
		m.failf("SetBounds: %w", ErrForeignVar)
		return
	}
	if m.kind[v.id] == Binary {
		lo, up = math.Max(lo, 0), math.Min(up, 1)
	}
	switch {
	case math.IsNaN(lo) || math.IsNaN(up) || math.IsInf(lo, 1) || math.IsInf(up, -1):
		m.failf("variable %s: bounds [%v, %v]: %w", m.VarName(v), lo, up, ErrNotFinite)
	case lo > up:
		m.failf("variable %s: bounds [%v, %v]: %w", m.VarName(v), lo, up, ErrBounds)
	}
	m.lower[v.id], m.upper[v.id] = lo, up
}

// Bounds returns the bounds of v.
func (m *Model) Bounds(v Var) (lo, up float64) { return m.lower[v.id], m.upper[v.id] }

// Fix sets both bounds of v to x.
func (m *Model) Fix(v Var, x float64) { m.SetBounds(v, x, x) }

// Minimize sets the objective to e; nothing of e is kept. A later call
// replaces it.
func (m *Model) Minimize(e *Expr) { m.objective(Minimize, e) }

// Maximize sets the objective to e; nothing of e is kept.
func (m *Model) Maximize(e *Expr) { m.objective(Maximize, e) }

func (m *Model) objective(s Sense, e *Expr) {
	clear(m.cost)
	m.sense, m.offset = s, e.Const
	if !finite(e.Const) {
		m.failf("objective: offset %v: %w", e.Const, ErrNotFinite)
	}
	for _, t := range e.Terms {
		switch {
		case !m.owns(t.Var):
			m.failf("objective: %w", ErrForeignVar)
		case !finite(t.Coef):
			m.failf("objective: coefficient of %s is %v: %w", m.VarName(t.Var), t.Coef, ErrNotFinite)
		default:
			m.cost[t.Var.id] += t.Coef
		}
	}
}

func (m *Model) owns(v Var) bool { return v.tag == m.tag && int(v.id) < len(m.lower) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (m *Model) failf(format string, args ...any) {
	if len(m.errs) >= maxErrs {
		m.unkept++
		return
	}
	m.errs = append(m.errs, fmt.Errorf(format, args...))
}

// Err returns every mistake made while building, joined, or nil. After the
// first 20 only their number is reported.
func (m *Model) Err() error {
	if len(m.errs) == 0 {
		return nil
	}
	errs := m.errs
	if m.unkept > 0 {
		errs = append(errs[:len(errs):len(errs)], fmt.Errorf("and %d more", m.unkept))
	}
	return fmt.Errorf("model %s: %w", m.name, errors.Join(errs...))
}

// Data is a model as flat arrays, shared with the Model: read only.
// Infinite bounds are ±Inf. Rows are compressed: the entries of row i are
// Col[Start[i]:Start[i+1]] and Val[Start[i]:Start[i+1]], each column at most
// once. Data can be encoded (gob, JSON without infinities) as it is.
type Data struct {
	Name               string
	Sense              Sense
	Offset             float64
	Cost, Lower, Upper []float64
	Integer            []bool
	RowLower, RowUpper []float64
	Start, Col         []int32
	Val                []float64
}

// Data returns the model as flat arrays. O(columns); the matrix is shared.
func (m *Model) Data() Data {
	integer := make([]bool, len(m.kind))
	for j, k := range m.kind {
		integer[j] = k != Continuous
	}
	return Data{
		Name: m.name, Sense: m.sense, Offset: m.offset,
		Cost: m.cost, Lower: m.lower, Upper: m.upper, Integer: integer,
		RowLower: m.rowLower, RowUpper: m.rowUpper,
		Start: m.start, Col: m.col, Val: m.val,
	}
}
