package results

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

func approx(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > tolerance*max(1, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Holm's adjusted p-values against his procedure: reject the smallest at α/n,
// the next at α/(n−1), … until one stays.
func TestHolmAgainstStepDown(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 0.2), 1, 8).Draw(t, "p")
		alpha := rapid.Float64Range(0.001, 0.999).Draw(t, "alpha")
		adjusted := holm(p)
		rejected := make([]bool, len(p))
		for k := range p {
			next := -1
			for i := range p {
				if !rejected[i] && (next < 0 || p[i] < p[next]) {
					next = i
				}
			}
			if p[next] > alpha/float64(len(p)-k) {
				break
			}
			rejected[next] = true
		}
		for i := range p {
			if math.Abs(adjusted[i]-alpha) > 1e-12 && (adjusted[i] <= alpha) != rejected[i] {
				t.Fatalf("p = %v at %v: adjusted %v, rejected %v", p, alpha, adjusted, rejected)
			}
		}
	})
}

func TestMeans(t *testing.T) {
	approx(t, "geometric", shiftedGeometricMean([]float64{1, 4, 16}, 0), 4, 1e-12)
	approx(t, "with zeros", shiftedGeometricMean([]float64{0, 3, 15}, 1), 3, 1e-12)
	approx(t, "none", shiftedGeometricMean(nil, 1), math.NaN(), 0)
	approx(t, "PAR-10", par10([]timedRun{{2, true, 60}, {60, false, 60}, {4, false, 0}}), (2+600+40)/3., 1e-12)
	approx(t, "PAR of none", par10(nil), math.NaN(), 0)
	approx(t, "median", median([]float64{9, 1, 3, 2}), 2.5, 1e-12)
	approx(t, "quartile", quantile([]float64{1, 2, 3, 4}, 0.25), 1.75, 1e-12)
	if m := median([]float64{math.Inf(1), 1, math.Inf(1)}); !math.IsInf(m, 1) {
		t.Errorf("median of two failures of three: %v", m)
	}
	if m := median([]float64{1, math.Inf(1)}); !math.IsInf(m, 1) {
		t.Errorf("median of one failure of two: %v", m)
	}
	approx(t, "no values", median(nil), math.NaN(), 0)
}

// The p-value of a shift is uniform where there is none, in the median of n normal values, and
// outliers change neither median nor decision.
func TestShiftTest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 9))
	for _, n := range []int{3, 8, 40} {
		low := 0
		const draws = 4000
		for range draws {
			d := make([]float64, n)
			for i := range d {
				d[i] = 0.1 * random.NormFloat64()
			}
			if _, p := shiftTest(d, 0.1); p <= 0.05 {
				low++
			}
		}
		if share := float64(low) / draws; share > 0.065 {
			t.Errorf("of %d values: p ≤ 0.05 in %.3f of draws without a shift", n, share)
		}
	}
	d := []float64{0.2, 0.21, 0.19, 0.2, 0.2, 0.18, math.Inf(1), -3}
	if center, p := shiftTest(d, 0.05); math.Abs(center-0.2) > 0.01 || p > 1e-6 {
		t.Errorf("center %v, p = %v", center, p)
	}
	if center, p := shiftTest(make([]float64, 5), 0.05); center != 0 || p != 1 {
		t.Errorf("no difference: center %v, p = %v", center, p)
	}
}

// Mann–Whitney is that of benchstat: 5 against 5 without overlap is 2/252.
func TestMannWhitney(t *testing.T) {
	approx(t, "apart", mannWhitney([]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}), 2./252, 1e-12)
	approx(t, "three", mannWhitney([]float64{1, 2, 3}, []float64{6, 7, 8}), 0.1, 1e-12)
}

// Fewer than five pairs have no interval.
func TestLogMean(t *testing.T) {
	mean, low, high := logMean([]float64{0, 0, math.Log(16), math.Log(16)})
	if approx(t, "mean", *mean, 4, 1e-12); low != nil || high != nil {
		t.Error("an interval of four pairs")
	}
	mean, low, high = logMean([]float64{1, 2, 3, 4, 5})
	approx(t, "mean", *mean, math.Exp(3), 1e-12)
	approx(t, "low", *low, math.Exp(3-2.7764451052*math.Sqrt(0.5)), 1e-6)
	approx(t, "high", *high, math.Exp(3+2.7764451052*math.Sqrt(0.5)), 1e-6)
}

// Steps are found where they are, noise has none, and a drift is one slope.
func TestSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 9))
	line := func(n int, noise float64, f func(k int) float64) []float64 {
		x := make([]float64, n)
		for k := range x {
			x[k] = f(k) + noise*random.NormFloat64()
		}
		return x
	}
	at := func(k, n int, size float64) float64 {
		if k >= n {
			return size
		}
		return 0
	}
	alarms := 0
	for range 200 {
		for _, noise := range []float64{0.01, 0.05} {
			alarms += len(changes(line(30, noise, func(int) float64 { return 0 }), math.Log(1.1), 0.005))
			got := changes(line(30, noise, func(k int) float64 { return at(k, 20, 0.4) }), math.Log(1.1), 0.005)
			alarms += len(got) - 1
			if !slices.ContainsFunc(got, func(f found) bool { return f.at == 20 && !f.slope && math.Abs(f.change-0.4) < 0.1 }) {
				t.Errorf("a step of 0.4 in night 20: %+v", got)
			}
		}
		got := changes(line(9, 0.01, func(k int) float64 { return 0.05 * float64(k) }), math.Log(1.1), 0.005)
		if len(got) != 1 || !got[0].slope || math.Abs(got[0].change-0.4) > 0.06 {
			t.Errorf("a drift of 0.05 a night: %+v", got)
		}
	}
	if alarms > 4 {
		t.Errorf("%d steps of noise in 800 lines", alarms)
	}
}
