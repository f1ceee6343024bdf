package pipelinegraph

import (
	"math"
	"slices"

	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/ideals"
)

// Balanced returns PipeDream's straight pipeline on a graph, without memory, and its load in seconds, PipeDream's
// period. It chooses ideals ∅ = I_0 ⊂ … ⊂ I_r = everything, r ≤ P, that minimise the maximum load of a stage I_k −
// I_{k-1} or link. A link's load is 2a/β of the values that cross it, as in PipeDream. It searches loads up to
// some top, and raises that by a quarter until stages exist. O(P·pairs) for pairs of ideals where one contains the
// other and the load between them is at most the top.
func Balanced(t *ideals.Lattice, p platform.Platform) ([]int, float64) {
	for top := t.Work[t.Len()-1] / float64(p.Processors); ; top *= 1.25 {
		if chosen, load := balancedBelow(t, p, top); load <= top {
			return chosen, load
		}
	}
}

// balancedBelow returns Balanced among stages of at most the load top.
func balancedBelow(t *ideals.Lattice, p platform.Platform, top float64) ([]int, float64) {
	n := t.Len()
	procs := min(p.Processors, len(t.Atoms))
	all := n - 1
	link := func(i int) float64 {
		if i == 0 || i == all {
			return 0
		}
		return 2 * t.Cut[i] / p.Bandwidth
	}
	// best[i]: everything but ideal i in r stages.
	best := slices.Repeat([]float64{math.Inf(1)}, n)
	best[all] = 0
	next := make([][]int, procs+1) // by number of stages: the ideal that ends the first stage
	rounds := 0
	period := math.Inf(1)
	w := t.Walk()
	for r := 1; r <= procs; r++ {
		row := slices.Repeat([]float64{math.Inf(1)}, n)
		next[r] = make([]int, n)
		for j := range n {
			if math.IsInf(best[j], 1) {
				continue
			}
			base := max(best[j], link(j))
			w.VisitSubsets(j, func(i int) bool {
				load := t.Work[j] - t.Work[i]
				if load > top*(1+view.Rounding) {
					return false
				}
				if load = max(load, base); load < row[i] {
					row[i], next[r][i] = load, j
				}
				return true
			})
		}
		if row[0] < period {
			period, rounds = row[0], r
		}
		best = row
	}
	var chosen []int
	for i, r := 0, rounds; r > 0; r-- {
		i = next[r][i]
		chosen = append(chosen, i)
	}
	return chosen, period
}
