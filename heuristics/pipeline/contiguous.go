package pipeline

import (
	"math"

	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// bestContiguous returns the pattern of 1F1B* with the shortest period over all
// contiguous allocations, every (cancel+1)-th mini-batch cancelled, or nil: none
// fits whatever the period.
func (in *instance) bestContiguous(cancel int) *view.Pattern {
	d := newContiguous(in, cancel)
	low, high := in.U[in.N]/float64(in.Procs), in.U[in.N]
	for _, c := range in.Cut {
		high += c
	}
	var best []plan.Stage
	// The program does not see rounding, so the period of what it finds is
	// taken from the breakpoints of that allocation.
	var found *view.Pattern
	for test := high; ; {
		if stages := d.allocationAt(test); stages == nil {
			low = test
		} else {
			best, high = stages, test
			if s := in.smallest(best, in.Items(best), cancel); s != nil && (found == nil || s.Period < found.Period) {
				found = s
			}
			if found != nil {
				high = min(high, found.Period)
			}
		}
		if best == nil || high-low <= 1e-12*high || in.stopped() {
			return found
		}
		test = low + (high-low)/2
	}
}

// contiguousDP holds the tables of the program for one instance.
type contiguousDP struct {
	in     *instance
	cancel int
	// delay[p][j]: the minimum V when layers j+1..n are on p processors, +Inf if
	// they cannot be; end[p][j] where the first of these stages ends.
	delay []float64
	end   []int
}

func newContiguous(in *instance, cancel int) *contiguousDP {
	size := (in.Procs + 1) * (in.N + 1)
	return &contiguousDP{in: in, cancel: cancel, delay: make([]float64, size), end: make([]int, size)}
}

// allocationAt returns a contiguous allocation whose stages and communications take at most T each
// and that fits with the groups of 1F1B*(T). It returns nil if there is none or the caller stops.
//
// With V the delay between the end of F_j and the start of B_j, a stage s(i,j) is in group
// ⌈(V+U(i,j))/T⌉ ([004] 7.1.1), and the delay before it is (V ⊕ U(i,j)) ⊕ C(i-1), which does not
// decrease with V. So of all ways to place layers j+1..n on p processors the one with the minimum V
// dominates, and no discretisation is needed. O(P·n²).
func (d *contiguousDP) allocationAt(period float64) []plan.Stage {
	in, n := d.in, d.in.N
	for k := range d.delay {
		d.delay[k] = math.Inf(1)
	}
	d.delay[n] = 0
	for p := 1; p <= in.Procs; p++ {
		row, next := d.delay[p*(n+1):(p+1)*(n+1)], d.delay[(p-1)*(n+1):p*(n+1)]
		for j := n; j >= 1; j-- {
			v := next[j]
			if math.IsInf(v, 1) {
				continue
			}
			if j%stopRows == 0 && in.stopped() {
				return nil
			}
			for i := j; i >= 1; i-- {
				u := in.Time(i, j)
				if u > period*(1+view.Rounding) {
					break
				}
				g := max(1, view.Periods(v+u, period))
				if in.Cut[i-1] > period*(1+view.Rounding) {
					continue
				}
				if !in.Fits(in.Needs(i, j, inFlight(g, d.cancel))) {
					continue
				}
				before := view.Plus(v, u, period)
				if i > 1 {
					before = view.Plus(before, in.Cut[i-1], period)
				}
				if before < row[i-1] {
					row[i-1], d.end[p*(n+1)+i-1] = before, j
				}
			}
		}
	}
	for p := 1; p <= in.Procs; p++ {
		if math.IsInf(d.delay[p*(n+1)], 1) {
			continue
		}
		var ends []int
		for i := 0; i < n; p-- {
			i = d.end[p*(n+1)+i]
			ends = append(ends, i)
		}
		return fromEnds(ends)
	}
	return nil
}
