package rematoffloadgraph

import (
	"cmp"
	"container/heap"
	"slices"

	"workbench/model/platform"
)

// leaving is a queue of gaps by decreasing key; at a tie, the one that began first precedes.
type leaving []candidate

type candidate struct {
	gap
	key float64
}

func (q leaving) Len() int { return len(q) }
func (q leaving) Less(a, b int) bool {
	return q[a].key > q[b].key || q[a].key == q[b].key && q[a].from < q[b].from
}
func (q leaving) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q *leaving) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *leaving) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// cover chooses gaps such that the remaining values fit at every position. Where they do not, it evicts the value
// with the farthest next use (Belady): in a training step that is the oldest value, which has had most time for
// its transfer. noise multiplies the distance of that use. Gaps that later ones make unnecessary are dropped. It
// returns false if evicting everything does not suffice. O(positions·(log(gaps) + gaps chosen)).
func (r *route) cover(memory float64, noise func() float64) (away []gap, ok bool) {
	all := r.gaps()
	back := make([]float64, len(r.use)+1)
	var queue leaving
	gone := 0.0
	for k, use := range r.use {
		gone -= back[k]
		for ; len(all) > 0 && all[0].from < k; all = all[1:] {
			heap.Push(&queue, candidate{all[0], float64(all[0].to) * noise()})
		}
		for !platform.Fits(use-gone, memory) {
			if len(queue) == 0 {
				return nil, false
			}
			g := heap.Pop(&queue).(candidate).gap
			if g.to <= k {
				continue
			}
			g.due = k
			away = append(away, g)
			gone += r.size(g)
			back[g.to] += r.size(g)
		}
	}
	return r.thin(away, memory), true
}

// thin drops unnecessary gaps, the largest first.
func (r *route) thin(away []gap, memory float64) []gap {
	use := slices.Clone(r.use)
	for _, g := range away {
		for k := g.from + 1; k < g.to; k++ {
			use[k] -= r.size(g)
		}
	}
	slices.SortStableFunc(away, func(a, b gap) int { return cmp.Compare(r.size(b), r.size(a)) })
	return slices.DeleteFunc(away, func(g gap) bool {
		size := r.size(g)
		inside := use[g.from+1 : g.to]
		if slices.ContainsFunc(inside, func(used float64) bool { return !platform.Fits(used+size, memory) }) {
			return false
		}
		for k := range inside {
			inside[k] += size
		}
		return true
	})
}
