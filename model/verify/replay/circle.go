package replay

import (
	"cmp"
	"math"
	"slices"
)

// A circle is the time of a cyclic plan: instants t and t+period are the same.
type Circle struct {
	Period float64
	Eps    float64 // instants closer than this are simultaneous
}

// An arc is an operation on the circle: it starts in [0, period) and ends
// end-start later, past the period if it wraps around.
type Arc struct {
	Start, End float64
	Op         int // index in Plan.Ops
}

func (a Arc) Length() float64 { return a.End - a.Start }

func ByStart(a, b Arc) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Op, b.Op))
}

// Wrap returns t modulo the period, in [0, period).
func (c Circle) Wrap(t float64) float64 {
	t -= c.Period * math.Floor(t/c.Period)
	if !(t >= 0 && t < c.Period) { // rounding, or too many periods to count
		return 0
	}
	return t
}

func (c Circle) Arc(start, end float64, op int) Arc {
	s := c.Wrap(start)
	return Arc{Start: s, End: s + (end - start), Op: op}
}

// Meet reports whether the arcs share more than an instant. An arc of no
// length meets an arc in whose inside it lies.
func (c Circle) Meet(a, b Arc) bool {
	for shift := -c.Period; shift <= c.Period; shift += c.Period {
		if b.Start+shift < a.End-c.Eps && b.End+shift > a.Start+c.Eps {
			return true
		}
	}
	return false
}

// overlaps calls report(earlier, later) for each arc that starts before an
// earlier one has ended, and sorts arcs by start. The earlier arc is given in
// the later one's turn of the circle. O(n log n).
func (c Circle) Overlaps(arcs []Arc, report func(earlier, later Arc)) {
	slices.SortFunc(arcs, ByStart)
	// The arc that reaches furthest so far: at first one of the last turn.
	last := Arc{Start: math.Inf(-1), End: math.Inf(-1), Op: -1}
	for _, a := range arcs {
		if e := a.End - c.Period; e > last.End {
			last = Arc{Start: a.Start - c.Period, End: e, Op: a.Op}
		}
	}
	for _, a := range arcs {
		if a.Op != last.Op && a.Start < last.End-c.Eps && a.End > last.Start+c.Eps {
			report(last, a)
		}
		if a.End > last.End {
			last = a
		}
	}
}

// simultaneous numbers the arcs' starts: equal numbers for starts that are
// simultaneous, increasing with time. arcs must be sorted by start.
func (c Circle) Simultaneous(arcs []Arc) []int {
	rank := make([]int, len(arcs))
	for k := 1; k < len(arcs); k++ {
		rank[k] = rank[k-1]
		if arcs[k].Start-arcs[k-1].Start > c.Eps {
			rank[k]++
		}
	}
	return rank
}

// A Sample is the memory in use from Time to the time of the next sample.
type Sample struct {
	Time                            float64 // seconds, in [0, period)
	Weights, Gradients, Activations float64 // bytes
}
