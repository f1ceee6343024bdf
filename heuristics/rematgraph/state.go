package rematgraph

import (
	"math/bits"
	"slices"

	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// state is a completed schedule that changes by small moves, each of which can be undone. The time
// and the peak memory of every stage are updated incrementally.
//
// A value that passes through a stage, neither read nor computed there, only adds its size to the
// peak of the stage. So a move costs one step for every stage that it passes through, and a
// completion of the few stages in which something is read or computed.
type state struct {
	v        *rematgraph.View
	s        *rematgraph.Schedule
	limits   []float64   // of each stage, bytes
	stop     func() bool // ends repair and fill; nil: nothing does
	time     []float64   // of each stage, seconds
	peak     []float64   // of each stage, bytes
	excess   float64     // Σ_t max(0, peak[t] - limits[t]), what the greedy lowers
	over     int         // number of stages whose peak does not fit
	total    float64     // Σ_t time[t]
	changed  []int       // scratch: the values for which a move changed their membership in S[t+1]
	before   []uint64    // scratch: S[t] before completion
	moving   []passage   // scratch: the values that a move flips
	saved    []saved
	savedRow []uint64 // R[t] and S[t] of the saved entries that have them
	passing  int      // the entries of saved from here on are of the changed values
}

// passage is what a move flips for a value: whether it is retained into stage from and those after
// it.
type passage struct{ value, from int }

// saved is what a move overwrote: a complete stage, or one bit of S in the stages from first to
// last, through which a value passes. One entry for each of these stages would fill the memory.
type saved struct {
	first, last   int
	value         int // < 0: a complete stage
	time, peak    float64
	total, excess float64
	over          int
}

// everywhere returns a limit for every stage.
func everywhere(v *rematgraph.View, bytes float64) []float64 {
	limits := make([]float64, v.N)
	for t := range limits {
		limits[t] = bytes
	}
	return limits
}

// newState takes a completed schedule, which it changes.
func newState(s *rematgraph.Schedule, limits []float64) *state {
	v := s.View()
	x := &state{
		v: v, s: s, limits: limits,
		time: make([]float64, v.N), peak: make([]float64, v.N),
		before: make([]uint64, v.ValueWords),
	}
	x.refresh()
	return x
}

// stopped reports whether to give up.
func (x *state) stopped() bool { return x.stop != nil && x.stop() }

// refresh computes times and peaks anew.
func (x *state) refresh() {
	x.total, x.excess, x.over = 0, 0, 0
	for t := range x.v.N {
		x.time[t] = x.s.StageCost(t)
		x.peak[t], _ = x.s.StagePeak(t)
		x.total += x.time[t]
		x.excess += max(0, x.peak[t]-x.limits[t])
		if !platform.Fits(x.peak[t], x.limits[t]) {
			x.over++
		}
	}
	x.saved, x.savedRow = x.saved[:0], x.savedRow[:0]
}

// rowS and rowR are S[t] and R[t].
func (x *state) rowS(t int) []uint64 { return x.s.Values(t) }
func (x *state) rowR(t int) []uint64 { return x.s.Nodes(t) }

// has reports whether i is in a set.
func has(set []uint64, i int) bool { return set[i>>6]>>(i&63)&1 != 0 }

// reads reports whether stage t reads the value of i. O(readers).
func (x *state) reads(t, i int) bool {
	r := x.rowR(t)
	for _, j := range x.v.Succ[i] {
		if j > t {
			break
		}
		if has(r, j) {
			return true
		}
	}
	return false
}

// setPeak sets the peak of a stage and with it what exceeds the limit.
func (x *state) setPeak(t int, peak float64) {
	if !platform.Fits(x.peak[t], x.limits[t]) {
		x.over--
	}
	if !platform.Fits(peak, x.limits[t]) {
		x.over++
	}
	x.excess += max(0, peak-x.limits[t]) - max(0, x.peak[t]-x.limits[t])
	x.peak[t] = peak
}

// saveStage and savePassage record what is about to be overwritten.
func (x *state) saveStage(t int) {
	x.saved = append(x.saved, saved{t, t, -1, x.time[t], x.peak[t], x.total, x.excess, x.over})
	x.savedRow = append(append(x.savedRow, x.rowR(t)...), x.rowS(t)...)
	x.passing = len(x.saved)
}

// savePassage records the k-th changed value where it passes through stage t, after the stages that
// follow t.
func (x *state) savePassage(t, k int) {
	if at := x.passing + k; at < len(x.saved) {
		x.saved[at].first = t
		return
	}
	x.saved = append(x.saved, saved{first: t, last: t, value: x.changed[k], total: x.total, excess: x.excess, over: x.over})
}

// mark names the present schedule for [state.undo].
func (x *state) mark() int { return len(x.saved) }

// undo goes back to a mark.
func (x *state) undo(mark int) {
	w, m := x.v.Words, x.v.ValueWords
	for len(x.saved) > mark {
		e := x.saved[len(x.saved)-1]
		x.saved = x.saved[:len(x.saved)-1]
		if e.value >= 0 {
			for t := e.first; t <= e.last; t++ {
				x.peak[t] += x.pass(t, e.value) // sizes are integers: no rounding
			}
		} else {
			n := len(x.savedRow) - w - m
			copy(x.rowR(e.first), x.savedRow[n:n+w])
			copy(x.rowS(e.first), x.savedRow[n+w:])
			x.savedRow = x.savedRow[:n]
			x.time[e.first], x.peak[e.first] = e.time, e.peak
		}
		x.total, x.excess, x.over = e.total, e.excess, e.over
	}
}

// forget makes what was done so far final.
func (x *state) forget() { x.saved, x.savedRow = x.saved[:0], x.savedRow[:0] }

// drop evicts value i, which is retained into stage t, from its last use before t to its next use
// from t on, where it is recomputed.
func (x *state) drop(i, t int) {
	from, to := t, t
	for to < x.v.N-1 && !x.reads(to, i) {
		to++
	}
	for has(x.rowS(from-1), i) && !x.reads(from-1, i) {
		from--
	}
	x.moving = append(x.moving[:0], passage{i, from})
	x.flip(to)
}

// keep retains what stage t needs of the values of node j, which it recomputes, from where they
// were last in memory.
func (x *state) keep(j, t int) {
	x.moving = x.moving[:0]
	for _, i := range x.v.Writes[j] {
		if has(x.rowS(t+1), i) || x.reads(t, i) {
			x.moving = append(x.moving, passage{i, x.origin(i, t)})
		}
	}
	x.flip(t)
}

// origin returns the first stage from which value i is not retained before stage t, which
// recomputes it.
func (x *state) origin(i, t int) int {
	for j := x.v.Writer[i]; !has(x.rowS(t-1), i) && !has(x.rowR(t-1), j); t-- {
	}
	return t
}

// movable reports whether value i may be dropped and recomputed in stage t or later.
func (x *state) movable(i, t int) bool { return x.v.Until[x.v.Writer[i]] >= t }

// flip changes whether the moving values are retained into their stages up to to,
// and completes the schedule. In their stages before to they only pass through;
// the one before the first has them in memory. What the completion of a stage
// takes back is not flipped before.
func (x *state) flip(to int) {
	x.changed = x.changed[:0] // of S[to+1]
	for t := to; t >= 0; t-- {
		if t < to && x.through(t) {
			continue
		}
		x.saveStage(t)
		row := x.rowS(t)
		copy(x.before, row)
		for _, p := range x.moving {
			if t >= p.from && (t == to || slices.Contains(x.changed, p.value)) {
				row[p.value>>6] ^= 1 << (p.value & 63)
			}
		}
		x.s.CompleteStage(t)
		x.total -= x.time[t]
		x.time[t] = x.s.StageCost(t)
		x.total += x.time[t]
		peak, _ := x.s.StagePeak(t)
		x.setPeak(t, peak)
		x.changed = x.changed[:0]
		for k, b := range row {
			for c := b ^ x.before[k]; c != 0; c &= c - 1 {
				x.changed = append(x.changed, k<<6+bits.TrailingZeros64(c))
			}
		}
		if len(x.changed) == 0 {
			return
		}
	}
}

// flipped returns the first stage from which the move flips value q, N+1 if it
// does not.
func (x *state) flipped(q int) int {
	for _, p := range x.moving {
		if p.value == q {
			return p.from
		}
	}
	return x.v.N + 1
}

// through passes on to S[t] what was changed of S[t+1], if all of it only passes
// through stage t: values that are no longer retained, and those that are
// flipped. It reports whether that was so; if not, nothing is done. O(changed
// values).
func (x *state) through(t int) bool {
	held, computed, later := x.rowS(t), x.rowR(t), x.rowS(t+1)
	for _, q := range x.changed {
		if has(computed, x.v.Writer[q]) || x.reads(t, q) {
			return false
		}
		if from := x.flipped(q); from <= x.v.N {
			if t < from {
				return false
			}
		} else if !has(held, q) || has(later, q) {
			return false
		}
	}
	for k, q := range x.changed {
		x.savePassage(t, k)
		x.setPeak(t, x.peak[t]+x.pass(t, q))
	}
	return true
}

// pass flips whether value q, which passes through stage t, is retained into it, and returns
// what that adds to the peak.
func (x *state) pass(t, q int) float64 {
	held := x.rowS(t)
	held[q>>6] ^= 1 << (q & 63)
	if has(held, q) {
		return x.v.Memory[q]
	}
	return -x.v.Memory[q]
}
