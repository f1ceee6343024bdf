package weightoffload

import "math"

// choose runs Algorithm 1 of [001] for the given memory. It adds the gaps to offload to away, the
// most profitable first, until no operation exceeds memory. It reports false if no choice helps any
// more. With discount the second choice of a layer costs one transfer instead of two. excess is
// scratch space for 2L numbers.
//
// O(L³): at most 2L rounds, which recompute the benefits of the choices, sums over up to 2L
// operations, only if they may be the maximum. Benefits only fall from round to round, so an
// earlier one is an upper bound (the lazy greedy algorithm of Minoux, 1978). Rounding of the sums
// is monotone, so the choices are those of computing all of them.
func (in *instance) choose(away []bool, memory float64, own int, discount bool, excess []float64) bool {
	left := in.excess(away, memory, own, excess)
	benefit := make([]float64, len(away)) // upper bounds
	for g := range benefit {
		benefit[g] = math.Inf(1)
	}
	for left {
		at := in.mostProfitable(away, discount, benefit, excess)
		if at < 0 {
			return false
		}
		away[at] = true
		in.cover(at, excess)
		left = false
		for _, e := range excess {
			left = left || e > 0
		}
	}
	return true
}

// mostProfitable returns the first choice with the maximum profit above 0 that is not in away, -1
// if there is none, and lowers the upper bounds of the benefits that it computes.
func (in *instance) mostProfitable(away []bool, discount bool, benefit, excess []float64) int {
	profit := func(g int) float64 {
		p := benefit[g] / in.W[g>>1]
		if !discount || !away[g^1] {
			p /= 2
		}
		return p
	}
	candidate := func(g int) bool { return !away[g] && in.W[g>>1] > 0 }
	best, at := 0.0, -1
	for g := range away {
		if candidate(g) && profit(g) > best {
			best, at = profit(g), g
		}
	}
	if at < 0 {
		return -1
	}
	benefit[at] = in.benefit(at, excess)
	if best = profit(at); best == 0 {
		at = -1
	}
	for g := range away {
		if g == at || !candidate(g) || !(profit(g) > best || profit(g) == best && g < at) {
			continue
		}
		benefit[g] = in.benefit(g, excess)
		if p := profit(g); p > best || p == best && g < at {
			best, at = p, g
		}
	}
	return at
}

// excess fills E_o, the memory missing to each operation when the weights of the given gaps are on
// the host while they are not used, and reports whether any is missing.
//
// The printed E_o = M_o + Σ|w_i| − M counts the weight of o twice, as M_o contains it: own = 2. As
// a formula for memory this is wrong, but it leaves useful memory for the prefetch of the next
// weight. Then no choice may cover what is missing (L = 1), and the printed loop would not end.
// With own = 1 every operation is covered by exactly one choice of each other layer, so Algorithm 1
// succeeds whenever memory ≥ max_o M_o.
func (in *instance) excess(away []bool, memory float64, own int, excess []float64) bool {
	for j := range excess {
		w := in.W[in.Layer(j)] * float64(2-own)
		excess[j] = max(0, in.Peak[j]+in.Total-w-memory)
	}
	for g, a := range away {
		if a {
			in.cover(g, excess)
		}
	}
	for _, e := range excess {
		if e > 0 {
			return true
		}
	}
	return false
}

// covered returns the operations that gap g covers, those from a to before b and
// those before c: (k,0) covers B_{k-1}..B_1,F_1..F_{k-1}, (k,1) covers
// F_{k+1}..F_L,B_L..B_{k+1}.
func (in *instance) covered(g int) (a, b, c int) {
	k := g >> 1
	if g&1 == 0 {
		return in.B(k) + 1, in.F(k), 0
	}
	return in.F(k) + 1, in.N, in.B(k)
}

// benefit returns Σ min(E_o, |w_k|) over the operations gap g covers.
func (in *instance) benefit(g int, excess []float64) float64 {
	a, b, c := in.covered(g)
	w, sum := in.W[g>>1], 0.0
	for _, e := range excess[a:b] {
		sum += min(e, w)
	}
	for _, e := range excess[:c] {
		sum += min(e, w)
	}
	return sum
}

// cover lowers the excess of the operations gap g covers.
func (in *instance) cover(g int, excess []float64) {
	a, b, c := in.covered(g)
	w := in.W[g>>1]
	for j := a; j < b; j++ {
		excess[j] = max(excess[j]-w, 0)
	}
	for j := range c {
		excess[j] = max(excess[j]-w, 0)
	}
}
