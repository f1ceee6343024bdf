package weightoffload

// choose runs Algorithm 1 of [001] for the given memory: it adds the gaps to
// offload to away, the most profitable first, until no operation exceeds the
// memory; false if no choice helps any more. With discount the second choice
// of a layer costs one transfer instead of two. excess is scratch space for 2L
// numbers.
//
// O(L³): at most 2L rounds, in which the benefits of the choices, sums over
// up to 2L operations, are computed anew.
func (in *instance) choose(away []bool, memory float64, own int, discount bool, excess []float64) bool {
	left := in.excess(away, memory, own, excess)
	for left {
		best, at := 0.0, -1
		for g := range away {
			w := in.W[g>>1]
			if away[g] || w == 0 {
				continue
			}
			profit := in.benefit(g, excess) / w
			if !discount || !away[g^1] {
				profit /= 2
			}
			if profit > best {
				best, at = profit, g
			}
		}
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

// excess fills E_o, the memory missing to each operation when the weights of
// the given gaps are away while they are not used, and reports whether any is
// missing.
//
// The printed E_o = M_o + Σ|w_i| − M counts the weight of o itself twice, M_o
// containing it: own = 2. What is wrong as a formula for memory is useful room
// for the prefetch of the next weight; but then no choice may cover what is
// missing (L = 1), and the printed loop would not end. With own = 1 every
// operation is covered by exactly one choice of each other layer, so Algorithm
// 1 succeeds whenever memory ≥ max_o M_o.
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
