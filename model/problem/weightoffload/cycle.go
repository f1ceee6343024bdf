// Package weightoffload is the model of weight offloading for a chain ([001] §3): one training step
// as a cycle of 2L operations B_L..B_1, F_1..F_L that repeats forever.
//
// Every layer of the chain takes part, including the loss. A loss without weights and time changes
// nothing, which is how [001] neglects it. Methods and formulations share this package; the
// verifier does not use it. It holds a validated [Instance], the minimum memory with its reason,
// closed-form bounds on the period ([Instance.Bounds]), and the normal form of plans ([Schedule]).
//
// [001] is O. Beaumont, L. Eyraud-Dubois, A. Shilova, X. Zhao, "Weight Offloading Strategies for
// Training Large DNN Models", 2022.
package weightoffload

import (
	"workbench/model/instance/chain"
	"workbench/model/milp"
)

// Cycle is an instance of OFF(L, M, β) without M and β. Operations are numbered j = 0..2L-1, the
// order of the paper less one: j < L is B_{L-j}, j ≥ L is F_{j-L+1}. Layers are numbered i =
// 0..L-1, one less than in the paper.
type Cycle struct {
	L int
	U []float64 // U[j]: duration of operation j, seconds
	W []float64 // W[i]: |w_i|, bytes
	// Act[j] is Σ_{k≤i}|a^k| with a^0 included, for the layer i of operation
	// j: the activations held from the start of j to the start of j+1.
	Act []float64
	// Peak[j] is M_j of [001] (1): own weight (twice for a backward) and activations, without the
	// weights of other layers. If the chain counts what autograd saves, it includes the memory of
	// running operations ([chain.Chain.Beside]).
	Peak []float64
}

// FromChain returns the cycle of c. O(L).
func FromChain(c *chain.Chain) *Cycle {
	n := len(c.Layers)
	y := &Cycle{L: n, U: make([]float64, 2*n), W: make([]float64, n), Act: make([]float64, 2*n), Peak: make([]float64, 2*n)}
	act := c.Input.Activation
	for i := range c.Layers {
		l := &c.Layers[i]
		act += c.SavedSize(i + 1)
		forward, backward := c.TransientSizes(i + 1)
		f, b := y.F(i), y.B(i)
		y.W[i] = l.Weight
		y.U[f], y.U[b] = l.ForwardTime, l.BackwardTime
		y.Act[f], y.Act[b] = act, act
		y.Peak[f], y.Peak[b] = l.Weight+act+forward, 2*l.Weight+act+backward
	}
	return y
}

// B returns the number of the backward operation of layer i.
func (y *Cycle) B(i int) int { return y.L - 1 - i }

// Transient returns the memory that operation j needs only while it runs: the gradient of its
// weight for a backward, and what [chain.Chain.Beside] counts. Sizes are integers, so it is exact.
func (y *Cycle) Transient(j int) float64 { return y.Peak[j] - y.Act[j] - y.W[y.Layer(j)] }

// F returns the number of the forward operation of layer i.
func (y *Cycle) F(i int) int { return y.L + i }

// Layer returns the layer of operation j.
func (y *Cycle) Layer(j int) int {
	if j < y.L {
		return y.L - 1 - j
	}
	return j - y.L
}

// Backward reports whether operation j is a backward.
func (y *Cycle) Backward(j int) bool { return j < y.L }

// Predecessor returns the operation before j.
func (y *Cycle) Predecessor(j int) int {
	if j == 0 {
		return 2*y.L - 1
	}
	return j - 1
}

// Gap g = 2k+d is the time between two uses of w_k: d = 0 from the end of B_k to the start of F_k,
// d = 1 from the end of F_k to the start of the next B_k. The choice (k,d) of [001] §5 is that the
// weight is on the host during it.

// Last returns the operation before gap g that last uses the weight.
func (y *Cycle) Last(g int) int { return y.Use(g ^ 1) }

// Use returns the operation that ends gap g. Use(g) < Last(g) for the gaps across the end of the
// cycle, those with d = 1.
func (y *Cycle) Use(g int) int {
	if g&1 == 0 {
		return y.F(g >> 1)
	}
	return y.B(g >> 1)
}

// Next returns the gap that begins after operation j.
func (y *Cycle) Next(j int) int {
	if y.Backward(j) {
		return 2 * y.Layer(j)
	}
	return 2*y.Layer(j) + 1
}

// Gap returns the gap that ends before operation j.
func (y *Cycle) Gap(j int) int { return y.Next(j) ^ 1 }

// Open returns the gap of layer k that contains operation j of another layer.
func (y *Cycle) Open(k, j int) int {
	if y.B(k) < j && j < y.F(k) {
		return 2 * k
	}
	return 2*k + 1
}

// Compute returns Σ_j u_j rounded down, a lower bound on every period.
func (y *Cycle) Compute() float64 {
	s := 0.0
	for _, u := range y.U {
		s = milp.Down.Add(s, u)
	}
	return s
}
