package milp

import (
	"math"

	"workbench/model/platform"
)

// Term is a coefficient times a variable: 16 bytes.
type Term struct {
	Coef float64
	Var  Var
}

// Expr is a linear expression Const + Σ Coef·Var. A variable may occur in several terms; rows and objectives merge
// them. Reuse one Expr for many rows with Reset: rows keep no reference to it. Making a second row with more terms
// without Reset in between is a likely error, because the row inherits terms ([ErrNotReset]); Keep marks sums that
// intentionally grow from row to row. The zero Expr is 0.
type Expr struct {
	Terms []Term
	Const float64

	inRow int // 1 + number of terms in its last row; 0: in none since Reset
}

// Add adds the term c·v and returns e.
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
	for _, t := range f.Terms { // evaluated once, so f may be e itself
		e.Terms = append(e.Terms, Term{c * t.Coef, t.Var})
	}
	e.Const += c * f.Const
	return e
}

// Reset empties e, keeps its memory, and returns e.
func (e *Expr) Reset() *Expr {
	e.Terms, e.Const, e.inRow = e.Terms[:0], 0, 0
	return e
}

// Keep marks the terms of previous rows as intended in the next, and returns e.
func (e *Expr) Keep() *Expr {
	e.inRow = 0
	return e
}

// row appends the row lo ≤ e ≤ up to group g in O(len(e.Terms)). Repeated variables are merged through a
// per-column stamp, without a sort or map, in order of first appearance. Entries that cancel to zero are dropped.
func (m *Model) row(g int32, lo float64, e *Expr, up float64) Constr {
	base := len(m.col)
	if e.inRow > 1 && len(e.Terms) > e.inRow-1 {
		m.rowFailf(g, "%d of %d terms are of a row before: %w", e.inRow-1, len(e.Terms), ErrNotReset)
	}
	e.inRow = len(e.Terms) + 1
	if len(e.Terms) > m.limit-base || len(m.rowLower) == m.limit {
		m.rowFailf(g, "%s after %s and %s: %w", platform.Count(len(e.Terms), "term"), platform.Count(len(m.rowLower), "row"),
			platform.Count(base, "nonzero"), ErrTooLarge)
		return Constr{}
	}
	m.col, m.val = double(m.col, len(e.Terms)), double(m.val, len(e.Terms))
	col, val, n := m.col[:base+len(e.Terms)], m.val[:base+len(e.Terms)], base
	for i, t := range e.Terms {
		if !m.owns(t.Var) {
			m.rowFailf(g, "term %d of %d, coefficient %v: %w", i+1, len(e.Terms), t.Coef, ErrForeignVar)
			continue
		}
		if p := int(m.stamp[t.Var.id]); p > base {
			val[p-1] += t.Coef
			continue
		}
		col[n], val[n] = int32(t.Var.id), t.Coef
		n++
		m.stamp[t.Var.id] = int32(n)
	}
	m.col, m.val = col[:n], val[:n]
	m.tidyRow(g, base)
	return m.closeRow(g, lo, e.Const, up)
}

// tidyRow checks the entries of the open row, which begins at base, and drops
// the zeros. It runs after merging, when 1e308 + 1e308 has become infinite and
// x − x zero.
func (m *Model) tidyRow(g int32, base int) {
	tidy := true
	for p, a := range m.val[base:] {
		if !finite(a) {
			m.rowFailf(g, "coefficient of %s is %v: %w", m.colName(int(m.col[base+p])), a, ErrNotFinite)
			m.val[base+p], a = 0, 0
		}
		tidy = tidy && a != 0
	}
	if tidy {
		return
	}
	w := base
	for p := base; p < len(m.col); p++ {
		// Positions are about to be reused: stamps that refer to them must be cleared.
		m.stamp[m.col[p]] = 0
		if m.val[p] != 0 {
			m.col[w], m.val[w] = m.col[p], m.val[p]
			w++
		}
	}
	m.col, m.val = m.col[:w], m.val[:w]
}

// closeRow ends the open row, moving the constant c of its expression to the
// sides.
func (m *Model) closeRow(g int32, lo, c, up float64) Constr {
	l, u := unbounded(unbounded(lo)-c), unbounded(unbounded(up)-c)
	if !(math.Abs(c) < Infinite && l < inf && u > -inf) {
		m.rowFailf(g, "sides [%v, %v], constant %v: %w", lo, up, c, ErrNotFinite)
		l, u = 0, 0
	}
	if len(m.rowLower) == cap(m.rowLower) {
		m.start, m.rowGroup, m.rowInGroup = double(m.start, 1), double(m.rowGroup, 1), double(m.rowInGroup, 1)
		m.rowLower, m.rowUpper = double(m.rowLower, 1), double(m.rowUpper, 1)
	}
	m.start = append(m.start, int32(len(m.col)))
	m.rowLower, m.rowUpper = append(m.rowLower, l), append(m.rowUpper, u)
	m.rowGroup = append(m.rowGroup, g)
	m.rowInGroup = append(m.rowInGroup, m.groups[g].next)
	m.groups[g].next++
	m.groups[g].rows++
	return Constr{uint32(len(m.rowLower) - 1), m.tag}
}

// rowFailf records an error in the open row, which is the next of group g.
func (m *Model) rowFailf(g int32, format string, args ...any) {
	args = append([]any{m.groups[g].rowName(m.groups[g].next)}, args...)
	m.failf("%s: "+format, args...)
}
