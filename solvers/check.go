package solvers

import (
	"fmt"
	"math"

	"workbench/model/milp"
)

// The tolerances within which a point counts as a solution. The libraries work to an absolute 1e-6, in their own
// scaling, and use it up: twice that leaves a margin for the rounding of integers. The relative part covers the
// evaluation of rows of large numbers. It is far too small to excuse a violated big-M row (M = 1e7 gives 0.01).
const (
	integrality = 1e-5
	feasibility = 2e-6
	relative    = 1e-9
)

// objectiveTol returns the difference of objective and bound up to which a gap counts as closed: the libraries
// compute bounds for their unrounded points.
func objectiveTol(objective float64) float64 {
	return objectiveTolerance * math.Max(1, math.Abs(objective))
}

// objectiveTolerance is relative, but absolute for objectives below 1.
const objectiveTolerance = 1e-6

// finitePoint reports whether x has n finite values. Libraries mark infinity by numbers from 1e20 on.
func finitePoint(x []float64, n int) bool {
	if len(x) != n {
		return false
	}
	for _, v := range x {
		if !(math.Abs(v) < infinite) { // or NaN
			return false
		}
	}
	return true
}

// polish returns x with integers rounded and columns moved onto bounds that they miss by at most the tolerance.
// wrong describes the remaining violation; it is "" if the point is a solution of d, which differs from m's data
// only in bounds and integrality. O(columns + nonzeros). x is not changed.
func polish(m *milp.Model, d *milp.Data, x []float64) (y []float64, wrong string) {
	y = make([]float64, len(x))
	for j, v := range x {
		if d.Integer[j] {
			r := math.Round(v)
			if math.Abs(v-r) > integrality && wrong == "" {
				wrong = fmt.Sprintf("integer %s is %g", m.Col(j).Name(), v)
			}
			v = r
		}
		c := math.Min(math.Max(v, d.Lower[j]), d.Upper[j])
		if math.Abs(c-v) > feasibility+relative*math.Abs(c) && wrong == "" {
			wrong = fmt.Sprintf("%s is %g, outside [%g, %g]", m.Col(j).Name(), v, d.Lower[j], d.Upper[j])
		}
		y[j] = c + 0 // no −0
	}
	if wrong == "" {
		wrong = violated(m, d, y)
	}
	return y, wrong
}

// violated returns the row of d, named by m, that the point x violates most, "" if none.
func violated(m *milp.Model, d *milp.Data, x []float64) string {
	worst, row, at := 0., -1, 0.
	for i := range d.RowLower {
		sum, scale := 0., 0.
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			t := d.Val[k] * x[d.Col[k]]
			sum += t
			scale = math.Max(scale, math.Abs(t))
		}
		miss := math.Max(d.RowLower[i]-sum, sum-d.RowUpper[i])
		if excess := miss - feasibility - relative*scale; excess > worst {
			worst, row, at = excess, i, sum
		}
	}
	if row < 0 {
		return ""
	}
	return fmt.Sprintf("%s is %.9g, outside [%g, %g]", m.Row(row).Name(), at, d.RowLower[row], d.RowUpper[row])
}

// objective returns the objective of d at x.
func objective(d *milp.Data, x []float64) float64 {
	sum := d.Offset
	for j, c := range d.Cost {
		if c != 0 {
			sum += c * x[j]
		}
	}
	return sum
}

// boxBound returns the best objective within the bounds of the columns alone: a proven bound, infinite if they do
// not limit the objective.
func boxBound(d *milp.Data) float64 {
	sum := d.Offset
	for j, c := range d.Cost {
		switch up := c*float64(d.Sense) < 0; {
		case c == 0:
		case up:
			sum += c * d.Upper[j]
		default:
			sum += c * d.Lower[j]
		}
	}
	return sum
}

// boxOptimum returns the best point of d's columns without its rows, or false if the objective is unbounded.
func boxOptimum(d *milp.Data) ([]float64, bool) {
	x := make([]float64, len(d.Cost))
	for j, c := range d.Cost {
		switch up := c*float64(d.Sense) < 0; {
		case c == 0:
			x[j] = math.Min(math.Max(0, d.Lower[j]), d.Upper[j])
		case up:
			x[j] = d.Upper[j]
		default:
			x[j] = d.Lower[j]
		}
		if math.IsInf(x[j], 0) {
			return nil, false
		}
	}
	return x, true
}
