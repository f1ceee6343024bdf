package milp

import (
	"math"
	"slices"
)

// Entry is a coefficient of a column in a row.
type Entry struct {
	Row  Constr
	Coef float64
}

// Column adds a column with a cost and entries in existing rows, as column generation does; an entry may repeat.
// The rows are copied, since copies of m share them: O(rows + nonzeros). Columns added before their rows are
// cheaper, see [Model.Var].
func (m *Model) Column(name string, k Kind, lo, up, cost float64, entries []Entry) Var {
	v := m.Var(name, k, lo, up)
	if !m.owns(v) { // too large
		return v
	}
	m.cost[v.id] = cost
	if !finite(cost) {
		m.failf("variable %s: cost %v: %w", name, cost, ErrNotFinite)
	}
	added := map[int]float64{} // by row
	for _, e := range entries {
		if !m.ownsRow(e.Row) {
			m.failf("variable %s: %w", name, ErrForeignRow)
			continue
		}
		added[int(e.Row.id)] += e.Coef
	}
	start := make([]int32, 1, len(m.start))
	col, val := make([]int32, 0, len(m.col)+len(added)), make([]float64, 0, len(m.val)+len(added))
	for i := range m.rowLower {
		col, val = append(col, m.col[m.start[i]:m.start[i+1]]...), append(val, m.val[m.start[i]:m.start[i+1]]...)
		if a := added[i]; a != 0 {
			if !finite(a) {
				m.failf("%s: coefficient of %s is %v: %w", m.rowName(i), name, a, ErrNotFinite)
				a = 0
			}
			col, val = append(col, int32(v.id)), append(val, a)
		}
		start = append(start, int32(len(col)))
	}
	m.start, m.col, m.val = start, col, val
	clear(m.stamp) // its values are positions of entries
	return v
}

// SetSides replaces the sides of a row; a conditional row has one side. O(rows): copies of m keep theirs.
func (m *Model) SetSides(c Constr, lo, up float64) {
	if !m.ownsRow(c) {
		m.failf("sides [%v, %v]: %w", lo, up, ErrForeignRow)
		return
	}
	l, u := unbounded(lo), unbounded(up)
	if !(l < inf && u > -inf) || math.IsNaN(l) || math.IsNaN(u) {
		m.failf("%s: sides [%v, %v]: %w", m.rowName(int(c.id)), lo, up, ErrNotFinite)
		return
	}
	if m.condition(int(c.id)) != nil && !isInf(l) && !isInf(u) {
		m.failf("%s: sides [%v, %v] of a conditional row, which has one: %w", m.rowName(int(c.id)), lo, up, ErrShape)
		return
	}
	m.rowLower, m.rowUpper = slices.Clone(m.rowLower), slices.Clone(m.rowUpper)
	m.rowLower[c.id], m.rowUpper[c.id] = l, u
}

// SetCoef replaces the coefficient of v in row c, 0 to remove it. O(rows + nonzeros), since
// copies of m keep theirs.
func (m *Model) SetCoef(c Constr, v Var, a float64) {
	switch {
	case !m.ownsRow(c):
		m.failf("coefficient %v: %w", a, ErrForeignRow)
	case !m.owns(v):
		m.failf("%s: coefficient %v: %w", m.rowName(int(c.id)), a, ErrForeignVar)
	case !finite(a):
		m.failf("%s: coefficient of %s is %v: %w", m.rowName(int(c.id)), m.VarName(v), a, ErrNotFinite)
	default:
		from, to := int(m.start[c.id]), int(m.start[c.id+1])
		col, val := slices.Clone(m.col[from:to]), slices.Clone(m.val[from:to])
		k := slices.Index(col, int32(v.id))
		switch {
		case k < 0 && a != 0:
			col, val = append(col, int32(v.id)), append(val, a)
		case k >= 0 && a != 0:
			val[k] = a
		case k >= 0:
			col, val = slices.Delete(col, k, k+1), slices.Delete(val, k, k+1)
		}
		replaceEntries(m, int(c.id), col, val)
	}
}

// RemoveRow makes row c always satisfied, without entries, sides and condition. It keeps its number and name, so
// that other rows and their duals keep theirs; [Model.Filter] returns a model with fewer rows. O(rows + nonzeros).
func (m *Model) RemoveRow(c Constr) {
	if !m.ownsRow(c) {
		m.failf("removal: %w", ErrForeignRow)
		return
	}
	m.when = slices.DeleteFunc(slices.Clone(m.when), func(x condition) bool { return x.row == int(c.id) })
	m.rowLower, m.rowUpper = slices.Clone(m.rowLower), slices.Clone(m.rowUpper)
	m.rowLower[c.id], m.rowUpper[c.id] = -inf, inf
	replaceEntries(m, int(c.id), nil, nil)
}

// replaceEntries replaces the entries of row i, in arrays that no copy of m shares.
func replaceEntries(m *Model, i int, col []int32, val []float64) {
	from, to := m.start[i], m.start[i+1]
	grown := int32(len(col)) - (to - from)
	m.col, m.val = slices.Concat(m.col[:from], col, m.col[to:]), slices.Concat(m.val[:from], val, m.val[to:])
	m.start = slices.Clone(m.start)
	for k := i + 1; k < len(m.start); k++ {
		m.start[k] += grown
	}
	clear(m.stamp) // its values are positions of entries
}

// ownsRow reports whether c is a row of m, or of a model that m was copied from.
func (m *Model) ownsRow(c Constr) bool {
	return c.tag == m.tag && int(c.id) < len(m.rowLower) ||
		slices.ContainsFunc(m.parents, func(p parent) bool { return c.tag == p.tag && int(c.id) < p.rows })
}
