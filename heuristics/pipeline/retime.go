package pipeline

import (
	"cmp"
	"math"
	"slices"
)

// An arc of the constraints of a pattern: t_to + turns·T ≥ t_from + length.
type arc struct {
	from, to int
	length   float64
	turns    int
}

// retime gives s the least period with which its operations keep their cyclic
// order on every resource and the mini-batches they process, and so their
// memory: the largest ratio of length to turns of a cycle of the constraints,
// found by raising T to the ratio of a cycle that is too long until there is
// none. The starts follow from the integer decisions alone. It reports whether
// that succeeded; else s is as it was.
func (s *pattern) retime() bool {
	n := len(s.items) * s.k
	start := append(slices.Clone(s.f), s.b...)
	arcs := s.arcs(start)
	period := 0.0
	load := map[int]float64{}
	for i := range s.items {
		x := &s.items[i]
		load[x.resource] += float64(s.k) * x.time()
		period = max(period, load[x.resource])
	}
	scale := 0.0
	for _, a := range arcs {
		scale += a.length
	}
	times, parent := make([]float64, 2*n), make([]int, 2*n)
	for range 10 * len(arcs) {
		ratio, ok := stretch(arcs, period, 1e-14*scale, times, parent)
		if !ok {
			return false
		}
		if ratio == 0 {
			s.period, s.f, s.b = period, times[:n:n], times[n:]
			return true
		}
		period = max(ratio, period*(1+1e-15))
	}
	return false
}

// arcs lists the constraints that s obeys. Operation v < k·items is a forward.
func (s *pattern) arcs(start []float64) []arc {
	n, k := len(s.items), s.k
	var arcs []arc
	length := func(v int) float64 {
		if v < n*k {
			return s.items[v%n].f
		}
		return s.items[v%n].b
	}
	for m := range k {
		for i := range n {
			f, b := m*n+i, n*k+m*n+i
			next := b
			if i < n-1 {
				next = f + 1
				arcs = append(arcs, arc{from: b + 1, to: b, length: length(b + 1)})
			}
			arcs = append(arcs, arc{from: f, to: next, length: length(f)})
		}
	}
	on := map[int][]int{}
	var resources []int
	for v := range start {
		r := s.items[v%n].resource
		if on[r] == nil {
			resources = append(resources, r)
		}
		on[r] = append(on[r], v)
	}
	rest := make([]float64, len(start))
	for v := range rest {
		rest[v], _ = turns(start[v]-start[0], s.period)
	}
	for _, r := range resources {
		order := on[r]
		slices.SortStableFunc(order, func(v, w int) int {
			if math.Abs(rest[v]-rest[w]) <= s.period*instant {
				return cmp.Compare(length(v), length(w))
			}
			return cmp.Compare(rest[v], rest[w])
		})
		for z, v := range order {
			w := order[(z+1)%len(order)]
			// The first w that starts after this v has ended.
			q := int(math.Ceil((start[v]+length(v)-start[w])/s.period - 1e-9))
			if v == w {
				q = 1
			}
			arcs = append(arcs, arc{v, w, length(v), q})
		}
	}
	return arcs
}

// stretch finds the earliest times at the given period. If a cycle is too long
// for it, it returns the cycle's ratio, the period it needs; ok is false if no
// period is enough. Bellman and Ford, O(nodes·arcs).
func stretch(arcs []arc, period, eps float64, times []float64, parent []int) (ratio float64, ok bool) {
	clear(times)
	for i := range parent {
		parent[i] = -1
	}
	last := -1
	for range len(times) + 1 {
		last = -1
		for i := range arcs {
			a := &arcs[i]
			if t := times[a.from] + a.length - float64(a.turns)*period; t > times[a.to]+eps {
				times[a.to], parent[a.to], last = t, i, a.to
			}
		}
		if last < 0 {
			return 0, true
		}
	}
	for range times { // into the cycle
		last = arcs[parent[last]].from
	}
	length, turns := 0.0, 0
	for v := last; ; {
		a := &arcs[parent[v]]
		length += a.length
		turns += a.turns
		if v = a.from; v == last {
			break
		}
	}
	if turns <= 0 {
		return 0, false
	}
	return length / float64(turns), true
}
