package pipeline

import (
	"math"
	"slices"

	"workbench/model/plan"
)

// Least holds bounds on the minimum memory with which a pattern exists.
type Least struct {
	// Low is a proven lower bound. High is the memory of Allocation. They are equal if the search
	// finished.
	Low, High  float64
	Allocation []plan.Stage
}

// Limits of the search for the minimum memory. leastProbe is the initial number of nodes for one
// memory, leastNodes the total. leastRounds and leastLabels limit column generation; with more than
// unlikeLayers distinct layers the labels are divided by fewerLabels, since there even all of them
// rarely close the interval. Together these take up to ten seconds.
const (
	leastProbe   = 1 << 11
	leastNodes   = 1 << 22
	leastRounds  = 16
	leastLabels  = 1 << 24
	fewerLabels  = 8
	unlikeLayers = 128
	leastPriced  = 500 // layers: with more, prices close nothing within seconds
)

// moreEffort is the effort from which prices are also computed at the upper end, where the search
// probes, and negative prices are allowed. They take more labels and are rarely needed.
const moreEffort = 8

// Least returns bounds on the minimum memory with which a pattern exists, for any number of
// mini-batches a period.
//
// Running one mini-batch at a time minimises memory. In any pattern of an allocation, while F_ℓ or
// B_ℓ runs for a mini-batch, its processor stores the inputs of its layers up to ℓ for the same
// mini-batch; each layer keeps its input for at least one mini-batch. Nothing else is stored when
// one mini-batch runs alone. So the search is for an allocation, which need not be contiguous:
// items are packed into equal bins, and neighbours in different bins add buffers to both. This is
// NP-hard; without buffers it is bin packing.
//
// Prices of layers (see [master]) prove lower bounds and bound the search for an allocation (see
// [packing]). Exponential in the worst case: beyond the limits, or once in.Stop is closed, the
// result is an interval.
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

// narrow alternates between prices and searches, each time with a larger limit.
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
			return // all prices take too many labels
		}
		nodes -= in.bisect(best, m.best, leastProbe*effort, nodes)
		if effort >= moreEffort/2 {
			m.wider()
		}
	}
}

// leastTolerance is the relative width of the interval that one round of probes leaves open. Below
// it, the upper end is probed.
const leastTolerance = 1e-3

// bisect searches for allocations between the bounds, at one memory after the other with at most
// probe nodes each, with prices or nil. It returns the number of nodes, at most nodes. With prices
// the upper end is probed first, since usually nothing is below it.
func (in *Instance) bisect(best *Least, by *shelves, probe, nodes int) (visited int) {
	// Undecided memories lie between open and best.High: below it bisection proves that there is no
	// allocation, above it that there is one.
	open, first := best.High, true
	for _, up := range [2]bool{false, true} {
		for visited < nodes && best.Low < best.High && !in.Stop.Given() {
			from, to := best.Low, open
			if up {
				from, to = open+1, best.High
			}
			narrow := to-from <= leastTolerance*best.High
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

// OneAtATime returns the maximum memory of a processor when the mini-batches of an allocation run
// one after the other.
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

// LeastContiguous returns the minimum memory of a contiguous allocation.
func (in *Instance) LeastContiguous() float64 { return in.OneAtATime(in.contiguousLeast()) }

// contiguousLeast returns the contiguous allocation with the minimum peak memory for one mini-batch
// in flight. O(P·n²).
func (in *Instance) contiguousLeast() []plan.Stage {
	best := make([]float64, in.N+1) // for layers 1..j
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
