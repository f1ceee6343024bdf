package results

import (
	"math"
	"slices"
	"sort"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"
)

// quantile returns the q-quantile of sorted values, interpolated linearly between neighbours
// (Hyndman and Fan's type 7); NaN for none. +Inf may be among them. O(1).
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := min(int(at), len(sorted)-1)
	frac := at - float64(i)
	switch {
	case frac == 0 || sorted[i] == sorted[i+1]:
		return sorted[i]
	case math.IsInf(sorted[i+1], 1): // Inf·0 is no number
		return sorted[i+1]
	}
	return sorted[i] + frac*(sorted[i+1]-sorted[i])
}

// median returns the median of values in any order, NaN for none. O(n log n).
func median(x []float64) float64 {
	s := slices.Clone(x)
	slices.Sort(s)
	return quantile(s, 0.5)
}

// deviation returns the standard deviation of normal values that have the median absolute
// difference of x from center: half of x may be anything. 0 for no values.
func deviation(x []float64, center float64) float64 {
	sizes := make([]float64, len(x))
	for i, v := range x {
		sizes[i] = math.Abs(v - center)
	}
	if len(sizes) == 0 {
		return 0
	}
	return 1.4826 * median(sizes)
}

// shiftedGeometricMean returns (Π (x_i + s))^(1/n) − s, which for s = 0 is the geometric mean;
// NaN for no values. All x_i + s must be positive. O(n).
func shiftedGeometricMean(x []float64, shift float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Log(v + shift)
	}
	return math.Exp(sum/float64(len(x))) - shift
}

// timedRun is how long a run took; if it is not solved, only where it was stopped.
type timedRun struct {
	time   float64
	solved bool
	limit  float64 // 0: none
}

// par10 returns the penalised average runtime: the mean in which a run that did not get to its
// end counts ten times its limit, or its time without one. NaN for no runs. O(n).
func par10(runs []timedRun) float64 {
	sum := 0.0
	for _, r := range runs {
		switch {
		case r.solved:
			sum += r.time
		case r.limit > 0:
			sum += 10 * r.limit
		default:
			sum += 10 * r.time
		}
	}
	return sum / float64(len(runs))
}

// holm returns the p-values adjusted by Holm's step-down method: those adjusted to at most α may
// be rejected together with a probability of at most α that any is rejected wrongly, however they
// depend on each other. O(n log n).
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return p[order[a]] < p[order[b]] })
	adjusted, least := make([]float64, len(p)), 0.0
	for k, i := range order {
		least = max(least, min(1, float64(len(p)-k)*p[i]))
		adjusted[i] = least
	}
	return adjusted
}

// mannWhitney returns the two-sided p-value of the Mann–Whitney U test that two samples are of
// one distribution, as benchstat computes it; 1 for all values the same.
func mannWhitney(a, b []float64) float64 {
	sample := func(x []float64) *benchmath.Sample {
		return benchmath.NewSample(slices.Clone(x), &benchmath.DefaultThresholds)
	}
	return benchmath.AssumeNothing.Compare(sample(a), sample(b)).P
}

// leastInterval is the number of pairs from which on a mean has an interval.
const leastInterval = 5

// logMean returns the geometric mean of ratios whose logarithms are d, with Student's interval of
// 95 %; low and high are nil for fewer than [leastInterval] pairs, mean for none.
func logMean(d []float64) (mean, low, high *float64) {
	if len(d) == 0 {
		return nil, nil, nil
	}
	m, l, h := stats.MeanCI(d, 0.95)
	if len(d) < leastInterval {
		return number(math.Exp(m)), nil, nil
	}
	return number(math.Exp(m)), number(math.Exp(l)), number(math.Exp(h))
}

// shiftTest returns the median of differences d and the two-sided p-value that they are centred
// at 0, where the deviation of one difference is sigma or what d themselves show, if that is more:
// the normal approximation of the median's distribution, whose standard error is σ√(π/2n). A few
// outliers among d, ±Inf included, change neither. O(n log n).
func shiftTest(d []float64, sigma float64) (center, p float64) {
	center = median(d)
	if center == 0 || math.IsNaN(center) {
		return 0, 1
	}
	sigma = max(sigma, deviation(d, center), 1e-12)
	z := math.Abs(center) / (sigma * math.Sqrt(math.Pi/2/float64(len(d))))
	return center, math.Erfc(z / math.Sqrt2)
}

// number returns nil for what is no number.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
