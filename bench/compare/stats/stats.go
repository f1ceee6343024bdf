// Package stats is the statistics of methods run on the same tasks twice, or
// against each other: means of ratios, paired tests, corrections for many
// tests. What golang.org/x/perf/benchmath has is for one benchmark repeated
// often; sweeps run many instances, each seldom.
package stats

import (
	"math"
	"slices"
)

// Quantile returns the q-quantile of sorted values, interpolated linearly
// between neighbours (Hyndman and Fan's type 7); NaN for none. O(1).
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	if frac := at - float64(i); frac > 0 {
		if math.IsInf(sorted[i+1], 1) { // Inf·0 is no number
			return sorted[i+1]
		}
		return sorted[i] + frac*(sorted[i+1]-sorted[i])
	}
	return sorted[i]
}

// Median returns the median of values in any order, NaN for none. +Inf may be
// among them. O(n log n).
func Median(x []float64) float64 {
	s := slices.Clone(x)
	slices.Sort(s)
	return Quantile(s, 0.5)
}

// ShiftedGeometricMean returns (Π (x_i + s))^(1/n) − s, which for s = 0 is the
// geometric mean; NaN for no values. A shift makes it defined where values are 0,
// and keeps the smallest from counting most. All x_i + s must be positive. O(n).
func ShiftedGeometricMean(x []float64, shift float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Log(v + shift)
	}
	return math.Exp(sum/float64(len(x))) - shift
}

// Run is how long a run took, and whether it got to its end; else Time is only
// where it was stopped.
type Run struct {
	Time   float64
	Solved bool
	Limit  float64 // the time limit; 0: none
}

// PAR returns the penalised average runtime: the mean in which a run that did
// not get to its end counts as factor times its limit, or its time if it has no
// limit. NaN for no runs. It is a mean and not a geometric one, because the
// factor is a convention and not a measurement. O(n).
func PAR(runs []Run, factor float64) float64 {
	if len(runs) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, r := range runs {
		switch {
		case r.Solved:
			sum += r.Time
		case r.Limit > 0:
			sum += factor * r.Limit
		default:
			sum += factor * r.Time
		}
	}
	return sum / float64(len(runs))
}

// Estimate is a mean and its confidence interval.
type Estimate struct{ Mean, Low, High float64 }

// MeanInterval returns the mean of x and Student's interval of the confidence
// asked for, as 0.95; of one value, the interval is everything. For logarithms
// of ratios, exp of the three is the geometric mean ratio and its interval. O(n).
func MeanInterval(x []float64, confidence float64) Estimate {
	n := float64(len(x))
	if n == 0 {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	mean := 0.0
	for _, v := range x {
		mean += v / n
	}
	if n == 1 {
		return Estimate{mean, math.Inf(-1), math.Inf(1)}
	}
	squares := 0.0
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	half := tQuantile(0.5+confidence/2, n-1) * math.Sqrt(squares/(n-1)/n)
	return Estimate{mean, mean - half, mean + half}
}

// Holm returns the p-values adjusted for being that many, by Holm's step-down
// method: those adjusted to at most α may be rejected together with a chance of
// at most α that any is rejected wrongly, however they depend on each other.
// O(n log n).
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted, least := make([]float64, len(p)), 0.0
	for k, i := range order {
		least = max(least, min(1, float64(len(p)-k)*p[i]))
		adjusted[i] = least
	}
	return adjusted
}

// normalTail returns P(|Z| ≥ |z|) of a standard normal Z.
func normalTail(z float64) float64 { return math.Erfc(math.Abs(z) / math.Sqrt2) }
