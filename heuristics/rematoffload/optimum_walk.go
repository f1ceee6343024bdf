package rematoffload

import (
	"container/heap"
	"context"
	"math"
	"math/bits"

	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	"workbench/model/proof"
)

// A label is a way to a place.
type label struct {
	place
	now           float64
	ends, arrives float64 // when the computation and the transfer end; now if there is none
	bound         float64 // on the makespan of every plan that goes on from here
	from          int32   // the label before
	twin          int32   // another label of the same place, −1: none
	did           action
	worse         bool // another way to the place is no later
}

// An action is what a step started; op is one of idle, … or −1 − what a link does.
type action struct {
	op, of  int8    // of a layer, or a tensor
	input   int8    // of a computation
	dropped tensors // before
}

// walk is A* over places. At an instant the computation is chosen first, then the
// transfer, but that an offload may begin before; then time passes until one of the two
// ends. So everything starts when something ends, which loses nothing. Take any plan and
// let everything start as early as it can while what followed an end still follows it. What
// then needs memory at one instant overlaps in pairs, so it did before; and intervals that
// overlap in pairs have an instant in common, at which all of it was there. Only an offload may have
// to wait, for a computation that uses its tensor to start: it begins early and holds the
// link until then, which in the plan does nothing before the offload.
//
// Steps are left out that no plan needs: computing what is there or coming; sending
// what the host has, or what the running backward frees, as a discard does the same; and
// fetching that, or what the running computation makes.
type walk struct {
	board
	ctx    context.Context
	target float64 // makespan below which plans are sought
	near   float64 // events this close are one
	low    float64 // no plan is faster
	labels []label
	known  map[place]int32 // the last label of a place
	open   queue
	scenes map[scene][]front // by k
	splits int               // in all of them

	excluded proof.States
}

func newWalk(ctx context.Context, in *view.Instance, target float64) *walk {
	w := &walk{board: newBoard(in), ctx: ctx, target: target, known: map[place]int32{}, scenes: map[scene][]front{}}
	w.near = 2 * plan.Tolerance * in.BestBound()
	w.open.walk = w
	return w
}

// run returns the last label of the fastest plan below the target, −1 if there is none or
// the search was cut off, and sets low.
func (w *walk) run() int32 {
	first := label{place: place{stored: 1, next: int8(w.N)}, from: -1}
	w.low = w.target
	w.addLabel(&first)
	for turn := 1; len(w.open.at) > 0; turn++ {
		at := heap.Pop(&w.open).(int32)
		l := w.labels[at]
		if l.worse {
			continue
		}
		if l.next == 0 {
			w.low = l.bound
			return at
		}
		if turn&0xf == 0 && w.ctx.Err() != nil || len(w.labels)+w.splits >= optimumStates {
			w.low = l.bound
			return -1
		}
		l.from = at
		w.excluded.Enumerated++
		w.expand(&l)
	}
	return -1
}

// addLabel keeps a label unless it is beyond the target or no earlier than another one.
func (w *walk) addLabel(l *label) {
	if l.bound = max(l.bound, w.outlook(l)); l.bound >= w.target {
		w.excluded.Bounded++
		return
	}
	first, ok := w.known[l.place]
	if !ok {
		first = -1
	}
	for k := first; k >= 0; k = w.labels[k].twin {
		o := &w.labels[k]
		switch {
		case o.now <= l.now && o.ends <= l.ends && o.arrives <= l.arrives:
			w.excluded.Dominated++
			return
		case o.now >= l.now && o.ends >= l.ends && o.arrives >= l.arrives:
			o.worse = true
		}
	}
	l.twin = first
	k := int32(len(w.labels))
	w.labels = append(w.labels, *l)
	w.known[l.place] = k
	heap.Push(&w.open, k)
}

// expand takes every step out of a label.
func (w *walk) expand(l *label) {
	decided := l.op != idle || l.rests
	if !decided {
		w.computations(l)
		rest := *l
		rest.rests, rest.did = true, action{}
		w.next(&rest)
	}
	if l.link == 0 && !l.still {
		w.offloads(l)
		if decided {
			w.prefetches(l)
			still := *l
			still.still, still.did = true, action{}
			w.next(&still)
		}
	}
}

// next offers a label, or what comes of it when there is nothing to be chosen.
func (w *walk) next(l *label) {
	if (l.op == idle && !l.rests) || (l.link == 0 && !l.still) {
		w.addLabel(l)
		return
	}
	w.pass(l)
}

// pass lets time pass until something ends.
func (w *walk) pass(l *label) {
	end := math.Inf(1)
	runs, moves := l.op != idle, l.link == sending || l.link == fetching
	if runs {
		end = l.ends
	}
	if moves {
		end = min(end, l.arrives)
	}
	if math.IsInf(end, 1) {
		return
	}
	x := *l
	x.now, x.rests, x.still = end, false, false
	if runs = runs && x.ends <= end+w.near; runs {
		w.computed(&x.place)
	}
	moves = moves && x.arrives <= end+w.near
	x.normalize()
	if !moves {
		w.addLabel(&x)
		return
	}
	if x.link == sending {
		held := x
		held.link = holding
		held.normalize()
		w.addLabel(&held)
	}
	w.transferred(&x.place)
	x.normalize()
	w.addLabel(&x)
}

// normalize sets the times of what does not run.
func (l *label) normalize() {
	if l.op == idle {
		l.ends = l.now
	}
	if l.link == 0 || l.link == holding {
		l.arrives = l.now
	}
}

// computations starts each computation that can run.
func (w *walk) computations(l *label) {
	for k := 1; k <= int(l.next); k++ {
		made := w.saved(k)
		if !l.stored.has(made) && !l.coming(made) {
			w.compute(l, forwardAll, k)
		}
		if k < int(l.next) && !l.stored.has(k) && !l.coming(k) {
			w.compute(l, forwardCk, k)
		}
	}
	if k := int(l.next); l.stored.has(w.saved(k)) {
		w.compute(l, backward, k)
	}
}

// compute starts a computation, by each input that it may read: the rule is a_{k-1}
// unless that alone is being sent; ā_{k-1} if a_{k-1} is discarded before.
func (w *walk) compute(l *label, op, k int) {
	a, saved := k-1, w.saved(k-1)
	hasA, hasSaved := l.stored.has(a), l.stored.has(saved)
	switch {
	case hasA && (!hasSaved || !l.busy(a) || l.busy(saved)):
		w.start(l, op, k, a, 0)
		if hasSaved && saved != a && !l.busy(a) && w.size[a] > 0 {
			w.start(l, op, k, saved, 1<<a)
		}
	case hasSaved:
		w.start(l, op, k, saved, 0)
	}
}

func (w *walk) start(l *label, op, k, input int, dropped tensors) {
	x := *l
	x.op, x.layer, x.input = int8(op), int8(k), int8(input)
	x.stored &^= dropped
	if x.link != 0 && w.dies(&x.place, int(x.moved)) {
		return
	}
	x.ends = x.now + w.UF[k]
	if op == backward {
		x.ends = x.now + w.UB[k]
	}
	w.fit(&x, action{int8(op), int8(k), int8(input), dropped}, func(y *label) {
		if y.link == holding && int(y.moved) == input {
			w.transferred(&y.place)
		}
		if y.ends == y.now {
			w.computed(&y.place)
		}
		y.normalize()
		w.next(y)
	})
}

// offloads starts each offload. What the host has is discarded instead.
func (w *walk) offloads(l *label) {
	for s := l.stored &^ l.host; s != 0; s &= s - 1 {
		v := bits.TrailingZeros32(uint32(s))
		if w.size[v] == 0 || w.dies(&l.place, v) || l.gone && int(l.input) == v {
			continue
		}
		x := *l
		x.link, x.moved, x.arrives = sending, int8(v), x.now+w.move[v]
		x.did = action{op: -1 - sending, of: int8(v)}
		w.next(&x)
	}
}

func (w *walk) prefetches(l *label) {
	for s := l.host &^ l.stored; s != 0; s &= s - 1 {
		v := bits.TrailingZeros32(uint32(s))
		if w.dies(&l.place, v) || (l.op == forwardAll || l.op == forwardCk) && w.made(&l.place) == v {
			continue
		}
		x := *l
		x.link, x.moved, x.arrives = fetching, int8(v), x.now+w.move[v]
		w.fit(&x, action{op: -1 - fetching, of: int8(v)}, w.next)
	}
}

// fit goes on with what has just started if it fits, or else with each least set of
// tensors that have to be discarded for it.
func (w *walk) fit(x *label, did action, goOn func(*label)) {
	over := w.needs(&x.place)
	if platform.Fits(over, w.Memory) {
		x.did = did
		goOn(x)
		return
	}
	may := x.stored &^ w.empty &^ (1 << x.input)
	if x.op == idle {
		may = x.stored &^ w.empty
	}
	if x.op == backward {
		may &^= 1 << w.saved(int(x.layer))
	}
	if x.link == sending || x.link == holding {
		may &^= 1 << x.moved
	}
	for s := may; s != 0; s = (s - 1) & may {
		if w.least(s, over) {
			y := *x
			y.stored &^= s
			y.did = did
			y.did.dropped |= s
			goOn(&y)
		}
	}
}

// least reports whether over fits without s, but not without any part of it.
func (w *walk) least(s tensors, over float64) bool {
	rest := over - w.bytes(s)
	if !platform.Fits(rest, w.Memory) {
		return false
	}
	for r := s; r != 0; r &= r - 1 {
		if platform.Fits(rest+w.size[bits.TrailingZeros32(uint32(r))], w.Memory) {
			return false
		}
	}
	return true
}

// queue is a heap of labels, the least bound first; of equal ones the latest.
type queue struct {
	walk *walk
	at   []int32
}

func (q *queue) Len() int      { return len(q.at) }
func (q *queue) Swap(i, j int) { q.at[i], q.at[j] = q.at[j], q.at[i] }
func (q *queue) Push(x any)    { q.at = append(q.at, x.(int32)) }
func (q *queue) Less(i, j int) bool {
	x, y := &q.walk.labels[q.at[i]], &q.walk.labels[q.at[j]]
	return x.bound < y.bound || x.bound == y.bound && x.now > y.now
}

func (q *queue) Pop() any {
	last := q.at[len(q.at)-1]
	q.at = q.at[:len(q.at)-1]
	return last
}
