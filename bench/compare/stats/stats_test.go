package stats

import (
	"math"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > tolerance*max(1, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Few different sizes, so that there are ties and zeros.
func differences(t *rapid.T) []float64 {
	return rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, -1, 2, -2, 2.5, -3, 4, 5, -7, math.Inf(1), math.Inf(-1)}), 1, 11).Draw(t, "differences")
}

// bruteSignedRank tries all signs of the sizes of d.
func bruteSignedRank(d []float64) float64 {
	d = slices.DeleteFunc(slices.Clone(d), func(v float64) bool { return v == 0 })
	rank := func(i int) (r float64) { // mean rank: those below, and half of those equal
		for j := range d {
			switch a, b := math.Abs(d[j]), math.Abs(d[i]); {
			case a < b:
				r++
			case a == b:
				r += 0.5
			}
		}
		return r + 0.5
	}
	sum := func(positive func(int) bool) (w float64) {
		for i := range d {
			if positive(i) {
				w += rank(i)
			} else {
				w -= rank(i)
			}
		}
		return math.Abs(w)
	}
	seen := sum(func(i int) bool { return d[i] > 0 })
	extreme := 0
	for signs := range 1 << len(d) {
		if sum(func(i int) bool { return signs>>i&1 == 1 }) >= seen {
			extreme++
		}
	}
	return float64(extreme) / float64(int(1)<<len(d))
}

func TestSignedRankAgainstAllSigns(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		d := differences(t)
		if got, want := SignedRank(d), bruteSignedRank(d); math.Abs(got-want) > 1e-12 {
			t.Fatalf("%v: p = %v, over all signs %v", d, got, want)
		}
	})
}

// Values of the literature: Hollander and Wolfe's depression scores, p = 0.0391.
func TestSignedRankKnown(t *testing.T) {
	x := []float64{1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30}
	y := []float64{0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29}
	var d []float64
	for i := range x {
		d = append(d, x[i]-y[i])
	}
	near(t, "p", SignedRank(d), 0.0390625, 1e-12)
	near(t, "no differences", SignedRank([]float64{0, 0}), 1, 0)
	near(t, "nothing", SignedRank(nil), 1, 0)
}

// Where the exact p-value ends the approximation continues it.
func TestSignedRankApproximation(t *testing.T) {
	for _, share := range []int{2, 3, 4} {
		var d []float64
		for i := range mostExact {
			v := float64(i%37 + 1)
			if i%share == 0 {
				v = -v
			}
			d = append(d, v)
		}
		exact := SignedRank(d)
		ranks, positive := signedRanks(d)
		squares, total := 0.0, 0
		for _, r := range ranks {
			total += r
			squares += float64(r) * float64(r)
		}
		z := max(0, math.Abs(float64(positive)-float64(total)/2)-1) / math.Sqrt(squares/4)
		near(t, "approximation", normalTail(z), exact, 0.003)
	}
	many := make([]float64, 5000)
	for i := range many {
		many[i] = float64(i%50) - 10
	}
	if p := SignedRank(many); p > 1e-20 {
		t.Errorf("p = %v for 5000 differences of which four fifths are positive", p)
	}
}

func TestSignAgainstAllCoins(t *testing.T) {
	for n := range 13 {
		for positive := range n + 1 {
			extreme := 0
			for coins := range 1 << n {
				heads := bits.OnesCount(uint(coins))
				if max(heads, n-heads) >= max(positive, n-positive) {
					extreme++
				}
			}
			near(t, "sign", Sign(positive, n-positive), float64(extreme)/float64(int(1)<<n), 1e-12)
		}
	}
	if p := Sign(60_000, 40_000); p != 0 && p > 1e-300 {
		t.Errorf("p = %v", p)
	}
}

// Holm's adjusted p-values against his procedure: reject the smallest at α/n,
// the next at α/(n−1), … until one stays.
func TestHolmAgainstStepDown(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 0.2), 1, 8).Draw(t, "p")
		alpha := rapid.Float64Range(0.001, 0.999).Draw(t, "alpha")
		adjusted := Holm(p)
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

// Tables of Student's t.
func TestStudent(t *testing.T) {
	for _, x := range []struct{ q, df, want float64 }{
		{0.975, 1, 12.7062047362},
		{0.975, 2, 4.30265272970},
		{0.975, 9, 2.26215716280},
		{0.95, 5, 2.01504837333},
		{0.995, 30, 2.74999565357},
		{0.975, 1e6, 1.95996635682},
		{0.025, 9, -2.26215716280},
		{0.5, 3, 0},
	} {
		near(t, "quantile", tQuantile(x.q, x.df), x.want, 1e-9)
		near(t, "tail", TTail(x.want, x.df), 2*min(x.q, 1-x.q), 1e-9)
	}
	near(t, "df 1 is Cauchy", TTail(3, 1), 1-2*math.Atan(3)/math.Pi, 1e-12)
	near(t, "infinite", TTail(math.Inf(-1), 4), 0, 0)
}

func TestMeanInterval(t *testing.T) {
	e := MeanInterval([]float64{1, 2, 3, 4, 5}, 0.95)
	near(t, "mean", e.Mean, 3, 1e-12)
	near(t, "low", e.Low, 3-2.7764451052*math.Sqrt(0.5), 1e-9)
	near(t, "high", e.High, 3+2.7764451052*math.Sqrt(0.5), 1e-9)
	if one := MeanInterval([]float64{7}, 0.95); one.Mean != 7 || !math.IsInf(one.Low, -1) || !math.IsInf(one.High, 1) {
		t.Errorf("one value: %v", one)
	}
	if none := MeanInterval(nil, 0.95); !math.IsNaN(none.Mean) {
		t.Errorf("no value: %v", none)
	}
}

func TestMeans(t *testing.T) {
	near(t, "geometric", ShiftedGeometricMean([]float64{1, 4, 16}, 0), 4, 1e-12)
	near(t, "with zeros", ShiftedGeometricMean([]float64{0, 3, 15}, 1), 3, 1e-12)
	near(t, "none", ShiftedGeometricMean(nil, 1), math.NaN(), 0)
	near(t, "PAR-10", PAR([]Run{{2, true, 60}, {60, false, 60}, {4, false, 0}}, 10), (2+600+40)/3., 1e-12)
	near(t, "PAR of none", PAR(nil, 10), math.NaN(), 0)
	near(t, "median", Median([]float64{9, 1, 3, 2}), 2.5, 1e-12)
	near(t, "quartile", Quantile([]float64{1, 2, 3, 4}, 0.25), 1.75, 1e-12)
	if m := Median([]float64{math.Inf(1), 1, math.Inf(1)}); !math.IsInf(m, 1) {
		t.Errorf("median of two failures of three: %v", m)
	}
	if m := Median([]float64{1, math.Inf(1)}); !math.IsInf(m, 1) {
		t.Errorf("median of one failure of two: %v", m)
	}
	near(t, "no values", Median(nil), math.NaN(), 0)
}

func BenchmarkSignedRankExact(b *testing.B) {
	d := make([]float64, mostExact)
	for i := range d {
		d[i] = float64(i%41) - 13.5
	}
	b.ReportAllocs()
	for b.Loop() {
		SignedRank(d)
	}
}
