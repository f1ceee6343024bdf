package remat

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Errors of instances that mean nothing.
var (
	ErrChain    = errors.New("chain unfit for rematerialization")
	ErrPlatform = errors.New("platform unfit for rematerialization")
)

// rounding is what sums of sizes, added up in another order, may differ by, as
// part of the memory. With whole bytes below 2^39 it changes nothing.
const rounding = 1e-12

// newInstance checks c and p and returns the chain and the memory limit, in
// bytes, that methods compare sums of sizes with. The errors wrap ErrChain or
// ErrPlatform; a *plan.Infeasible says that no plan fits. O(N).
func newInstance(c *chain.Chain, p platform.Platform) (v *view, limit float64, err error) {
	if err := c.Validate(); err != nil {
		return nil, 0, fmt.Errorf("%w: chain %q: %w", ErrChain, c.Name, err)
	}
	if !(p.Memory >= 0) || math.IsInf(p.Memory, 0) {
		return nil, 0, fmt.Errorf("%w: memory is %v bytes, it must be finite and not negative", ErrPlatform, p.Memory)
	}
	v = newView(c)
	total, longest := 0.0, float64(v.n)*c.TotalTime()
	for l := range v.a {
		total += v.a[l] + v.abar[l] + v.delta[l] + v.oF[l] + v.oB[l]
	}
	if math.IsInf(2*total, 1) || math.IsInf(longest, 1) {
		return nil, 0, fmt.Errorf("%w: chain %q: its sizes or times add up to more than a float64 holds", ErrChain, c.Name)
	}
	limit = p.Memory * (1 + rounding)
	if least, why := v.leastBound(); least > limit {
		return nil, 0, &plan.Infeasible{Problem: Problem, Memory: least, Given: p.Memory, Why: why}
	}
	return v, limit, nil
}

// noPlan is the error of a method that needs at least so much memory for c.
func noPlan(method string, least, given float64) error {
	return fmt.Errorf("remat: %s needs %.15g bytes, there are %.15g: %w", method, least, given, plan.ErrNoPlan)
}

// input is what the base of layer ℓ takes: a_0, which every plan keeps until
// B_1 as nothing can compute it again, and a_{ℓ-1}.
func (v *view) input(l int) float64 {
	if l <= 1 {
		return v.a[0]
	}
	return v.a[0] + v.a[l-1]
}

// forward is what F_ℓ needs at least when it writes so many bytes and δ_h is
// the gradient in memory.
func (v *view) forward(l, h int, output float64) float64 {
	return v.input(l) + output + v.oF[l] + v.delta[h]
}

// backwardNeed is what B_ℓ needs at least.
func (v *view) backwardNeed(l int) float64 {
	return v.input(l) + v.abar[l] + v.delta[l] + v.delta[l-1] + v.oB[l]
}

// LeastBound returns a proven lower bound on the memory of every plan, in
// bytes, and the operation that needs it. c must be valid. O(N).
//
// Phase h is the time between B_{h+1} and B_h, phase N that before B_N: δ_h is
// stored. In every plan a_0 is stored until B_1, and
//
//	(1) B_ℓ runs;
//	(2) each F_ℓ runs in phase N, as B_N needs all layers computed once;
//	(3) there is a last F_all ℓ before B_ℓ, in some phase h ≥ ℓ, and ā_ℓ is
//	    stored from then on: while B_h .. B_{ℓ+1} run, too;
//	(4) for ℓ < N let k be the last index below ℓ of which a_k or ā_k is stored
//	    when B_{ℓ+1} has run. It was stored while B_{ℓ+1} ran, and for a_{ℓ-1}
//	    or ā_{ℓ-1}, which B_ℓ needs, F_{k+1} .. F_{ℓ-1} run in phase ℓ.
//
// The bound is the largest of these needs, with the h and k for which they are
// smallest. With k or h further from ℓ than near, only a part of what is needed
// is counted, which takes nothing from the proof.
func LeastBound(c *chain.Chain) (memory float64, why string) { return newView(c).leastBound() }

// near bounds the search for h and k in LeastBound.
const near = 256

func (v *view) leastBound() (memory float64, why string) {
	op, reason := "", ""
	at := 0
	need := func(bytes float64, name string, l int, text string) {
		if bytes > memory || op == "" {
			memory, op, at, reason = bytes, name, l, text
		}
	}
	for l := 1; l <= v.n; l++ {
		need(v.backwardNeed(l), "B", l, "needs its input, what F_all saves and two gradients")
		need(v.forward(l, v.n, v.a[l]), "F", l, "needs its input and its output before the first backward")
		need(v.saved(l), "F_all", l, "has to save what the backward needs, then or before other backwards")
		if l < v.n {
			need(v.inputAgain(l), "B", l, "needs its input, kept during the backward before or computed again")
		}
	}
	return memory, fmt.Sprintf("%s_%d %s", op, at, reason)
}

// saved is need (3) of LeastBound.
func (v *view) saved(l int) float64 {
	best, kept := math.Inf(1), 0.0
	for h := l; h <= v.n && h-l <= near; h++ {
		if h > l {
			during := v.backwardNeed(h) + v.abar[l]
			if h == l+1 {
				during -= v.a[l] // ā_ℓ is the input
			}
			kept = max(kept, during)
		}
		if kept >= best {
			return best
		}
		best = min(best, max(kept, v.forward(l, h, v.abar[l])))
	}
	if v.n-l > near {
		return min(best, kept)
	}
	return best
}

// inputAgain is need (4) of LeastBound, ℓ < N.
func (v *view) inputAgain(l int) float64 {
	best, run := math.Inf(1), 0.0
	for k := l - 1; k >= 0 && l-k <= near; k-- {
		if k < l-1 {
			run = max(run, v.forward(k+1, l, v.a[k+1]))
		}
		if run >= best {
			return best
		}
		during := v.backwardNeed(l + 1)
		if k > 0 {
			during += v.a[k]
		}
		best = min(best, max(run, during))
	}
	if l > near {
		return min(best, run)
	}
	return best
}

// Range returns the memory, in bytes, between which plans differ: high is the
// peak of store-all, from which on nothing is computed twice; low is the least
// for which Persistent finds a plan or, beyond 1024 layers, the peak of
// computing everything again for each backward. Plans below low may exist (see
// [LeastBound]). c must be valid. O(N³).
func Range(c *chain.Chain) (low, high float64) {
	v := newView(c)
	high = v.storeAll().peak
	if 1 <= v.n && v.n <= 1024 {
		return min(high, v.a[0]+newLeast(v).of(1, v.n)), high
	}
	return min(high, v.recomputeAll()), high
}

// recomputeAll is the peak of F_ck 1, F_none 2 .. F_none ℓ-1, F_all ℓ, B ℓ for
// ℓ = N..1 ([004] 4.4). O(N) as the forwards' needs are running maxima.
func (v *view) recomputeAll() float64 {
	peak, run := v.a[0]+v.delta[v.n], 0.0
	for l := 1; l <= v.n; l++ {
		peak = max(peak, run+v.delta[l], v.forward(l, l, v.abar[l]), v.backwardNeed(l))
		run = max(run, v.input(l)+v.a[l]+v.oF[l])
	}
	return peak
}

// need is what the recurrences of [004] Theorem 6 compare memory with, a_{s-1}
// not counted.
//
// needAll is m_all^{s,t}: to run F_all s with δ_t, and B_s.
func (v *view) needAll(s, t int) float64 {
	return v.abar[s] + max(v.delta[t]+v.oF[s], v.delta[s]+v.delta[s-1]+v.oB[s])
}

// A least holds the least memory of persistent plans, for all s ≤ t, a_{s-1}
// not counted: the recurrence of [004] Theorem 6 without times.
type least struct {
	n int
	// from[s*(n+1)+t] is the need of (s,t); to[t*(n+1)+k] that of (k+1,t) and a_k.
	from, to []float64
}

func (l *least) of(s, t int) float64 { return l.from[s*(l.n+1)+t] }

// newLeast fills the table. O(N³) time, O(N²) space.
func newLeast(v *view) *least {
	w := v.n + 1
	l := &least{n: v.n, from: make([]float64, w*w), to: make([]float64, w*w)}
	for t := 1; t <= v.n; t++ {
		to := l.to[t*w : t*w+w]
		inner := 0.0 // max of a_{h-1} + a_h + oF_h over s < h ≤ t
		for s := t; s >= 1; s-- {
			best := v.needAll(s, t)
			if s < t {
				best = max(best, l.of(s+1, t)+v.abar[s])
				run := v.delta[t] + max(inner, v.a[s]+v.oF[s]) // m_∅^{s,t}
				from := l.from[s*w : s*w+w]
				split := math.Inf(1)
				for k := s; k < t; k++ {
					split = min(split, max(to[k], from[k]))
				}
				best = min(best, max(run, split))
			}
			l.from[s*w+t] = best
			to[s-1] = best + v.a[s-1]
			inner = max(inner, v.a[s-1]+v.a[s]+v.oF[s])
		}
	}
	return l
}
