package rematoffload

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// Bounds returns lower bounds on the makespan, the best first: the sum of the computations and
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
// the next it is found exactly. Without a link q = 0. Beyond 1448 layers only some
// instants are looked at, so that it takes a second at most.
func Bounds(c *chain.Chain, p platform.Platform) ([]proof.Bound, error) {
	in, err := New(c, p)
	if err != nil {
		return nil, err
	}
	return in.Bounds(), nil
}

// BestBound returns the best lower bound, seconds.
func (in *Instance) BestBound() float64 { return in.Bounds()[0].Value }

// Bounds returns those of the function of this name.
func (in *Instance) Bounds() []proof.Bound {
	roundings := 16 * (in.N + 2) // of times and of parts of them
	return proof.BestFirst(
		proof.BySearch(plan.RoundDown(in.Chain.TotalTime(), roundings), proof.SumOfComputations),
		proof.BySearch(plan.RoundDown(in.movedOrAgain(), roundings), "moved-or-again"),
	)
}

// Item is an ā that is stored, moved or computed again.
type Item struct{ Size, Time float64 }

// allInstants is the number of pairs of instants and layers up to which all count.
const allInstants = 1 << 21

func (in *Instance) movedOrAgain() float64 {
	total := in.Chain.TotalTime()
	best := total
	var items []Item
	backwards := total - in.Until[in.N] // Σ uB_1..k
	after := make([]float64, in.N+1)
	after[in.N] = backwards
	for k := in.N - 1; k >= 0; k-- {
		after[k] = after[k+1] - in.UB[k+1]
	}
	every := max(1, in.N*in.N/allInstants)
	for k := in.N; k >= 2; k -= every { // few instants at the start matter
		items = items[:0]
		for l := 1; l < k; l++ {
			size := in.Abar[l]
			if l == k-1 {
				size -= in.A[l]
			}
			if size > 0 { // else it is always stored
				items = append(items, Item{size, in.UF[l]})
			}
		}
		slices.SortFunc(items, func(x, y Item) int { return cmp.Compare(y.Time*x.Size, x.Time*y.Size) })
		roomF := in.Memory - (in.A[k-1] + in.A[k] + in.OC[k])
		roomB := in.Memory - (in.A[k-1] + in.NeedBackward(k))
		best = max(best,
			in.leastSplit(items, roomF-in.A[0], in.Until[k-1], total-in.Until[k-1]),
			in.leastSplit(items, roomB-in.A[0], total-after[k], after[k]))
	}
	return best
}

// leastSplit is the minimum over q; at least −room has to be moved. items are in
// order of time per byte, the largest first.
func (in *Instance) leastSplit(items []Item, room, before, after float64) float64 {
	lost := 0.0
	for _, x := range items {
		lost += x.Time
	}
	// What fits is kept, the densest first; then q grows along the items.
	left, i := max(0, room), 0
	part := 0.0 // of item i that is kept
	for ; i < len(items); i++ {
		if items[i].Size > left {
			if items[i].Size > 0 {
				part = left / items[i].Size
			}
			lost -= items[i].Time * part
			break
		}
		left -= items[i].Size
		lost -= items[i].Time
	}
	value := func(q, lost float64) float64 {
		if q == 0 {
			return before + after + lost
		}
		return max(before, q/in.Bandwidth) + max(after+lost, q/in.Bandwidth)
	}
	if in.Bandwidth == 0 {
		return value(0, lost)
	}
	q := max(0, -room)
	best := value(q, lost)
	for ; i < len(items); i++ {
		x := items[i]
		dq, dt := x.Size*(1-part), x.Time*(1-part)
		part = 0
		// Both maxima change at most once along the line from (q, lost) to
		// (q+dq, lost−dt).
		at := func(f float64) float64 { return value(q+f*dq, lost-f*dt) }
		best = min(best, at(1))
		if dq > 0 {
			if f := (before*in.Bandwidth - q) / dq; f > 0 && f < 1 {
				best = min(best, at(f))
			}
			if f := (after + lost - q/in.Bandwidth) / (dq/in.Bandwidth + dt); f > 0 && f < 1 {
				best = min(best, at(f))
			}
		}
		q, lost = q+dq, max(0, lost-dt)
	}
	return math.Min(best, value(q, lost))
}
