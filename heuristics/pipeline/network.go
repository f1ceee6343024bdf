package pipeline

import (
	"slices"

	"workbench/model/plan"
)

// networkBuilder builds the network of a label-setting search from an allocation. Layers of
// processors outside the set, negligible layers, unplaced layers, and first forwards of almost zero
// duration are delays; mini-batches would accumulate after the latter. All others are steps.
type networkBuilder struct {
	network
	unit  float64   // seconds
	exact []float64 // by step: seconds it takes
	wait  []float64 // by step: minimum seconds from its end to the next one
}

// firstDelay is the maximum fraction of a period for which first forwards are delays.
const firstDelay = 0.05

// network returns the network of layers 1..n of a set of processors, where layer n+1 is on another processor than layer
// n. Steps have at most width layers. O(n·P).
func (a *partialAllocation) network(n int, set processors, width int) network {
	in := a.in
	c := &networkBuilder{unit: a.period * (1 + safe) / gridUnits}
	c.room = slices.Repeat([]float64{in.Memory}, in.Procs)
	for l := 1; l <= n; l++ {
		if r := a.owner[l]; set.has(r) {
			c.room[r] -= in.Copies * in.W[l]
			if a.owner[l-1] != r {
				c.room[r] -= a.buffer[l-1]
			}
			if l < in.N && (l == n || a.owner[l+1] != r) {
				c.room[r] -= a.buffer[l]
			}
		}
	}
	held := make([]float64, in.Procs)
	c.stored = append(c.stored, slices.Clone(held))
	next := func(l, r int) bool { return l >= 1 && l <= n && a.owner[l] == r } // on the same processor
	began := 0.0
	for l := 1; l <= n; l++ {
		r := a.owner[l]
		if !set.has(r) {
			c.delay(in.UF[l])
			continue
		}
		held[r] += a.hold[l]
		if began += in.UF[l]; len(c.steps) == 0 && began <= firstDelay*a.period && (next(l+1, r) || held[r] <= firstDelay*in.Memory) {
			continue
		}
		own, waits := 0.0, 0.0
		if in.Task {
			own = in.OwnF[l]
			if next(l+1, r) {
				waits = in.A[l]
			}
		}
		// The last forward before a cut is a step of its own: what is stored then is stored for long.
		c.add(r, in.UF[l], held, own, waits, next(l-1, r) && next(l+1, r), width)
		if l < n && a.owner[l+1] != r {
			c.delay(a.cutF[l])
		}
	}
	if n < in.N {
		c.delay(a.delayAcross(n, a.minDelay[n+1]))
	}
	for l := n; l >= 1; l-- {
		r := a.owner[l]
		if !set.has(r) {
			c.delay(in.UB[l])
			continue
		}
		own, waits := a.hold[l], 0.0
		if in.Task {
			own += in.OwnB[l]
			if next(l-1, r) {
				waits = in.D[l-1]
			}
		}
		held[r] -= a.hold[l]
		c.add(r, in.UB[l], held, own, waits, next(l+1, r) && l > 1, width)
		if l > 1 && a.owner[l-1] != r {
			c.delay(a.cutB[l-1])
		}
	}
	return c.network
}

// delay adds seconds before the next step, less by what the verifier forgives.
func (c *networkBuilder) delay(t float64) {
	if k := len(c.steps) - 1; k >= 0 {
		c.wait[k] += max(0, t-2*plan.Tolerance*gridUnits*c.unit)
		c.steps[k].delay = int32(c.wait[k] / c.unit)
	}
}

// add appends a layer to the last step, or a new step. It needs own bytes in addition to held, and
// waits bytes wait after it. Its time is reduced by the tolerance of the verifier.
func (c *networkBuilder) add(r int, time float64, held []float64, own, waits float64, join bool, width int) {
	time = max(0, time-2*plan.Tolerance*gridUnits*c.unit)
	units := int32(time / c.unit)
	behind := slices.Clone(held)
	behind[r] += waits
	if k := len(c.steps) - 1; join && k >= 0 && c.steps[k].layers < width {
		s := &c.steps[k]
		s.layers++
		c.exact[k] += time
		s.time, s.last = int32(c.exact[k]/c.unit), units
		c.stored[k+1][r] = min(c.stored[k+1][r], behind[r])
		return
	}
	c.steps = append(c.steps, step{on: r, layers: 1, time: units, first: units, last: units, need: held[r] + own})
	c.exact, c.wait = append(c.exact, time), append(c.wait, 0)
	c.stored = append(c.stored, behind)
}
