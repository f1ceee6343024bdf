package pipelinegraph

import (
	"math"

	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/ideals"
)

// mostReplicating limits the work of Replicated, pairs of ideals times pairs of numbers of processors: a second or
// two.
const mostReplicating = 1 << 31

// Replicated returns PipeDream's pipeline with replicated stages on a graph, without memory
// (optimizer_graph_hierarchical.py), and its period in seconds. It chooses the ideals ∅ = I_0 ⊂ … ⊂ I_r =
// everything and numbers of replicas c_k, at most P in total. They minimise the maximum of the stages' (work +
// 4(c-1)w/(cβ))/c, w being their weights, and the 2a/(βc) of the cuts before them. It returns nil where that is
// too much work. O(pairs·P²) for pairs of ideals where one contains the other.
func Replicated(t *ideals.Lattice, p platform.Platform) ([]int, float64) {
	n, procs := t.Len(), p.Processors
	if pairs := float64(n) * float64(n) / 2; procs < 2 || pairs*float64(procs*procs)/2 > mostReplicating {
		return nil, math.Inf(1)
	}
	weight := make([]float64, n)
	for i := range weight {
		_, weight[i] = t.Kept(0, i)
	}
	best, next := make([][]float64, procs+1), make([][]int, procs+1) // everything but an ideal on that many processors
	copies := make([][]int, procs+1)
	for r := range best {
		best[r], next[r], copies[r] = make([]float64, n), make([]int, n), make([]int, n)
		for i := range best[r] {
			best[r][i] = math.Inf(1)
		}
	}
	best[0][n-1] = 0
	w := t.Walk()
	for j := n - 1; j > 0; j-- { // subsets have smaller numbers
		w.VisitSubsets(j, func(i int) bool {
			for c := 1; c <= procs; c++ {
				reduce := 4 * float64(c-1) * (weight[j] - weight[i]) / (float64(c) * p.Bandwidth)
				load := (t.Work[j] - t.Work[i] + reduce) / float64(c)
				if i > 0 {
					load = max(load, 2*t.Cut[i]/(p.Bandwidth*float64(c)))
				}
				for r := c; r <= procs; r++ {
					if x := max(load, best[r-c][j]); x < best[r][i]*(1-view.Rounding) {
						best[r][i], next[r][i], copies[r][i] = x, j, c
					}
				}
			}
			return true
		})
	}
	fewest := 1
	for r := 2; r <= procs; r++ {
		if best[r][0] < best[fewest][0] {
			fewest = r
		}
	}
	var chosen []int
	for i, r := 0, fewest; i < n-1; {
		i, r = next[r][i], r-copies[r][i]
		chosen = append(chosen, i)
	}
	return chosen, best[fewest][0]
}
