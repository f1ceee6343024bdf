package rematoffload

import (
	"cmp"
	"math"
	"slices"

	view "workbench/model/problem/rematoffload"
)

// rest is a lower bound on the time after a state of a layer s in the model of 4.2, by the argument of [Bounds] at
// the loss, when all transfers have ended and nothing is computed. Each ā_ℓ, s ≤ ℓ < N, is then in the memory that
// the state leaves in addition to the requirement of F_N and B_N; or it was offloaded; or F_all ℓ runs again. Let
// q be the bytes offloaded. Those before them, Δ_F, leave first. So F_s .. F_N take at least max(Σ uF, (Δ_F+q)/β),
// and B_N .. B_s at least max(Σ uB + lost(room+q), (Δ_B+q)/β). Here lost(x) is the minimum Σ uF of what does not
// fit in x bytes. The sum is convex in q.
type rest struct {
	forward, backward float64 // Σ uF_s..N, Σ uB_s..N
	room              float64 // in addition to the requirement of F_N and B_N, if nothing is kept
	inputCounts       bool    // the input of layer s also occupies it
	// If the densest items with a total of sizes[i] bytes are stored, recomputation takes lost[i].
	sizes, lost []float64
	// From sizes[worth] bytes on, recomputation takes less time than a transfer.
	worth int
}

// rests returns those of all layers. O(N²).
func (in *instance) rests() []rest {
	all := make([]rest, in.N+1)
	var items []view.Item
	for s := in.N; s >= 1; s-- {
		z := &all[s]
		z.forward, z.backward = in.UF[s], in.UB[s]
		z.room = in.Memory - in.A[in.N-1] - max(in.NeedAll(in.N), in.NeedBackward(in.N))
		if s < in.N {
			z.forward += all[s+1].forward
			z.backward += all[s+1].backward
			z.inputCounts = true // a_{N-1}, the input of layer N, is in it
			size := in.Abar[s]
			if s == in.N-1 {
				size -= in.A[s]
			}
			if size > 0 && in.UF[s] > 0 {
				x := view.Item{Size: size, Time: in.UF[s]}
				at, _ := slices.BinarySearchFunc(items, x, func(y, x view.Item) int { return cmp.Compare(x.Time*y.Size, y.Time*x.Size) })
				items = slices.Insert(items, at, x)
			}
		}
		k := len(items)
		flat := make([]float64, 2*k+2)
		z.sizes, z.lost = flat[:k+1], flat[k+1:]
		for i, x := range items {
			z.sizes[i+1] = z.sizes[i] + x.Size
			if x.Time*in.Bandwidth >= x.Size {
				z.worth = i + 1
			}
		}
		for i := k - 1; i >= 0; i-- {
			z.lost[i] = z.lost[i+1] + items[i].Time
		}
	}
	return all
}

// bound returns the bound for a state that keeps the given bytes, with its input and outstanding transfers; +Inf
// if nothing fits. O(log N).
func (z *rest) bound(kept, input, out, back, beta float64) float64 {
	room := z.room - kept
	if room < 0 {
		return math.Inf(1)
	}
	if z.inputCounts {
		room -= input
	}
	last := len(z.sizes) - 1
	least := max(0, -room) // of q
	// More than q never pays, whatever the backward phase waits for.
	q := max(least, min(z.sizes[last], max(z.sizes[z.worth], room+z.forward*beta-out))-room)
	backward := z.backward + z.lostIn(room+q)
	if backward*beta < back+q {
		// The backward phase waits for the link: a smaller q is better, down to where the computations take as
		// long.
		i := z.indexOf(room + least)
		if (z.backward+z.lostIn(room+least))*beta <= back+least {
			q = least
		} else {
			for j := last; j-i > 1; {
				h := (i + j) / 2
				if (z.backward+z.lost[h])*beta > back+z.sizes[h]-room {
					i = h
				} else {
					j = h
				}
			}
			density := 0.0
			if i < last {
				density = (z.lost[i] - z.lost[i+1]) / (z.sizes[i+1] - z.sizes[i])
			}
			q = ((z.backward+z.lost[i]+density*(z.sizes[i]-room))*beta - back) / (1 + density*beta)
			q = max(q, least)
		}
		backward = (back + q) / beta
	}
	return max(z.forward, (out+q)/beta) + backward
}

// lostIn returns lost(x), x ≥ 0.
func (z *rest) lostIn(x float64) float64 {
	i := z.indexOf(x)
	if i == len(z.sizes)-1 {
		return 0
	}
	return z.lost[i] - (z.lost[i]-z.lost[i+1])*(x-z.sizes[i])/(z.sizes[i+1]-z.sizes[i])
}

// indexOf returns the last i with sizes[i] ≤ x, 0 if there is none.
func (z *rest) indexOf(x float64) int {
	i, j := 0, len(z.sizes)
	for j-i > 1 {
		if h := (i + j) / 2; z.sizes[h] <= x {
			i = h
		} else {
			j = h
		}
	}
	return i
}
