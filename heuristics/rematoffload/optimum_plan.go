package rematoffload

import (
	"cmp"
	"math/bits"
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/rematoffload"
	verifyrematoffload "workbench/model/verify/rematoffload"
)

// writer converts the path to a label to a plan. It uses the times of the search, except for offloads that must
// end after a computation that uses their tensor has started, and operations that wait for them.
type writer struct {
	*walk
	ops      []plan.Op
	now      float64
	running  int // running operations, −1: none
	transfer int
	held     bool    // the transfer has ended, but a computation uses its tensor
	free     float64 // when the link becomes free
	apart    float64 // minimum distance of two separate events
}

// plan returns the plan of a label. O(operations²).
func (w *walk) plan(last int32) (*plan.Plan, error) {
	var way []*label
	for k := last; k > 0; k = w.labels[k].from {
		way = append(way, &w.labels[k])
	}
	slices.Reverse(way)
	r := writer{walk: w, running: -1, transfer: -1, apart: 2 * plan.Tolerance * w.labels[last].now}
	for _, l := range way {
		switch op := l.did.op; {
		case op > idle:
			r.compute(l.did)
		case op < idle:
			r.move(l.did)
		}
		r.pass(l)
	}
	p := plan.New(view.Problem, "optimum", w.Chain, w.Platform)
	p.Ops = r.ops
	slices.SortStableFunc(p.Ops, func(x, y plan.Op) int { return cmp.Compare(x.Start, y.Start) })
	for i := range p.Ops {
		if p.Ops[i].Op == plan.OpB {
			p.Claims.Makespan = max(p.Claims.Makespan, p.Ops[i].End)
		}
	}
	report, err := verifyrematoffload.Verify(w.Chain, p)
	if err != nil {
		return nil, err
	}
	p.Claims.PeakMemory = report.PeakMemory
	return p, nil
}

// named returns an operation on a tensor.
func (w *walk) named(op string, v int, start, end float64) plan.Op {
	o := plan.Op{Op: op, Tensor: plan.TensorA, Layer: v, Start: start, End: end}
	if v >= w.N {
		o.Tensor, o.Layer = plan.TensorAbar, v-w.N+1
	}
	return o
}

// compute starts a computation.
func (r *writer) compute(did action) {
	r.discard(did.dropped)
	k := int(did.of)
	o := plan.Op{Op: plan.OpFAll, Layer: k, Start: r.now, End: r.now + r.UF[k]}
	switch did.op {
	case forwardCk:
		o.Op = plan.OpFCk
	case backward:
		o.Op, o.End = plan.OpB, r.now+r.UB[k]
	}
	r.running = len(r.ops)
	r.ops = append(r.ops, o)
	if r.transfer < 0 {
		return
	}
	// A tensor that is being sent stays until the computation that uses it has started.
	t := &r.ops[r.transfer]
	if t.Op != plan.OpO || int(did.input) != r.tensorOf(t) {
		return
	}
	if late := o.Start + r.apart - t.End; late > 0 {
		t.Start, t.End = t.Start+late, t.End+late
	}
	if r.held {
		r.sent()
	}
}

// sent ends the transfer.
func (r *writer) sent() {
	r.free = r.ops[r.transfer].End
	r.transfer, r.held = -1, false
}

func (w *walk) tensorOf(o *plan.Op) int {
	if o.Tensor == plan.TensorAbar {
		return w.saved(o.Layer)
	}
	return o.Layer
}

// move starts a transfer.
func (r *writer) move(did action) {
	r.discard(did.dropped)
	op, v := plan.OpO, int(did.of)
	if did.op == -1-fetching {
		op = plan.OpP
	}
	start := max(r.now, r.free)
	r.transfer = len(r.ops)
	r.ops = append(r.ops, r.named(op, v, start, start+r.board.move[v]))
}

// discard discards tensors before the running computation. The prefetch of one that arrived since its start is
// omitted.
func (r *writer) discard(dropped tensors) {
	for ; dropped != 0; dropped &= dropped - 1 {
		v := bits.TrailingZeros32(uint32(dropped))
		if r.running < 0 {
			r.ops = append(r.ops, r.named(plan.OpD, v, r.now, r.now))
			continue
		}
		runs := r.ops[r.running].Start
		k := slices.IndexFunc(r.ops, func(o plan.Op) bool { return o.Op == plan.OpP && r.tensorOf(&o) == v && o.End > runs })
		if k >= 0 {
			r.ops = slices.Delete(r.ops, k, k+1)
			if k < r.running {
				r.running--
			}
			continue
		}
		r.ops = slices.Insert(r.ops, r.running, r.named(plan.OpD, v, runs, runs))
		r.running++
	}
}

// pass advances the time to the events that have ended at a label.
func (r *writer) pass(l *label) {
	if r.running >= 0 && l.op == idle {
		r.now = max(r.now, r.ops[r.running].End, r.free) // its input may just have been freed
		r.running = -1
	}
	if r.transfer < 0 {
		return
	}
	if l.link != sending && l.link != fetching && !r.held {
		r.now = max(r.now, r.ops[r.transfer].End)
		r.held = true
	}
	if l.link == 0 {
		r.sent()
	}
}
