package pipeline

import (
	"fmt"
	"math"

	"workbench/model/milp"
)

// Sizes of one instance may lie further apart than a solver can tell in one row:
// a byte and a terabyte, where an integer may be off by a millionth. Rows of
// integers are written digit by digit then, which is exact.
const (
	// digit is the number of bits of a digit.
	digit = 14
	// digitUnit scales the rows of digits.
	digitUnit = scale / float64(1<<digit)
	// half of a unit more than there is changes nothing where all is whole, and is
	// more than a solver's tolerance cuts off.
	half = 0.5
)

// digits is how many digits a row of memory has.
func (in *pipelineInstance) digits() int {
	return max(1, int(math.Ceil(math.Log2(scale*in.size)/digit)))
}

// memoryRow names row i of those of all tasks.
func (in *pipelineInstance) memoryRow(i int) string {
	n := in.digits()
	if n == 1 {
		return in.name(i)
	}
	return fmt.Sprintf("%s, digit %d", in.name(i/n), n-1-i%n)
}

// A carry is a column u that a higher digit leaves to the next.
type carry struct {
	u    milp.Var
	row  []milp.Term // of the digit, integers
	left float64     // of the limit
}

// withinMemory adds e ≤ limit to a group, of columns that are integers from
// 0 on, with sizes as coefficients.
//
// Let G = 2^digit, and of two digits c = h·G + l of each coefficient c and
// M = H·G + R of the limit, with 0 ≤ l, R < G. Then Σ c·q ≤ M just if there is a
// whole u ≥ 0, the G that the higher digit leaves, with
//
//	Σ h·q + u ≤ H  and  Σ l·q ≤ R + G·u,
//
// and u need not be more than Σ l·q takes at most. With more digits likewise.
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

// carryCaps returns how many G the rows of digits d and lower take at most.
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

// setCarries completes the values of the columns of a solution, of rows from the
// highest digit on.
func setCarries(m *milp.Model, carries []carry, x []float64) {
	before := math.NaN() // of the digit above
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
