package linkgraph

import (
	"container/heap"

	"workbench/model/platform"
)

// farthest is a queue of gaps: the one whose value is used last comes first (Belady), of
// equal ones the one that began first.
type farthest []gap

func (q farthest) Len() int { return len(q) }
func (q farthest) Less(a, b int) bool {
	return q[a].to > q[b].to || q[a].to == q[b].to && q[a].from < q[b].from
}
func (q farthest) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q *farthest) Push(x any)   { *q = append(*q, x.(gap)) }
func (q *farthest) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// cover chooses gaps such that what is not away fits at every position: where it does not,
// what is used last leaves. In a training step that is what was there first, which has had
// most time to travel. It reports false if all that can leave is not enough.
// O((positions + gaps)·log(gaps)).
func (r *route) cover(memory float64) (away []gap, ok bool) {
	all := r.gaps()
	back := make([]float64, len(r.use)+1) // what is away until a position
	var queue farthest
	gone := 0.0
	for k, use := range r.use {
		gone -= back[k]
		for len(all) > 0 && all[0].from < k {
			heap.Push(&queue, all[0])
			all = all[1:]
		}
		for !platform.Fits(use-gone, memory) {
			if len(queue) == 0 {
				return nil, false
			}
			g := heap.Pop(&queue).(gap)
			if g.to <= k {
				return nil, false // none of the others is used later
			}
			away = append(away, g)
			gone += r.size(g)
			back[g.to] += r.size(g)
		}
	}
	return away, true
}
