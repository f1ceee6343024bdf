package remat

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
// "stored-set". Both hold for every plan that the rules allow, without
// assumptions. The errors are those of the methods. O(N³), beyond 512 layers
// O(N log N) with weaker bounds.
//
// Compute: Σ (uF + uB), as every F_ℓ is needed once before B_N, and every B_ℓ.
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
func Bounds(c *chain.Chain, p platform.Platform) ([]Bound, error) {
	v, limit, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	compute := Bound{c.TotalTime(), "compute"}
	stored := Bound{compute.Value + v.again(limit)*(1-rounding), "stored-set"}
	if stored.Value > compute.Value {
		return []Bound{stored, compute}, nil
	}
	return []Bound{compute, stored}, nil
}

// again is the time spent on computing layers again at least.
func (v *view) again(limit float64) float64 {
	if v.n > 512 {
		k := v.knapsack(v.n, limit)
		for l := v.n - 1; l >= 1; l-- {
			k.items = append(k.items, v.item(l, v.n))
		}
		slices.SortFunc(k.items, byDensity)
		return max(k.lost(), k.lostWhole())
	}
	best := make([]float64, v.n+1) // best[k] of layers 1..k-1
	for k := 2; k <= v.n; k++ {
		s := v.knapsack(k, limit)
		for j := k - 1; j >= 1; j-- {
			s.insert(v.item(j, k))
			best[k] = max(best[k], best[j]+s.lost())
		}
		best[k] = max(best[k], s.lostWhole())
	}
	return best[v.n]
}

// A stored is an ā that may be kept, and the time it saves.
type stored struct{ size, time float64 }

func (v *view) item(l, k int) stored {
	if l == k-1 {
		return stored{v.abar[l] - v.a[l], v.uF[l]}
	}
	return stored{v.abar[l], v.uF[l]}
}

// byDensity orders by decreasing time per byte, equal items next to each other.
func byDensity(x, y stored) int {
	return cmp.Or(cmp.Compare(y.density(), x.density()), cmp.Compare(y.size, x.size), cmp.Compare(y.time, x.time))
}

func (x stored) density() float64 {
	if x.size == 0 {
		return math.Inf(1)
	}
	return x.time / x.size
}

// A knapsack has room for a part of its items, which are in order of density.
type knapsack struct {
	room  float64
	items []stored
}

// knapsack is empty; its room is what F_k or B_k leave of the memory.
func (v *view) knapsack(k int, limit float64) *knapsack {
	return &knapsack{room: max(0, limit-max(v.forward(k, v.n, v.a[k]), v.backwardNeed(k)))}
}

func (s *knapsack) insert(x stored) {
	i, _ := slices.BinarySearchFunc(s.items, x, byDensity)
	s.items = slices.Insert(s.items, i, x)
}

// lost is the time of what does not fit, parts of items being allowed to.
func (s *knapsack) lost() float64 {
	room, lost := s.room, 0.0
	for _, x := range s.items {
		if x.size <= room {
			room -= x.size
			continue
		}
		lost += x.time * (1 - room/x.size)
		room = 0
	}
	return lost
}

// lostWhole is the time of what does not fit, items being whole: branch and
// bound by depth first. It is 0 when 4096 nodes are not enough, or when there
// are more items than that: a node may look at all of them.
func (s *knapsack) lostWhole() float64 {
	best, nodes := 0.0, 4096
	if len(s.items) > nodes {
		return 0
	}
	total := 0.0
	for _, x := range s.items {
		total += x.time
	}
	var search func(i int, room, saved float64)
	search = func(i int, room, saved float64) {
		best = max(best, saved)
		for ; i < len(s.items) && nodes > 0; i++ {
			nodes--
			// The most that items i, i+1, .. add.
			left, most := room, saved
			for _, x := range s.items[i:] {
				if x.size > left {
					most += x.time * (left / x.size)
					break
				}
				left -= x.size
				most += x.time
			}
			if most <= best+rounding*total {
				return
			}
			x := s.items[i]
			if x.size <= room {
				search(i+1, room-x.size, saved+x.time)
			}
			for i+1 < len(s.items) && s.items[i+1] == x {
				i++ // which of equal items are left out does not matter
			}
		}
	}
	search(0, s.room, 0)
	if nodes == 0 {
		return 0
	}
	return max(0, total*(1-2*rounding)-best)
}
