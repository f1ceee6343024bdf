package weightoffload

import (
	"math"

	"workbench/model/milp"
	"workbench/model/proof"
)

// Bounds returns lower bounds on the period T, the best first: the sum of the computations and
// "transfer-windows". Both hold for every valid plan, without assumptions. Sizes are added exactly;
// every quotient, product and sum of times is rounded down. So a value is at most that of its
// formula in exact arithmetic, and equal to it where float64 represents all of it. O(L³), about a
// second for a thousand layers.
//
// The sum of the computations: T ≥ Σu.
//
// Transfer windows: let s_i be the start of operation i (numbers continue beyond 2L into the next
// cycles) and
//
//	R_i = M − Σ_{k≤layer(i)}|a^k| − (|w| of its gradient if i is a backward),
//
// so that at s_i at most R_i bytes are on the GPU or reserved for weights in transfer, and with
// sizes that are all equal to w at most w·⌊R_i/w⌋.
//
// (1) Let S be the total size of the different weights used by operations i..j, j < i+2L. Weights
// of at least S − R_i bytes among them are not even reserved at s_i, yet are complete at s_j. Their
// prefetches start at s_i or later and follow each other on one link: s_j − s_i ≥ (S − R_i)/β.
//
// (2) Let S be the total size of the weights changed by the backwards among i..j−1, i being one of
// them. A weight changed in this window either is on the GPU at s_j or was deleted before, after an
// upload that started when its backward, at the earliest i, had ended. At s_j the GPU holds at most
// R_j bytes of them, |w_j| less if j's own weight is not one of them. So s_j − s_i ≥ u_i + (S −
// R_j)/β, with that R_j.
//
// (3) s_j − s_i ≥ Σ_{i≤m<j} u_m.
//
// (4) Let all sizes be equal to w, t = w/β, let i..j be backwards of one cycle that use c weights,
// i < m ≤ j, R = R_i/w ≥ R_l/w for i ≤ l < m, n = c − R ≥ 1 and U = Σ_{i<l<m} u_l > 0. Then s_j −
// s_i ≥ u_i + n·t + min(t, U/(n+1)): prefetching at full speed leaves no memory for gradients.
//
// Let e = s_i + u_i and N be the number of weights reserved at s_i. Weights of the window, i..j,
// may be deleted after their backward and an upload; the q-th such deletion, at δ_q, comes no
// earlier than e + q·t. Each other deletion after s_i removes a weight that was prefetched after
// s_i in vain, or one of the N that the window does not use, or makes another prefetch necessary.
// With f of the latter two kinds there are at least n' = c − N + f prefetches for the window, at
// π_1 < π_2 < … While a backward before m runs, at most R weights are reserved, so the prefetches
// that have started are at most h := f + R − N more than the δ that have passed; and n' − h = n. So
// none of these backwards runs between π_{q+h} and δ_q. If s_j = e + n·t + x with x < t, then
// π_{q+h} ≤ s_j − (n−q+1)·t = e + (q−1)·t + x, as the link is serial, and none runs in the n
// intervals from e + (q−1)·t + x to e + q·t. For x ≤ 0 these cover all of e..s_j, which contradicts
// U > 0; else they leave (n+1)·x, which must be at least U.
//
// T = s_{i+2L} − s_i is at least the longest path from i to i+2L whose steps are these differences,
// for every i. Beyond 512 layers only shorter windows and some i are considered, so that time and
// memory do not grow further.
func (in *Instance) Bounds() []proof.Bound {
	return proof.BestFirst(proof.BySearch(in.Compute(), proof.SumOfComputations), proof.BySearch(in.windows(), "transfer-windows"))
}

// allWindows is the number of operations up to which all windows count.
const allWindows = 1024

// fewStarts is the number of starts i that are considered for longer cycles.
const fewStarts = 64

// windows returns the bound of transfer windows.
func (in *Instance) windows() float64 {
	n := in.N
	// most is the longest window and every the step between starts: all windows and starts up to
	// allWindows operations.
	most := min(n, max(1, allWindows*allWindows/n))
	every := 1
	if n > allWindows {
		every = (n + fewStarts - 1) / fewStarts
	}
	step := make([]float64, n*(most+1)) // step[i(most+1)+m]: lower bound on s_{i+m} − s_i
	room, same := in.rooms()
	seen := make([]int, in.L) // by layer: stamp of the last window that counted its weight
	for i := range n {
		row := step[i*(most+1) : (i+1)*(most+1)]
		in.fillRow(i, room, seen, row)
		if same > 0 && in.Backward(i) {
			in.squeeze(i, room, same, row)
		}
	}
	path := make([]float64, n+1)
	best, from := 0.0, 0
	for i := 0; i < n; i += every { // rounded to nearest, to find the longest cycle
		in.longest(i, most, step, path)
		if path[n] > best {
			best, from = path[n], i
		}
	}
	return in.longestDown(from, most, step, path)
}

// longest fills path[a] with the length of the longest path from operation i to i+a. O(n·most).
func (in *Instance) longest(i, most int, step, path []float64) {
	n := in.N
	clear(path)
	for a := range n {
		at := path[a]
		row := step[(i+a)%n*(most+1)+1:][:min(most, n-a)]
		to := path[a+1:][:len(row)]
		for m, x := range row {
			to[m] = max(to[m], at+x)
		}
	}
}

// longestDown returns the length of the longest path from operation i to i+n, rounded down.
func (in *Instance) longestDown(i, most int, step, path []float64) float64 {
	n := in.N
	clear(path)
	for a := range n {
		row := step[(i+a)%n*(most+1):]
		for m := 1; m <= min(most, n-a); m++ {
			if path[a]+row[m] > path[a+m] {
				path[a+m] = max(path[a+m], milp.Down.Add(path[a], row[m]))
			}
		}
	}
	return path[n]
}

// rooms returns R for every operation, and the common size of all weights: -1 if they differ, 0 if
// there are none. Layers without weights do not count.
func (in *Instance) rooms() (room []float64, same float64) {
	for _, w := range in.W {
		if w > 0 && same != w {
			if same != 0 {
				same = -1
				break
			}
			same = w
		}
	}
	room = make([]float64, in.N)
	for j := range room {
		room[j] = in.Memory - in.Act[j]
		if in.Backward(j) {
			room[j] -= in.W[in.Layer(j)]
		}
		if same > 0 {
			room[j] -= math.Mod(room[j], same)
		}
	}
	return room, same
}

// fillRow sets row[m] to the maximum of (1), (2) and (3) for the operations i and i+m.
func (in *Instance) fillRow(i int, room []float64, seen []int, row []float64) {
	used, changed, compute := in.W[in.Layer(i)], 0.0, in.U[i]
	seen[in.Layer(i)] = i + 1
	if in.Backward(i) {
		changed = in.W[in.Layer(i)]
	}
	beta := in.Platform.Bandwidth
	for m := 1; m < len(row); m++ {
		j := (i + m) % in.N
		k := in.Layer(j)
		if seen[k] != i+1 {
			seen[k] = i + 1
			used += in.W[k]
		}
		t := compute
		if m < in.N {
			t = max(t, milp.Down.Quo(used-room[i], beta))
			if in.Backward(i) {
				here := room[j]
				// B_k is among the operations i..j−1 unless j itself is B_k
				// or B_k came before i.
				if b := in.B(k); (b-i+in.N)%in.N >= m {
					here -= in.W[k]
				}
				t = max(t, milp.Down.Add(in.U[i], milp.Down.Quo(changed-here, beta)))
			}
		}
		row[m] = t
		compute = milp.Down.Add(compute, in.U[j])
		if in.Backward(j) {
			changed += in.W[k]
		}
	}
}

// squeeze raises row[j−i] to (4) for the backwards i and j, with the largest possible m.
func (in *Instance) squeeze(i int, room []float64, same float64, row []float64) {
	t := milp.Down.Quo(same, in.Platform.Bandwidth)
	n, between, more := -(room[i] / same), 0.0, false // an integer: see rooms
	for j := i; j < min(in.L, i+len(row)); j++ {
		if in.W[in.Layer(j)] > 0 {
			n++
		}
		if j > i && n >= 1 && between > 0 {
			full := milp.Down.Add(in.U[i], milp.Down.Mul(n, t))
			row[j-i] = max(row[j-i], milp.Down.Add(full, min(t, milp.Down.Quo(between, n+1))))
		}
		more = more || room[j] > room[i]
		if j > i && !more {
			between = milp.Down.Add(between, in.U[j])
		}
	}
}
