package milp

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Errors of conditional rows, wrapped with their place by [Model.Err].
var (
	ErrNotBinary = errors.New("a condition is on binary columns")
	ErrUnlimited = errors.New("no constant switches the row off")
)

// Literal is the condition that a binary column is 1, or that it is 0.
type Literal struct {
	Var Var
	Not bool // the column is 0
}

// Is returns the condition that v is 1.
func Is(v Var) Literal { return Literal{v, false} }

// IsNot returns the condition that v is 0.
func IsNot(v Var) Literal { return Literal{v, true} }

// IsTrue reports whether l holds in the point x.
func (l Literal) IsTrue(x []float64) bool { return (x[l.Var.Index()] > 0.5) != l.Not }

// Conditional is a handle that adds indicator constraints to a group: rows that bind only where all of some
// literals hold.
//
// They are rows of the model like others: named, counted, printed with their condition, removed by
// [Model.Without], and checked where the condition holds by [Model.Violations]. Libraries do not receive them,
// since HiGHS 1.10 and lp_solve have no indicator constraints, and a certificate must be about the solved model:
// [Model.Plain] is solved, written to files and certified.
type Conditional struct {
	g    Group
	when []Literal
}

// When returns a handle for rows of g that bind where all literals, of binary columns, hold; without literals they
// always bind.
func (g Group) When(when ...Literal) Conditional { return Conditional{g, when} }

// AtMost adds e ≤ up where the condition holds.
func (c Conditional) AtMost(e *Expr, up float64) Constr { return c.row(-inf, e, up) }

// AtLeast adds e ≥ lo where the condition holds.
func (c Conditional) AtLeast(e *Expr, lo float64) Constr { return c.row(lo, e, inf) }

func (c Conditional) row(lo float64, e *Expr, up float64) Constr {
	m := c.g.m
	r := m.row(c.g.id, lo, e, up)
	if len(c.when) == 0 || !m.ownsRow(r) {
		return r
	}
	for _, l := range c.when {
		switch {
		case !m.owns(l.Var):
			m.failf("%s: its condition: %w", m.rowName(int(r.id)), ErrForeignVar)
			return r
		case m.kind[l.Var.id] != Binary:
			m.failf("%s: its condition on %s, which is %s: %w", m.rowName(int(r.id)), m.VarName(l.Var), m.kind[l.Var.id], ErrNotBinary)
			return r
		}
	}
	m.when = append(m.when, condition{int(r.id), slices.Clone(c.when)})
	return r
}

// Semi makes x semicontinuous, or semi-integer if it is integer: 0 where the binary on is 0, and within [lo, up],
// finite, where it is 1. The bounds of x should contain 0, lo and up. It adds two rows, or one where the bounds of
// x imply the other. The rows are the convex hull of the relaxation, so backends such as HiGHS 1.10 and lp_solve,
// which have such columns, are given only the rows.
func (g Group) Semi(x, on Var, lo, up float64) {
	if l, _ := g.m.Bounds(x); lo != 0 || l < 0 {
		g.AtLeast(new(Expr).Add(1, x).Add(-lo, on), 0)
	}
	if _, u := g.m.Bounds(x); up != 0 || u > 0 {
		g.AtMost(new(Expr).Add(1, x).Add(-up, on), 0)
	}
}

// condition is the condition under which a row binds.
type condition struct {
	row  int
	when []Literal // not empty
}

// Binds reports whether r binds at the point x: it has no condition, or x satisfies it.
func (r Row) Binds(x []float64) bool {
	c := r.m.condition(r.Index)
	return c == nil || !slices.ContainsFunc(c.when, func(l Literal) bool { return !l.IsTrue(x) })
}

// condition returns the condition of row i, nil if it binds always. O(log conditions).
func (m *Model) condition(i int) *condition {
	k, ok := slices.BinarySearchFunc(m.when, i, func(c condition, i int) int { return c.row - i })
	if !ok {
		return nil
	}
	return &m.when[k]
}

// text returns c as text: "if y[3] = 1 and z = 0: ".
func (c *condition) text(m *Model) string {
	if c == nil {
		return ""
	}
	var b strings.Builder
	for k, l := range c.when {
		before, value := "if ", " = 1"
		if k > 0 {
			before = " and "
		}
		if l.Not {
			value = " = 0"
		}
		b.WriteString(before + m.colName(int(l.Var.id)) + value)
	}
	return b.String() + ": "
}

// bigM returns the maximum violation of a one-sided row within the bounds of its columns, rounded up; 0 if it
// cannot be violated.
func (m *Model) bigM(i int) float64 {
	r, round, terms := m.Row(i), Up, make([]float64, 0, 8)
	side := r.Upper
	if isInf(side) {
		side, round = r.Lower, Down
	}
	for k, j := range r.Col {
		bound := m.upper[j]
		if r.Val[k] < 0 != (round == Down) {
			bound = m.lower[j]
		}
		terms = append(terms, round.Mul(r.Val[k], bound))
	}
	beyond := float64(round) * round.Sum(append(terms, -side)...)
	if math.IsNaN(beyond) {
		return inf
	}
	return math.Max(0, beyond)
}

// unlimited returns an error for each conditional row that has no finite big-M constant.
func (m *Model) unlimited() []error {
	var errs []error
	for k := range m.when {
		if c := &m.when[k]; isInf(m.bigM(c.row)) && len(errs) < maxErrs {
			errs = append(errs, fmt.Errorf("%s binds %sonly, and the bounds of its columns do not limit it elsewhere: %w: give them bounds",
				m.rowName(c.row), strings.TrimSuffix(c.text(m), ": ")+" ", ErrUnlimited))
		}
	}
	return errs
}

// Plain returns the model without conditions: m itself if it has none, else a copy, in which each conditional row
//
//	Σ_j a_ij x_j ≤ b  if all of its k literals hold
//
// of which p require a column to be 1, has become the big-M row
//
//	Σ_j a_ij x_j + M Σ_{is 1} x_j − M Σ_{is 0} x_j ≤ b + p M
//
// with the minimum M for the bounds of the columns, max(0, max Σ a_ij x_j − b); and rows ≥ in the same way. M and
// the numbers that contain it are rounded so that the row is the weaker one; where the numbers are exact, so is
// the row. Columns and rows keep their numbers, names and groups. O(columns + rows + nonzeros).
func (m *Model) Plain() *Model {
	if len(m.when) == 0 {
		return m
	}
	c := m.Clone()
	c.when = nil
	c.rowLower, c.rowUpper = slices.Clone(m.rowLower), slices.Clone(m.rowUpper)
	c.start, c.col, c.val = make([]int32, 1, len(m.start)), make([]int32, 0, len(m.col)+4*len(m.when)),
		make([]float64, 0, len(m.col)+4*len(m.when))
	when := m.when
	for i := range m.rowLower {
		c.col = append(c.col, m.col[m.start[i]:m.start[i+1]]...)
		c.val = append(c.val, m.val[m.start[i]:m.start[i+1]]...)
		if len(when) > 0 && when[0].row == i {
			c.loosen(i, int(m.start[i+1]-m.start[i]), when[0].when, m.bigM(i))
			when = when[1:]
		}
		c.start = append(c.start, int32(len(c.col)))
	}
	return c
}

// loosen adds the big-M terms with constant M to row i, the open one with the given number of entries.
func (c *Model) loosen(i, entries int, when []Literal, M float64) {
	sign, round := 1., Down // of the added terms, and of coefficients, on the left of ≤
	if isInf(c.rowUpper[i]) {
		sign, round = -1, Up
	}
	side := []float64{c.rowLower[i]}
	if sign > 0 {
		side[0] = c.rowUpper[i]
	}
	base := len(c.col) - entries
	for _, l := range when {
		a := sign * M
		if l.Not {
			a = -a
		} else {
			side = append(side, a)
		}
		if k := slices.Index(c.col[base:], int32(l.Var.id)); k >= 0 {
			c.val[base+k] = round.Add(c.val[base+k], a)
			continue
		}
		c.col, c.val = append(c.col, int32(l.Var.id)), append(c.val, a)
	}
	if sign > 0 {
		c.rowUpper[i] = Up.Sum(side...)
	} else {
		c.rowLower[i] = Down.Sum(side...)
	}
	w := base
	for k := base; k < len(c.col); k++ { // entries are not zero, as M may be
		if c.val[k] != 0 {
			c.col[w], c.val[w] = c.col[k], c.val[k]
			w++
		}
	}
	c.col, c.val = c.col[:w], c.val[:w]
}
