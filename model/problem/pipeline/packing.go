package pipeline

import (
	"encoding/binary"
	"math"
	"slices"

	"workbench/model/plan"
)

// packing searches for an allocation in which one mini-batch at a time takes at most a given memory
// on every processor, by depth-first branch and bound from the first layer on. A prefix is pruned
// if the rest cannot fit: see mayFit. Prefixes that differ only in processor numbers are searched
// once.
type packing struct {
	in      *Instance
	memory  float64
	left    int // remaining nodes
	visited int

	owner  []int // by layer, from 1
	bins   []bin // by processor
	latest []int // by processor: its last layer
	// begin and end delimit, by layer, the stretch of identical layers that contains it. Layers up
	// to stay must be on the processor of the previous layer.
	begin, end []int
	stay       int
	seen       map[string]bool
	key        []byte // scratch

	// By layer ℓ, for the layers ℓ..N: their weights and inputs; the minimum memory of cuts among
	// them, on both sides, if each run fits alone, where ℓ may be inside a run; and the minimum own
	// memory, buffer, and size plus buffer of one of them.
	rest, cuts, own, buffer, entry []float64
	sizes                          []float64 // thresholds that are counted
	count                          [][]int   // by threshold: the number of layers ℓ..N of at least that size

	// priced has the values by prices, or is nil.
	priced *priced
}

// priced has, by layer ℓ, the total price of the layers ℓ..N, and what fits of them, with ℓ and
// without.
type priced struct {
	worth         []int
	with, without []rack
}

// bin is the memory of a processor.
type bin struct {
	fixed, stored, most float64 // weights and buffers; inputs; the peak in addition to fixed
	own                 float64 // own memory of its last layer
}

// countedSizes is the number of size thresholds.
const countedSizes = 8

func newPacking(in *Instance, memory float64, nodes int) *packing {
	n := in.N
	s := &packing{
		in: in, memory: memory, left: nodes, owner: make([]int, n+1), bins: make([]bin, in.Procs), latest: make([]int, in.Procs),
		seen: map[string]bool{},
	}
	for _, x := range []*[]float64{&s.rest, &s.cuts, &s.own, &s.buffer, &s.entry} {
		*x = make([]float64, n+2)
	}
	fresh := make([]float64, n+2) // cuts if a run starts at ℓ
	s.own[n+1], s.buffer[n+1], s.entry[n+1] = math.Inf(1), math.Inf(1), math.Inf(1)
	for i := n; i >= 1; i-- {
		s.rest[i] = s.rest[i+1] + s.size(i)
		s.own[i] = min(s.own[i+1], s.in.otherMemory(i))
		s.buffer[i] = min(s.buffer[i+1], in.Buffer[i-1])
		s.entry[i] = min(s.entry[i+1], in.Buffer[i-1]+s.size(i))
		fresh[i], s.cuts[i] = math.Inf(1), math.Inf(1)
		for j := i; j <= n && in.held(i, j) <= memory; j++ {
			if in.Procs == 1 && j < n {
				continue
			}
			after := 0.0
			if j < n {
				after = 2*in.Buffer[j] + fresh[j+1]
			}
			need := in.Needs(i, j, 1)
			if need <= memory {
				fresh[i] = min(fresh[i], after)
			}
			if need-in.Buffer[i-1] <= memory {
				s.cuts[i] = min(s.cuts[i], after)
			}
		}
	}
	s.counts()
	s.stretches()
	return s
}

// stretches finds maximal sequences of layers with equal memory and equal buffers between them.
func (s *packing) stretches() {
	in, n := s.in, s.in.N
	s.begin, s.end = make([]int, n+2), make([]int, n+2)
	for l := 1; l <= n+1; l++ {
		s.begin[l] = l
		if k := l - 1; l > 1 && l <= n && in.W[k] == in.W[l] && in.Kept[k] == in.Kept[l] && in.otherMemory(k) == in.otherMemory(l) &&
			(s.begin[k] == k || in.Buffer[k-1] == in.Buffer[k]) {
			s.begin[l] = s.begin[k]
		}
	}
	for l := n + 1; l >= 1; l-- {
		s.end[l] = l
		if l <= n && s.begin[l+1] == s.begin[l] {
			s.end[l] = s.end[l+1]
		}
	}
}

// price gives the search prices to bound the remaining layers.
func (s *packing) price(by *shelves) {
	n := s.in.N
	x := &priced{make([]int, n+2), make([]rack, n+2), make([]rack, n+2)}
	for l := n; l >= 1; l-- {
		x.worth[l] = x.worth[l+1] + by.prices[l]
		x.with[l], x.without[l] = by.rack(by.with[l]), by.rack(by.without[l])
	}
	s.priced = x
}

// size returns the memory that layer l always stores.
func (s *packing) size(l int) float64 { return s.in.Copies*s.in.W[l] + s.in.Kept[l] }

// counts chooses the size thresholds: the largest size and some below.
func (s *packing) counts() {
	all := make([]float64, s.in.N)
	for l := range all {
		all[l] = s.size(l + 1)
	}
	slices.Sort(all)
	for k := range countedSizes {
		if x := all[s.in.N-1-k*s.in.N/countedSizes]; x > 0 && !slices.Contains(s.sizes, x) {
			s.sizes = append(s.sizes, x)
		}
	}
	for _, x := range s.sizes {
		count := make([]int, s.in.N+2)
		for l := s.in.N; l >= 1; l-- {
			count[l] = count[l+1]
			if s.size(l) >= x {
				count[l]++
			}
		}
		s.count = append(s.count, count)
	}
}

// run returns an allocation, or nil; then decided reports whether there is none.
func (s *packing) run() (stages []plan.Stage, decided bool) {
	if s.mayFit(0, 0) && s.place(1, 0) {
		for l := 1; l <= s.in.N; l++ {
			if k := len(stages) - 1; k >= 0 && stages[k].Processor == s.owner[l] {
				stages[k].To = l
				continue
			}
			stages = append(stages, plan.Stage{Processor: s.owner[l], From: l, To: l})
		}
		return stages, true
	}
	return nil, s.left > 0
}

// stopEvery is the number of nodes between checks of Stop.
const stopEvery = 1 << 8

// place assigns processors to layers l.. ; used processors have layers already. It reports whether
// all layers fit.
func (s *packing) place(l, used int) bool {
	s.visited++
	if s.left--; s.left <= 0 || s.visited%stopEvery == 0 && s.in.Stop.Given() {
		s.left = 0
		return false
	}
	if l > s.in.N {
		return true
	}
	if l > 1 && s.try(l, s.owner[l-1], used) {
		return true
	}
	if l <= s.stay {
		return false
	}
	if used < s.in.Procs && s.try(l, used, used+1) {
		return true
	}
	stay := s.stay
	for p := range used {
		if p == s.owner[l-1] || !s.another(l, p) {
			continue
		}
		if s.try(l, p, used) {
			return true
		}
		s.stay = stay
	}
	return false
}

// another reports whether processor p may start another run at layer l. It breaks symmetries of a
// stretch of identical layers: its runs are interchangeable except for the first and the last, and
// two on one processor gain nothing except if they are these two. So the runs between are in the
// order of the processors, and one that starts out of order is the last and has all the rest.
func (s *packing) another(l, p int) bool {
	begin := s.begin[l]
	if l == begin {
		return true
	}
	first, has := s.owner[begin], s.latest[p] >= begin
	if has && p != first {
		return false
	}
	if has || s.owner[l-1] != first && p < s.owner[l-1] {
		s.stay = s.end[l]
	}
	return true
}

// try places layer l on processor p and continues if the rest may fit.
func (s *packing) try(l, p, used int) bool {
	in, q := s.in, p
	if l > 1 {
		q = s.owner[l-1]
	}
	beforeP, beforeQ, latest := s.bins[p], s.bins[q], s.latest[p]
	if q != p {
		s.bins[q].fixed += in.Buffer[l-1]
		s.bins[p].fixed += in.Buffer[l-1]
	}
	x := &s.bins[p]
	x.fixed += in.Copies * in.W[l]
	x.stored += in.Kept[l]
	x.own = s.in.otherMemory(l)
	x.most = max(x.most, x.stored+x.own)
	s.owner[l], s.latest[p] = p, l
	done := s.mayFit(l, used) && s.isNew(l, used) && s.place(l+1, used)
	if !done {
		s.bins[q] = beforeQ
		s.bins[p], s.latest[p] = beforeP, latest
	}
	return done
}

// mayFit reports whether the layers after l may fit next to those that are placed. The last layer
// of a processor is its current last or a later one, whose own memory it needs. The remaining
// memory must suffice for the weights and inputs of the rest and for the unavoidable cuts. A
// processor on which not even one more layer fits, with the buffer of a cut before it unless the
// processor has layer l, does not count. For each size threshold there must be as many places as
// layers.
func (s *packing) mayFit(l, used int) bool {
	if math.IsInf(s.cuts[l+1], 1) {
		return false
	}
	places := [countedSizes]int{}
	room := 0.0
	for p := range s.bins {
		x := &s.bins[p]
		if x.fixed+x.most > s.memory {
			return false
		}
		own := s.own[l+1]
		if p < used {
			own = min(own, x.own)
		}
		if l == s.in.N {
			continue
		}
		free := s.memory - x.fixed - x.stored - own
		entry := 0.0
		if l > 0 && p != s.owner[l] {
			entry = s.buffer[l+1]
			if free < s.entry[l+1] {
				continue
			}
		}
		room += free
		for k, size := range s.sizes {
			places[k] += int(max(0, math.Floor((free-entry)/size)))
		}
	}
	if l == s.in.N {
		return true
	}
	for k := range s.sizes {
		if places[k] < s.count[k][l+1] {
			return false
		}
	}
	return s.rest[l+1]+s.cuts[l+1] <= room && (s.priced == nil || s.mayBeWorth(l, s.priced))
}

// mayBeWorth reports whether the processors can hold the total price of the layers after l. A set
// that alone has weights and buffers F and peak H needs F next to the peak of the layers already
// there, and H next to their stored memory while its own layers run. O(P·log).
func (s *packing) mayBeWorth(l int, by *priced) bool {
	left := by.worth[l+1]
	more, only, may := 0, false, false // the gain from layer l+1 on a processor; on one
	for p := range s.bins {
		x := &s.bins[p]
		fixed, peak := s.memory-x.fixed-x.most, s.memory-x.fixed-x.stored
		on, off := s.in.Buffer[l], 0.0 // with layer l+1, or without
		if p == s.owner[l] {
			on, off = off, on
		}
		with, fits := by.with[l+1].most(fixed-on, peak-on)
		without, ends := by.without[l+1].most(fixed-off, peak-off)
		if !ends { // no memory for the buffer of a cut after layer l
			only, without, with = true, with, 0
		}
		left -= without
		if fits && ends && (!may || with-without > more) {
			more, may = with-without, true
		}
	}
	if only {
		return left <= 0
	}
	return may && left <= more
}

// seenMost is the maximum number of prefixes that are remembered.
const seenMost = 1 << 17

// isNew reports whether no equivalent prefix was searched before: one of equal length, with the
// same memory on the processor of its last layer and on the others, up to permutation. Inside a
// stretch of identical layers more state matters, so nothing is pruned there.
func (s *packing) isNew(l, used int) bool {
	if l == s.in.N || s.end[l] > l {
		return true
	}
	others := make([]bin, 0, used)
	for p := range used {
		if p != s.owner[l] {
			others = append(others, s.bins[p])
		}
	}
	slices.SortFunc(others, func(a, b bin) int {
		for _, x := range [3]float64{a.fixed - b.fixed, a.stored - b.stored, a.most - b.most} {
			if x != 0 {
				return int(math.Copysign(1, x))
			}
		}
		return 0
	})
	s.key = binary.AppendUvarint(s.key[:0], uint64(l))
	for _, x := range append(others, s.bins[s.owner[l]]) {
		for _, v := range [3]float64{x.fixed, x.stored, x.most} { // integers below 2^53
			s.key = binary.AppendUvarint(s.key, uint64(v))
		}
	}
	if s.seen[string(s.key)] {
		return false
	}
	if len(s.seen) < seenMost {
		s.seen[string(s.key)] = true
	}
	return true
}
