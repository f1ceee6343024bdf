package stats

import (
	"math"
	"slices"
)

// mostExact is the number of differences up to which SignedRank is exact: its
// table then has 40,200 entries.
const mostExact = 200

// SignedRank returns the two-sided p-value of Wilcoxon's signed-rank test that
// the differences d of pairs are symmetric about 0. Zeros are left out, as
// Wilcoxon does, equal sizes share their mean rank; ±Inf is larger than any
// number, so that a pair of which only the sign is known counts. 1 if nothing is
// left.
//
// Up to 200 differences the p-value is exact, ties included: the distribution
// of W⁺ over all 2ⁿ signs, by dynamic programming over doubled ranks, O(n³)
// time, O(n²) space. Beyond, it is the normal approximation with the variance
// Σr²/4, which holds with ties, and a correction for continuity. O(n log n).
func SignedRank(d []float64) float64 {
	ranks, positive := signedRanks(d)
	if len(ranks) == 0 {
		return 1
	}
	total, squares := 0, 0.0
	for _, r := range ranks {
		total += r
		squares += float64(r) * float64(r)
	}
	if len(ranks) <= mostExact {
		return exactSignedRank(ranks, min(positive, total-positive), total)
	}
	// Doubled ranks: mean total/2, variance Σ(2r)²/4, a step of 1 is half of that of ranks.
	z := max(0, math.Abs(float64(positive)-float64(total)/2)-1) / math.Sqrt(squares/4)
	return normalTail(z)
}

// signedRanks returns twice the mean ranks of |d| without zeros, and the sum of
// those of positive d. Doubled mean ranks are whole.
func signedRanks(d []float64) (ranks []int, positive int) {
	var s []float64
	for _, v := range d {
		if v != 0 && !math.IsNaN(v) {
			s = append(s, v)
		}
	}
	slices.SortFunc(s, func(a, b float64) int {
		switch x, y := math.Abs(a), math.Abs(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	ranks = make([]int, len(s))
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && math.Abs(s[j]) == math.Abs(s[i]) {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + j + 1 // 2·((i+1) + j)/2
			if s[k] > 0 {
				positive += ranks[k]
			}
		}
		i = j
	}
	return ranks, positive
}

// exactSignedRank returns P(W ≤ w) + P(W ≥ total − w) where each rank is in W
// with probability 1/2.
func exactSignedRank(ranks []int, w, total int) float64 {
	if 2*w >= total {
		return 1
	}
	p := make([]float64, total+1) // p[v]: probability of the sum v
	p[0] = 1
	sum := 0
	for _, r := range ranks {
		sum += r
		for v := sum; v >= 0; v-- {
			x := p[v] / 2
			if v >= r {
				x += p[v-r] / 2
			}
			p[v] = x
		}
	}
	tail := 0.0
	for v := 0; v <= w; v++ {
		tail += p[v]
	}
	return min(1, 2*tail)
}

// Sign returns the two-sided p-value of the sign test: how likely it is that of
// so many fair coins as few, or fewer, or as many or more, show heads. Pairs
// without a difference are in neither number. O(positive + negative).
func Sign(positive, negative int) float64 {
	n, k := positive+negative, min(positive, negative)
	if 2*k >= n {
		return 1
	}
	all, _ := math.Lgamma(float64(n) + 1)
	tail := 0.0
	for i := 0; i <= k; i++ {
		a, _ := math.Lgamma(float64(i) + 1)
		b, _ := math.Lgamma(float64(n-i) + 1)
		tail += math.Exp(all - a - b - float64(n)*math.Ln2)
	}
	return min(1, 2*tail)
}
