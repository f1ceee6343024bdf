package activationoffload

import (
	"context"

	"workbench/model/plan"
	"workbench/model/proof"
)

// walk looks for the shortest plan, computation by computation. Of the labels
// with as many computations the one whose transfers end first comes first, so
// that a label is dominated if and only if one with the same set came before
// that has computed no later: one time a set decides.
type walk struct {
	*space
	best     float64 // makespan below which plans are sought
	steps    []step
	heap     []label
	computed table // of the labels seen, by away
	limit    int   // steps at most
	excluded proof.States
}

// step is how a label was made.
type step struct {
	before int32 // its label's step
	add    int32 // i+1: the offload of ā_i; −i−1: its prefetch; 0: a computation
}

// run looks for the shortest plan of makespan below target. Unless it was cut
// off, by ctx or the limit of steps, there is no shorter one. last is the plan's
// last step, 0 if none was found.
//
// Exponential: there are at most 2N·∏ (members+1) sets, over the sizes; a label
// takes O(N + sizes²).
func (w *walk) run(ctx context.Context, target float64) (last int32, finished bool) {
	w.best, w.excluded = target, proof.States{}
	w.steps = append(w.steps[:0], step{-1, 0})
	level, next := []label{{}}, []label(nil)
	for m := range 2*w.N + 1 {
		w.computed.clear()
		w.heap = w.heap[:0]
		for _, l := range level {
			w.push(l)
		}
		next = next[:0]
		for turn := 0; len(w.heap) > 0; turn++ {
			if turn&0xff == 0 && ctx.Err() != nil || len(w.steps) >= w.limit {
				return last, false
			}
			l := w.pop()
			if !w.computed.lower(l.away, l.computed) {
				w.excluded.Dominated++
				continue
			}
			w.excluded.Enumerated++
			if m == 2*w.N {
				if l.away == 0 && l.computed < w.best {
					w.best, last = l.computed, l.node
				}
				continue
			}
			if x, ok := w.compute(m, &l); ok && w.keep(m+1, &x.label, l.node, 0) {
				next = append(next, x.label)
			}
			for k := range w.sizes {
				z := &w.sizes[k]
				if x, ok := w.send(m, &l, z); ok && !w.computed.isReached(x.away, x.computed) && w.keep(m, &x.label, l.node, x.i+1) {
					w.push(x.label)
				}
				if x, ok := w.fetch(m, &l, z); ok && !w.computed.isReached(x.away, x.computed) && w.keep(m, &x.label, l.node, -x.i-1) {
					w.push(x.label)
				}
			}
		}
		level, next = next, level
	}
	return last, true
}

// keep notes how x came about, unless it leads to no plan that is sought.
func (w *walk) keep(m int, x *label, before int32, add int) bool {
	if !w.mayImprove(w.best, m, x) {
		w.excluded.Bounded++
		return false
	}
	x.node = int32(len(w.steps))
	w.steps = append(w.steps, step{before, int32(add)})
	return true
}

// plan writes the plan whose last step this is. O(N·sizes).
func (w *walk) plan(last int32, method string) *plan.Plan {
	var adds []int32
	for k := last; k > 0; k = w.steps[k].before {
		adds = append(adds, w.steps[k].add)
	}
	ops := make([]plan.Op, 0, len(adds))
	l, m := label{}, 0
	for k := len(adds) - 1; k >= 0; k-- {
		var x added
		var op plan.Op
		switch i := int(adds[k]); {
		case i == 0:
			x, _ = w.compute(m, &l)
			m++
			op = plan.Op{Op: plan.OpFAll, Layer: w.layer[m], End: x.computed}
			if m > w.N {
				op.Op = plan.OpB
			}
		case i > 0:
			x, _ = w.send(m, &l, &w.sizes[w.of[i-1]])
			op = plan.Op{Op: plan.OpO, Tensor: plan.TensorAbar, Layer: x.i, End: x.carried}
		default:
			x, _ = w.fetch(m, &l, &w.sizes[w.of[-i-1]])
			op = plan.Op{Op: plan.OpP, Tensor: plan.TensorAbar, Layer: x.i, End: x.carried}
		}
		op.Start = x.start
		ops = append(ops, op)
		l = x.label
	}
	return w.NewPlan(method, ops, l.computed)
}

// push and pop keep the labels in a binary heap.
func (w *walk) push(l label) {
	h := append(w.heap, l)
	k := len(h) - 1
	for k > 0 && h[k].less(&h[(k-1)/2]) {
		h[k], h[(k-1)/2] = h[(k-1)/2], h[k]
		k = (k - 1) / 2
	}
	w.heap = h
}

func (w *walk) pop() label {
	h := w.heap
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for k := 0; ; {
		c := 2*k + 1
		if c+1 < len(h) && h[c+1].less(&h[c]) {
			c++
		}
		if c >= len(h) || !h[c].less(&h[k]) {
			break
		}
		h[k], h[c] = h[c], h[k]
		k = c
	}
	w.heap = h
	return top
}

func (l *label) less(o *label) bool {
	return l.carried < o.carried || l.carried == o.carried && l.computed < o.computed
}

// table holds a time for each of many sets: open addressing, at most half full.
type table struct {
	slots []slot
	used  int
	stamp uint32 // of slots in use
}

type slot struct {
	time  float64
	away  set
	stamp uint32
}

// clear empties the table and keeps its room.
func (t *table) clear() {
	t.used = 0
	if t.stamp++; t.stamp == 0 || t.slots == nil {
		t.slots, t.stamp = make([]slot, max(1<<10, len(t.slots))), 1
	}
}

// find returns the slot of a set, in use or where it would be.
func (t *table) find(a set) *slot {
	const golden = 0x9e3779b97f4a7c15
	mask := uint64(len(t.slots) - 1)
	for k := uint64(a) * golden >> 20; ; k++ {
		if s := &t.slots[k&mask]; s.stamp != t.stamp || s.away == a {
			return s
		}
	}
}

// isReached reports whether the time of a set is x or less.
func (t *table) isReached(a set, x float64) bool {
	s := t.find(a)
	return s.stamp == t.stamp && s.time <= x
}

// lower makes x the time of a set; false if it is not less than it was.
func (t *table) lower(a set, x float64) bool {
	s := t.find(a)
	if s.stamp == t.stamp {
		if s.time <= x {
			return false
		}
		s.time = x
		return true
	}
	*s = slot{x, a, t.stamp}
	if t.used++; 2*t.used > len(t.slots) {
		t.grow()
	}
	return true
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	for k := range old {
		if old[k].stamp == t.stamp {
			*t.find(old[k].away) = old[k]
		}
	}
}
