// Package rematoffloadgraph plans training steps with a link to the host: which values are kept, which are
// offloaded and fetched, and which are recomputed.
//
// A plan is made in three parts. A route is the sequence of computations; the methods of package rematgraph find
// routes. A cover chooses the copies of values that are on the host between two computations that use them, so
// that all others fit. The clock assigns times to computations and transfers. Callers replay every plan.
package rematoffloadgraph

import (
	"cmp"
	"slices"

	"workbench/model/problem/rematgraph"
)

// route is the sequence of computations of a plan. Position len(order) is the end, where the results are read.
type route struct {
	v     *rematgraph.View
	order []int32 // nodes
	stays []stay
	ends  [][]int   // by position: the values of copies that end there
	use   []float64 // by position: the memory in use without offloading
	clock []float64 // by position: its start without waiting
}

// stay is a copy of a value: made by a computation, and read by others until it is freed or recomputed.
type stay struct {
	value int
	at    []int // positions: of the computation that makes it, and of those that read it
}

// gap is an interval between two uses of a copy, in which it need not be on the device.
type gap struct {
	stay     int
	from, to int // positions of the uses
	due      int // the position by which it must be freed, once it is chosen
}

// newRoute tracks the copies of values through computations whose inputs all exist. O(computations · degree).
func newRoute(v *rematgraph.View, order []int32) *route {
	n := len(order) + 1
	r := &route{v: v, order: order, ends: make([][]int, n), use: make([]float64, n), clock: make([]float64, n)}
	now := make([]int, v.M) // the current copy of each value
	read := func(i, k int) { r.stays[now[i]].at = append(r.stays[now[i]].at, k) }
	for k, j := range order {
		for _, i := range v.Pred[j] {
			read(i, k)
		}
		for _, i := range v.Writes[j] {
			now[i] = len(r.stays)
			r.stays = append(r.stays, stay{i, []int{k}})
		}
		r.use[k] += v.Overhead[j]
		r.clock[k+1] = r.clock[k] + v.Time[j]
	}
	for i, is := range v.Result {
		if is {
			read(i, len(order))
		}
	}
	change := make([]float64, n+1)
	for _, s := range r.stays {
		last := s.at[len(s.at)-1]
		r.ends[last] = append(r.ends[last], s.value)
		change[s.at[0]] += v.Memory[s.value]
		change[last+1] -= v.Memory[s.value]
	}
	held := v.Graph.Input
	for k := range r.use {
		held += change[k]
		r.use[k] += held
	}
	return r
}

// gaps returns those of values that can be offloaded, in the order in which they begin.
func (r *route) gaps() (list []gap) {
	for s := range r.stays {
		x := &r.stays[s]
		if r.v.Pinned[x.value] || r.v.Memory[x.value] == 0 {
			continue
		}
		for i := 1; i < len(x.at); i++ {
			if x.at[i]-x.at[i-1] > 1 {
				list = append(list, gap{s, x.at[i-1], x.at[i], x.at[i]})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b gap) int { return cmp.Compare(a.from, b.from) })
	return list
}

// size returns the size of the value of a gap.
func (r *route) size(g gap) float64 { return r.v.Memory[r.stays[g.stay].value] }
