// Package milp builds mixed-integer linear programs as plain data.
//
// A [Model] consists of columns, rows as flat sparse triples, an objective, and names that are generated only when
// read. It does not depend on a solver: backends (package workbench/solvers) receive [Model.Data]. Errors made
// while building are collected, each with its group, row and variable, and reported together by [Model.Err]; every
// backend rejects a model with errors.
//
// Rows belong to constraint groups that cite their source in the literature ("[001] (4)"). Statistics, ablation
// ([Model.Without]) and the explanation of infeasibility ([Model.Propagate], [Model.Elastic]) work by group.
package milp

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
)

// Kind is the set of values that a column may take.
type Kind uint8

const (
	Continuous Kind = iota // any real within the bounds
	Integer                // any integer within the bounds
	Binary                 // an integer with bounds intersected with [0, 1]
)

// String returns "continuous", "integer" or "binary".
func (k Kind) String() string {
	switch k {
	case Continuous:
		return "continuous"
	case Integer:
		return "integer"
	case Binary:
		return "binary"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Sense is the direction of optimisation.
type Sense int8

const (
	Minimize Sense = 1
	Maximize Sense = -1
)

// String returns "minimize" or "maximize".
func (s Sense) String() string {
	if s == Maximize {
		return "maximize"
	}
	return "minimize"
}

// Infinite is the magnitude from which a bound or a side of a row counts as infinite, and is stored as ±Inf. HiGHS
// treats 1e20 as infinite, lp_solve 1e30. The smaller one is used, so that a model has the same meaning for both.
const Infinite = 1e20

// Sentinel errors, wrapped with their place by [Model.Err].
var (
	ErrForeignVar = errors.New("variable belongs to another model or to none")
	ErrForeignRow = errors.New("row belongs to another model or to none")
	ErrNotFinite  = errors.New("value is not finite")
	ErrNotReset   = errors.New("expression was not reset since another row was made of it")
	ErrTooLarge   = errors.New("model exceeds 2³¹-1 columns, rows or nonzeros")
	ErrShape      = errors.New("arrays do not fit together")
	ErrDuplicate  = errors.New("declared twice")
	ErrNoGroup    = errors.New("no such constraint group")
)

// maxErrs is the number of errors kept; the others are only counted.
const maxErrs = 20

var inf = math.Inf(1)

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
// A lower bound or side above its upper one is no building error: such a model is infeasible, and
// [Model.Propagate] explains why.
//
// The zero Model is not ready for use; call [New]. A Model is not safe for concurrent building; once built it may
// be read concurrently.
type Model struct {
	name    string
	tag     uint32
	parents []parent // the models this one was copied from

	// Columns.
	lower, upper, cost []float64
	kind               []Kind
	families           []family // in column order, contiguous

	// Rows, compressed by row. They are append-only, so that copies of a model share them.
	start              []int32 // len(rows)+1
	col                []int32
	val                []float64
	rowLower, rowUpper []float64
	rowGroup           []int32  // group of each row
	rowInGroup         []int32  // number of the row within its group
	rowNames           []string // given names of the first rows; others are generated
	groups             []group
	when               []condition // of the rows that have one, in order of rows

	sense  Sense
	offset float64

	stamp  []int32 // per column: 1 + position of its entry in the open row
	limit  int     // largest number of columns, rows and nonzeros
	errs   []error
	unkept int // number of errors beyond maxErrs
}

// parent names a model whose first cols variables are also variables, and
// whose first rows rows are also rows, of its copy.
type parent struct {
	tag        uint32
	cols, rows int
}

// New returns an empty minimisation model.
func New(name string) *Model {
	return &Model{name: name, tag: tags.Add(1), sense: Minimize, start: []int32{0}, limit: math.MaxInt32}
}

// Name returns the name given to New.
func (m *Model) Name() string { return m.name }

// NumCols returns the number of columns.
func (m *Model) NumCols() int { return len(m.lower) }

// NumRows returns the number of rows.
func (m *Model) NumRows() int { return len(m.rowLower) }

// NumNonzeros returns the number of entries of all rows.
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

// Sense returns the direction of optimisation.
func (m *Model) Sense() Sense { return m.sense }

// Grow prepares for cols more columns, rows more rows and nonzeros more
// entries, so that building allocates once. It is an optimisation only.
func (m *Model) Grow(cols, rows, nonzeros int) {
	cols, rows, nonzeros = min(cols, m.limit), min(rows, m.limit), min(nonzeros, m.limit)
	m.lower, m.upper, m.cost = grow(m.lower, cols), grow(m.upper, cols), grow(m.cost, cols)
	m.kind, m.stamp = grow(m.kind, cols), grow(m.stamp, cols)
	m.start, m.rowGroup, m.rowInGroup = grow(m.start, rows), grow(m.rowGroup, rows), grow(m.rowInGroup, rows)
	m.rowLower, m.rowUpper = grow(m.rowLower, rows), grow(m.rowUpper, rows)
	m.col, m.val = grow(m.col, nonzeros), grow(m.val, nonzeros)
}

// grow allocates space for exactly n more elements.
func grow[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	return append(make([]T, 0, len(s)+n), s...)
}

// double allocates space for n more elements, in capacities that are powers of two: append's factor of 1.25 for
// long slices would allocate five times the final size of a large model.
func double[T any](s []T, n int) []T {
	if cap(s)-len(s) >= n {
		return s
	}
	return grow(s, 1<<bits.Len(uint(len(s)+n-1))-len(s))
}

// addCols appends n columns of one family and returns the number of the first
// and their tag, which is invalid if the columns could not be added.
func (m *Model) addCols(f family, k Kind, lo, up float64) (first, tag uint32) {
	if f.n < 0 {
		m.failf("variables %s: number %d is negative: %w", f.name, f.n, ErrShape)
		return 0, 0
	}
	if f.n > m.limit-len(m.lower) {
		m.failf("variables %s: %d more than %d: %w", f.name, f.n, len(m.lower), ErrTooLarge)
		return 0, 0
	}
	f.first = len(m.lower)
	m.families = append(m.families, f)
	lo, up = m.checkBounds(f.name, k, lo, up)
	m.lower, m.upper, m.cost = double(m.lower, f.n), double(m.upper, f.n), double(m.cost, f.n)
	m.kind, m.stamp = double(m.kind, f.n), double(m.stamp, f.n)
	for range f.n {
		m.lower, m.upper, m.cost = append(m.lower, lo), append(m.upper, up), append(m.cost, 0)
		m.kind, m.stamp = append(m.kind, k), append(m.stamp, 0)
	}
	return uint32(f.first), m.tag
}

// checkBounds returns the bounds to store for a column of kind k.
func (m *Model) checkBounds(name string, k Kind, lo, up float64) (l, u float64) {
	l, u = unbounded(lo), unbounded(up)
	if !(l < inf && u > -inf) {
		m.failf("variable %s: bounds [%v, %v]: %w", name, lo, up, ErrNotFinite)
		return 0, 0
	}
	if k == Binary {
		l, u = math.Max(l, 0), math.Min(u, 1)
	}
	return l, u
}

// unbounded converts a value that counts as infinite to ±Inf.
func unbounded(x float64) float64 {
	switch {
	case x >= Infinite:
		return inf
	case x <= -Infinite:
		return -inf
	}
	return x
}

// SetBounds replaces the bounds of v. For a Binary they are intersected with
// [0, 1].
func (m *Model) SetBounds(v Var, lo, up float64) {
	if !m.owns(v) {
		m.failf("bounds [%v, %v]: %w", lo, up, ErrForeignVar)
		return
	}
	m.lower[v.id], m.upper[v.id] = m.checkBounds(m.VarName(v), m.kind[v.id], lo, up)
}

// Bounds returns the bounds of v, or NaN if v is no variable of m.
func (m *Model) Bounds(v Var) (lo, up float64) {
	if !m.owns(v) {
		return math.NaN(), math.NaN()
	}
	return m.lower[v.id], m.upper[v.id]
}

// Fix sets both bounds of v to x.
func (m *Model) Fix(v Var, x float64) { m.SetBounds(v, x, x) }

// Minimize sets the objective to e, without keeping a reference. A later call replaces it.
func (m *Model) Minimize(e *Expr) { m.setObjective(Minimize, e) }

// Maximize sets the objective to e, without keeping a reference. A later call replaces it.
func (m *Model) Maximize(e *Expr) { m.setObjective(Maximize, e) }

func (m *Model) setObjective(s Sense, e *Expr) {
	clear(m.cost)
	m.sense, m.offset = s, e.Const
	if !finite(e.Const) {
		m.failf("objective: constant %v: %w", e.Const, ErrNotFinite)
	}
	for i, t := range e.Terms {
		if !m.owns(t.Var) {
			m.failf("objective: term %d of %d, coefficient %v: %w", i+1, len(e.Terms), t.Coef, ErrForeignVar)
			continue
		}
		m.cost[t.Var.id] += t.Coef
	}
	for j, c := range m.cost {
		if !finite(c) {
			m.failf("objective: coefficient of %s is %v: %w", m.colName(j), c, ErrNotFinite)
		}
	}
}

// owns reports whether v is a variable of m, or of a model that m was copied from.
func (m *Model) owns(v Var) bool { return v.tag == m.tag || m.inherits(v) }

// inherits reports whether v was a variable of a model when m was copied from it.
func (m *Model) inherits(v Var) bool {
	return slices.ContainsFunc(m.parents, func(p parent) bool { return v.tag == p.tag && int(v.id) < p.cols })
}

func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }

func (m *Model) failf(format string, args ...any) {
	if len(m.errs) >= maxErrs {
		m.unkept++
		return
	}
	m.errs = append(m.errs, fmt.Errorf("%w%s", fmt.Errorf(format, args...), builder()))
}

// builder returns the file and line of the current call into this package, " (flow.go:7)"; "" if it comes from the
// package's own readers.
func builder() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "workbench/model/milp.") {
			return fmt.Sprintf(" (%s:%d)", filepath.Base(f.File), f.Line)
		}
		if strings.HasPrefix(f.Function, "workbench/model/milp.FromData") || !more {
			return ""
		}
	}
}

// Err returns all errors made while building, joined, or nil. After the first 20 only their number is reported.
func (m *Model) Err() error {
	errs := slices.Concat(m.errs, m.unlimited())
	if len(errs) == 0 {
		return nil
	}
	if m.unkept > 0 {
		errs = append(errs, fmt.Errorf("and %d more", m.unkept))
	}
	return fmt.Errorf("model %s: %w", m.name, errors.Join(errs...))
}
