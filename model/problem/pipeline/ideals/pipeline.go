package ideals

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// Infeasible returns a *plan.Infeasible if it proves that no pattern fits in memory, in any order
// of the operations; otherwise nil. Each layer is on some processor with its weights and what its
// backward reads. When the loss runs, everything that backward operations read is stored somewhere
// for its mini-batch. If the lattice, which may be nil, omits no ideals, the graph is cut at ideals
// (see [splits] and leastRuns). O(N + edges), leastRuns, and a step of splits, or 30 if nothing
// fits.
func (v *View) Infeasible(p platform.Platform, model string, t *Lattice) error {
	need, why := v.needed(p)
	if t != nil && len(t.Atoms) == v.N {
		if runs := t.leastRuns(p, model); runs > need {
			need, why = runs, "however the graph is cut into stages, one of them needs that with its weights, values and buffers"
		}
		s := t.splits(p, model != plan.StageModel)
		if !platform.Fits(need, p.Memory) || !s.fit(p.Memory) {
			if least := s.least(need); least > need {
				need, why = least, "however the graph is cut into stages, one of them needs that with its weights, values and buffers, or an equal "+
					"part of them all"
			}
		}
	}
	if platform.Fits(need, p.Memory) {
		return nil
	}
	return &plan.Infeasible{Problem: plan.Pipeline, Memory: need, Given: p.Memory, Why: why}
}

// leastRuns returns the minimum, over all ways to cut the graph into stages, of the maximum memory
// of a stage for one mini-batch. A processor that has the stage among others needs no less. It
// returns 0 if time ran out.
func (t *Lattice) leastRuns(p platform.Platform, model string) float64 {
	s := newLeastStages(t, p, model != plan.StageModel, nil)
	if !s.run() {
		return 0
	}
	return s.runs[t.Len()-1]
}

// needed returns a lower bound on memory that holds for all cuts, and the reason.
func (v *View) needed(p platform.Platform) (need float64, why string) {
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
			need, why = alone, fmt.Sprintf("%q fits on no processor: %d copies of its weights and what its backward reads",
				v.Graph.Nodes[v.Node[l]].ID, p.WeightCopies)
		}
	}
	if part := math.Ceil(total / float64(min(p.Processors, v.N))); part > need {
		need, why = part, fmt.Sprintf("an equal part of the weights and values that %d processors hold together", p.Processors)
	}
	return need, why
}

// splits is a relaxation of the ways to cut a graph at ideals. A run has the layers of one ideal
// that are not in another, and its processor has no neighbouring layers. In any order of the
// operations it stores, while its last layer runs, its weights, what its backward operations read,
// the buffers of both cuts for values and gradients, and in the task model once more what crosses
// after it. All processors together store all weights, everything that backward operations read,
// all buffers, and the input of the loss.
type splits struct {
	*Lattice
	processors float64
	task       bool
	held       []float64 // by ideal: weights and kept values of its layers
}

func (t *Lattice) splits(p platform.Platform, task bool) *splits {
	v := t.View
	s := &splits{Lattice: t, processors: float64(min(p.Processors, v.N)), task: task, held: make([]float64, t.Len())}
	of := make([]float64, v.N) // by layer: a value that several keep is counted at the first
	stored := make([]bool, v.N)
	input := v.Graph.Input
	for l := range v.N {
		of[l] = float64(p.WeightCopies) * v.Weight[l]
		for _, u := range v.kept[l] {
			if !stored[u] {
				stored[u] = true
				of[l] += v.Out[u]
			}
		}
		if len(v.Pred[l]) == 0 {
			of[l] += input
			input = 0
		}
	}
	for i := range s.held {
		for l, x := range of {
			if t.Has(i, l) {
				s.held[i] += x
			}
		}
	}
	return s
}

// fit reports whether all runs of some split fit in a memory, and an equal share of the total. It
// also reports true if time ran out. O(pairs of ideals that fit in the memory).
func (s *splits) fit(memory float64) bool {
	all := s.Len() - 1
	if s.processors == 1 {
		return platform.Fits(s.held[all], memory)
	}
	cuts := make([]float64, s.Len()) // by ideal: the minimum buffers of its splits
	w := s.Walk()
	for j := 1; j <= all; j++ {
		if s.View.stopped() {
			return true
		}
		cuts[j] = math.Inf(1)
		most := 2 * s.Cut[j]
		if s.task {
			most += s.Cut[j]
		}
		w.VisitSubsets(j, func(i int) bool {
			run := s.held[j] - s.held[i] + most
			if platform.Fits(run+2*s.Cut[i], memory) {
				cuts[j] = min(cuts[j], cuts[i]+4*s.Cut[j])
			}
			return platform.Fits(run, memory)
		})
	}
	loss := 0.0
	if s.task {
		for _, i := range s.Below[all] {
			if !s.Has(i, s.View.N-1) { // everything but the loss, which is last in every order
				loss = s.Cut[i]
			}
		}
	}
	return platform.Fits(s.held[all]+cuts[all]+loss, s.processors*memory)
}

// leastSteps is the number of bisection steps of least.
const leastSteps = 30

// least returns a memory, at least low, below which no split fits.
func (s *splits) least(low float64) float64 {
	high := max(low, s.held[s.Len()-1]) // one run
	if s.fit(low) {
		return low
	}
	for range leastSteps {
		if high-low <= 1 {
			break
		}
		if middle := math.Floor(low + (high-low)/2); s.fit(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return low + 1
}

// Largest returns the maximum time of a layer and its twin, seconds. It bounds the period, as both
// are on one processor.
func (v *View) Largest() float64 {
	t := 0.0
	for l := range v.N {
		t = max(t, v.F[l]+v.B[l])
	}
	return t
}

// runsSteps is the number of bisection steps of Runs.
const runsSteps = 34

// Runs returns a lower bound on the period of every pattern, in any order, seconds. A link carries
// what crosses a cut, values and gradients, once a mini-batch. So at period T cuts are at ideals
// with 2a/β ≤ T crossing. Layers between consecutive cuts are on one processor, so each layer is in
// such a difference of ideals with work at most T. The bound is 0 if ideals are omitted or there is
// one processor. O(pairs·N/64) a step, for pairs of ideals with work at most T between them.
func (t *Lattice) Runs(p platform.Platform) float64 {
	if len(t.Atoms) < t.View.N || p.Processors < 2 {
		return 0
	}
	high := t.Work[t.Len()-1] // one run
	low := max(t.View.Largest(), high/float64(p.Processors))
	if t.runsFit(low, p) {
		return 0 // other bounds prove as much
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

// runsFit reports whether every layer can be in a run at a period, rounded up. It also reports true
// if time ran out.
func (t *Lattice) runsFit(period float64, p platform.Platform) bool {
	most := period * (1 + view.Rounding)
	cut := func(i int) bool { return i == 0 || i == t.Len()-1 || 2*t.Cut[i]/p.Bandwidth <= most }
	covered := make([]uint64, t.words)
	left := t.View.N
	w := t.Walk()
	for j := t.Len() - 1; j > 0 && left > 0; j-- {
		if t.View.stopped() {
			return true
		}
		if !cut(j) {
			continue
		}
		w.VisitSubsets(j, func(i int) bool {
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
