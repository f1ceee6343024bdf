// Package cycle is weight offloading's view of a chain ([001] §3): one training
// step as a cycle of 2L operations B_L..B_1, F_1..F_L that repeats for ever.
//
// Every layer of the chain takes part, the loss included; a loss without
// weights that takes no time changes nothing, which is how [001] neglects it.
// Methods and formulations share this package; the verifier does not use it.
package cycle

import "workbench/model/chain"

// Cycle is an instance of OFF(L, M, β) without M and β. Operations are
// numbered j = 0..2L-1 in the paper's order less one: j < L is B_{L-j},
// j ≥ L is F_{j-L+1}. Layers are numbered i = 0..L-1 here, one less than in
// the paper.
type Cycle struct {
	L int
	U []float64 // U[j]: duration of operation j, seconds
	W []float64 // W[i]: |w_i|, bytes
	// Act[j] is Σ_{k≤i}|a^k| with a^0 included, for the layer i of operation
	// j: the activations held from the start of j to the start of j+1.
	Act []float64
	// Peak[j] is M_j of [001] (1): own weight (twice for a backward) and
	// activations, without the weights of other layers.
	Peak []float64
}

// Of returns the cycle of c. O(L).
func Of(c *chain.Chain) *Cycle {
	n := len(c.Layers)
	y := &Cycle{L: n, U: make([]float64, 2*n), W: make([]float64, n), Act: make([]float64, 2*n), Peak: make([]float64, 2*n)}
	act := c.Input.Activation
	for i := range c.Layers {
		l := &c.Layers[i]
		act += l.Activation
		f, b := y.F(i), y.B(i)
		y.W[i] = l.Weight
		y.U[f], y.U[b] = l.ForwardTime, l.BackwardTime
		y.Act[f], y.Act[b] = act, act
		y.Peak[f], y.Peak[b] = l.Weight+act, 2*l.Weight+act
	}
	return y
}

// B returns the number of the backward operation of layer i.
func (y *Cycle) B(i int) int { return y.L - 1 - i }

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

// Compute returns Σ_j u_j, a lower bound on every period.
func (y *Cycle) Compute() float64 {
	s := 0.0
	for _, u := range y.U {
		s += u
	}
	return s
}

// Range returns the least memory for which a plan exists and the memory with
// which every weight can stay.
//
// Low is exact: every operation j needs Peak[j], and just before operation j
// its weight is resident while the activations of operation j-1 are still
// held; with both, the plan that handles one layer at a time, transfers and
// computations never overlapping, fits.
func (y *Cycle) Range() (low, high float64) {
	total := 0.0
	for _, w := range y.W {
		total += w
	}
	for j := range y.U {
		prev := (j + 2*y.L - 1) % (2 * y.L)
		w := y.W[y.Layer(j)]
		low = max(low, y.Peak[j])
		if w > 0 {
			low = max(low, y.Act[prev]+w)
		}
		high = max(high, y.Peak[j]+total-w)
	}
	return low, high
}
