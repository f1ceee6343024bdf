package milp

import "math"

// Tolerances of propagation. A limit counts as violated only beyond the tolerance of solvers, so that no conflict
// is reported for a model that they would solve.
const (
	missed  = 1e-6 // of a limit, absolute up to 1 and relative above
	rounded = 1e-6 // of an integer column
	relaxed = 1e-9 // by which computed bounds are relaxed, relative
	worth   = 1e-3 // of the range that a continuous bound must move to count
)

// tightening records that a side of a row moved the bound limit of a column, and which tightening of the same
// bound preceded it.
type tightening struct {
	bound, row Limit
	previous   int32 // position in the trail, or -1
}

// propagation is the state of [Model.Propagate].
type propagation struct {
	m            *Model
	lower, upper []float64
	latest       [2][]int32 // by side and column: last tightening, or -1
	trail        []tightening
}

// Propagate tightens the bounds of the columns by the rows, one row at a time and for up to rounds passes, until
// nothing changes or a conflict is found: the cheapest explanation of infeasibility. It returns the tightened
// bounds, which hold for every solution, and the conflict. A nil conflict proves nothing.
//
// With rounds = 0 it finds what is infeasible by data alone: bounds or sides that cross, an integer column without
// an integer in its bounds, and a row without entries that excludes 0.
//
// The conflict consists of the rows and bounds of the derivation, traced back from the violated limit. It is
// minimal only if it is of one row or column. O(nonzeros) for each round.
func (m *Model) Propagate(rounds int) (lower, upper []float64, c *Conflict) {
	m = m.Plain()
	p := &propagation{m: m, lower: append([]float64(nil), m.lower...), upper: append([]float64(nil), m.upper...)}
	if c := p.data(); c != nil {
		return p.lower, p.upper, c
	}
	for s := range p.latest {
		p.latest[s] = make([]int32, len(m.lower))
		for j := range p.latest[s] {
			p.latest[s][j] = -1
		}
	}
	for range rounds {
		before := len(p.trail)
		for i := range m.rowLower {
			if c := p.row(i); c != nil {
				return p.lower, p.upper, c
			}
		}
		if len(p.trail) == before {
			break
		}
	}
	return p.lower, p.upper, nil
}

// data rounds the bounds of integer columns inwards and finds limits that
// cross by themselves.
func (p *propagation) data() *Conflict {
	m := p.m
	for j, k := range m.kind {
		if k != Continuous {
			p.lower[j], p.upper[j] = math.Ceil(m.lower[j]-rounded), math.Floor(m.upper[j]+rounded)
		}
		if m.lower[j] > m.upper[j] || p.lower[j] > p.upper[j] {
			return &Conflict{Bounds: []Limit{{j, Below}, {j, Above}}, Minimal: true}
		}
	}
	for i := range m.rowLower {
		lo, up := m.rowLower[i], m.rowUpper[i]
		empty := m.start[i] == m.start[i+1]
		switch {
		case lo > up:
			return &Conflict{Rows: []Limit{{i, Below}, {i, Above}}, Minimal: true}
		case empty && lo > 0:
			return &Conflict{Rows: []Limit{{i, Below}}, Minimal: true}
		case empty && up < 0:
			return &Conflict{Rows: []Limit{{i, Above}}, Minimal: true}
		}
	}
	return nil
}

// extreme is the minimum or maximum activity of a row within the bounds of the columns: the sum of the finite
// terms, and the number of infinite ones.
type extreme struct {
	sum      float64
	infinite int
	size     float64 // Σ|finite terms|, the scale of rounding errors
}

func (e *extreme) add(t float64) {
	if math.IsInf(t, 0) {
		e.infinite++
		return
	}
	e.sum += t
	e.size += math.Abs(t)
}

// without returns the extreme without one of its terms, or NaN if another one
// is infinite.
func (e *extreme) without(t float64) float64 {
	switch {
	case e.infinite == 0:
		return e.sum - t
	case e.infinite == 1 && math.IsInf(t, 0):
		return e.sum
	}
	return math.NaN()
}

// exceeds reports whether v exceeds limit by more than solvers accept.
func exceeds(v, limit, size float64) bool {
	return v-limit > missed*math.Max(1, math.Abs(limit))+evaluation*size
}

// row tightens the columns of row i from both of its sides.
func (p *propagation) row(i int) *Conflict {
	r := p.m.Row(i)
	var least, greatest extreme
	for k, j := range r.Col {
		lo, up := p.terms(r.Val[k], j)
		least.add(lo)
		greatest.add(up)
	}
	if least.infinite == 0 && exceeds(least.sum, r.Upper, least.size) {
		return p.explain(Limit{i, Above}, -1)
	}
	if greatest.infinite == 0 && exceeds(-greatest.sum, -r.Lower, greatest.size) {
		return p.explain(Limit{i, Below}, -1)
	}
	for k, j := range r.Col {
		a := r.Val[k]
		lo, up := p.terms(a, j) // before either changes: the values that the sums contain
		if c := p.tighten(Limit{i, Above}, a, j, r.Upper-least.without(lo), least.size); c != nil {
			return c
		}
		if c := p.tighten(Limit{i, Below}, a, j, r.Lower-greatest.without(up), greatest.size); c != nil {
			return c
		}
	}
	return nil
}

// terms returns the minimum and maximum of a·x_j.
func (p *propagation) terms(a float64, j int32) (lo, up float64) {
	if a > 0 {
		return a * p.lower[j], a * p.upper[j]
	}
	return a * p.upper[j], a * p.lower[j]
}

// tighten applies a·x_j ≤ rest (row.Side Above) or a·x_j ≥ rest (Below), where size is the scale of the numbers
// from which rest was computed.
func (p *propagation) tighten(row Limit, a float64, j int32, rest, size float64) *Conflict {
	b := rest / a
	if !(math.Abs(b) < Infinite) { // also NaN: nothing known
		return nil
	}
	side := row.Side
	if a < 0 {
		side = Above - side
	}
	loose := relaxed*math.Max(1, math.Abs(b)) + evaluation*1e-3*size/math.Abs(a)
	if side == Above {
		return p.tightenTo(row, Limit{int(j), side}, b+loose, p.upper, p.lower, 1)
	}
	return p.tightenTo(row, Limit{int(j), side}, b-loose, p.lower, p.upper, -1)
}

// tightenTo moves a bound of a column, which is in own and has its opposite in other, to b if the change is
// significant. sign is 1 for upper bounds, -1 for lower ones, so that both are treated as upper bounds.
func (p *propagation) tightenTo(row, bound Limit, b float64, own, other []float64, sign float64) *Conflict {
	j := bound.Index
	b, old, opposite := sign*b, sign*own[j], sign*other[j]
	if p.m.kind[j] != Continuous {
		b = math.Floor(b + rounded)
	}
	crossed := exceeds(opposite, b, 0)
	if !crossed && b < opposite {
		b = opposite
	}
	width := old - opposite
	if math.IsInf(width, 0) {
		width = math.Max(1, math.Abs(b))
	}
	if !(b < old) || !crossed && p.m.kind[j] == Continuous && !math.IsInf(old, 0) && old-b < worth*width {
		return nil
	}
	own[j] = sign * b
	p.trail = append(p.trail, tightening{bound, row, p.latest[bound.Side][j]})
	p.latest[bound.Side][j] = int32(len(p.trail) - 1)
	if !crossed {
		return nil
	}
	return p.explain(Limit{}, j)
}

// explain traces a conflict back to the rows and original bounds from which it follows. The conflict is that side
// row of a row cannot be attained or, if column ≥ 0, that the bounds of that column cross.
func (p *propagation) explain(row Limit, column int) *Conflict {
	c := &Conflict{}
	done := make([]bool, len(p.trail))
	var open []int32 // tightenings to explain

	// need adds the derivation of a bound's value before position at.
	need := func(bound Limit, at int32) {
		e := p.latest[bound.Side][bound.Index]
		for e >= at {
			e = p.trail[e].previous
		}
		switch {
		case e < 0:
			c.Bounds = append(c.Bounds, bound)
		case !done[e]:
			done[e] = true
			open = append(open, e)
		}
	}
	// needRow adds the bounds of all columns but one that make a side of a row violated.
	needRow := func(row Limit, except int, at int32) {
		c.Rows = append(c.Rows, row)
		r := p.m.Row(row.Index)
		for k, j := range r.Col {
			side := Above - row.Side // a·x is minimal at the lower bound of x if a > 0
			if r.Val[k] < 0 {
				side = row.Side
			}
			if int(j) != except {
				need(Limit{int(j), side}, at)
			}
		}
	}
	end := int32(len(p.trail))
	if column >= 0 {
		need(Limit{column, Below}, end)
		need(Limit{column, Above}, end)
	} else {
		needRow(row, -1, end)
	}
	for len(open) > 0 {
		e := open[len(open)-1]
		open = open[:len(open)-1]
		needRow(p.trail[e].row, p.trail[e].bound.Index, e)
	}
	c.Rows, c.Bounds = sortLimits(c.Rows), sortLimits(c.Bounds)
	c.Minimal = len(c.Rows) == 1
	return c
}
