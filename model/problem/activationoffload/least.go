package activationoffload

import (
	"fmt"

	"workbench/model/instance/chain"
)

// Range returns the memories, in bytes, between which plans differ. high is M_peak ([004] (3.3)),
// from which on no offloading is needed. low is the minimum for which a plan exists: the maximum of
// ā_{ℓ-1} + M_{F_ℓ} and ā_{ℓ-1} + M_{B_ℓ}. c must be valid. O(N).
//
// Proof. Every plan holds these tensors while the operation runs. With low bytes one can offload
// everything and wait: when F_ℓ starts, ā_0..ā_{ℓ-2} are on the host, and ā_{ℓ-1} is offloaded when
// it has ended. After B_{ℓ+1} only ā_ℓ and δ_ℓ are stored, and ā_{ℓ-1} is prefetched, which B_ℓ
// needs in addition.
func Range(c *chain.Chain) (low, high float64) {
	in := NewView(c)
	low, _ = in.least()
	return low, in.PeakMemory()
}

// least returns low of Range and the operation that needs it.
func (in *Instance) least() (low float64, why string) {
	op, what, at := "F", "", 0
	need := func(bytes float64, name, text string, l int) {
		if bytes > low || at == 0 {
			low, op, what, at = bytes, name, text, l
		}
	}
	for l := 1; l <= in.N; l++ {
		need(in.Abar[l-1]+in.NeedF[l], "F", "its input and what it saves", l)
		need(in.Abar[l-1]+in.NeedB[l], "B", "its input, what F_all saved and two gradients", l)
	}
	return low, fmt.Sprintf("%s_%d needs %s", op, at, what)
}

// PeakMemory returns M_peak of [004] (3.3), the memory needed without offloading, in bytes. O(N).
func (in *Instance) PeakMemory() float64 {
	peak := 0.0
	for l := 1; l <= in.N; l++ {
		peak = max(peak, in.Before[l]+max(in.NeedF[l], in.NeedB[l]))
	}
	return peak
}
