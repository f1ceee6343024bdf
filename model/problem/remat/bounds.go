package remat

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/proof"
)

// Compute returns Σ (uF + uB), a lower bound on every makespan: every F_ℓ is needed once before
// B_N, and every B_ℓ. It is rounded down (see [View.RoundedDown]). O(N).
func (v *View) Compute() float64 { return v.RoundedDown(boundRuns).total() }

// boundRuns makes the sums of closed-form bounds exact, with some bits to spare.
const boundRuns = 8

func (v *View) total() float64 {
	t := 0.0
	for l := 1; l <= v.N; l++ {
		t += v.UF[l] + v.UB[l]
	}
	return t
}

// Bounds returns lower bounds on the makespan, the best first: the sum of the computations and
// "stored-set". Both hold for every valid plan, without assumptions. O(N³), beyond 512 layers O(N
// log N) with weaker bounds.
//
// The sum is [View.Compute].
//
// Stored set: consider a time when layers 1..k-1 have been computed and B_1..B_{k-1} have not run:
// while the first F_k runs, or while B_k runs, k ≥ 2. If ā_ℓ, ℓ < k, is not stored then, F_all ℓ
// has to run later, in addition to the F_ℓ that ran before. What is stored fits next to the memory
// of the operation (see LeastBound), which includes the input a_{k-1}: ā_{k-1}, which may be the
// input, takes ā_{k-1} − a_{k-1} more. So layers j..k-1, for any j, are recomputed for at least
//
//	Σ_{j≤ℓ<k} uF_ℓ − max {Σ_{ℓ∈S} uF_ℓ : the ā_ℓ, ℓ ∈ S, fit next to the operation}
//
// seconds. The maximum is a knapsack problem. It is solved exactly for j = 1 unless that takes
// long, and otherwise by its fractional relaxation, which is larger. This counts runs of
// F_j..F_{k-1} only, so the bounds of disjoint ranges j..k-1 add up, each with its own time. A
// dynamic program chooses the ranges with the maximum sum.
//
// Times are rounded down, so only fractions of items are rounded: at most N times two operations,
// and N sums, which the factor accounts for.
func (v *View) Bounds() []proof.Bound {
	w := v.RoundedDown(boundRuns)
	compute := w.total()
	again := w.minRecomputeTime() * (1 - float64(4*v.N+8)*0x1p-53)
	return proof.BestFirst(proof.BySearch(compute, proof.SumOfComputations), proof.BySearch(math.Nextafter(compute+again, 0), "stored-set"))
}

// minRecomputeTime returns a lower bound on the time spent on recomputation.
func (v *View) minRecomputeTime() float64 {
	if v.N > 512 {
		k := v.knapsack(v.N)
		for l := v.N - 1; l >= 1; l-- {
			k.items = append(k.items, v.Item(l, v.N))
		}
		slices.SortFunc(k.items, ByDensity)
		return max(k.lost(), k.lostWhole())
	}
	best := make([]float64, v.N+1) // best[k]: for layers 1..k-1
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

// Stored is an ā that may be kept, with the time that keeping it saves.
type Stored struct{ Size, Time float64 }

// Item returns ā_ℓ as an item next to the operations of layer k > ℓ, which need a_{k-1} anyway.
func (v *View) Item(l, k int) Stored {
	if l == k-1 {
		return Stored{v.Abar[l] - v.A[l], v.UF[l]}
	}
	return Stored{v.Abar[l], v.UF[l]}
}

// ByDensity compares by decreasing time per byte; equal items are adjacent.
func ByDensity(x, y Stored) int {
	return cmp.Or(cmp.Compare(y.density(), x.density()), cmp.Compare(y.Size, x.Size), cmp.Compare(y.Time, x.Time))
}

func (x Stored) density() float64 {
	if x.Size == 0 {
		return math.Inf(1)
	}
	return x.Time / x.Size
}

// knapsack is a fractional knapsack problem; items are in order of density.
type knapsack struct {
	room  float64
	items []Stored
}

// knapsack returns an empty knapsack whose room is the memory that F_k and B_k leave.
func (v *View) knapsack(k int) *knapsack {
	return &knapsack{room: max(0, v.Memory-max(v.ForwardNeed(k, v.N), v.BackwardNeed(k)))}
}

func (s *knapsack) insert(x Stored) {
	i, _ := slices.BinarySearchFunc(s.items, x, ByDensity)
	s.items = slices.Insert(s.items, i, x)
}

// lost returns the time of what does not fit, with fractional items.
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

// lostWhole returns the time of what does not fit, with integer items, by depth-first branch and
// bound. It returns 0, a valid bound, if 4096 nodes do not suffice or if there are more items than
// that, since a node may visit all of them.
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

// wholeKnapsack is the branch and bound of lostWhole. Times are exact, see RoundedDown.
type wholeKnapsack struct {
	items []Stored
	nodes int     // remaining
	best  float64 // maximum time saved
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
			i++ // which of several equal items is left out does not matter
		}
	}
}

// most returns the fractional upper bound on the time saved with items i, i+1, … in the given room,
// plus what is saved already. Only the fraction is rounded, by far less than the power of two of
// which all times are multiples, so no better choice is pruned.
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
