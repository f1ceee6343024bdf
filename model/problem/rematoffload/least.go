package rematoffload

import (
	"fmt"

	"workbench/model/instance/chain"
)

// Range returns the memories between which [004] 4.4 varies the limit, M = (1−α)·low + α·high, in
// bytes. low is the memory of recomputing everything from a_0 for every backward, high that of
// keeping everything. Neither is a proven minimum: without transfers less may suffice (finding 9),
// and with transfers [Least] does. c must be valid. O(N).
func Range(c *chain.Chain) (low, high float64) {
	v := NewView(c)
	low, _ = v.low()
	kept := v.A[0]
	for l := 1; l <= v.N; l++ {
		high = max(high, kept+v.NeedAll(l))
		kept += v.Abar[l]
		high = max(high, kept+v.Delta[l]+v.Delta[l-1]+v.OB[l])
	}
	return low, max(low, high)
}

// MinMemoryReason returns which operation determines the low end of [Range]. c must be valid. O(N).
func MinMemoryReason(c *chain.Chain) string {
	_, why := NewView(c).low()
	return why
}

// low returns the low end of Range and the operation that determines it: before B_ℓ everything is
// recomputed by F_ck 1, F_none 2 .. ℓ-1, F_all ℓ, while a_0 and δ_ℓ are stored. The gradient of the
// loss counts from its backward on.
func (v *Instance) low() (low float64, why string) {
	takes := func(memory float64, format string, l int) {
		if memory > low || why == "" {
			low, why = memory, "where everything is recomputed for each backward, "+fmt.Sprintf(format, l)
		}
	}
	forward, first := 0.0, 0 // maximum over F_1 .. F_ℓ-1, and where it is attained
	for l := 1; l <= v.N; l++ {
		gradient := v.Delta[l]
		if l == v.N {
			gradient = 0
		}
		beside := v.A[0]
		if l > 1 {
			beside += v.A[l-1]
		}
		takes(forward+gradient, "F_%d needs its input and its output in addition to a_0 and a gradient", first)
		takes(beside+v.NeedAll(l)+gradient, "F_all_%d needs its input and what its backward needs in addition to a_0 and a gradient", l)
		takes(beside+v.NeedBackward(l), "B_%d needs its input, what F_all saves and two gradients in addition to a_0", l)
		if x := beside + v.A[l] + v.OC[l]; x > forward || l == 1 {
			forward, first = x, l
		}
	}
	return low, why
}

// Least returns the minimum memory in bytes for which a plan exists if there is a link, and the
// operation that needs it. Without a link it is a lower bound. c must be valid. O(N).
//
// Proof. F_all ℓ has to run with a_{ℓ-1} or the larger ā_{ℓ-1} stored, and so does B_ℓ, with its
// two gradients. This is sufficient: OffloadAll needs no more.
func Least(c *chain.Chain) (memory float64, why string) { return NewView(c).least() }

func (in *Instance) least() (memory float64, why string) {
	for l := 1; l <= in.N; l++ {
		if x := in.A[l-1] + in.NeedAll(l); x > memory || l == 1 {
			memory, why = x, fmt.Sprintf("F_all_%d needs its input and what its backward needs", l)
		}
		if x := in.A[l-1] + in.NeedBackward(l); x > memory {
			memory, why = x, fmt.Sprintf("B_%d needs its input, what F_all saves and two gradients", l)
		}
	}
	return memory, why
}
