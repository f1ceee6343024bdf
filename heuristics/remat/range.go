package remat

import (
	"context"
	"math"

	"workbench/model/instance/chain"
	model "workbench/model/problem/remat"
)

// Range returns the memories between which plans differ. high is the peak of store-all, from which
// on nothing is recomputed. low is the minimum for which a plan exists, as far as proved: the bound
// of model/problem/remat if Persistent attains it, or that of [LeastMemory] for chains that its
// search accepts. For longer chains low is the minimum of Persistent or, beyond 1024 layers, the
// peak of recomputing everything for each backward; plans below that may exist. c must be valid.
// O(N³), or as LeastMemory where that is used.
func Range(c *chain.Chain) (low, high float64) {
	v := model.FromChain(c)
	high = storeAll(v).Peak
	if v.N > 1024 {
		return min(high, recomputeAll(v)), high
	}
	low = min(high, v.A[0]+newLeast(v).cost(1, v.N))
	if bound, _ := v.LeastBound(); bound < low && v.N <= maxSearched {
		if least, _, proved, err := LeastMemory(context.Background(), c); err == nil && proved {
			low = least
		}
	}
	return low, high
}

// recomputeAll returns the peak of F_ck 1, F_none 2 .. F_none ℓ-1, F_all ℓ, B ℓ for ℓ = N..1 ([004]
// 4.4). O(N), as the needs of forwards are running maxima.
func recomputeAll(v *model.View) float64 {
	peak, run := v.A[0]+v.Delta[v.N], 0.0
	for l := 1; l <= v.N; l++ {
		peak = max(peak, run+v.Delta[l], v.AllNeed(l, l), v.BackwardNeed(l))
		run = max(run, v.Input(l)+v.A[l]+v.OC[l])
	}
	return peak
}

// needAll is m_all^{s,t}, which the recurrences of [004] Theorem 6 compare memory
// with, a_{s-1} not counted: to run F_all s with δ_t, and B_s.
func needAll(v *model.View, s, t int) float64 {
	return v.Abar[s] + max(v.Delta[t]+v.OF[s], v.Delta[s]+v.Delta[s-1]+v.OB[s])
}

// least has the minimum memory of persistent plans for all s ≤ t, without a_{s-1}: the recurrence
// of [004] Theorem 6 without times.
type least struct {
	n int
	// from[s*(n+1)+t] is the need of (s,t); to[t*(n+1)+k] that of (k+1,t) and a_k.
	from, to []float64
}

func (l *least) cost(s, t int) float64 { return l.from[s*(l.n+1)+t] }

// newLeast fills the table. O(N³) time, O(N²) space.
func newLeast(v *model.View) *least {
	w := v.N + 1
	l := &least{n: v.N, from: make([]float64, w*w), to: make([]float64, w*w)}
	for t := 1; t <= v.N; t++ {
		to := l.to[t*w : t*w+w]
		inner := 0.0 // max of a_{h-1} + a_h + oF_h over s < h ≤ t
		for s := t; s >= 1; s-- {
			best := needAll(v, s, t)
			if s < t {
				best = max(best, l.cost(s+1, t)+v.Abar[s])
				run := v.Delta[t] + max(inner, v.A[s]+v.OC[s]) // m_∅^{s,t}
				from := l.from[s*w : s*w+w]
				split := math.Inf(1)
				for k := s; k < t; k++ {
					split = min(split, max(to[k], from[k]))
				}
				best = min(best, max(run, split))
			}
			l.from[s*w+t] = best
			to[s-1] = best + v.A[s-1]
			inner = max(inner, v.A[s-1]+v.A[s]+v.OC[s])
		}
	}
	return l
}
