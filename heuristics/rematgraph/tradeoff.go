package rematgraph

import (
	"math"
	"slices"
)

// shift is the offset delta of the curve.
const shift = 1e-2

// tradeoff returns _get_sac_tradeoff_pwlf_stats of PyTorch
// (torch/distributed/_tools/sac_estimator.py): for the fractions x of bytes, the fraction y of
// seconds that recomputing them takes, if groups are recomputed one after the other. As there, a
// fraction is 0.01 larger than it is and costs as much as the next larger one, and the last of
// several points with the same fraction counts.
func tradeoff(groups []group, bytes, seconds float64) (x, y []float64) {
	x, y = []float64{shift}, []float64{0}
	add := func(memory, time float64) {
		if at := memory/bytes + shift; at == x[len(x)-1] {
			y[len(y)-1] = time / seconds
		} else {
			x, y = append(x, at), append(y, time/seconds)
		}
	}
	memory, time := 0.0, 0.0
	for _, g := range groups {
		memory, time = memory+g.memory, time+g.time
		add(memory, time)
	}
	add(bytes, seconds) // with what is always stored
	return x[:len(x)-1], y[1:]
}

// pieces fits a function of at most two linear pieces to points by least squares. It is no bound on
// them, and the steeper piece need not be the second. One point yields a constant.
//
// PyTorch finds the breakpoint by differential evolution (pwlf). Here it is exact, after Hudson
// (1966, Fitting segmented curves whose join points have to be estimated): the best one is one of
// the points, or where the best lines of the points before and after it intersect between them.
// O(points²).
func pieces(x, y []float64) (slopes, intercepts []float64) {
	if len(x) < 4 {
		slope, intercept := line(x, y)
		return []float64{slope}, []float64{intercept}
	}
	least := math.Inf(1)
	try := func(at float64) {
		c := hinge(x, y, at)
		squares := 0.0
		for k := range x {
			e := c[0] + c[1]*x[k] + c[2]*max(0, x[k]-at) - y[k]
			squares += e * e
		}
		if squares < least {
			least = squares
			slopes, intercepts = []float64{c[1], c[1] + c[2]}, []float64{c[0], c[0] - c[2]*at}
		}
	}
	for k := 1; k < len(x)-1; k++ {
		try(x[k])
		if k == len(x)-2 {
			break // one point after it: a breakpoint at x[k] is as good
		}
		s1, i1 := line(x[:k+1], y[:k+1])
		s2, i2 := line(x[k+1:], y[k+1:])
		if meet := (i1 - i2) / (s2 - s1); x[k] < meet && meet < x[k+1] {
			try(meet)
		}
	}
	return slopes, intercepts
}

// line returns the least-squares line through points, the constant through one.
func line(x, y []float64) (slope, intercept float64) {
	n := float64(len(x))
	meanX, meanY := 0.0, 0.0
	for k := range x {
		meanX, meanY = meanX+x[k]/n, meanY+y[k]/n
	}
	xx, xy := 0.0, 0.0
	for k := range x {
		xx += (x[k] - meanX) * (x[k] - meanX)
		xy += (x[k] - meanX) * (y[k] - meanY)
	}
	if xx > 0 {
		slope = xy / xx
	}
	return slope, meanY - slope*meanX
}

// hinge returns the least-squares c of c0 + c1 x + c2 max(0, x − at), by the normal equations.
// There must be two points up to at and one after it.
func hinge(x, y []float64, at float64) (c [3]float64) {
	var a [3][4]float64
	for k := range x {
		row := [4]float64{1, x[k], max(0, x[k]-at), y[k]}
		for i := range 3 {
			for j := range row {
				a[i][j] += row[i] * row[j]
			}
		}
	}
	for i := range a {
		for k := i + 1; k < 3; k++ {
			f := a[k][i] / a[i][i]
			for j := range a[k] {
				a[k][j] -= f * a[i][j]
			}
		}
	}
	for i := range slices.Backward(a[:]) {
		c[i] = a[i][3]
		for j := i + 1; j < 3; j++ {
			c[i] -= a[i][j] * c[j]
		}
		c[i] /= a[i][i]
	}
	return c
}
