package pipeline

import (
	"cmp"
	"slices"

	view "workbench/model/problem/pipeline"
)

const (
	// beamWidth is how many beginnings of allocations a beam search keeps.
	beamWidth = 200
	// beamWork bounds the width for long chains: width·n³.
	beamWork = 1 << 28
	// beamAlike is how many of them may have loads alike, to beamLoads parts of
	// the period.
	beamAlike = 3
	beamLoads = 8
	// beamDecisions is what a pattern of one of them may take, beamPatterns the
	// work on all patterns of a probe.
	beamDecisions = 100
	beamPatterns  = 1 << 17
	// beamLayers is the length of the longest chain of which patterns are looked
	// for layer by layer.
	beamLayers = 40
	// beamFirst and beamLast are the parts of the period that Search wants to gain
	// by a beam at first and at least.
	beamFirst, beamLast = 0.16, 0.002
)

// shorten closes in on a short period by beam searches, from that of s: each asks
// for a pattern that is shorter by a step, which is halved when there is none.
func (in *instance) shorten(s *view.Pattern) *view.Pattern {
	width := min(beamWidth, beamWork/(in.N*in.N*in.N))
	floor := max(in.U[in.N]/float64(in.Procs), in.Runs(true, false), in.HeldMemory())
	for step := beamFirst; step >= beamLast && width > 0 && !in.stopped(); {
		period := s.Rate() * (1 - step)
		if period < floor {
			step /= 2
			continue
		}
		a := newAllocations(in, period, false, 1, in.stopped)
		a.decide, a.budget = beamDecisions, beamPatterns
		if a.beam(width); a.found != nil {
			s = a.found
		} else {
			step /= 2
		}
	}
	return s
}

// A ray is the beginning of an allocation.
type ray struct {
	owner []int   // of layers 0..l
	used  int     // processors
	spare float64 // bytes that all processors have left, on average over time
	loads uint64  // about what they compute
}

// beam looks for a pattern of period T or less among the allocations whose
// beginnings are the best, layer by layer: of those that may fit the ones that
// leave most memory, and few with loads alike. O(width·n³) and the patterns.
func (a *allocations) beam(width int) {
	if a.undecided || !a.hasRoom(1) {
		return
	}
	a.beams = true
	a.owner[0] = none
	rays := []ray{{owner: []int{none}}}
	var longer []ray
	for l := 1; l <= a.in.N && !a.ended(); l++ {
		longer = longer[:0]
		for _, x := range rays {
			a.along(x, func() { longer = a.extend(longer, x) })
		}
		slices.SortStableFunc(longer, func(x, y ray) int { return cmp.Compare(y.spare, x.spare) })
		rays = rays[:0]
		alike := map[uint64]int{}
		for _, x := range longer {
			if alike[x.loads]++; alike[x.loads] <= beamAlike && len(rays) < width {
				rays = append(rays, x)
			}
		}
	}
	for _, x := range rays {
		if a.over() {
			return
		}
		if len(x.owner) > a.in.N {
			a.along(x, a.guess)
		}
	}
}

// along calls do with the layers of x placed.
func (a *allocations) along(x ray, do func()) {
	before := make([]placed, len(x.owner))
	for l := 1; l < len(x.owner); l++ {
		if x.owner[l] == none {
			a.skip(l)
		} else {
			before[l], _ = a.put(l, x.owner[l]) // loads have allowed it before
		}
	}
	do()
	for l := len(x.owner) - 1; l >= 1; l-- {
		if x.owner[l] != none {
			a.takeBack(l, x.owner[l], before[l])
		}
	}
}

// extend appends x with one layer more, in all ways that may fit.
func (a *allocations) extend(longer []ray, x ray) []ray {
	l := len(x.owner)
	if a.light[l] {
		x.owner = append(slices.Clone(x.owner), none)
		return append(longer, x)
	}
	for r := range min(x.used+1, a.in.Procs) {
		before, ok := a.put(l, r)
		if !ok {
			continue
		}
		if used := max(x.used, r+1); a.mayFit(l, used) {
			longer = append(longer, ray{append(slices.Clone(x.owner), r), used, a.spare, a.loads(r, used)})
		}
		a.takeBack(l, r, before)
	}
	return longer
}

// loads is a number for the load of the processor of the last layer and those
// of the others, whichever has which.
func (a *allocations) loads(last, used int) uint64 {
	part := func(r int) uint64 { return uint64(a.load[r]/a.period*beamLoads) + 1 }
	others := make([]uint64, 0, used)
	for r := range used {
		if r != last {
			others = append(others, part(r))
		}
	}
	slices.Sort(others)
	key := part(last)
	for _, x := range others {
		key = key*(beamLoads+2) + x
	}
	return key
}

// guess looks for a pattern of a whole allocation, without a proof that there is
// none.
func (a *allocations) guess() {
	stages := a.stages()
	a.found = a.listed(stages)
	if a.found == nil {
		a.found = a.inStages(view.Merged(stages))
	}
	if a.found == nil && a.in.N <= beamLayers {
		a.found = a.whole(stages)
	}
}
