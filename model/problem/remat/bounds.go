package remat

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/proof"
)

// Compute is Σ (uF + uB), as every F_ℓ is needed once before B_N, and every B_ℓ:
// a lower bound on every makespan, rounded down (see [View.RoundedDown]). O(N).
func (v *View) Compute() float64 { return v.RoundedDown(boundRuns).total() }

// boundRuns makes the sums of closed-form bounds exact, and leaves some bits.
const boundRuns = 8

func (v *View) total() float64 {
	t := 0.0
	for l := 1; l <= v.N; l++ {
		t += v.UF[l] + v.UB[l]
	}
	return t
}

// Bounds returns lower bounds on the makespan, the best first: the sum of the computations
// and "stored-set". Both hold for every plan that the rules allow, without
// assumptions. O(N³), beyond 512 layers O(N log N) with weaker bounds.
//
// The sum is [View.Compute].
//
// Stored set: consider an instant when layers 1..k-1 have been computed and
// B_1..B_{k-1} have not run: while the first F_k runs, or while B_k runs, k ≥ 2.
// If ā_ℓ, ℓ < k, is not stored then, F_all ℓ has to run later, beside the F_ℓ
// that ran before. What is stored fits beside what the operation needs (see
// LeastBound), in which the input a_{k-1} is counted: ā_{k-1}, which may be the
// input, takes ā_{k-1} − a_{k-1} more. So layers j..k-1, for any j, are computed
// again for at least
//
//	Σ_{j≤ℓ<k} uF_ℓ − max {Σ_{ℓ∈S} uF_ℓ : the ā_ℓ, ℓ ∈ S, fit beside the operation}
//
// seconds. The maximum is a knapsack; it is solved for j = 1 unless that takes
// long, and else taken with parts of items, which is more. This counts runs of
// F_j..F_{k-1} only, so that the bounds of disjoint ranges j..k-1 add up, each
// with its own instant. The ranges are chosen for the largest sum.
//
// Times are rounded down, so that only shares of items are rounded: at most N
// times two operations of them, and N sums, which the factor takes off.
func (v *View) Bounds() []proof.Bound {
	w := v.RoundedDown(boundRuns)
	compute := w.total()
	again := w.minRecomputeTime() * (1 - float64(4*v.N+8)*0x1p-53)
	return proof.BestFirst(proof.BySearch(compute, proof.SumOfComputations), proof.BySearch(math.Nextafter(compute+again, 0), "stored-set"))
}

// minRecomputeTime is the time spent on computing layers again at least.
func (v *View) minRecomputeTime() float64 {
	if v.N > 512 {
		k := v.knapsack(v.N)
		for l := v.N - 1; l >= 1; l-- {
			k.items = append(k.items, v.Item(l, v.N))
		}
		slices.SortFunc(k.items, ByDensity)
		return max(k.lost(), k.lostWhole())
	}
	best := make([]float64, v.N+1) // best[k] of layers 1..k-1
	for k := 2; k <= v.N; k++ {
		s := v.knapsack(k)
		for j := k - 1; j >= 1; j-- {
			s.insert(v.Item(j, k))
			best[k] = max(best[k], best[j]+s.lost())
		}
		best[k] = max(best[k], s.lostWhole())
	}
	return best[v.N]
}

// Stored is an ā that may be kept, and the time it saves.
type Stored struct{ Size, Time float64 }

// Item is ā_ℓ beside the operations of layer k > ℓ, which need a_{k-1} anyway.
func (v *View) Item(l, k int) Stored {
	if l == k-1 {
		return Stored{v.Abar[l] - v.A[l], v.UF[l]}
	}
	return Stored{v.Abar[l], v.UF[l]}
}

// ByDensity orders by decreasing time per byte, equal items next to each other.
func ByDensity(x, y Stored) int {
	return cmp.Or(cmp.Compare(y.density(), x.density()), cmp.Compare(y.Size, x.Size), cmp.Compare(y.Time, x.Time))
}

func (x Stored) density() float64 {
	if x.Size == 0 {
		return math.Inf(1)
	}
	return x.Time / x.Size
}

// A knapsack has room for a part of its items, which are in order of density.
type knapsack struct {
	room  float64
	items []Stored
}

// knapsack is empty; its room is what F_k or B_k leave of the memory.
func (v *View) knapsack(k int) *knapsack {
	return &knapsack{room: max(0, v.Memory-max(v.ForwardNeed(k, v.N), v.BackwardNeed(k)))}
}

func (s *knapsack) insert(x Stored) {
	i, _ := slices.BinarySearchFunc(s.items, x, ByDensity)
	s.items = slices.Insert(s.items, i, x)
}

// lost is the time of what does not fit, parts of items being allowed to.
func (s *knapsack) lost() float64 {
	room, lost := s.room, 0.0
	for _, x := range s.items {
		if x.Size <= room {
			room -= x.Size
			continue
		}
		lost += x.Time * ((x.Size - room) / x.Size)
		room = 0
	}
	return lost
}

// lostWhole is the time of what does not fit, items being whole: branch and
// bound by depth first. It is 0 when 4096 nodes are not enough, or when there
// are more items than that: a node may look at all of them.
func (s *knapsack) lostWhole() float64 {
	k := wholeKnapsack{items: s.items, nodes: 4096}
	if len(s.items) > k.nodes {
		return 0
	}
	total := 0.0
	for _, x := range s.items {
		total += x.Time
	}
	k.search(0, s.room, 0)
	if k.nodes == 0 {
		return 0
	}
	return total - k.best
}

// wholeKnapsack is the search of lostWhole. Times are exact, see RoundedDown.
type wholeKnapsack struct {
	items []Stored
	nodes int     // that may still be visited
	best  float64 // the most time that was saved
}

func (k *wholeKnapsack) search(i int, room, saved float64) {
	k.best = max(k.best, saved)
	for ; i < len(k.items) && k.nodes > 0; i++ {
		k.nodes--
		if k.most(i, room, saved) <= k.best {
			return
		}
		x := k.items[i]
		if x.Size <= room {
			k.search(i+1, room-x.Size, saved+x.Time)
		}
		for i+1 < len(k.items) && k.items[i+1] == x {
			i++ // which of equal items are left out does not matter
		}
	}
}

// most is what is saved with items i, i+1, …, or a part of the last, in so much
// room, beside what already is. Only the part is rounded, by far less than the
// power of two of which all times are multiples: no choice that is better than
// the best is taken for one that is not.
func (k *wholeKnapsack) most(i int, room, saved float64) float64 {
	for _, x := range k.items[i:] {
		if x.Size > room {
			return saved + x.Time*(room/x.Size)
		}
		room -= x.Size
		saved += x.Time
	}
	return saved
}
