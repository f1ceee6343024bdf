// Package stuck decides whether mini-batches can pass through a processor alone, one a period on average, if each is away for so long: by
// the states in which the processor is not stuck. For every k; docs/proofs.md has the proof.
package stuck

import (
	"math"
	"math/bits"
	"slices"
)

// Most is how many states of a processor are looked at.
const Most = 1000

// safe is the relative rounding of a proof, none is no move.
const (
	safe = 1e-8
	none = -1
)

// A Way is how a mini-batch goes through a processor: op j = 1..2m takes it from position
// j-1 to j, forwards of m of its layers and then their backwards; at positions 0 and 2m it
// is outside.
type Way struct {
	Stored []float64 // bytes, between op j and the next
	Needs  []float64 // bytes for the mini-batch at work while op j runs
	Time   []float64 // of op j
	Away   []bool    // behind op j it leaves these layers for others
	Room   float64   // for all mini-batches
}

// States are the states of a processor that can recur: a state says how many mini-batches
// are at which position.
type States struct {
	*Way
	width int      // bits of a position
	of    []uint64 // the positions of the mini-batches inside, the least lowest
	moves []move
}

// A move is an op of one mini-batch.
type move struct {
	from, to int32
	op       uint16
}

// States finds the states to which an empty processor leads, by the ops that fit beside
// what the others store, and of them those that lead back to it; nil if they are more than Most.
// No other state is on a cycle: without new mini-batches a cycle empties the processor,
// and without old ones it fills it, both with less memory. number is scratch. O(states).
func (w *Way) States(number map[uint64]int32) *States {
	last := len(w.Time) - 1
	s := &States{Way: w, width: bits.Len(uint(last)), of: []uint64{0}}
	position := uint64(1)<<s.width - 1
	clear(number)
	number[0] = 0
	for k := 0; k < len(s.of); k++ {
		here := s.of[k]
		if len(s.of) > Most || here>>(64-s.width) != 0 {
			return nil
		}
		all := 0.0
		for x := here; x != 0; x >>= s.width {
			all += w.Stored[x&position]
		}
		to := func(op int, next uint64) {
			if all-w.Stored[op-1]+w.Needs[op] > w.Room {
				return
			}
			n, known := number[next]
			if !known {
				n = int32(len(s.of))
				number[next] = n
				s.of = append(s.of, next)
			}
			s.moves = append(s.moves, move{int32(k), n, uint16(op)})
		}
		to(1, here<<s.width|1)
		for i := 0; here>>i != 0; i += s.width {
			switch p, behind := here>>i&position, here>>i>>s.width; {
			case behind&position == p: // of several at one position, the last goes on
			case int(p)+1 == last:
				to(last, here&(1<<i-1)|behind<<i)
			default:
				to(int(p)+1, here+1<<i)
			}
		}
	}
	s.leadBack()
	return s
}

// Size is the number of states, with those that do not recur.
func (s *States) Size() int { return len(s.of) }

// leadBack drops the moves to states that do not lead back to an empty processor.
func (s *States) leadBack() {
	back := make([]bool, len(s.of))
	back[0] = true
	for changed := true; changed; {
		changed = false
		for k := len(s.moves) - 1; k >= 0; k-- {
			if m := &s.moves[k]; back[m.to] && !back[m.from] {
				back[m.from], changed = true, true
			}
		}
	}
	s.moves = slices.DeleteFunc(s.moves, func(m move) bool { return !back[m.to] })
}

// Excluded reports whether no pattern has each mini-batch away so long, in all or behind
// the last layer only, with one a period on average.
//
// A pattern is a closed walk in states: each move takes the time of its op, and the
// processor may be idle before it, but no longer than away, for then nobody that is away has to
// be for longer. Let n of a state be how many are away. In time they are away for ∫n, and
// each is for away or longer, so with a price μ on time, B mini-batches and B periods
//
//	0 ≤ ∫n - B·away ≤ Σ_moves (u·(n' - μ) + away·max(0, n - μ)) + B·(μ·T - away),
//
// n' without the one at work. If for some μ no cycle of states has a sum that is not below zero, there
// is no such walk. The sum is convex in μ, so tangents close in on the best. O(states·moves) for
// each at worst.
func (s *States) Excluded(period, away float64, behind bool) bool {
	counts := make([]float64, len(s.Away)) // by position
	for j, x := range s.Away {
		if x && (!behind || j == len(s.Away)/2) {
			counts[j] = 1
		}
	}
	n, most := make([]float64, len(s.of)), 0.0
	for k, x := range s.of {
		for ; x != 0; x >>= s.width {
			n[k] += counts[x&(1<<s.width-1)]
		}
		most = max(most, n[k])
	}
	gain, time := make([]float64, len(s.moves)), make([]float64, len(s.moves))
	low, high := tangent{at: 0}, tangent{at: most + 1}
	for price := high.at / 2; ; {
		for k, m := range s.moves {
			u := s.Time[m.op]
			gain[k], time[k] = u*(n[m.from]-counts[m.op-1]-price), u
			if n[m.from] > price {
				gain[k] += away * (n[m.from] - price)
				time[k] += away
			}
			if m.op == 1 {
				gain[k] += price*period - away + safe*period
			}
		}
		cycle := s.positive(gain, period)
		if cycle == nil {
			return true
		}
		x := tangent{at: price, known: true}
		batches := 0.0
		for _, k := range cycle {
			x.value += gain[k]
			x.slope -= time[k]
			if s.moves[k].op == 1 {
				batches++
			}
		}
		x.value, x.slope = x.value/batches, x.slope/batches+period
		if x.slope > 0 {
			high = x
		} else {
			low = x
		}
		if price = low.meets(&high); !(price > low.at && price < high.at) || high.at-low.at < 1e-4 {
			return false
		}
	}
}

// A tangent is a line below a convex function.
type tangent struct {
	at, value, slope float64
	known            bool
}

// meets returns where two tangents meet, NaN if above zero; if one is not known, the middle.
func (low *tangent) meets(high *tangent) float64 {
	if !low.known || !high.known {
		return (low.at + high.at) / 2
	}
	at := (high.at*high.slope - high.value - low.at*low.slope + low.value) / (high.slope - low.slope)
	if low.value+low.slope*(at-low.at) > 0 {
		return math.NaN()
	}
	return at
}

// positive returns the moves of a cycle with a gain, nil if there is none, by Bellman and
// Ford's passes.
func (s *States) positive(gain []float64, period float64) []int32 {
	best, via, seen := make([]float64, len(s.of)), make([]int32, len(s.of)), make([]int32, len(s.of))
	for k := range via {
		via[k] = none
	}
	for pass := 1; ; pass++ {
		changed := false
		for k, m := range s.moves {
			if x := best[m.from] + gain[k]; x > best[m.to]+1e-12*period {
				best[m.to], via[m.to], changed = x, int32(k), true
			}
		}
		if !changed {
			return nil
		}
		if pass%4 != 0 {
			continue
		}
		for k := range seen {
			seen[k] = none
		}
		for k := range int32(len(s.of)) {
			x := k
			for seen[x] == none && via[x] != none {
				seen[x] = k
				x = s.moves[via[x]].from
			}
			if via[x] == none || seen[x] != k {
				continue
			}
			cycle := []int32{via[x]}
			for y := s.moves[via[x]].from; y != x; y = s.moves[via[y]].from {
				cycle = append(cycle, via[y])
			}
			return cycle
		}
	}
}
