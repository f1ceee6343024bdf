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

// leastNodes is how many beginnings of allocations the search for the least
// memory looks at.
const leastNodes = 1 << 20

// Least finds the least memory with which there is a pattern, of any number of
// mini-batches a period.
//
// One mini-batch at a time needs least: in any pattern of an allocation, while
// F_ℓ runs for a mini-batch, its processor stores the inputs of its layers up to
// ℓ for the same mini-batch, and while B_ℓ runs, too; each layer keeps its input
// for one mini-batch at least. Nothing else is stored when a mini-batch has the
// processors to itself. So what is looked for is an allocation, by branch and
// bound from the first layer on, from the best contiguous one. Exponential; the
// search ends after leastNodes with what it has.
func (in *Instance) Least() Least {
	if in.least != nil {
		return *in.least
	}
	low, _ := in.needed()
	stages := in.contiguousLeast()
	s := &leastSearch{
		in: in, floor: low, nodes: leastNodes, owner: make([]int, in.N+1),
		fixed: make([]float64, in.Procs), stored: make([]float64, in.Procs), most: make([]float64, in.Procs),
	}
	s.best = Least{Low: low, High: in.OneAtATime(stages), Allocation: stages}
	s.tails()
	s.place(1, 0)
	if s.nodes >= 0 {
		s.best.Low = s.best.High
	}
	in.least = &s.best
	return s.best
}

// OneAtATime returns the memory of the processor that needs most when the
// mini-batches of an allocation run one after the other.
func (in *Instance) OneAtATime(stages []plan.Stage) float64 {
	fixed, stored, most := make([]float64, in.Platform.Processors), make([]float64, in.Platform.Processors), make([]float64, in.Platform.Processors)
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

// leastContiguous is the least memory of a contiguous allocation.
func (in *Instance) leastContiguous() float64 { return in.OneAtATime(in.contiguousLeast()) }

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
			for i := j; i >= 1; i-- {
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

// leastSearch is the branch and bound of [Instance.Least].
type leastSearch struct {
	in    *Instance
	best  Least
	floor float64 // no allocation needs less
	nodes int     // that are left

	owner               []int     // of layers 1..
	fixed, stored, most []float64 // by processor: weights and buffers; inputs; peaks beside fixed
	// Of layers ℓ..N: the least that one of their runs needs at least, where ℓ may
	// be inside of a run; weights, inputs and what B_N needs.
	runs, rest []float64
}

// tails computes runs and rest. O(n²).
func (s *leastSearch) tails() {
	in := s.in
	s.runs, s.rest = make([]float64, in.N+2), make([]float64, in.N+2)
	cut := make([]float64, in.N+2) // the same where a run begins at ℓ
	for i := in.N; i >= 1; i-- {
		cut[i], s.runs[i] = math.Inf(1), math.Inf(1)
		for j := i; j <= in.N; j++ {
			if need := in.Needs(i, j, 1); in.Procs > 1 || j == in.N {
				cut[i] = min(cut[i], max(need, cut[j+1]))
				s.runs[i] = min(s.runs[i], max(need-in.Buffer[i-1], cut[j+1]))
			}
		}
		s.rest[i] = in.total() - in.Weights[i-1] - in.Stored[i-1]
	}
}

// place gives layer l and those behind it their processors; used is how many
// have one.
func (s *leastSearch) place(l, used int) {
	in := s.in
	if s.nodes--; s.nodes < 0 || s.best.High <= s.floor {
		return
	}
	if l > in.N {
		s.keep()
		return
	}
	if l > 1 {
		s.try(l, s.owner[l-1], used)
	}
	if used < in.Procs {
		s.try(l, used, used+1)
	}
	for p := range used {
		if p != s.owner[l-1] {
			s.try(l, p, used)
		}
	}
}

// try places layer l on processor p and goes on from there, if that may need
// less than the best.
func (s *leastSearch) try(l, p, used int) {
	in, q := s.in, p
	if l > 1 {
		q = s.owner[l-1]
	}
	fixedP, fixedQ, stored, most := s.fixed[p], s.fixed[q], s.stored[p], s.most[p]
	if q != p {
		s.fixed[q] += in.Buffer[l-1]
		s.fixed[p] += in.Buffer[l-1]
	}
	s.fixed[p] += in.Copies * in.W[l]
	s.stored[p] += in.A[l-1]
	s.most[p] = s.stored[p]
	if in.Task {
		s.most[p] = max(most, s.stored[p]+in.own(l))
	}
	s.owner[l] = p
	if s.mayBeBest(l, used) {
		s.place(l+1, used)
	}
	s.fixed[q] = fixedQ
	s.fixed[p], s.stored[p], s.most[p] = fixedP, stored, most
}

// mayBeBest reports whether layers 1..l as placed may be of an allocation that
// needs less than the best.
func (s *leastSearch) mayBeBest(l, used int) bool {
	if s.runs[l+1] >= s.best.High && l < s.in.N {
		return false
	}
	sum := s.rest[l+1]
	for p := range used {
		if s.fixed[p]+s.most[p] >= s.best.High {
			return false
		}
		sum += s.fixed[p] + s.stored[p]
	}
	return math.Ceil(sum/float64(s.in.Procs)) < s.best.High
}

// keep keeps the allocation that is placed: it is the best.
func (s *leastSearch) keep() {
	var stages []plan.Stage
	for l := 1; l <= s.in.N; l++ {
		if k := len(stages) - 1; k >= 0 && stages[k].Processor == s.owner[l] {
			stages[k].To = l
			continue
		}
		stages = append(stages, plan.Stage{Processor: s.owner[l], From: l, To: l})
	}
	s.best.High, s.best.Allocation = s.in.OneAtATime(stages), stages
}
