package functions

import (
	"fmt"

	"workbench/model/instance/chain"
)

// FromChain returns the training step of a chain as functions F1..FN, BN..B1, under the
// rules of activation offloading ([004] chapter 3), and with its weights ([001]
// §3). A layer's name follows that of its functions.
//
//	a0            initially on the device, read by F1 and B1
//	abarℓ         ā_ℓ: written by Fℓ, read by Fℓ+1, Bℓ+1 and Bℓ
//	deltaℓ        δ_ℓ: written by Bℓ+1 (δ_N: made by BN), read by Bℓ
//	wℓ            initially on the device, read by Fℓ, written by Bℓ, read by End
//	dwℓ           the weight's gradient, as large: of Bℓ alone
//	oFℓ, oBℓ      overheads: of Fℓ, of Bℓ alone
//
// Variables of no bytes are left out; without weights there is no End. With the
// weights left out of the chain the memory in use without transfers is that of
// [004] (3.3). O(layers).
func FromChain(c *chain.Chain) *Sequence {
	n := c.Len()
	b := NewBuilder(c.Name)
	b.s.Samples, b.s.Source, b.s.Unit = c.Samples, c.Source, c.Unit
	abar, delta, w := make([]int, n+1), make([]int, n+1), make([]int, n+1)
	abar[0] = b.Variable("a0", c.Input.Activation, Device)
	delta[0] = b.Variable("delta0", c.Input.Gradient, Nowhere)
	for l := 1; l <= n; l++ {
		x := &c.Layers[l-1]
		abar[l] = b.Variable(fmt.Sprintf("abar%d", l), x.Saved, Nowhere)
		delta[l] = b.Variable(fmt.Sprintf("delta%d", l), x.Gradient, Nowhere)
		w[l] = b.Weight(fmt.Sprintf("w%d", l), x.Weight)
	}
	name := func(kind string, l int) string {
		if layer := c.Layers[l-1].Name; layer != "" {
			return fmt.Sprintf("%s%d %s", kind, l, layer)
		}
		return fmt.Sprintf("%s%d", kind, l)
	}
	for l := 1; l <= n; l++ {
		x := &c.Layers[l-1]
		kind := Forward
		if l == n {
			kind = Loss
		}
		b.Function(name("F", l), kind, x.ForwardTime)
		b.Reads(abar[l-1], w[l])
		b.Writes(abar[l], b.Variable(fmt.Sprintf("oF%d", l), x.ForwardOverhead, Nowhere))
	}
	for l := n; l >= 1; l-- {
		x := &c.Layers[l-1]
		b.Function(name("B", l), Backward, x.BackwardTime)
		b.Reads(abar[l-1], abar[l], delta[l])
		b.Writes(delta[l-1], w[l], b.Variable(fmt.Sprintf("dw%d", l), x.Weight, Nowhere),
			b.Variable(fmt.Sprintf("oB%d", l), x.BackwardOverhead, Nowhere))
	}
	return b.End()
}
