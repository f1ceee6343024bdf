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
// "moved-or-again". Both hold for every valid plan, without assumptions. The errors are those of
// [New]. O(N² log N).
//
// Compute: Σ (uF + uB), as every F_ℓ is needed once before B_N, and every B_ℓ.
//
// Moved or recomputed: consider a time when layers 1..k-1 have been computed and B_1..B_{k-1} have
// not run: the start of the first F_k or of B_k, k ≥ 2. For each ℓ < k, B_ℓ needs ā_ℓ later. One of
// three cases holds. ā_ℓ is stored at this time, in full even if it is being transferred (integral
// model). Or F_all ℓ starts later, though F_ℓ ran before, which takes uF_ℓ more. Or ā_ℓ is
// prefetched later; then its offload had ended before, as it was not stored and will not be
// computed.
//
// What is stored fits next to the memory of the operation, which includes a_{k-1}: ā_{k-1} may be
// the input and takes only ā_{k-1} − a_{k-1} more. a_0, which B_1 needs, is stored or moved, as it
// cannot be computed. Let q be the bytes of the third case. Before the time the device computes for
// at least u seconds and the link is busy for q/β. After it, the device computes for the remaining
// u' seconds and the recomputation time, and the link is busy for q/β. Let lost(x) be the minimum Σ
// uF of what does not fit in x bytes next to a_0, with fractional tensors. Then
//
//	T ≥ min over q of max(u, q/β) + max(u' + lost(room+q−a_0), q/β).
//
// lost is convex, decreasing and piecewise linear. So the minimum is at a breakpoint of lost or
// where two terms are equal, and is found exactly by visiting the breakpoints in order. Without a
// link q = 0. Beyond 1448 layers only some times are considered, so that it takes at most a second.
func Bounds(c *chain.Chain, p platform.Platform) ([]proof.Bound, error) {
	in, err := New(c, p)
	if err != nil {
		return nil, err
	}
	return in.Bounds(), nil
}

// BestBound returns the best lower bound, seconds.
func (in *Instance) BestBound() float64 { return in.Bounds()[0].Value }

// Bounds returns the bounds of the function [Bounds].
func (in *Instance) Bounds() []proof.Bound {
	roundings := 16 * (in.N + 2) // of times and of their fractions
	return proof.BestFirst(
		proof.BySearch(plan.RoundDown(in.Chain.TotalTime(), roundings), proof.SumOfComputations),
		proof.BySearch(plan.RoundDown(in.movedOrAgain(), roundings), "moved-or-again"),
	)
}

// Item is an ā that is stored, moved or recomputed.
type Item struct{ Size, Time float64 }

// allInstants is the number of pairs of k and ℓ up to which every k is considered.
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
	for k := in.N; k >= 2; k -= every { // small k matter little
		items = items[:0]
		for l := 1; l < k; l++ {
			size := in.Abar[l]
			if l == k-1 {
				size -= in.A[l]
			}
			if size > 0 { // otherwise it is always stored
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

// leastSplit returns the minimum over q; at least −room has to be moved. items are in decreasing
// order of time per byte.
func (in *Instance) leastSplit(items []Item, room, before, after float64) float64 {
	lost := 0.0
	for _, x := range items {
		lost += x.Time
	}
	// Items are kept in order of density while they fit; then q grows along the rest.
	left, i := max(0, room), 0
	part := 0.0 // the fraction of item i that is kept
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
		// Each maximum changes its argument at most once on the line from (q, lost) to (q+dq,
		// lost−dt).
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
