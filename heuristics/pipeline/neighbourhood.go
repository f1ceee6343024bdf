package pipeline

import (
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// neighbours returns the neighbourhood of an allocation on procs processors, for local search: a move shifts the cut between
// two stages by a layer, gives a stage to another processor, exchanges the processors of two stages, or takes the first or
// last part of a stage to another one. O(n·P) allocations.
func neighbours(stages []plan.Stage, procs int) [][]plan.Stage {
	var list [][]plan.Stage
	add := func(s []plan.Stage) { list = append(list, view.Merged(s)) }
	for k, s := range stages {
		if k > 0 {
			if s.From < s.To {
				x := slices.Clone(stages)
				x[k-1].To++
				x[k].From++
				add(x)
			}
			if prev := stages[k-1]; prev.From < prev.To {
				x := slices.Clone(stages)
				x[k-1].To--
				x[k].From--
				add(x)
			}
		}
		for p := range procs {
			if p != s.Processor {
				x := slices.Clone(stages)
				x[k].Processor = p
				add(x)
			}
		}
		for m := k + 1; m < len(stages); m++ {
			if stages[m].Processor != s.Processor {
				x := slices.Clone(stages)
				x[k].Processor, x[m].Processor = x[m].Processor, x[k].Processor
				add(x)
			}
		}
		for l := s.From; l < s.To; l++ {
			for p := range procs {
				if p == s.Processor {
					continue
				}
				head, tail := slices.Clone(stages), slices.Clone(stages)
				head[k].From, tail[k].To = l+1, l
				add(slices.Insert(head, k, plan.Stage{Processor: p, From: s.From, To: l}))
				add(slices.Insert(tail, k+1, plan.Stage{Processor: p, From: l + 1, To: s.To}))
			}
		}
	}
	return list
}

// shiftedCuts returns the contiguous allocations with one or two cuts moved by a layer.
func shiftedCuts(stages []plan.Stage) [][]plan.Stage {
	move := func(s []plan.Stage, k, by int) []plan.Stage {
		x := append([]plan.Stage(nil), s...)
		x[k].To += by
		x[k+1].From += by
		if x[k].From > x[k].To || x[k+1].From > x[k+1].To {
			return nil
		}
		return x
	}
	var list [][]plan.Stage
	for k := range len(stages) - 1 {
		for _, by := range []int{-1, 1} {
			x := move(stages, k, by)
			if x == nil {
				continue
			}
			list = append(list, x)
			for l := k + 1; l < len(stages)-1; l++ {
				for _, by := range []int{-1, 1} {
					if y := move(x, l, by); y != nil {
						list = append(list, y)
					}
				}
			}
		}
	}
	return list
}
