package pipeline

import (
	"math"
	"slices"

	"workbench/model/plan"
)

// Least is what is known of the least memory with which a pattern exists.
type Least struct {
	// Low: with less there is no pattern, as a search or a closed form proves.
	// High: with so much the allocation has one. They are equal where the search
	// ended.
	Low, High  float64
	Allocation []plan.Stage
}

// Limits of the search for the least memory: leastProbe is how many beginnings of
// allocations are looked at for one memory at first, leastNodes for all in all;
// leastRounds and leastLabels are the same of prices, fewer by fewerLabels where more than
// unlikeLayers have prices of their own: there even all of them rarely close the interval.
// Together these are up to ten seconds.
const (
	leastProbe   = 1 << 11
	leastNodes   = 1 << 22
	leastRounds  = 16
	leastLabels  = 1 << 24
	fewerLabels  = 8
	unlikeLayers = 128
	leastPriced  = 500 // layers: prices of more close nothing within seconds
)

// moreEffort is from what effort on there are more prices: those for the upper end, where
// the search asks, and those below zero. They take more labels, and mostly nobody needs
// them.
const moreEffort = 8

// Least finds the least memory with which there is a pattern, of any number of
// mini-batches a period.
//
// One mini-batch at a time needs least: in any pattern of an allocation, while
// F_ℓ runs for a mini-batch, its processor stores the inputs of its layers up to
// ℓ for the same mini-batch, and while B_ℓ runs, too; each layer keeps its input
// for one mini-batch at least. Nothing else is stored when a mini-batch has the
// processors to itself. So what is looked for is an allocation, which need not be
// contiguous: items are packed into equal bins, and neighbours that are apart take
// room in both, which is hard (with no buffers it is bin packing).
//
// Prices of layers (see [master]) prove a memory to be too little, and bound the
// search for an allocation (see [packing]). Exponential: beyond limits, and once in.Stop
// is closed, the result is an interval.
func (in *Instance) Least() Least {
	if in.least == nil {
		low, _ := in.needed()
		stages := in.contiguousLeast()
		best := &Least{Low: low, High: in.OneAtATime(stages), Allocation: stages}
		in.bisect(best, nil, leastProbe, leastNodes)
		in.bisect(best, nil, 4*leastProbe, leastNodes)
		if in.N <= leastPriced {
			in.narrow(best)
		}
		in.least = best
	}
	return *in.least
}

// narrow narrows the interval by prices and searches in turn, each time for longer.
func (in *Instance) narrow(best *Least) {
	m := newMaster(in)
	labels, nodes := leastLabels, leastNodes
	if len(m.layers) > unlikeLayers {
		labels /= fewerLabels
	}
	for effort := 1; best.Low < best.High && labels > 0 && nodes > 0 && !in.Stop.Given(); effort *= 2 {
		for _, at := range [2]float64{best.Low, best.High - 1} {
			if at > best.Low && effort < moreEffort {
				break
			}
			low, took := m.raise(best.Low, at, best.High-1, leastRounds*effort, labels)
			best.Low = low
			labels -= took
		}
		if m.best == nil {
			return // any take too many labels
		}
		nodes -= in.bisect(best, m.best, leastProbe*effort, nodes)
		if effort >= moreEffort/2 {
			m.wider()
		}
	}
}

// leastGrain is the relative width of an interval that a round of probes leaves
// open, and below which it is asked at its upper end.
const leastGrain = 1e-3

// bisect looks for allocations between what is known on both sides, at one memory
// after the other with at most probe nodes, with prices or nil. It returns how many it
// took, nodes at most. With prices the upper end is asked for first: mostly nothing is
// below it.
func (in *Instance) bisect(best *Least, by *shelves, probe, nodes int) (visited int) {
	// What is not decided lies between open and best.High: below it, whether there
	// is none is bisected, above it, whether there is one.
	open, first := best.High, true
	for _, up := range [2]bool{false, true} {
		for visited < nodes && best.Low < best.High && !in.Stop.Given() {
			from, to := best.Low, open
			if up {
				from, to = open+1, best.High
			}
			narrow := to-from <= leastGrain*best.High
			if from >= to || open < best.High && narrow {
				break
			}
			memory := from + math.Floor((to-from)/2)
			if by != nil && open == best.High && (first || narrow) {
				memory, first = best.High-1, false
			}
			s := newPacking(in, memory, min(probe, nodes-visited))
			if by != nil {
				s.price(by)
			}
			found, decided := s.run()
			visited += s.visited
			switch {
			case found != nil:
				best.High, best.Allocation = in.OneAtATime(found), found
				open = min(open, best.High)
			case decided:
				best.Low = max(best.Low, memory+1)
			default:
				open = memory
			}
		}
	}
	return visited
}

// OneAtATime returns the memory of the processor that needs most when the
// mini-batches of an allocation run one after the other.
func (in *Instance) OneAtATime(stages []plan.Stage) float64 {
	fixed, stored, most := make([]float64, in.Platform.Processors), make([]float64, in.Platform.Processors),
		make([]float64, in.Platform.Processors)
	for k, s := range stages {
		p := s.Processor
		fixed[p] += in.Weights[s.To] - in.Weights[s.From-1]
		if k > 0 && stages[k-1].Processor != p {
			fixed[p] += in.Buffer[s.From-1]
			fixed[stages[k-1].Processor] += in.Buffer[s.From-1]
		}
		most[p] = max(most[p], stored[p]+in.Peak(s.From, s.To))
		stored[p] += in.Inputs(s.From, s.To)
	}
	peak := 0.0
	for p := range fixed {
		peak = max(peak, fixed[p]+most[p])
	}
	return peak
}

// LeastContiguous is the least memory of a contiguous allocation.
func (in *Instance) LeastContiguous() float64 { return in.OneAtATime(in.contiguousLeast()) }

// contiguousLeast returns the contiguous allocation with the smallest largest
// memory for one mini-batch in flight. O(P·n²).
func (in *Instance) contiguousLeast() []plan.Stage {
	best := make([]float64, in.N+1) // of layers 1..j
	for j := range best {
		best[j] = math.Inf(1)
	}
	best[0] = 0
	froms := make([][]int, in.Procs)
	for p := range in.Procs {
		froms[p] = make([]int, in.N+1)
		for j := in.N; j >= 1; j-- {
			best[j] = math.Inf(1)
			for i := j; i >= 1 && in.held(i, j) < best[j]; i-- {
				if m := max(best[i-1], in.Needs(i, j, 1)); m < best[j] {
					best[j], froms[p][j] = m, i
				}
			}
		}
	}
	var stages []plan.Stage
	for j, p := in.N, in.Procs-1; j > 0; p-- {
		i := froms[p][j]
		stages = append(stages, plan.Stage{From: i, To: j})
		j = i - 1
	}
	slices.Reverse(stages)
	for p := range stages {
		stages[p].Processor = p
	}
	return stages
}
