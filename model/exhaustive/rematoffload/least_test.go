package rematoffload

import "workbench/model/instance/chain"

// RematOffloadLeastMemory returns the least memory in which rematerialization
// with offloading has a plan, if the bandwidth is positive. F_all ℓ and B_ℓ must
// run and need a_{ℓ-1} at least, so none has a plan in less. In as much, compute
// F_ck ℓ, send a_ℓ, compute F_all ℓ and send ā_ℓ and a_{ℓ-1}, for ℓ = 1..N; then
// fetch a_{ℓ-1} and ā_ℓ for each B_ℓ. O(layers).
func RematOffloadLeastMemory(c *chain.Chain) float64 {
	most := 0.0
	in, deltaIn := c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		most = max(most, in+l.Saved+max(l.ForwardOverhead, deltaIn+l.Gradient+l.BackwardOverhead))
		in, deltaIn = l.Activation, l.Gradient
	}
	return most
}
