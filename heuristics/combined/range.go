package combined

import (
	"fmt"

	"workbench/model/chain"
)

// Range returns the memory between which [004] 4.4 varies the limit,
// M = (1−α)·low + α·high, in bytes: low is what recomputing everything from a_0
// for every backward takes, high what keeping everything takes. Neither is
// proved to be least: without transfers less may do (errata 3), and with them
// [Least] does. c must be valid. O(N).
func Range(c *chain.Chain) (low, high float64) {
	v := newView(c)
	// Recompute everything: before B_ℓ, F_ck 1, F_none 2 .. ℓ-1, F_all ℓ, beside
	// a_0 and δ_ℓ; the loss's gradient counts from its backward on.
	forward := 0.0 // most of F_1 .. F_ℓ-1
	for l := 1; l <= v.n; l++ {
		gradient := v.delta[l]
		if l == v.n {
			gradient = 0
		}
		beside := v.a[0]
		if l > 1 {
			beside += v.a[l-1]
		}
		low = max(low, forward+gradient, beside+v.needAll(l)+gradient, beside+v.needBackward(l))
		forward = max(forward, beside+v.a[l]+v.oF[l])
	}
	kept := v.a[0]
	for l := 1; l <= v.n; l++ {
		high = max(high, kept+v.needAll(l))
		kept += v.abar[l]
		high = max(high, kept+v.delta[l]+v.delta[l-1]+v.oB[l])
	}
	return low, max(low, high)
}

// Least returns the least memory in bytes for which a plan exists when there is
// a link, and the operation that needs it. c must be valid. O(N).
//
// F_all ℓ has to run, beside a_{ℓ-1} or the larger ā_{ℓ-1}; so has B_ℓ, with its
// two gradients. And that is enough: OffloadAll needs no more. Without a link it
// is a lower bound.
func Least(c *chain.Chain) (memory float64, why string) { return newView(c).least() }

func (in *instance) least() (memory float64, why string) {
	for l := 1; l <= in.n; l++ {
		if x := in.a[l-1] + in.needAll(l); x > memory || l == 1 {
			memory, why = x, fmt.Sprintf("F_all_%d needs its input and what its backward needs", l)
		}
		if x := in.a[l-1] + in.needBackward(l); x > memory {
			memory, why = x, fmt.Sprintf("B_%d needs its input, what F_all saves and two gradients", l)
		}
	}
	return memory, why
}
