// Package moves lists the allocations of a pipeline that are one move away from another, for
// local search. O(n·P) each, n being the layers.
package moves

import (
	"slices"

	"workbench/model/plan"
	"workbench/model/problem/pipeline"
)

// Neighbours lists the allocations one move away on so many processors: one that shifts the
// cut between two stages by a layer, gives a stage to another processor, exchanges the
// processors of two stages, or takes the first or last part of a stage off to another.
func Neighbours(stages []plan.Stage, procs int) [][]plan.Stage {
	var list [][]plan.Stage
	add := func(s []plan.Stage) { list = append(list, pipeline.Merged(s)) }
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

// Shifts lists the contiguous allocations with one or two cuts moved by a layer.
func Shifts(stages []plan.Stage) [][]plan.Stage {
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

// Replicated lists the allocations with replicas one move away on so many processors: those
// of Neighbours, on procs of them; a processor more or less for a stage, or one from another;
// two stages become one with the processors of both, or one two that share its own.
func Replicated(stages []plan.Stage, procs, processors int) [][]plan.Stage {
	stages = pipeline.Merged(stages)
	number := map[int]int{} // of processors and replicas together, from 0 on; the next one has none yet
	for k := range stages {
		s := &stages[k]
		if _, known := number[s.Processor]; !known {
			number[s.Processor] = len(number)
		}
		s.Processor = number[s.Processor]
	}
	list := Neighbours(stages, procs)
	with := func(k, copies int) []plan.Stage {
		x := slices.Clone(stages)
		x[k].Replicas = copies
		return x
	}
	for k := range stages {
		s := &stages[k]
		list = append(list, with(k, s.Copies()+1))
		if s.Copies() > 1 {
			list = append(list, with(k, s.Copies()-1))
		}
		for m := range stages {
			if m != k && stages[m].Copies() > 1 {
				x := with(k, s.Copies()+1)
				x[m].Replicas--
				list = append(list, x)
			}
		}
		if k+1 < len(stages) {
			x := with(k, s.Copies()+stages[k+1].Copies())
			x[k].To = stages[k+1].To
			list = append(list, slices.Delete(x, k+1, k+2))
		}
		for copies := 1; copies < s.Copies(); copies++ {
			for l := s.From; l < s.To; l++ {
				x := with(k, copies)
				x[k].To = l
				list = append(list, slices.Insert(x, k+1, plan.Stage{Processor: len(number), From: l + 1, To: s.To, Replicas: s.Copies() - copies}))
			}
		}
	}
	var valid [][]plan.Stage
	for _, x := range list {
		if !slices.ContainsFunc(x, func(s plan.Stage) bool { return s.Processor > len(number) }) && numbered(x, processors) {
			valid = append(valid, x)
		}
	}
	return valid
}

// numbered gives stages, which it changes, the processors from 0 on in the order of the
// chain. It reports whether there are so many, and each replica is alone on its.
func numbered(stages []plan.Stage, processors int) bool {
	first, used := map[int]int{}, 0
	for k := range stages {
		s := &stages[k]
		p, known := first[s.Processor]
		if !known {
			p = used
			first[s.Processor] = p
			used += s.Copies()
		}
		for m := range k {
			if known && stages[m].Processor == p && max(s.Copies(), stages[m].Copies()) > 1 {
				return false
			}
		}
		if s.Processor = p; s.Replicas == 1 {
			s.Replicas = 0 // as plans have it
		}
	}
	return used <= processors
}
