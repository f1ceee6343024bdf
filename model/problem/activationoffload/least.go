package activationoffload

import (
	"fmt"

	"workbench/model/instance/chain"
)

// Range returns the memory, in bytes, between which plans differ. high is
// M_peak ([004] (3.3)), from which on nothing has to be offloaded. low is the
// least for which some plan exists: the largest ā_{ℓ-1} + M_{F_ℓ} or
// ā_{ℓ-1} + M_{B_ℓ}. c must be valid. O(N).
//
// Every plan holds these tensors while the operation runs, and with low bytes
// one can offload everything and wait: when F_ℓ starts ā_0..ā_{ℓ-2} are away,
// when it has ended ā_{ℓ-1} leaves. After B_{ℓ+1} only ā_ℓ and δ_ℓ are there, and
// ā_{ℓ-1} is fetched, which B_ℓ needs beside them and more.
func Range(c *chain.Chain) (low, high float64) {
	in := NewView(c)
	low, _ = in.least()
	return low, in.PeakMemory()
}

// least is low of Range and the operation that needs it.
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

// PeakMemory is M_peak of [004] (3.3): what is needed without offloading. O(N).
func (in *Instance) PeakMemory() float64 {
	peak := 0.0
	for l := 1; l <= in.N; l++ {
		peak = max(peak, in.Before[l]+max(in.NeedF[l], in.NeedB[l]))
	}
	return peak
}
