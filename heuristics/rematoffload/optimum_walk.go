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

// label is a path to a state.
type label struct {
	place
	now           float64
	ends, arrives float64 // ends of the computation and the transfer; now if there is none
	bound         float64 // on the makespan of every plan that extends it
	from          int32   // the previous label
	twin          int32   // another label of the same state, −1: none
	did           action
	worse         bool // dominated: another path to the state is no later
}

// action is what a step started; op is one of idle, … or −1 − a transfer.
type action struct {
	op, of  int8    // of a layer, or a tensor
	input   int8    // of a computation
	dropped tensors // before
}

// walk is A* over states. At an event the computation is chosen first, then the transfer, except that an offload
// may begin before; then time advances until one of the two ends. So every operation starts when another ends.
//
// This loses nothing. Take any plan and let every operation start as early as possible while it still follows the
// ends that it followed. Operations whose memory coincides then overlap in pairs, and did so before. Intervals
// that overlap in pairs have a common point, at which all of the memory was in use. Only an offload may have to
// wait, for a computation that uses its tensor to start. It begins early and holds the link until then; in the
// plan the link is idle before the offload.
//
// Three kinds of useless steps are omitted. A tensor that is stored or being fetched is not computed. A tensor is
// not sent if the host has it or the running backward frees it, as a discard has the same effect. Neither this nor
// a tensor that the running computation makes is fetched.
type walk struct {
	board
	ctx    context.Context
	target float64 // plans with a smaller makespan are sought
	near   float64 // events at most this far apart are simultaneous
	low    float64 // lower bound on the makespan
	labels []label
	known  map[place]int32 // the last label of a state
	open   queue
	scenes map[scene][]front // by k
	splits int               // total number

	excluded proof.States
}

func newWalk(ctx context.Context, in *view.Instance, target float64) *walk {
	w := &walk{board: newBoard(in), ctx: ctx, target: target, known: map[place]int32{}, scenes: map[scene][]front{}}
	w.near = 2 * plan.Tolerance * in.BestBound()
	w.open.walk = w
	return w
}

// run returns the last label of the fastest plan below the target, −1 if there is none or the search was stopped,
// and sets low.
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

// addLabel keeps a label unless its bound is not below the target or another label dominates it.
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

// expand applies every possible step to a label.
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

// next adds a label, or its successors if it leaves no choice.
func (w *walk) next(l *label) {
	if (l.op == idle && !l.rests) || (l.link == 0 && !l.still) {
		w.addLabel(l)
		return
	}
	w.pass(l)
}

// pass advances the time to the end of an operation.
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

// normalize sets the times of idle resources.
func (l *label) normalize() {
	if l.op == idle {
		l.ends = l.now
	}
	if l.link == 0 || l.link == holding {
		l.arrives = l.now
	}
}

// computations starts each possible computation.
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

// compute starts a computation for each input that it may read: by the rule a_{k-1} unless only that is being
// sent; ā_{k-1} if a_{k-1} is discarded before.
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

// offloads starts each offload. Tensors with a copy on the host are discarded instead.
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

// fit continues with the started operation if it fits, otherwise with each minimal set of tensors whose discard
// makes it fit.
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

// least reports whether over fits without s, but not without any proper subset of s.
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

// queue is a heap of labels by bound; at a tie, the latest comes first.
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
