package remat

import (
	"context"
	"math"
	"slices"

	model "workbench/model/problem/remat"
)

// budget removes the parts of the functions of [splits] and [moves] that no plan uses which needs
// at most most bytes and at most extra seconds of recomputation. The parts that such plans use
// remain, so the value at most bytes does not change if it is within the budget; otherwise there is
// none.
//
// Consider the part of C_FL(s,t,ℓ,·) from a breakpoint on; C_MP(s,t,·) is the case ℓ = s. It needs
// at least m bytes, and c seconds of recomputation of layers s..t. Let H be the memory that remains
// of most besides m, a_0 and a_{s-1}. In plans of both kinds an ā is kept until its B.
//
// While B_t runs, the stored ā_j of layers j < s occupy at most H bytes (a_{s-1} is not counted
// twice in ā_{s-1}). Each other one of these layers is recomputed later: for at least lost(H)
// seconds, by the fractional knapsack of [Bounds].
//
// Layers s..ℓ-1 are computed once more after B_ℓ, as nothing of them is stored.
//
// If t < N, layers s..t were computed before B_N, and nothing of them was kept either: once more.
// And while B_N ran, y ≤ H bytes of ā_j with j < s were stored, as these are kept until B_t, in
// addition to those of layers above t: for some y, the cost is lost(y) plus the loss of the latter
// in the memory that B_N and y leave.
//
// The layers below s, s..t and above t are disjoint, so the times add up.
type budget struct {
	v           *model.View
	most, extra float64
	slack       float64        // for the rounding of times
	until       []float64      // until[l] = Σ uF_1..l
	below       []knapsackSums // of layers 1..s-1
	above       []knapsackSums // of layers t+1..N-1
	room        float64        // memory that B_N leaves
}

// newBudget returns the budget for v, with times rounded down; nil if ctx ends first. O(N² log N).
// Plans of Revolve store no ā while the B of another layer runs: with revolve set no ā counts as
// kept.
func newBudget(ctx context.Context, v *model.View, most, extra float64, revolve bool) *budget {
	sums := func(items []model.Stored) knapsackSums {
		if revolve && len(items) > 0 {
			none := model.Stored{Size: math.Inf(1)}
			for _, x := range items {
				none.Time += x.Time
			}
			items = []model.Stored{none}
		}
		return newKnapsackSums(items)
	}
	b := &budget{v: v, most: most, until: make([]float64, v.N+1), room: max(0, most-v.BackwardNeed(v.N))}
	for l := 1; l <= v.N; l++ {
		b.until[l] = b.until[l-1] + v.UF[l]
	}
	b.extra, b.slack = extra, (extra+b.until[v.N])*1e-9
	b.below, b.above = make([]knapsackSums, v.N+1), make([]knapsackSums, v.N+1)
	for s := 1; s <= v.N; s++ {
		if ctx.Err() != nil {
			return nil
		}
		items := make([]model.Stored, s-1)
		for l := range items {
			items[l] = v.Item(l+1, s)
		}
		b.below[s] = sums(items)
	}
	var items []model.Stored
	for t := v.N; t >= 1; t-- {
		if ctx.Err() != nil {
			return nil
		}
		if t+1 < v.N {
			items = append(items, v.Item(t+1, v.N))
		}
		b.above[t] = sums(items)
	}
	return b
}

// prune drops what no plan within the budget uses from f, which is C_FL(s,t,ℓ,·)
// less its sums.
func (b *budget) prune(f *stepFunction, s, t, l int) {
	h := b.most - b.v.A[0]
	if s > 1 {
		h -= b.v.A[s-1]
	}
	below, above := &b.below[s], &b.above[t]
	again, best := b.until[l-1]-b.until[s-1], math.Inf(1)
	if t < b.v.N {
		again += b.until[t] - b.until[s-1]
		best = split(below, above, b.room)
	}
	extra := b.extra
	if s > 1 || t < b.v.N {
		extra += b.slack
	}
	n := 0
	for i, m := range f.m {
		least, y := f.c[i]+again, max(0, h-m)
		if t < b.v.N {
			y = min(y, best)
			least += above.lost(b.room - y)
		}
		if least+below.lost(y) <= extra {
			f.m[n], f.c[n] = m, f.c[i]
			n++
		}
	}
	f.m, f.c = f.m[:n], f.c[:n]
}

// knapsackSums are the sums of sizes and times of items in order of density, the
// first 0.
type knapsackSums struct{ size, time []float64 }

func newKnapsackSums(items []model.Stored) knapsackSums {
	sorted := slices.Clone(items)
	slices.SortFunc(sorted, model.ByDensity)
	k := knapsackSums{make([]float64, len(sorted)+1), make([]float64, len(sorted)+1)}
	for i, x := range sorted {
		k.size[i+1], k.time[i+1] = k.size[i]+x.Size, k.time[i]+x.Time
	}
	return k
}

// lost returns the time of what does not fit, with fractional items. O(log items).
func (k *knapsackSums) lost(room float64) float64 {
	last := len(k.size) - 1
	if room < 0 {
		return k.time[last]
	}
	i := ahead(k.size, 0, room)
	lost := k.time[last] - k.time[i]
	if i < last {
		lost -= (k.time[i+1] - k.time[i]) * (room - k.size[i]) / (k.size[i+1] - k.size[i])
	}
	return lost
}

// split returns the part of the room for the items of x that minimises the total loss of x and y.
// O(items).
func split(x, y *knapsackSums, room float64) float64 {
	i, j := 0, 0
	for i+1 < len(x.size) {
		dx, tx := x.size[i+1]-x.size[i], x.time[i+1]-x.time[i]
		if j+1 < len(y.size) && dx > 0 {
			if dy, ty := y.size[j+1]-y.size[j], y.time[j+1]-y.time[j]; dy == 0 || ty*dx > tx*dy {
				if dy >= room {
					break
				}
				room -= dy
				j++
				continue
			}
		}
		if dx >= room {
			return x.size[i] + room
		}
		room -= dx
		i++
	}
	return x.size[i]
}
