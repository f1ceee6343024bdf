package pipeline

import (
	"math"
	"sort"
)

// Prices of layers prove that nothing fits: if no set of layers that fits on one
// processor is worth a P-th of all layers, P processors do not hold them. They are
// whole numbers, so that the proof is exact whatever the prices, those below zero, too,
// since each layer is on one processor and no other.
//
// What a processor needs that computes a set of layers depends on the set alone: its
// runs are the longest stretches of layers that follow one another, and with each
// end of a run, but for those of the chain, goes a buffer.

// A label is a set of layers, all from some layer on, and what a processor that has
// nothing else needs for it.
type label struct {
	value       int     // the sum of its prices
	fixed, peak float64 // weights and buffers; the most that is needed
	layer       int32   // the first of the set, 0: that of rest
	rest        int32   // the label that this one is made of, −1: none
}

// A shelf has labels, the most valuable first, none of which is better than one
// before it in fixed or peak, or worse in neither.
type shelf []int32

// shelves are those of sets of layers ℓ..N, for ℓ to N+1: of the sets with ℓ, whose
// buffer before ℓ is not counted, and of those without ℓ.
type shelves struct {
	in            *Instance
	prices        []int // by layer
	total         int   // of the prices
	labels        []label
	with, without []shelf
}

// newShelves finds what one processor may hold in some memory, from the last layer
// to the first. Let F be what a set has of weights and buffers, and H its peak. With
// layer ℓ before it, of weights w, input a and own memory o, and with buffers b where
// the set is not of ℓ+1,
//
//	F' = F + b + w,  H' = max(H + b + w + a, F' + a + o):
//
// the input of ℓ is stored while each later layer runs, while ℓ runs nothing of
// theirs is. Labels on a shelf differ in value, or are as many as F and H are at odds,
// so it takes about O(N · dearest set). Beyond most labels, or once in.Stop is closed, it is
// given up.
func (in *Instance) newShelves(prices []int, memory float64, most int) *shelves {
	s := &shelves{
		in: in, prices: prices, labels: []label{{rest: -1}},
		with: make([]shelf, in.N+2), without: make([]shelf, in.N+2),
	}
	s.without[in.N+1] = shelf{0}
	for l := in.N; l >= 1 && len(s.labels) < most && !in.Stop.Given(); l-- {
		s.total += prices[l]
		buffer, weight, input, beside := in.Buffer[l], in.Copies*in.W[l], in.Kept[l], in.otherMemory(l)
		begin := func(x label) label { return label{value: x.value, fixed: x.fixed + buffer, peak: x.peak + buffer} }
		join := func(x label) label {
			fixed := x.fixed + weight
			return label{x.value + prices[l], fixed, max(x.peak+weight+input, fixed+input+beside), int32(l), 0}
		}
		with, without := s.with[l+1], s.without[l+1]
		s.without[l] = s.merge(memory, without, with, nil, begin)
		s.with[l] = s.merge(memory, with, without, join, func(x label) label { return join(begin(x)) })
	}
	return s
}

// mostUndominated is how many labels others are compared with.
const mostUndominated = 1 << 12

// merge returns the shelf of those of a and b, changed (nil: as they are), that stay
// within the memory; not all of them once in.Stop is closed.
func (s *shelves) merge(memory float64, a, b shelf, changeA, changeB func(label) label) (both shelf) {
	both = make(shelf, 0, len(a)+len(b))
	var least needs // of both, the undominated
	for len(a) > 0 || len(b) > 0 {
		if (len(a)+len(b))%stopEvery == 0 && s.in.Stop.Given() {
			break
		}
		from, change := &a, changeA
		if len(a) == 0 || len(b) > 0 && s.labels[b[0]].value > s.labels[a[0]].value {
			from, change = &b, changeB
		}
		i := (*from)[0]
		*from = (*from)[1:]
		x := s.labels[i]
		if change != nil {
			x = change(x)
			x.rest = i
		}
		if x.peak > memory || !least.add(need{x.fixed, x.peak}) {
			continue
		}
		if change != nil {
			i = int32(len(s.labels))
			s.labels = append(s.labels, x)
		}
		both = append(both, i)
	}
	return both
}

// needs are undominated amounts of memory, mostUndominated at most.
type (
	needs []need
	need  struct{ fixed, peak float64 }
)

// add takes x in and those that it dominates out; false if x is dominated itself. It is where
// prices spend their time: closures took twice as long.
func (n *needs) add(x need) bool {
	for _, y := range *n {
		if y.fixed <= x.fixed && y.peak <= x.peak {
			return false
		}
	}
	kept := (*n)[:0]
	for _, y := range *n {
		if y.fixed < x.fixed || y.peak < x.peak {
			kept = append(kept, y)
		}
	}
	if len(kept) < mostUndominated {
		kept = append(kept, x)
	}
	*n = kept
	return true
}

// bound is the least memory with which one processor may hold a P-th of all prices:
// with less there is no allocation. +Inf: more than what the shelves are for.
func (s *shelves) bound() float64 {
	least := math.Inf(1)
	for _, a := range [2]shelf{s.with[1], s.without[1]} {
		for _, i := range a {
			if x := s.labels[i]; x.value*s.in.Procs >= s.total {
				least = min(least, x.peak)
			}
		}
	}
	return least
}

// sets is how many sets, in fractions, are needed at least to hold all layers in a
// memory.
func (s *shelves) sets(memory float64) float64 {
	dearest := 0
	for _, a := range [2]shelf{s.with[1], s.without[1]} {
		for _, i := range a {
			if x := s.labels[i]; x.peak <= memory {
				dearest = max(dearest, x.value)
			}
		}
	}
	return float64(s.total) / float64(dearest)
}

// dearest returns the most valuable set within a memory that begins with layer l,
// and what it needs.
func (s *shelves) dearest(l int, memory float64) (layers []int, peak float64) {
	buffer := s.in.Buffer[l-1]
	for _, i := range s.with[l] {
		if peak = s.labels[i].peak + buffer; peak <= memory {
			for ; i >= 0; i = s.labels[i].rest {
				if k := s.labels[i].layer; k > 0 {
					layers = append(layers, int(k))
				}
			}
			return layers, peak
		}
	}
	return nil, 0
}

// A rack is a shelf to ask for what fits.
type rack struct {
	value       []int
	fixed, peak []float64 // the least of the labels up to here
}

func (s *shelves) rack(a shelf) (r rack) {
	fixed, peak := math.Inf(1), math.Inf(1)
	for _, i := range a {
		x := s.labels[i]
		if x.fixed < fixed || x.peak < peak {
			fixed, peak = min(fixed, x.fixed), min(peak, x.peak)
			r.value, r.fixed, r.peak = append(r.value, x.value), append(r.fixed, fixed), append(r.peak, peak)
		}
	}
	return r
}

// most is at least the value of any set that needs so much and has weights and
// buffers of so much; false: there is none. O(log labels).
func (r *rack) most(fixed, peak float64) (value int, ok bool) {
	i := sort.Search(len(r.value), func(i int) bool { return r.fixed[i] <= fixed && r.peak[i] <= peak })
	if i == len(r.value) {
		return 0, false
	}
	return r.value[i], true
}
