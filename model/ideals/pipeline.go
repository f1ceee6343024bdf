package ideals

import (
	"fmt"
	"math"
	"math/bits"

	view "workbench/model/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Infeasible returns a *plan.Infeasible if no pattern fits in the memory, whatever the
// order of the operations, nil if that is not known. Each layer is on some processor,
// which has its weights and what its backward reads; and when the loss runs, all that
// backwards read is stored somewhere for its mini-batch. O(N + edges).
func (v *View) Infeasible(p platform.Platform) error {
	need, why := 0.0, ""
	total := v.Graph.Input
	stored := make([]bool, v.N)
	for l := range v.N {
		alone := float64(p.WeightCopies) * v.Weight[l]
		total += alone
		for _, u := range v.kept[l] {
			alone += v.Out[u]
			if !stored[u] {
				stored[u] = true
				total += v.Out[u]
			}
		}
		if alone > need {
			need, why = alone, fmt.Sprintf("%q fits on no processor: %d copies of its weights and what its backward reads", v.Graph.Nodes[v.Node[l]].ID, p.WeightCopies)
		}
	}
	if part := math.Ceil(total / float64(min(p.Processors, v.N))); part > need {
		need, why = part, fmt.Sprintf("an equal part of the weights and values that %d processors hold together", p.Processors)
	}
	if platform.Fits(need, p.Memory) {
		return nil
	}
	return &plan.Infeasible{Problem: plan.Pipeline, Memory: need, Given: p.Memory, Why: why}
}

// Largest is the most that a layer and its twin take, seconds: no period is less, as
// they are on one processor.
func (v *View) Largest() float64 {
	t := 0.0
	for l := range v.N {
		t = max(t, v.F[l]+v.B[l])
	}
	return t
}

// runsSteps is how often Runs halves the range of periods.
const runsSteps = 34

// Runs is a bound on the period of every pattern, in any order, seconds: a link carries
// what crosses a cut to and fro once a mini-batch, so that at a period T the cuts are at
// ideals of which 2a/β ≤ T crosses. Layers between two cuts in a row are on one
// processor, so that each layer is in such a difference of ideals whose work is at most
// T. It is 0 where ideals were left out, or there is one processor. O(pairs·N/64) for
// each of some periods, of pairs of ideals with work of at most T between them.
func (t *Lattice) Runs(p platform.Platform) float64 {
	if len(t.Atoms) < t.View.N || p.Processors < 2 {
		return 0
	}
	high := t.Work[t.Len()-1] // one run
	low := max(t.View.Largest(), high/float64(p.Processors))
	if t.runsFit(low, p) {
		return 0 // other bounds have it
	}
	for range runsSteps {
		if middle := low + (high-low)/2; t.runsFit(middle, p) {
			high = middle
		} else {
			low = middle
		}
	}
	return low
}

// runsFit reports whether every layer may be in a run at a period, rounded up.
func (t *Lattice) runsFit(period float64, p platform.Platform) bool {
	most := period * (1 + view.Rounding)
	cut := func(i int) bool { return i == 0 || i == t.Len()-1 || 2*t.Cut[i]/p.Bandwidth <= most }
	covered := make([]uint64, t.words)
	left := t.View.N
	w := t.Walk()
	for j := t.Len() - 1; j > 0 && left > 0; j-- {
		if !cut(j) {
			continue
		}
		w.Below(j, func(i int) bool {
			if t.Work[j]-t.Work[i] > most {
				return false
			}
			if cut(i) {
				for k := range covered {
					fresh := t.sets[j*t.words+k] &^ t.sets[i*t.words+k] &^ covered[k]
					covered[k] |= fresh
					left -= bits.OnesCount64(fresh)
				}
			}
			return left > 0
		})
	}
	return left == 0
}
