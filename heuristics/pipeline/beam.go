package pipeline

import (
	"cmp"
	"slices"

	view "workbench/model/problem/pipeline"
)

const (
	// beamWidth is the number of partial allocations that a beam search keeps.
	beamWidth = 200
	// beamWork bounds the width for long chains: width·n³.
	beamWork = 1 << 28
	// beamSimilar is the maximum number of them with equal loads, at a resolution of 1/beamLoads of
	// the period.
	beamSimilar = 3
	beamLoads   = 8
	// beamDecisions is the maximum work on a pattern of one of them, beamPatterns that on all
	// patterns of a probe.
	beamDecisions = 100
	beamPatterns  = 1 << 17
	// beamLayers is the maximum length of a chain whose patterns are searched layer by layer.
	beamLayers = 40
	// beamFirst and beamLast are the parts of the period that Search wants to gain
	// by a beam at first and at least.
	beamFirst, beamLast = 0.16, 0.002
)

// beamSearch closes in on a short period by beam searches, from that of s: each asks for a pattern that is shorter by a
// step, which is halved when there is none.
func (in *instance) beamSearch(s *view.Pattern) *view.Pattern {
	width := min(beamWidth, beamWork/(in.N*in.N*in.N))
	floor := max(in.U[in.N]/float64(in.Procs), in.Runs(true, false), in.HeldMemory())
	for step := beamFirst; step >= beamLast && width > 0 && !in.stopped(); {
		period := s.Rate() * (1 - step)
		if period < floor {
			step /= 2
			continue
		}
		e := newEnumeration(in, period, false, false, beamPatterns, in.stopped)
		e.pespBudget = beamDecisions
		if e.beam(width); e.found != nil {
			s = e.found
		} else {
			step /= 2
		}
	}
	return s
}

// beam searches for a pattern of period T or less among the best partial allocations, layer by
// layer: those that are not excluded and leave the most memory, with few of similar loads.
// O(width·n³) and the patterns.
func (e *enumeration) beam(width int) {
	if e.stopped || !e.possible() || !e.hasRoom(1) {
		return
	}
	list := []leaf{{owner: []int{noProcessor}}}
	var longer []leaf
	for l := 1; l <= e.in.N && !e.stop(); l++ {
		longer = longer[:0]
		for _, x := range list {
			e.withPlaced(x, func() { longer = e.appendExtended(longer, x) })
		}
		slices.SortStableFunc(longer, func(x, y leaf) int { return cmp.Compare(y.spare, x.spare) })
		list = list[:0]
		similar := map[uint64]int{}
		for _, x := range longer {
			if similar[x.loads]++; similar[x.loads] <= beamSimilar && len(list) < width {
				list = append(list, x)
			}
		}
	}
	for _, x := range list {
		if e.finished() {
			return
		}
		if len(x.owner) > e.in.N {
			e.withPlaced(x, e.guess)
		}
	}
}

// appendExtended appends x with one layer more, in all ways that are not excluded.
func (e *enumeration) appendExtended(longer []leaf, x leaf) []leaf {
	l := len(x.owner)
	if e.negligible[l] {
		x.owner = append(slices.Clone(x.owner), noProcessor)
		return append(longer, x)
	}
	for r := range min(x.used+1, e.in.Procs) {
		before, why := e.place(l, r)
		if why.kind != noArgument {
			continue
		}
		if used := max(x.used, r+1); e.bound(l, used).kind == noArgument {
			longer = append(longer, leaf{owner: append(slices.Clone(x.owner), r), used: used, spare: e.spare, loads: e.loadKey(r, used)})
		}
		e.unplace(l, r, before)
	}
	return longer
}

// loadKey returns a key of the load of the processor of the last layer and those of the others, up
// to permutation.
func (e *enumeration) loadKey(last, used int) uint64 {
	part := func(r int) uint64 { return uint64(e.load[r]/e.period*beamLoads) + 1 }
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

// guess searches for a pattern of a complete allocation, without proving that there is none.
func (e *enumeration) guess() {
	stages := e.stages()
	e.found = e.listSchedule(stages)
	if e.found == nil {
		e.found = e.byStages(view.Merged(stages))
	}
	if e.found == nil && e.in.N <= beamLayers {
		e.found = e.byLayers(stages)
	}
}
