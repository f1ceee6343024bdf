package pipelinegraph

import (
	"math"
	"slices"

	"workbench/heuristics/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/ideals"
)

// starGrain is the relative tolerance of Star's period.
const starGrain = 1e-3

// Star returns the ideals of the stages with which 1F1B* has the shortest period, up to longest, within starGrain;
// nil if there are none. At a period T, from the last stage to the first, it minimises the delay ⊕ of [004] 7.1.2
// to the end, since the delay determines the number of mini-batches in flight of a stage, and so its memory. What
// a stage keeps is exact; its memory while it computes is estimated by the values that cross its two cuts. The
// plan on the chain is exact. O(P·pairs·N) a period.
func Star(t *ideals.Lattice, p platform.Platform, o pipeline.Options, longest float64) []int {
	s := &star{t: t, p: p, task: o.Model != plan.StageModel, walk: t.Walk(), stop: o.Stop}
	all := t.Len() - 1
	high := t.Work[all]
	for i := range t.Cut {
		high = max(high, 2*t.Cut[i]/p.Bandwidth)
	}
	high = min(high+t.Work[all], longest)
	best := s.idealsAt(high)
	if best == nil {
		return nil
	}
	low := t.Work[all] / float64(p.Processors)
	for high-low > starGrain*high && !s.stop.Given() {
		middle := low + (high-low)/2
		if found := s.idealsAt(middle); found != nil {
			best, high = found, middle
		} else {
			low = middle
		}
	}
	return best
}

type star struct {
	t    *ideals.Lattice
	p    platform.Platform
	task bool
	walk *ideals.Walk
	stop plan.Stop
}

// idealsAt returns the ideals of stages that fit at a period, nil if there are none.
func (s *star) idealsAt(period float64) []int {
	t := s.t
	n := t.Len()
	all := n - 1
	procs := min(s.p.Processors, len(t.Atoms))
	delay := slices.Repeat([]float64{math.Inf(1)}, n) // of everything but ideal i in r stages, including the cut below it
	delay[all] = 0
	next := make([][]int, procs+1)
	for r := 1; r <= procs; r++ {
		row := slices.Repeat([]float64{math.Inf(1)}, n)
		next[r] = make([]int, n)
		for j := range n {
			if math.IsInf(delay[j], 1) {
				continue
			}
			if s.stop.Given() {
				return nil
			}
			s.walk.VisitSubsets(j, func(i int) bool {
				work := t.Work[j] - t.Work[i]
				if work > period*(1+view.Rounding) {
					return false
				}
				link := 0.0
				if i > 0 {
					link = 2 * t.Cut[i] / s.p.Bandwidth
				}
				if link > period {
					return true
				}
				before := view.Plus(delay[j], work, period)
				after := before
				if i > 0 {
					after = view.Plus(before, link, period)
				}
				if after < row[i] && s.fits(i, j, view.Periods(before, period)) {
					row[i], next[r][i] = after, j
				}
				return true
			})
		}
		if !math.IsInf(row[0], 1) {
			var chosen []int
			for i := 0; r > 0; r-- {
				i = next[r][i]
				chosen = append(chosen, i)
			}
			return chosen
		}
		delay = row
	}
	return nil
}

// fits reports whether the stage between two ideals fits with that many mini-batches in
// flight.
func (s *star) fits(i, j, flight int) bool {
	t := s.t
	kept, weight := t.Kept(i, j)
	need := weight*float64(s.p.WeightCopies) + float64(max(1, flight))*kept
	if i > 0 {
		need += 2 * t.Cut[i]
	}
	if j < t.Len()-1 {
		need += 2 * t.Cut[j]
	}
	if s.task {
		need += max(t.Cut[j], t.Cut[i])
	}
	return platform.Fits(need, s.p.Memory)
}
