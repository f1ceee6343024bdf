package milp

import "math"

// Term is a coefficient times a variable: 16 bytes.
type Term struct {
	Coef float64
	Var  Var
}

// Expr is a linear expression Const + Σ Coef·Var. A variable may occur in
// several terms; rows and objectives merge them. Reuse one Expr for many rows
// with Reset: rows keep nothing of it.
type Expr struct {
	Terms []Term
	Const float64
}

// Add adds c·v and returns e.
func (e *Expr) Add(c float64, v Var) *Expr {
	e.Terms = append(e.Terms, Term{c, v})
	return e
}

// AddConst adds c and returns e.
func (e *Expr) AddConst(c float64) *Expr {
	e.Const += c
	return e
}

// AddExpr adds c·f and returns e. f may be e itself.
func (e *Expr) AddExpr(c float64, f *Expr) *Expr {
	for _, t := range f.Terms[:len(f.Terms):len(f.Terms)] {
		e.Terms = append(e.Terms, Term{c * t.Coef, t.Var})
	}
	e.Const += c * f.Const
	return e
}

// Reset empties e, keeps its memory, and returns e.
func (e *Expr) Reset() *Expr {
	e.Terms, e.Const = e.Terms[:0], 0
	return e
}

// row appends the row lo ≤ e ≤ up to group g in O(len(e.Terms)). Repeated
// variables are merged through a per-column stamp: no sort, no map, in order
// of first appearance. Entries that cancel to zero are dropped.
func (m *Model) row(g int32, lo float64, e *Expr, up float64) Constr {
	base := int32(len(m.col))
	for _, t := range e.Terms {
		if !m.owns(t.Var) {
			m.rowFailf(g, "term %v·?: %w", t.Coef, ErrForeignVar)
			continue
		}
		if !finite(t.Coef) {
			m.rowFailf(g, "coefficient of %s is %v: %w", m.VarName(t.Var), t.Coef, ErrNotFinite)
			continue
		}
		if p := m.stamp[t.Var.id]; p > base {
			m.val[p-1] += t.Coef
			continue
		}
		m.col, m.val = append(m.col, int32(t.Var.id)), append(m.val, t.Coef)
		m.stamp[t.Var.id] = int32(len(m.col))
	}
	m.dropZeros(base)
	lo, up = lo-e.Const, up-e.Const
	switch {
	case math.IsNaN(lo) || math.IsNaN(up) || math.IsInf(lo, 1) || math.IsInf(up, -1):
		m.rowFailf(g, "sides [%v, %v]: %w", lo, up, ErrNotFinite)
	case lo > up:
		m.rowFailf(g, "sides [%v, %v]: %w", lo, up, ErrBounds)
	}
	m.start = append(m.start, int32(len(m.col)))
	m.rowLower, m.rowUpper = append(m.rowLower, lo), append(m.rowUpper, up)
	m.rowGroup = append(m.rowGroup, g)
	m.rowInGroup = append(m.rowInGroup, m.groups[g].rows)
	m.groups[g].rows++
	return Constr{uint32(len(m.rowLower) - 1), m.tag}
}

// dropZeros removes the zero entries of the open row, which begins at base.
// Clearing the row's stamps is needed since a later row may then begin at a
// position that an old stamp names.
func (m *Model) dropZeros(base int32) {
	w := base
	for p := base; p < int32(len(m.col)); p++ {
		m.stamp[m.col[p]] = 0
		if m.val[p] != 0 {
			m.col[w], m.val[w] = m.col[p], m.val[p]
			w++
		}
	}
	m.col, m.val = m.col[:w], m.val[:w]
}

func (m *Model) rowFailf(g int32, format string, args ...any) {
	args = append([]any{m.groups[g].name, m.groups[g].rows}, args...)
	m.failf("%s[%d]: "+format, args...)
}
