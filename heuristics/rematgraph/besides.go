package rematgraph

import (
	"slices"

	"workbench/model/problem/rematgraph"
)

// besides returns the schedule that a choice of nodes to recompute at a node x means (see
// rematgraph.View.TimeBound): store-all, except that the values of nodes of again are evicted from
// their last use before x to their first use after it. There they are recomputed, and kept until
// their last use. Their inputs that are not recomputed are kept until then. O(edges + changed
// stages), and a completion.
func besides(v *rematgraph.View, x int, again []int) *rematgraph.Schedule {
	s := v.StoreAll()
	begin := slices.Repeat([]int{v.N}, v.N) // by node of again: the stage in which it is recomputed
	chosen := make([]bool, v.N)
	for _, j := range again {
		chosen[j] = true
	}
	for j := v.N - 1; j >= 0; j-- {
		for _, i := range v.Writes[j] {
			if chosen[j] {
				begin[j] = min(begin[j], firstUse(v, i, x, begin))
			}
		}
		for _, i := range v.Writes[j] {
			last, end := j, v.End(i)
			for _, k := range v.Succ[i] {
				if k < x {
					last = max(last, k)
				}
				if begin[k] < v.N {
					end = max(end, begin[k])
				}
			}
			if begin[j] == v.N {
				last = end
			}
			retain(s, i, j, last)
			for t := last + 1; t <= min(begin[j], end); t++ {
				s.Retain(t, i, false)
			}
			retain(s, i, begin[j], end)
		}
	}
	s.Complete()
	return s
}

// firstUse returns the first stage from x on in which value i is used, if nodes are recomputed in
// the stages begin; N if there is none.
func firstUse(v *rematgraph.View, i, x int, begin []int) int {
	first := v.N
	for _, k := range v.Succ[i] {
		if k >= x {
			first = min(first, k)
		}
		first = min(first, begin[k])
	}
	if v.Result[i] {
		first = min(first, v.N-1)
	}
	return first
}
