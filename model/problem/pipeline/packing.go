package pipeline

import (
	"encoding/binary"
	"math"
	"slices"

	"workbench/model/plan"
)

// packing looks for an allocation with which one mini-batch at a time takes at most
// some memory on every processor, by depth-first search from the first layer on. A
// beginning is given up where what is left cannot find room: see mayFit. One that
// differs from another only in the numbers of processors is looked at once.
type packing struct {
	in      *Instance
	memory  float64
	left    int // nodes
	visited int

	owner  []int // of layers 1..
	bins   []bin // of processors
	latest []int // layers of processors
	// Stretches of layers that are alike, by layer: where it begins and ends. Up to layer
	// stay the next ones are on the processor of the layer before.
	begin, end []int
	stay       int
	seen       map[string]bool
	key        []byte // scratch

	// Of the layers ℓ..N: their weights and inputs; the least that cuts among them
	// take, on both sides, if each run fits alone, where ℓ may be inside of a run;
	// the least own, buffer and size beside a buffer of one of them.
	rest, cuts, own, buffer, entry []float64
	sizes                          []float64 // that are counted
	count                          [][]int   // by size: how many of the layers ℓ..N are at least as large

	// By prices, if there are any: what the layers ℓ..N are worth, and what fits of them.
	priced *priced
}

// priced is, by prices and by layer ℓ, what the layers ℓ..N are worth, and what fits of
// them, with ℓ and without.
type priced struct {
	worth         []int
	with, without []rack
}

// bin is what a processor stores.
type bin struct {
	fixed, stored, most float64 // weights and buffers; inputs; the peak beside fixed
	own                 float64 // of its last layer
}

// countedSizes is how many sizes of layers are counted.
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
	fresh := make([]float64, n+2) // cuts where a run begins at ℓ
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

// stretches finds the layers that follow one another and are alike in what they need
// and in the buffers between them.
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

// price gives the search prices to bound what is left with.
func (s *packing) price(by *shelves) {
	n := s.in.N
	x := &priced{make([]int, n+2), make([]rack, n+2), make([]rack, n+2)}
	for l := n; l >= 1; l-- {
		x.worth[l] = x.worth[l+1] + by.prices[l]
		x.with[l], x.without[l] = by.rack(by.with[l]), by.rack(by.without[l])
	}
	s.priced = x
}

// size is what layer l stores in any case.
func (s *packing) size(l int) float64 { return s.in.Copies*s.in.W[l] + s.in.Kept[l] }

// counts chooses the sizes that are counted, the largest ones and some below.
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

// run returns an allocation, or nil; then decided says that there is none.
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

// stopEvery is after how many beginnings the search asks whether it is to end.
const stopEvery = 1 << 8

// place gives layer l and those behind it their processors; used is how many
// have one. It reports whether all have found room.
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

// another reports whether a piece on processor p from layer l on is looked at. The
// pieces of a stretch of layers that are alike may change places, but for its first and
// its last, and nothing is gained by two on one processor, but if they are these: so
// those between are in the order of the processors, and what begins out of order is the
// last and has all the rest.
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

// try places layer l on processor p and goes on from there, if the rest may fit.
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

// mayFit reports whether the layers behind l may find room beside those that are
// placed. A processor's last layer is its last now or one of those to come, which
// needs what it needs while it runs. What is left of the processors has to be
// enough for weights and inputs of the rest and for the cuts that no way to divide
// it avoids; where not even one layer more finds room, and the buffer of a cut
// before it unless the processor has layer l, it does not count; and layers of some
// size or more have to be as many as there are places.
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

// mayBeWorth reports whether the processors may hold as much, by prices, as the
// layers behind l are worth. Beside what a processor has, a set that alone has weights
// and buffers F and the peak H needs F more while the layers there are run, and H
// beside what these store while its own run. O(P·log).
func (s *packing) mayBeWorth(l int, by *priced) bool {
	left := by.worth[l+1]
	more, only, may := 0, false, false // what layer l+1 may add to a processor; on one
	for p := range s.bins {
		x := &s.bins[p]
		fixed, peak := s.memory-x.fixed-x.most, s.memory-x.fixed-x.stored
		on, off := s.in.Buffer[l], 0.0 // with layer l+1, or without
		if p == s.owner[l] {
			on, off = off, on
		}
		with, fits := by.with[l+1].most(fixed-on, peak-on)
		without, ends := by.without[l+1].most(fixed-off, peak-off)
		if !ends { // no room for the buffer of a cut behind layer l
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

// seenMost is how many beginnings are remembered.
const seenMost = 1 << 17

// isNew reports whether no beginning like this one was looked at before: as long,
// with the same stored on the processor of its last layer, and on the others,
// whatever their numbers. Inside of a stretch of layers that are alike more counts.
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
		for _, v := range [3]float64{x.fixed, x.stored, x.most} { // whole numbers below 2^53
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
