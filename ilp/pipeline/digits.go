package pipeline

import (
	"fmt"
	"math"

	"workbench/model/milp"
)

// The sizes of one instance may differ by more than a solver resolves in one row. With a byte and a terabyte in
// one row, an integrality tolerance of 1e-6 is too coarse. Such rows of integers are split into digits, which is
// exact.
const (
	// digit is the number of bits of a digit.
	digit = 14
	// digitUnit scales the rows of digits.
	digitUnit = scale / float64(1<<digit)
	// half a unit added to a limit changes nothing where all values are integers, and exceeds the tolerance of a
	// solver.
	half = 0.5
)

// digits returns the number of digits of a memory row.
func (in *pipelineInstance) digits() int {
	return max(1, int(math.Ceil(math.Log2(scale*in.size)/digit)))
}

// memoryRow returns the name of memory row i.
func (in *pipelineInstance) memoryRow(i int) string {
	n := in.digits()
	if n == 1 {
		return in.name(i)
	}
	return fmt.Sprintf("%s, digit %d", in.name(i/n), n-1-i%n)
}

// carry is a column u by which a higher digit passes its remainder to the next lower one.
type carry struct {
	u    milp.Var
	row  []milp.Term // of the digit, with integer coefficients
	left float64     // remainder of the limit
}

// withinMemory adds e ≤ limit to a group. The columns of e are nonnegative integers and its coefficients are
// sizes.
//
// Let G = 2^digit, and split each coefficient c = h·G + l and the limit M = H·G + R into two digits, with 0 ≤ l, R
// < G. Then Σ c·q ≤ M if and only if there is an integer u ≥ 0, the carry of the higher digit, with
//
//	Σ h·q + u ≤ H  and  Σ l·q ≤ R + G·u,
//
// and the maximum of Σ l·q bounds u. The same holds for more digits.
func (in *pipelineInstance) withinMemory(m *milp.Model, g milp.Group, e *milp.Expr, limit float64) []carry {
	const G = 1 << digit
	n := in.digits()
	rows, sides := make([]milp.Expr, n), make([]float64, n) // the lowest digit first
	split := func(size float64, keep func(d int, digit float64)) {
		units := math.Floor(size * in.size)
		for d := range n - 1 {
			higher := math.Floor(units / G)
			keep(d, units-higher*G)
			units = higher
		}
		keep(n-1, units)
	}
	for _, t := range e.Terms {
		split(t.Coef, func(d int, digit float64) { rows[d].Add(digit, t.Var) })
	}
	split(limit-e.Const, func(d int, digit float64) { sides[d] = digit })

	var carries []carry
	caps := in.carryCaps(m, rows)
	for d := n - 1; d >= 0; d-- {
		row, side := milp.Expr{}, sides[d]
		for _, t := range rows[d].Terms {
			row.Add(t.Coef*digitUnit, t.Var)
		}
		if d < n-1 {
			row.Add(-G*digitUnit, carries[len(carries)-1].u)
		}
		if d > 0 {
			c := carry{u: m.Var(fmt.Sprintf("carry[%d]", m.NumCols()), milp.Integer, 0, caps[d-1]), row: rows[d].Terms, left: side}
			row.Add(digitUnit, c.u)
			carries = append(carries, c)
		}
		g.AtMost(&row, (side+half)*digitUnit)
	}
	return carries
}

// carryCaps returns, for each digit d, the maximum carry that the rows of digits d and lower need.
func (in *pipelineInstance) carryCaps(m *milp.Model, rows []milp.Expr) []float64 {
	caps := make([]float64, len(rows))
	below := 0.0
	for d := range rows {
		most := below
		for _, t := range rows[d].Terms {
			_, upper := m.Bounds(t.Var)
			most += max(0, t.Coef*upper)
		}
		below = math.Ceil(most / (1 << digit))
		caps[d] = below
	}
	return caps
}

// setCarries sets the values of the carry columns in a solution, from the highest digit to the lowest.
func setCarries(m *milp.Model, carries []carry, x []float64) {
	before := math.NaN() // of the higher digit
	for _, c := range carries {
		left := c.left
		for _, t := range c.row {
			left -= t.Coef * x[t.Var.Index()]
		}
		if !math.IsNaN(before) {
			left += before * (1 << digit)
		}
		_, most := m.Bounds(c.u)
		x[c.u.Index()] = min(most, left)
		before = x[c.u.Index()]
	}
}
