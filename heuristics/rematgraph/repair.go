package rematgraph

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// move drops a value at a stage, or keeps the values of a node that the stage recomputes.
type move struct {
	what  int // a value that is dropped, or a node
	stage int
	keep  bool
}

// apply makes a move.
func (x *state) apply(m move) {
	if m.keep {
		x.keep(m.what, m.stage)
	} else {
		x.drop(m.what, m.stage)
	}
}

// highest returns the stage that exceeds its limit most, the first of equals.
func (x *state) highest() int {
	t := 0
	for u, p := range x.peak {
		if p-x.limits[u] > x.peak[t]-x.limits[t] {
			t = u
		}
	}
	return t
}

// relieving appends the moves that may lower the peak of stage t: dropping what is retained into it
// or out of it, and keeping what it recomputes.
func (x *state) relieving(moves []move, t int) []move {
	moves = x.held(moves, t)
	if t+1 < x.v.N {
		for k, b := range x.rowS(t + 1) {
			// What passes through is in the list already.
			for b &^= x.rowS(t)[k]; b != 0; b &= b - 1 {
				if i := k<<6 + bits.TrailingZeros64(b); x.movable(i, t+1) {
					moves = append(moves, move{i, t + 1, false})
				}
			}
			for b := x.rowS(t + 1)[k] & x.rowS(t)[k]; b != 0; b &= b - 1 {
				if i := k<<6 + bits.TrailingZeros64(b); x.movable(i, t+1) && x.reads(t, i) {
					moves = append(moves, move{i, t + 1, false})
				}
			}
		}
	}
	return x.recomputeMoves(moves, t)
}

// held lists the moves that drop what is retained into stage t.
func (x *state) held(moves []move, t int) []move {
	for k, b := range x.rowS(t) {
		for ; b != 0; b &= b - 1 {
			if i := k<<6 + bits.TrailingZeros64(b); x.movable(i, t) {
				moves = append(moves, move{i, t, false})
			}
		}
	}
	return moves
}

// recomputeMoves appends the moves that keep what stage t recomputes.
func (x *state) recomputeMoves(moves []move, t int) []move {
	for k, b := range x.rowR(t) {
		for ; b != 0; b &= b - 1 {
			if i := k<<6 + bits.TrailingZeros64(b); i != t {
				moves = append(moves, move{i, t, true})
			}
		}
	}
	return moves
}

// repair makes moves until the schedule fits. It relieves the stage that exceeds its limit most by
// the move with the minimum time for each byte of excess that it removes; noise multiplies that
// price. It reports false if no move helps or x is stopped; the schedule then still exceeds the
// limit.
func (x *state) repair(noise func() float64) bool {
	type offer struct {
		move
		factor, floor float64 // of the price; the price is hardly less than floor
	}
	var moves []move
	var offers []offer
	for {
		if x.over == 0 {
			x.excess = 0 // free of rounding
			return true
		}
		if x.stopped() {
			return false
		}
		moves, offers = x.relieving(moves[:0], x.highest()), offers[:0]
		for _, m := range moves {
			o := offer{m, noise(), 0}
			if !m.keep {
				// To drop a value costs its own time at least, nearly always.
				o.floor = o.factor * x.v.Time[x.v.Writer[m.what]] / min(x.excess, float64(x.over)*x.v.Memory[m.what])
			}
			offers = append(offers, o)
		}
		slices.SortStableFunc(offers, func(a, b offer) int { return cmp.Compare(a.floor, b.floor) })
		best, least := move{}, math.Inf(1)
		var priced [2]int // drops and keeps
		for _, o := range offers {
			if o.floor >= least {
				break
			}
			kind := 0
			if o.keep {
				kind = 1
			}
			if priced[kind]++; priced[kind] > mostPriced && x.v.N > HugeGraph && !math.IsInf(least, 1) {
				continue
			}
			if price := o.factor * x.price(o.move); price < least {
				best, least = o.move, price
			}
		}
		if math.IsInf(least, 1) {
			return false
		}
		x.apply(best)
	}
}

// mostPriced is the maximum number of drops, and of keeps, of a huge graph that are priced before
// one is made: equal layers offer hundreds at the same price.
const mostPriced = 16

// price returns the cost of a move in seconds for each byte of excess that it removes, infinite if
// it removes none. Moves without cost are ordered by the excess they remove.
func (x *state) price(m move) float64 {
	mark, total, excess := x.mark(), x.total, x.excess
	x.apply(m)
	cost, relief := x.total-total, excess-x.excess
	x.undo(mark)
	if relief <= 1e-13*excess { // rounding of sums beyond 2⁵³: moves without end
		return math.Inf(1)
	}
	const free = 1e-9 // of the total time
	if cost < free*total {
		return free * total * math.Exp(cost/total) / relief
	}
	return cost / relief
}

// worthwhile is the minimum saving, relative to the total time, that is not considered rounding.
// Without it moves that save nothing could cycle.
const worthwhile = 1e-12

// fill keeps recomputed values where that fits and saves time, the largest saving first, until none
// does. The schedule must fit.
func (x *state) fill() {
	type offer struct {
		move
		change float64
	}
	var moves []move
	var offers []offer
	for again := true; again; {
		offers, again = offers[:0], false
		for t := range x.v.N {
			moves = x.recomputeMoves(moves[:0], t)
			if len(moves) == 0 || x.stopped() {
				continue
			}
			released := x.released(t)
			for _, m := range moves {
				if !x.passes(m, released) {
					continue
				}
				if c := x.change(m); c < -worthwhile*x.total {
					offers = append(offers, offer{m, c})
				}
			}
		}
		slices.SortStableFunc(offers, func(a, b offer) int { return cmp.Compare(a.change, b.change) })
		for _, o := range offers {
			if x.stopped() {
				return
			}
			// Those before may have changed what this one does.
			if has(x.rowR(o.stage), o.what) && x.change(o.move) < -worthwhile*x.total {
				x.apply(o.move)
				x.excess, again = 0, true
			}
		}
	}
}

// released returns the size of what stage t reads last and does not need for node t itself: the
// maximum that keeping its recomputed values can free.
func (x *state) released(t int) float64 {
	bytes := 0.0
	for k, b := range x.rowS(t) {
		for b &^= x.rowS(t + 1)[k]; b != 0; b &= b - 1 {
			if i := k<<6 + bits.TrailingZeros64(b); !slices.Contains(x.v.Succ[i], t) {
				bytes += x.v.Memory[i]
			}
		}
	}
	return bytes
}

// passes reports whether there may be room to keep what a node writes: where each
// value is not now, the peak and its size exceed the limit by no more than what is
// released. O(stages).
func (x *state) passes(m move, released float64) bool {
	for _, i := range x.v.Writes[m.what] {
		if !has(x.rowS(m.stage+1), i) && !x.reads(m.stage, i) {
			continue
		}
		for t := m.stage - 1; !has(x.rowS(t), i) && !has(x.rowR(t), m.what); t-- {
			if x.peak[t]+x.v.Memory[i] > x.limits[t]+released {
				return false
			}
		}
	}
	return true
}

// change returns by how much a move changes the total time, infinite if it
// breaks the limit.
func (x *state) change(m move) float64 {
	mark, total, over := x.mark(), x.total, x.over
	x.apply(m)
	change := x.total - total
	if x.over > over {
		change = math.Inf(1)
	}
	x.undo(mark)
	return change
}
