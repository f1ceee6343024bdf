// Package eager simulates PipeDream's eager 1F1B of contiguous stages until it repeats itself.
package eager

import (
	"math"

	"workbench/model/plan"
	"workbench/model/problem/pipeline"
)

// batches is how many mini-batches [004] 6.5 simulates.
const batches = 500

// Run simulates PipeDream's eager 1F1B of a contiguous allocation for 500
// mini-batches: a stage takes the next one when it holds fewer than its limit
// (0: there is none), and a resource that is free takes the oldest backward that
// is ready, or else the oldest forward. It returns the pattern into which the
// simulation settles, or nil if it repeats itself with no k ≤ 100. O(500·P²).
func Run(in *pipeline.Instance, stages []plan.Stage, limits []int) *pipeline.Pattern {
	items := in.Items(stages)
	n := len(items)
	limit := make([]int, n) // by item; there is none on communications
	for i, k := 0, 0; i < n; i++ {
		if !items[i].Cut {
			limit[i] = limits[k]
			k++
		}
	}
	f, b := make([]float64, batches*n), make([]float64, batches*n)
	nextF, nextB := make([]int, n), make([]int, n) // the mini-batch each item takes next
	free := make([]float64, n)                     // an item has its resource to itself
	for left := 2 * n * batches; left > 0; left-- {
		item, back, at := -1, false, math.Inf(1)
		for i := range items {
			// When the next forward and the next backward are ready.
			ready, readyB := math.Inf(1), math.Inf(1)
			if m := nextF[i]; m < batches {
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

// settled finds the smallest k such that the middle of a simulation repeats
// itself every k mini-batches.
func settled(stages []plan.Stage, items []pipeline.Item, f, b []float64) *pipeline.Pattern {
	const from, to, most = batches / 2, batches * 4 / 5, 100
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
		s := &pipeline.Pattern{Period: period, K: k, Stages: stages, Items: items, F: f[from*n : (from+k)*n], B: b[from*n : (from+k)*n]}
		s.Retime() // frees it from the rounding of a long simulation
		return s
	}
	return nil
}
