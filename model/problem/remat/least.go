package remat

import (
	"fmt"
	"math"
)

// LeastBound returns a proven lower bound on the memory of every plan, and the operation that needs
// it. O(N).
//
// Phase h is the time between B_{h+1} and B_h, phase N the time before B_N: δ_h is stored. In every
// plan a_0 is stored until B_1, and
//
//	(1) B_ℓ runs;
//	(2) each F_ℓ runs in phase N, as B_N needs all layers computed once;
//	(3) there is a last F_all ℓ before B_ℓ, in some phase h ≥ ℓ, and ā_ℓ is
//	    stored from then on, also while B_h .. B_{ℓ+1} run;
//	(4) for ℓ < N let k be the last index below ℓ for which a_k or ā_k is stored
//	    when B_{ℓ+1} has run. It was stored while B_{ℓ+1} ran, and for a_{ℓ-1}
//	    or ā_{ℓ-1}, which B_ℓ needs, F_{k+1} .. F_{ℓ-1} run in phase ℓ.
//
// The bound is the maximum of these needs, each with the h and k for which it is minimum. For k or
// h further from ℓ than near only a part of the need is counted, which keeps the bound valid.
func (v *View) LeastBound() (memory float64, why string) {
	op, reason := "", ""
	at := 0
	need := func(bytes float64, name string, l int, text string) {
		if bytes > memory || op == "" {
			memory, op, at, reason = bytes, name, l, text
		}
	}
	for l := 1; l <= v.N; l++ {
		need(v.BackwardNeed(l), "B", l, "needs its input, what F_all saves and two gradients")
		need(v.ForwardNeed(l, v.N), "F", l, "needs its input and its output before the first backward")
		need(v.saved(l), "F_all", l, "has to save what the backward needs, then or before other backwards")
		if l < v.N {
			need(v.inputAgain(l), "B", l, "needs its input, kept during the previous backward or recomputed")
		}
	}
	return memory, fmt.Sprintf("%s_%d %s", op, at, reason)
}

// saved returns need (3) of LeastBound.
func (v *View) saved(l int) float64 {
	best, kept := math.Inf(1), 0.0
	for h := l; h <= v.N && h-l <= near; h++ {
		if h > l {
			during := v.BackwardNeed(h) + v.Abar[l]
			if h == l+1 {
				during -= v.A[l] // ā_ℓ is the input
			}
			kept = max(kept, during)
		}
		if kept >= best {
			return best
		}
		best = min(best, max(kept, v.AllNeed(l, h)))
	}
	if v.N-l > near {
		return min(best, kept)
	}
	return best
}

// inputAgain returns need (4) of LeastBound, ℓ < N.
func (v *View) inputAgain(l int) float64 {
	best, run := math.Inf(1), 0.0
	for k := l - 1; k >= 0 && l-k <= near; k-- {
		if k < l-1 {
			run = max(run, v.ForwardNeed(k+1, l))
		}
		if run >= best {
			return best
		}
		during := v.BackwardNeed(l + 1)
		if k > 0 {
			during += v.A[k]
		}
		best = min(best, max(run, during))
	}
	if l > near {
		return min(best, run)
	}
	return best
}

// near limits the search for h and k in LeastBound.
const near = 256
