package combined

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/chain"
	"workbench/model/platform"
)

// Bound is a proven lower bound on the makespan of every plan.
type Bound struct {
	Value float64 // seconds
	By    string  // how it is proved
}

// Bounds returns lower bounds on the makespan, the best first: "compute" and
// "moved-or-again". Both hold for every plan that the rules allow, without
// assumptions. The errors are those of the methods. O(N² log N).
//
// Compute: Σ (uF + uB), as every F_ℓ is needed once before B_N, and every B_ℓ.
//
// Moved or again: consider an instant when layers 1..k-1 have been computed and
// B_1..B_{k-1} have not run: the start of the first F_k or of B_k, k ≥ 2. For
// each ℓ < k, B_ℓ needs ā_ℓ later. Either ā_ℓ is stored at the instant, in full
// also if it is on its way (integral model); or F_all ℓ starts later, though F_ℓ
// ran before, which takes uF_ℓ more; or ā_ℓ is prefetched later, and then its
// copy on the host was sent before: its offload had ended, as it was not stored
// and will not be computed. What is stored fits in the room beside what the
// operation needs, in which a_{k-1} is counted: ā_{k-1} may be the input and
// takes only ā_{k-1} − a_{k-1} more. a_0, which B_1 needs, is stored or moved, as
// it cannot be computed. Let q be the bytes of the third kind. Before
// the instant the device computes for u seconds at least and the link is busy
// for q/β; after it, the device computes for the other u' seconds and what is
// computed again, and the link is busy for q/β. So with lost(x) the least Σ uF
// of what does not fit in x bytes beside a_0, parts of tensors being allowed to,
//
//	T ≥ min over q of max(u, q/β) + max(u' + lost(room+q−a_0), q/β).
//
// lost is convex and falls along straight lines, so the minimum is at a
// breakpoint of lost or where two terms are equal; with q from one breakpoint to
// the next it is found exactly. Without a link q = 0.
func Bounds(c *chain.Chain, p platform.Platform) ([]Bound, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	compute := Bound{c.TotalTime(), "compute"}
	moved := Bound{in.movedOrAgain() * (1 - 1e-12), "moved-or-again"}
	if moved.Value > compute.Value {
		return []Bound{moved, compute}, nil
	}
	return []Bound{compute, moved}, nil
}

// item is an ā that is stored, moved or computed again.
type item struct{ size, time float64 }

func (in *instance) movedOrAgain() float64 {
	total := in.c.TotalTime()
	best := total
	var items []item
	backwards := total - in.until[in.n] // Σ uB_1..k
	after := make([]float64, in.n+1)
	after[in.n] = backwards
	for k := in.n - 1; k >= 0; k-- {
		after[k] = after[k+1] - in.uB[k+1]
	}
	for k := 2; k <= in.n; k++ {
		items = items[:0]
		for l := 1; l < k; l++ {
			size := in.abar[l]
			if l == k-1 {
				size -= in.a[l]
			}
			if size > 0 { // else it is always stored
				items = append(items, item{size, in.uF[l]})
			}
		}
		slices.SortFunc(items, func(x, y item) int { return cmp.Compare(y.time*x.size, x.time*y.size) })
		roomF := in.memory - (in.a[k-1] + in.a[k] + in.oF[k])
		roomB := in.memory - (in.a[k-1] + in.needBackward(k))
		best = max(best,
			in.leastSplit(items, roomF-in.a[0], in.until[k-1], total-in.until[k-1]),
			in.leastSplit(items, roomB-in.a[0], total-after[k], after[k]))
	}
	return best
}

// leastSplit is the minimum over q; at least −room has to be moved. items are in
// order of time per byte, the largest first.
func (in *instance) leastSplit(items []item, room, before, after float64) float64 {
	lost := 0.0
	for _, x := range items {
		lost += x.time
	}
	// What fits is kept, the densest first; then q grows along the items.
	left, i := max(0, room), 0
	part := 0.0 // of item i that is kept
	for ; i < len(items); i++ {
		if items[i].size > left {
			if items[i].size > 0 {
				part = left / items[i].size
			}
			lost -= items[i].time * part
			break
		}
		left -= items[i].size
		lost -= items[i].time
	}
	value := func(q, lost float64) float64 {
		if q == 0 {
			return before + after + lost
		}
		return max(before, q/in.beta) + max(after+lost, q/in.beta)
	}
	if in.beta == 0 {
		return value(0, lost)
	}
	q := max(0, -room)
	best := value(q, lost)
	for ; i < len(items); i++ {
		x := items[i]
		dq, dt := x.size*(1-part), x.time*(1-part)
		part = 0
		// Both maxima change at most once along the line from (q, lost) to
		// (q+dq, lost−dt).
		at := func(f float64) float64 { return value(q+f*dq, lost-f*dt) }
		best = min(best, at(1))
		if dq > 0 {
			if f := (before*in.beta - q) / dq; f > 0 && f < 1 {
				best = min(best, at(f))
			}
			if f := (after + lost - q/in.beta) / (dq/in.beta + dt); f > 0 && f < 1 {
				best = min(best, at(f))
			}
		}
		q, lost = q+dq, max(0, lost-dt)
	}
	return math.Min(best, value(q, lost))
}
