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

// Column adds a column with a cost and entries in rows that are there already, as column
// generation does; an entry may repeat. The rows are copied, since copies of m share them:
// O(rows + nonzeros). Columns that are there before their rows are cheaper, see [Model.Var].
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
	clear(m.stamp) // they name places of entries
	return v
}

// SetSides replaces the sides of a row, of a conditional one by one side. O(rows): copies of
// m keep theirs.
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

// ownsRow says whether c is a row of m, or of a model that m is a copy of.
func (m *Model) ownsRow(c Constr) bool {
	return c.tag == m.tag && int(c.id) < len(m.rowLower) ||
		slices.ContainsFunc(m.parents, func(p parent) bool { return c.tag == p.tag && int(c.id) < p.rows })
}
