package rematoffload

import (
	"math"
	"slices"
)

// The state of ā_ℓ at a label.
const (
	here      = iota // stored, or will be without further operations
	copied           // and also on the host
	onHost           // only on the host
	lost             // must be recomputed
	forgotten        // F_ℓ must run before the next backward
)

// scene packs the part of a state that its lower bound depends on: four bits per layer, with a_0 as layer 0, and
// above them the next backward that has not started.
type scene uint64

func (s scene) digit(l int) int { return int(s >> (4 * l) & 15) }

// split is the work before and after the start of B_k, for one assignment of the saved tensors to memory, link and
// device.
type split struct {
	computed, sent float64 // seconds on the device and on the link before B_k
	again, fetched float64 // after B_k; fetched together with the following backwards
	flying         float64 // of the transfers that run at its start
}

// bound returns the minimum makespan if the device and the link are free at these times.
func (x *split) bound(device, link float64) float64 {
	start := device + x.computed
	if x.sent > 0 {
		start = max(start, link+x.sent)
	}
	bound := start + max(x.again, x.fetched)
	if rest := x.sent + x.flying + x.fetched; rest > 0 {
		bound = max(bound, link+rest)
	}
	return bound
}

// front is the set of nondominated splits at the start of B_k.
type front []split

// scene returns the key of a state, and the next backward that has not started.
func (b *board) scene(x *place) (s scene, next int) {
	next = int(x.next)
	if x.op == backward {
		next--
	}
	made := -1
	if x.op == forwardAll || x.op == forwardCk {
		made = b.made(x)
	}
	status := func(v int) scene {
		leaves := x.busy(v) || x.gone && int(x.input) == v
		stays := x.stored.has(v) && !leaves || x.coming(v) || made == v
		switch away := x.host.has(v) || leaves; {
		case stays && away:
			return copied
		case stays:
			return here
		case away:
			return onHost
		}
		return lost
	}
	s = scene(next)<<60 | status(0)
	reaches := true // F_ℓ must run before the next backward if nothing holds its output
	for l := next; l >= 1; l-- {
		is := status(b.saved(l))
		if is == lost && reaches && (l == next || l < b.N && status(l) == lost) {
			is = forgotten
		} else if l < next {
			reaches = false
		}
		s |= is << (4 * l)
	}
	return s, next
}

// outlook returns a lower bound on the makespan of every plan that extends a label. It is that of view.Bounds,
// with whole tensors and the facts of the label. Consider the start of a later B_k. Each ā_ℓ with ℓ < k is then
// stored, or it is fetched later, having been sent before, or F_all ℓ runs later; a_0 is stored or fetched. The
// stored tensors fit together with the requirement of B_k. Before, from the end of the running operations, the
// device recomputes the forgotten tensors, runs the backwards above k, and recomputes lost tensors that are
// stored. The link transfers what is sent, and what is stored but was only on the host. After, the device runs the
// other backwards and the recomputations, and each ā_ℓ that is fetched arrives before B_ℓ, …, B_1.
//
// O(splits · layers); the splits are computed once for each scene.
func (w *walk) outlook(l *label) float64 {
	s, next := w.scene(&l.place)
	fronts, ok := w.scenes[s]
	if !ok {
		fronts = w.split(s, next)
		w.scenes[s] = fronts
	}
	device, link := l.now, l.now
	if l.op != idle {
		device = l.ends
	}
	if l.link == sending || l.link == fetching {
		link = l.arrives
	}
	bound := device + w.uB[next]
	if s.digit(0) == lost && l.next > 0 {
		return math.Inf(1)
	}
	for k := next; k >= 1 && bound < w.target; k-- {
		best := math.Inf(1)
		for i := range fronts[k] {
			best = min(best, fronts[k][i].bound(device, link))
		}
		bound = max(bound, best)
	}
	return bound
}

// split returns the fronts of a scene, by k. Exponential in the layers.
func (w *walk) split(s scene, next int) []front {
	fronts := make([]front, next+1)
	device := w.uB[w.N] - w.uB[next] // at least, in every state with this scene
	for l := 1; l <= w.N; l++ {
		if is := s.digit(l); next < w.N || is != lost && is != forgotten {
			device += w.UF[l]
		}
	}
	for k := 1; k <= next; k++ {
		d := divider{walk: w, scene: s, k: k, device: device}
		room := w.Memory - w.A[k-1] - w.NeedBackward(k)
		d.layer(next, room, split{computed: w.uB[next] - w.uB[k], again: w.uB[k]}, 0)
		if fronts[k] = d.found; d.cut {
			fronts[k] = front{{}} // the trivial bound
		}
		w.splits += len(d.found)
	}
	return fronts
}

// divider enumerates the splits at the start of B_k that may lead below the target.
type divider struct {
	*walk
	scene  scene
	k      int
	device float64 // no state with this scene has it free earlier
	found  front
	tried  int
	cut    bool // the time limit was reached
}

// layer assigns ā_l and the tensors below it; arrived is the transfer time of the prefetches so far.
func (d *divider) layer(l int, room float64, x split, arrived float64) {
	if d.tried++; d.tried&0xfff == 0 && d.ctx.Err() != nil {
		d.cut = true
	}
	if d.cut || room < 0 || x.bound(d.device, 0) >= d.target {
		return
	}
	if l == 0 {
		d.input(room, x, arrived)
		return
	}
	is, v := d.scene.digit(l), d.saved(l)
	if is == forgotten {
		x.computed += d.UF[l]
	}
	size := d.size[v]
	switch {
	case l >= d.k:
		size = 0
	case l == d.k-1:
		size = max(0, size-d.A[l]) // it may be the input
	}
	kept := x
	switch is {
	case onHost:
		again, flies := x, x
		again.computed += d.UF[l]
		d.layer(l-1, room-size, again, arrived)
		if l < d.k && x.flying == 0 {
			flies.flying = d.move[v]
			d.layer(l-1, room-size, flies, arrived)
		}
		kept.sent += d.move[v]
	case lost:
		kept.computed += d.UF[l]
	}
	d.layer(l-1, room-size, kept, arrived)
	if l >= d.k {
		return
	}
	again := x
	again.again += d.UF[l]
	d.layer(l-1, room, again, arrived)
	moved := x
	switch is {
	case here, forgotten:
		moved.sent += d.move[v]
	case lost:
		moved.sent += d.move[v]
		moved.computed += d.UF[l]
	}
	arrived += d.move[v]
	moved.fetched = max(moved.fetched, arrived+d.uB[l])
	d.layer(l-1, room, moved, arrived)
}

// input assigns a_0.
func (d *divider) input(room float64, x split, arrived float64) {
	size, moved := d.size[0], x
	if d.k == 1 {
		size = 0
	}
	switch d.scene.digit(0) {
	case onHost:
		if d.k > 1 && x.flying == 0 && size <= room {
			flies := x
			flies.flying = d.move[0]
			d.add(flies)
		}
		x.sent += d.move[0]
	case here:
		moved.sent += d.move[0]
	}
	if size <= room {
		d.add(x)
	}
	if d.k > 1 && size > 0 {
		moved.fetched = max(moved.fetched, arrived+d.move[0]+d.uB[1])
		d.add(moved)
	}
}

// add keeps a split unless another one dominates it.
func (d *divider) add(x split) {
	for i := range d.found {
		if d.found[i].dominates(&x) {
			return
		}
	}
	d.found = slices.DeleteFunc(d.found, func(y split) bool { return x.dominates(&y) })
	d.found = append(d.found, x)
}

func (x *split) dominates(y *split) bool {
	return x.computed <= y.computed && x.sent <= y.sent && x.again <= y.again && x.fetched <= y.fetched && x.flying <= y.flying
}
