package periodic

import (
	"cmp"
	"math"
	"slices"
)

// A circle is the time of a cyclic plan: instants t and t+period are the same.
type circle struct {
	period float64
	eps    float64 // instants closer than this are simultaneous
}

// An arc is an operation on the circle: it starts in [0, period) and ends
// end-start later, past the period if it wraps around.
type arc struct {
	start, end float64
	op         int // index in Plan.Ops
}

func (a arc) length() float64 { return a.end - a.start }

func byStart(a, b arc) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.op, b.op))
}

// wrap returns t modulo the period, in [0, period).
func (c circle) wrap(t float64) float64 {
	t -= c.period * math.Floor(t/c.period)
	if !(t >= 0 && t < c.period) { // rounding, or too many periods to count
		return 0
	}
	return t
}

func (c circle) arc(start, end float64, op int) arc {
	s := c.wrap(start)
	return arc{start: s, end: s + (end - start), op: op}
}

// meet reports whether the arcs share more than an instant. An arc of no
// length meets an arc in whose inside it lies.
func (c circle) meet(a, b arc) bool {
	for shift := -c.period; shift <= c.period; shift += c.period {
		if b.start+shift < a.end-c.eps && b.end+shift > a.start+c.eps {
			return true
		}
	}
	return false
}

// overlaps calls report(earlier, later) for each arc that starts before an
// earlier one has ended, and sorts arcs by start. The earlier arc is given in
// the later one's turn of the circle. O(n log n).
func (c circle) overlaps(arcs []arc, report func(earlier, later arc)) {
	slices.SortFunc(arcs, byStart)
	// The arc that reaches furthest so far: at first one of the last turn.
	last := arc{start: math.Inf(-1), end: math.Inf(-1), op: -1}
	for _, a := range arcs {
		if e := a.end - c.period; e > last.end {
			last = arc{start: a.start - c.period, end: e, op: a.op}
		}
	}
	for _, a := range arcs {
		if a.op != last.op && a.start < last.end-c.eps && a.end > last.start+c.eps {
			report(last, a)
		}
		if a.end > last.end {
			last = a
		}
	}
}

// simultaneous numbers the arcs' starts: equal numbers for starts that are
// simultaneous, increasing with time. arcs must be sorted by start.
func (c circle) simultaneous(arcs []arc) []int {
	rank := make([]int, len(arcs))
	for k := 1; k < len(arcs); k++ {
		rank[k] = rank[k-1]
		if arcs[k].start-arcs[k-1].start > c.eps {
			rank[k]++
		}
	}
	return rank
}
