package pipeline

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/cycleratio"
)

// Retime sets the minimum period for which the operations keep their cyclic order on every resource
// and the mini-batches they process, and so their memory. The start times are computed from these
// integer decisions alone: the period is a maximum cycle ratio. It reports false, and leaves s
// unchanged, if there is none.
func (s *Pattern) Retime() bool {
	n := len(s.Items) * s.K
	period := 0.0
	load := map[int]float64{}
	for i := range s.Items {
		x := &s.Items[i]
		load[x.Resource] += float64(s.K) * x.Time()
		period = max(period, load[x.Resource])
	}
	period, times, err := cycleratio.Least(2*n, s.precedences(append(slices.Clone(s.F), s.B...)), period)
	if err != nil {
		return false
	}
	s.Period, s.F, s.B = period, times[:n:n], times[n:]
	return true
}

// precedences returns the precedence constraints of s. Operation v < k·items is a forward.
func (s *Pattern) precedences(start []float64) []cycleratio.Precedence {
	n, k := len(s.Items), s.K
	var list []cycleratio.Precedence
	length := func(v int) float64 {
		if v < n*k {
			return s.Items[v%n].F
		}
		return s.Items[v%n].B
	}
	for m := range k {
		for i := range n {
			f, b := m*n+i, n*k+m*n+i
			next := b
			if i < n-1 {
				next = f + 1
				list = append(list, cycleratio.Precedence{From: b + 1, To: b, Wait: length(b + 1)})
			}
			list = append(list, cycleratio.Precedence{From: f, To: next, Wait: length(f)})
		}
	}
	on := map[int][]int{}
	var resources []int
	for v := range start {
		r := s.Items[v%n].Resource
		if on[r] == nil {
			resources = append(resources, r)
		}
		on[r] = append(on[r], v)
	}
	rest := make([]float64, len(start))
	for v := range rest {
		rest[v], _ = turns(start[v]-start[0], s.Period)
	}
	for _, r := range resources {
		order := on[r]
		slices.SortStableFunc(order, func(v, w int) int {
			if math.Abs(rest[v]-rest[w]) <= s.Period*Instant {
				return cmp.Compare(length(v), length(w))
			}
			return cmp.Compare(rest[v], rest[w])
		})
		for z, v := range order {
			w := order[(z+1)%len(order)]
			// The first w that starts after this v has ended.
			q := int(math.Ceil((start[v]+length(v)-start[w])/s.Period - Instant))
			if v == w {
				q = 1
			}
			list = append(list, cycleratio.Precedence{From: v, To: w, Wait: length(v), Turns: q})
		}
	}
	return list
}
