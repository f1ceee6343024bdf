package ideals

import (
	"math"

	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// Held returns a lower bound on the period of every pattern, k-periodic for any k and in any order,
// in seconds a mini-batch, from memory and storage times; 0 if it proves nothing.
//
// A value that B_ℓ reads is kept from the start of F_ℓ to the end of B_ℓ, where ℓ is the first
// layer of its run that keeps it. Meanwhile the mini-batch passes all later layers and cuts forward
// and backward. So at period T a mini-batch holds on average (Little's law) the value times that
// duration over T. In the task model a layer also holds the values that cross the cut after it
// while F runs, and those that cross before and after it while B runs. Weights and the buffers of
// cuts are held all the time. The total is at most P·M, and that of one run at most M. The
// relaxation ignores which processor has which run, and what a mini-batch waits for.
//
// The minimum is found by dynamic programming over pairs of ideals. The duration for a layer added
// to an ideal depends on the ideal alone, and a cut delays everything kept below it. At period T
// cuts are at ideals with 2a/β ≤ T crossing, and between consecutive cuts lies a run with work at
// most T that fits by itself. Runs feasible at T are feasible at any longer period, so T is found
// by bisection. O(pairs·width·readers) a step.
func (t *Lattice) Held(p platform.Platform, task bool) float64 {
	if len(t.Atoms) < t.View.N {
		return t.View.heldApart(p)
	}
	h := newHolding(t, p, task)
	low, high := t.Work[t.Len()-1]/float64(p.Processors), t.Work[t.Len()-1]
	for i := range t.Cut {
		high += h.send(i)
	}
	if h.fits(low) || !h.fits(high) { // another bound proves as much, or no plan exists
		return 0
	}
	for high-low > heldTolerance*high {
		if middle := low + (high-low)/2; h.fits(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return low * (1 - view.Rounding)
}

// heldTolerance is the relative tolerance of the bisection of Held.
const heldTolerance = 1e-5

// holding is the dynamic program of Held.
type holding struct {
	*readers
	p        platform.Platform
	task     bool
	procs    int
	all      float64   // total work, seconds
	above    [][]reach // by ideal: those with one more layer
	weight   []float64 // by ideal
	seen     []int     // by ideal: the start of the run that reached it
	charge   []float64 // of the run up to an ideal: memory times time for a mini-batch
	kept     []float64 // of that run
	smallest []float64 // minimum memory times time of an ideal at a period
	least    []float64 // minimum memory that an ideal keeps for a mini-batch
}

// reach is an ideal and the layer that it has in addition.
type reach struct{ ideal, layer int }

func newHolding(t *Lattice, p platform.Platform, task bool) *holding {
	v, n := t.View, t.Len()
	h := &holding{
		readers: t.readers(), p: p, task: task, procs: min(p.Processors, v.N), all: t.Work[n-1],
		above: make([][]reach, n), seen: make([]int, n), weight: make([]float64, n),
		charge: make([]float64, n), kept: make([]float64, n), smallest: make([]float64, n), least: make([]float64, n),
	}
	for j := range n {
		for l := range v.N {
			if t.Has(j, l) {
				h.weight[j] += v.Weight[l]
			}
		}
		for _, i := range t.Below[j] {
			for l := range v.N {
				if t.Has(j, l) && !t.Has(i, l) {
					h.above[i] = append(h.above[i], reach{j, l})
				}
			}
		}
	}
	return h
}

// fits reports whether the memory needed at a period fits in all processors together, rounded up.
// It also reports true if time ran out.
func (h *holding) fits(period float64) bool {
	n := h.t.Len()
	for i := range n {
		h.smallest[i], h.least[i], h.seen[i] = math.Inf(1), math.Inf(1), -1
	}
	h.smallest[0], h.least[0] = 0, 0
	for j := range n - 1 {
		if h.t.View.stopped() {
			return true
		}
		if !math.IsInf(h.smallest[j], 1) {
			h.runsFrom(j, period)
		}
	}
	return h.smallest[n-1] <= float64(h.procs)*h.p.Memory*period*(1+view.Rounding)
}

// send returns the communication time of the cut at an ideal a mini-batch, seconds.
func (h *holding) send(i int) float64 {
	if i == 0 || i == h.t.Len()-1 || h.procs < 2 {
		return 0
	}
	return 2 * h.t.Cut[i] / h.p.Bandwidth
}

// runsFrom visits all runs that start after ideal j.
func (h *holding) runsFrom(j int, period float64) {
	t, v := h.t, h.t.View
	most := period * (1 + view.Rounding)
	h.seen[j], h.charge[j], h.kept[j] = j, 0, 0
	for queue := []int{j}; len(queue) > 0; queue = queue[1:] {
		k := queue[0]
		if k != j {
			h.cut(j, k, period)
		}
		for _, x := range h.above[k] {
			if t.Work[x.ideal]-t.Work[j] > most {
				continue
			}
			size := h.fresh(j, k, x.layer)
			charge := h.charge[k] + size*(h.all-t.Work[k])
			if h.task {
				charge += t.Cut[x.ideal]*v.F[x.layer] + (t.Cut[x.ideal]+t.Cut[k])*v.B[x.layer]
			}
			if h.seen[x.ideal] != j {
				h.seen[x.ideal], h.charge[x.ideal], h.kept[x.ideal] = j, charge, h.kept[k]+size
				queue = append(queue, x.ideal)
			}
			h.charge[x.ideal] = min(h.charge[x.ideal], charge)
		}
	}
}

// cut ends the run that starts after j at ideal k, if it fits.
func (h *holding) cut(j, k int, period float64) {
	t := h.t
	send := h.send(k)
	if k < t.Len()-1 && (h.procs < 2 || send > period*(1+view.Rounding)) {
		return
	}
	always := float64(h.p.WeightCopies)*(h.weight[k]-h.weight[j]) + 2*t.Cut[j] + 2*t.Cut[k]
	alone := always*period + h.charge[k]
	if !platform.Fits(always+h.kept[k], h.p.Memory) || alone > h.p.Memory*period*(1+view.Rounding) {
		return
	}
	h.least[k] = min(h.least[k], h.least[j]+h.kept[k])
	h.smallest[k] = min(h.smallest[k], h.smallest[j]+alone+send*h.least[k])
}

// heldApart returns the bound of Held for graphs with too many ideals: the duration of a layer
// counts only itself and the layers that depend on it, and each value is kept once. O(N·(N +
// edges)).
func (v *View) heldApart(p platform.Platform) float64 {
	room := float64(min(p.Processors, v.N)) * p.Memory
	way := make([]float64, v.N)
	for l := range v.N {
		room -= float64(p.WeightCopies) * v.Weight[l]
		later := make([]bool, v.N)
		later[l] = true
		for m := l; m < v.N; m++ { // layers are in a topological order
			if later[m] {
				way[l] += v.F[m] + v.B[m]
				for _, r := range v.Succ[m] {
					later[r] = true
				}
			}
		}
	}
	longest := make([]float64, v.N) // by value
	input := 0.0
	for l := range v.N {
		for _, u := range v.kept[l] {
			longest[u] = max(longest[u], way[l])
		}
		if len(v.Pred[l]) == 0 {
			input = max(input, way[l])
		}
	}
	held := v.Graph.Input * input
	for u := range v.N {
		held += v.Out[u] * longest[u]
	}
	if held == 0 || room <= 0 {
		return 0
	}
	return held / room * (1 - view.Rounding)
}
