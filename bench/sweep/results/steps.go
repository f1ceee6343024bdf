package results

import (
	"math"
	"slices"
)

// level is a run of nights whose values are alike: those from index from up to, not including, to.
type level struct {
	from, to int
	middle   float64
}

// levels splits a line of values into levels: the piecewise constant function that minimises the sum
// of absolute differences plus a penalty for each step, as asv's step detection does (Potts
// functional; Friedrich, Kempe, Liebscher and Winkler, Complexity penalized M-estimation, 2008). It
// returns the function's residual, too. O(n³ log n).
func levels(x []float64, penalty float64) (list []level, residual float64) {
	best := make([]float64, len(x)+1) // of the first k values, with one penalty a level
	last := make([]int, len(x)+1)     // where the last level of them begins
	for k := 1; k <= len(x); k++ {
		best[k] = math.Inf(1)
		for from := range k {
			if cost := best[from] + absolute(x[from:k]) + penalty; cost < best[k] {
				best[k], last[k] = cost, from
			}
		}
	}
	for k := len(x); k > 0; k = last[k] {
		list = append(list, level{last[k], k, median(x[last[k]:k])})
	}
	slices.Reverse(list)
	return list, best[len(x)] - penalty*float64(len(list))
}

// absolute returns the sum of the absolute differences of x from their median.
func absolute(x []float64) (sum float64) {
	m := median(x)
	for _, v := range x {
		sum += math.Abs(v - m)
	}
	return sum
}

// trend returns the median slope of all pairs of values (Theil 1950, Sen 1968) and the sum of the
// absolute differences from that line. O(n² log n).
func trend(x []float64) (slope, residual float64) {
	var slopes []float64
	for i := range x {
		for j := range i {
			slopes = append(slopes, (x[i]-x[j])/float64(i-j))
		}
	}
	slope = median(slopes)
	rest := make([]float64, len(x))
	for i, v := range x {
		rest[i] = v - slope*float64(i)
	}
	return slope, absolute(rest)
}

// stepPenalty times the deviation from night to night, and a logarithm of their number, is what a
// step must save.
const stepPenalty = 4

// found is a step from night at−1 to at, or a slope from night at to the last.
type found struct {
	at     int
	change float64 // of logarithms: of a step, or of the slope in all
	slope  bool
	// before and after are the nights that the change is between: the levels, or both ends of the slope.
	before, after level
}

// changes finds the steps of a line of logarithms, or that it is a slope as a whole. least is the
// change from which it counts, floor the smallest deviation from night to night.
func changes(x []float64, least, floor float64) (list []found) {
	if len(x) < leastNights {
		return nil
	}
	differences := make([]float64, len(x)-1)
	for i := range differences {
		differences[i] = x[i+1] - x[i]
	}
	sigma := max(floor, deviation(differences, median(differences))/math.Sqrt2)
	penalty := stepPenalty * sigma * math.Log(float64(len(x)))
	steps, residual := levels(x, penalty)
	slope, rest := trend(x)
	if all := slope * float64(len(x)-1); math.Abs(all) > least && len(steps) > 1 && rest+penalty < residual+penalty*float64(len(steps)-1) {
		third := (len(x) + 2) / 3
		return []found{{0, all, true, level{from: 0, to: third}, level{from: len(x) - third, to: len(x)}}}
	}
	for k, l := range steps[1:] {
		if change := l.middle - steps[k].middle; math.Abs(change) > least {
			list = append(list, found{l.from, change, false, steps[k], l})
		}
	}
	return list
}

// leastNights that a line needs for steps: two nights are compared, not fitted.
const leastNights = 4
