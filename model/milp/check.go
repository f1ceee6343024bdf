package milp

import (
	"fmt"
	"math"
)

// Activity returns Σ_j a_ij x_j for every row, or nil if x does not have one
// value for each column. O(columns + nonzeros).
func (m *Model) Activity(x []float64) []float64 {
	if len(x) != len(m.lower) {
		return nil
	}
	y := make([]float64, len(m.rowLower))
	for i := range y {
		y[i], _ = m.activity(i, x)
	}
	return y
}

// activity returns Σ_j a_ij x_j and the largest |a_ij x_j|.
func (m *Model) activity(i int, x []float64) (sum, largest float64) {
	for p := m.start[i]; p < m.start[i+1]; p++ {
		t := m.val[p] * x[m.col[p]]
		sum += t
		largest = math.Max(largest, math.Abs(t))
	}
	return sum, largest
}

// Objective returns offset + Σ cost_j x_j, or NaN if x does not have one value
// for each column.
func (m *Model) Objective(x []float64) float64 {
	if len(x) != len(m.lower) {
		return math.NaN()
	}
	sum := m.offset
	for j, c := range m.cost {
		if c != 0 {
			sum += c * x[j]
		}
	}
	return sum
}

// Side is one of the two sides of a row or a column.
type Side uint8

const (
	Below Side = iota // the lower one
	Above             // the upper one
)

// String returns "lower" or "upper".
func (s Side) String() string {
	if s == Below {
		return "lower"
	}
	return "upper"
}

// Rule is a kind of condition that a point can violate.
type Rule uint8

const (
	RowRule      Rule = iota // a side of a row
	BoundRule                // a bound of a column
	IntegerRule              // a column must be integer
	FiniteRule               // a column is NaN or infinite
	NumberOfRule             // the point does not have one value for each column
)

// Violation is a violation of one condition of a model.
type Violation struct {
	Rule   Rule
	Index  int     // of the row or column; for NumberOfRule the number of columns
	Side   Side    // for RowRule and BoundRule
	Value  float64 // of the activity or the column; for NumberOfRule the number of values
	Limit  float64 // the side or bound, or the nearest integer
	Amount float64 // |Value − Limit|
	m      *Model
}

// Name returns the name of the row or column.
func (v Violation) Name() string {
	switch v.Rule {
	case RowRule:
		return v.m.rowName(v.Index)
	case NumberOfRule:
		return v.m.name
	}
	return v.m.colName(v.Index)
}

// String returns the condition, its place and the amount: "memory[3] is 12.5, above 12 by 0.5".
func (v Violation) String() string {
	is := v.Name() + " is " + number(v.Value)
	switch v.Rule {
	case IntegerRule:
		return is + ", not an integer"
	case FiniteRule:
		return is
	case NumberOfRule:
		return fmt.Sprintf("%v values for %d columns", v.Value, v.Index)
	}
	if v.Side == Below {
		return is + ", below " + number(v.Limit) + " by " + number(v.Amount)
	}
	return is + ", above " + number(v.Limit) + " by " + number(v.Amount)
}

// evaluation is the error allowed in the activity of a row, relative to its largest term. It accounts for values
// that are themselves rounded; a big-M row with a constant of 1e7 may be violated by at most 0.01.
const evaluation = 1e-9

// Violations returns the conditions that the point x violates: first columns, then rows, in order; nil if none.
//
//   - A bound or side b may be violated by tol·max(1, |b|), a row also by 1e-9 of its largest term: the
//     tolerance is absolute for small limits and relative for large ones.
//   - An integer column may be off by tol.
//   - A conditional row is checked only where its condition holds.
//
// O(columns + nonzeros); names are generated only when read.
func (m *Model) Violations(x []float64, tol float64) []Violation {
	if len(x) != len(m.lower) {
		return []Violation{{Rule: NumberOfRule, Index: len(m.lower), Value: float64(len(x)), m: m}}
	}
	var found []Violation
	for j, v := range x {
		if !finite(v) {
			found = append(found, Violation{Rule: FiniteRule, Index: j, Value: v, m: m})
			continue
		}
		found = m.checkSides(found, BoundRule, j, m.lower[j], v, m.upper[j], tol, 0)
		if r := math.Round(v); m.kind[j] != Continuous && math.Abs(v-r) > tol {
			found = append(found, Violation{Rule: IntegerRule, Index: j, Value: v, Limit: r, Amount: math.Abs(v - r), m: m})
		}
	}
	for i := range m.rowLower {
		if !m.Row(i).Binds(x) {
			continue
		}
		v, largest := m.activity(i, x)
		found = m.checkSides(found, RowRule, i, m.rowLower[i], v, m.rowUpper[i], tol, evaluation*largest)
	}
	return found
}

// checkSides appends to found the amount by which v violates [lo, up]. A NaN, which a row has only from columns
// that are not finite, violates nothing.
func (m *Model) checkSides(found []Violation, r Rule, i int, lo, v, up, tol, extra float64) []Violation {
	if lo-v > tol*math.Max(1, math.Abs(lo))+extra {
		found = append(found, Violation{r, i, Below, v, lo, lo - v, m})
	}
	if v-up > tol*math.Max(1, math.Abs(up))+extra {
		found = append(found, Violation{r, i, Above, v, up, v - up, m})
	}
	return found
}
