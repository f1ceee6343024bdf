package pipeline

import (
	"math"

	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// eagerBatches is the number of mini-batches that [004] 6.5 simulates.
const eagerBatches = 500

// eager returns the pattern into which eager 1F1B (Narayanan et al., SOSP 2019) of a contiguous allocation settles, nil if
// a simulation of 500 mini-batches does not repeat itself with any k ≤ 100. A stage takes the next mini-batch when it holds
// fewer than its limit (0: there is none); a resource that is free takes the oldest backward that is ready, or else the
// oldest forward. O(500·P²).
func (in *instance) eager(stages []plan.Stage, limits []int) *view.Pattern {
	items := in.Items(stages)
	n := len(items)
	limit := make([]int, n) // by item; there is none on communications
	for i, k := 0, 0; i < n; i++ {
		if !items[i].Cut {
			limit[i] = limits[k]
			k++
		}
	}
	f, b := make([]float64, eagerBatches*n), make([]float64, eagerBatches*n)
	nextF, nextB := make([]int, n), make([]int, n) // the mini-batch each item takes next
	free := make([]float64, n)                     // an item has its resource to itself
	for left := 2 * n * eagerBatches; left > 0; left-- {
		item, back, at := -1, false, math.Inf(1)
		for i := range items {
			// When the next forward and the next backward are ready.
			ready, readyB := math.Inf(1), math.Inf(1)
			if m := nextF[i]; m < eagerBatches {
				switch {
				case i == 0:
					ready = 0
				case nextF[i-1] > m:
					ready = f[m*n+i-1] + items[i-1].F
				}
				if old := m - limit[i]; limit[i] > 0 && old >= 0 {
					if nextB[i] > old {
						ready = max(ready, b[old*n+i]+items[i].B)
					} else {
						ready = math.Inf(1)
					}
				}
			}
			if m := nextB[i]; m < nextF[i] {
				switch {
				case i == n-1:
					readyB = f[m*n+i] + items[i].F
				case nextB[i+1] > m:
					readyB = b[m*n+i+1] + items[i+1].B
				}
			}
			t := max(free[i], min(ready, readyB))
			if t < at {
				item, back, at = i, readyB <= t, t
			}
		}
		if back {
			b[nextB[item]*n+item] = at
			nextB[item]++
			free[item] = at + items[item].B
		} else {
			f[nextF[item]*n+item] = at
			nextF[item]++
			free[item] = at + items[item].F
		}
	}
	return settled(stages, items, f, b)
}

// settled returns the pattern of the smallest k for which the middle of a simulation repeats every
// k mini-batches.
func settled(stages []plan.Stage, items []view.Item, f, b []float64) *view.Pattern {
	const from, to, most = eagerBatches / 2, eagerBatches * 4 / 5, 100
	n := len(items)
	for k := 1; k <= most; k++ {
		period := f[(from+k)*n] - f[from*n]
		eps := 1e-12 * f[to*n]
		same := period > 0
		for x := from * n; x < to*n && same; x++ {
			same = math.Abs(f[x+k*n]-f[x]-period) <= eps && math.Abs(b[x+k*n]-b[x]-period) <= eps
		}
		if !same {
			continue
		}
		s := &view.Pattern{Period: period, K: k, Stages: stages, Items: items, F: f[from*n : (from+k)*n], B: b[from*n : (from+k)*n]}
		s.Retime() // frees it from the rounding of a long simulation
		return s
	}
	return nil
}

// eagerSteps is the maximum number of allocations that bestEager simulates.
const eagerSteps = 400

// bestEager returns the best pattern of eager 1F1B in which every stage, not only the first, has a limit of mini-batches in
// flight: as many as fit on its processor; nil if none fits. It is a local search: it starts from the allocations of
// OneFOneBStar and KPeriodic and from PipeDream's for each NOAM, and shifts cuts by a layer, one or two at a time, as long
// as the period gets shorter. k is that of the simulation; the pattern may be better than any 1-periodic one.
func (in *instance) bestEager() *view.Pattern {
	var best *view.Pattern
	try := func(stages []plan.Stage) bool {
		s := in.eagerInMemory(stages)
		if s == nil || best != nil && s.Rate() >= best.Rate()*(1-1e-6) {
			return false
		}
		best = s
		return true
	}
	for k := 0; k < 2*in.Procs && (best == nil || !in.stopped()); k++ {
		if s := in.bestContiguous(k); s != nil {
			try(s.Stages)
		}
		if stages, _ := in.partition(k); stages != nil {
			try(stages)
		}
	}
	if best == nil {
		return nil
	}
	left := eagerSteps
	for improved := true; improved && left > 0 && !in.stopped(); {
		improved = false
		for _, x := range shiftedCuts(best.Stages) {
			if left--; left < 0 || in.stopped() {
				break
			}
			if in.loads(x) < best.Rate() && try(x) {
				improved = true
				break
			}
		}
	}
	return best
}

// eagerInMemory returns eager 1F1B with the largest limits that fit, nil if none do. Where operations interleave so that a
// processor holds more than estimated, the limit of its stage is lowered.
func (in *instance) eagerInMemory(stages []plan.Stage) *view.Pattern {
	limits := make([]int, len(stages))
	for k, s := range stages {
		room := in.Memory - in.Needs(s.From, s.To, 1)
		if room < 0 {
			return nil
		}
		// More than 2P in flight gain nothing.
		limits[k] = 2 * in.Procs
		limits[k] = int(min(float64(limits[k]), 1+view.Count(room, in.Inputs(s.From, s.To))))
	}
	for {
		s := in.eager(stages, limits)
		if s == nil {
			return nil
		}
		over := false
		for k, m := range s.Memory(in.Instance) {
			if !in.Fits(m) {
				if limits[k] == 1 {
					return nil
				}
				limits[k]--
				over = true
			}
		}
		if !over {
			return s
		}
	}
}

// loads returns the largest load of a stage or communication.
func (in *instance) loads(stages []plan.Stage) float64 { return longest(in.Items(stages)) }
