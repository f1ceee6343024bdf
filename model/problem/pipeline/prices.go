package pipeline

import (
	"math"
	"sort"
)

// Prices of layers prove that nothing fits: if no set of layers that fits on one processor has a
// P-th of the total price, P processors cannot hold all layers. Prices are integers, so the proof
// is exact for any prices. Negative ones are valid, too, since each layer is on exactly one
// processor.
//
// The memory of a processor depends only on its set of layers: its runs are the maximal sequences
// of consecutive layers, and each end of a run except those of the chain adds a buffer.

// label is a set of layers, all from some layer on, with the memory of a processor that has no
// others.
type label struct {
	value       int     // the sum of its prices
	fixed, peak float64 // weights and buffers; peak memory
	layer       int32   // the first layer of the set, 0: that of rest
	rest        int32   // the label that this one extends, −1: none
}

// shelf has nondominated labels in order of decreasing value: each has less fixed or peak memory
// than every label before it.
type shelf []int32

// shelves has the shelves of the sets of layers ℓ..N, for ℓ to N+1: of the sets with ℓ, without the
// buffer before ℓ, and of those without ℓ.
type shelves struct {
	in            *Instance
	prices        []int // by layer
	total         int   // sum of the prices
	labels        []label
	with, without []shelf
}

// newShelves computes the sets that one processor can hold in a memory, by label-setting with
// dominance from the last layer to the first. Let F be the weights and buffers of a set, and H its
// peak. With layer ℓ before it, of weights w, input a and own memory o, and with buffers b if the
// set does not contain ℓ+1,
//
//	F' = F + b + w,  H' = max(H + b + w + a, F' + a + o):
//
// the input of ℓ is stored while each later layer runs, and nothing of theirs is stored while ℓ
// runs. Labels of a shelf differ in value, or F and H conflict, so it takes about O(N · maximum
// value). It gives up beyond most labels or once in.Stop is closed.
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

// mostUndominated is the maximum number of labels that others are compared with.
const mostUndominated = 1 << 12

// merge returns the shelf of the labels of a and b, changed by the given functions (nil:
// unchanged), that fit in memory; not all of them once in.Stop is closed.
func (s *shelves) merge(memory float64, a, b shelf, changeA, changeB func(label) label) (both shelf) {
	both = make(shelf, 0, len(a)+len(b))
	var least needs // undominated needs of both
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

// needs is a list of undominated memory needs, at most mostUndominated.
type (
	needs []need
	need  struct{ fixed, peak float64 }
)

// add inserts x and removes what it dominates. It reports false if x is dominated itself. Most time
// of pricing is spent here: closures took twice as long.
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

// bound returns the minimum memory with which one processor can hold a P-th of the total price, a
// lower bound on the memory of any allocation. It is +Inf if it exceeds the memory of the shelves.
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

// sets returns a lower bound on the fractional number of sets that cover all layers in a memory.
func (s *shelves) sets(memory float64) float64 {
	mostValuable := 0
	for _, a := range [2]shelf{s.with[1], s.without[1]} {
		for _, i := range a {
			if x := s.labels[i]; x.peak <= memory {
				mostValuable = max(mostValuable, x.value)
			}
		}
	}
	return float64(s.total) / float64(mostValuable)
}

// mostValuable returns the most valuable set within a memory that starts with layer l, and its
// peak.
func (s *shelves) mostValuable(l int, memory float64) (layers []int, peak float64) {
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

// rack is a shelf for binary search by memory.
type rack struct {
	value       []int
	fixed, peak []float64 // minimum over the labels up to here
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

// most returns an upper bound on the value of any set with at most the given fixed and peak memory,
// and false if there is none. O(log labels).
func (r *rack) most(fixed, peak float64) (value int, ok bool) {
	i := sort.Search(len(r.value), func(i int) bool { return r.fixed[i] <= fixed && r.peak[i] <= peak })
	if i == len(r.value) {
		return 0, false
	}
	return r.value[i], true
}
