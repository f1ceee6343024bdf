package weightoffload

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// What memory is held for.
type memoryKind int8

const (
	heldWeight memoryKind = iota
	heldGradient
	heldActivation
	memoryKinds
)

// A holding is memory held during an arc of the circle, for a tensor.
type holding struct {
	replay.Arc // op: the operation that reserves it
	kind       memoryKind
	layer      int // 0-based; activation a^layer+1
	bytes      float64
	last       bool // reserved after everything else of the same instant: a prefetch
}

// held is all memory of a weight-offloading plan.
type held struct {
	always   [memoryKinds]float64 // held at all times
	holdings []holding
	moments  []moment
}

// A moment is a run of computations, one after the other in the paper's order,
// that all happen at one instant because they take no time; or the instant before one starts.
type moment struct {
	time         float64
	computations []computation
}

type computation struct {
	op, layer int
	place     int     // in the paper's order, from 0
	own       float64 // bytes beside weights: activations, gradient
}

// memoryHeld lists who holds memory when. Called after checkWeight.
//
// Activation a^k is held from the start of F_k to the start of the computation
// that follows B_k: B_{k-1}, or F_1 after B_1, so that a^0 and a^1 are always
// there. That is [001] (1) between the starts of operations.
func (v *weightCycle) memoryHeld() *held {
	h := &held{}
	instant := make([]computation, 0, len(v.layers))
	var arrivals []moment
	n := len(v.layers)
	acts := v.chain.Input.Activation
	rest := v.chain.TotalTime() // of this layer and those after it
	h.always[heldActivation] = acts
	for i := range v.layers {
		e, l := &v.layers[i], &v.chain.Layers[i]
		output := v.chain.SavedSize(i + 1)
		forward, backward := v.chain.TransientSizes(i + 1)
		acts += output
		switch {
		case e.permanent:
			h.always[heldWeight] += l.Weight
		default:
			for _, a := range e.reserved {
				h.holdings = append(h.holdings, holding{Arc: a, kind: heldWeight, layer: i, bytes: l.Weight, last: true})
			}
		}
		for _, a := range e.backward {
			h.holdings = append(h.holdings, holding{Arc: a, kind: heldGradient, layer: i, bytes: l.Weight + backward})
		}
		for _, a := range e.forward {
			if forward > 0 {
				h.holdings = append(h.holdings, holding{Arc: a, kind: heldActivation, layer: i, bytes: forward})
			}
		}
		if i == 0 || len(e.forward) == 0 || len(v.layers[i-1].backward) == 0 {
			h.always[heldActivation] += output
		} else {
			from, to := e.forward[0], v.layers[i-1].backward[0]
			h.holdings = append(h.holdings, holding{
				Arc:  replay.Arc{Start: from.Start, End: from.Start + v.distance(from, to, rest), Op: from.Op},
				kind: heldActivation, layer: i, bytes: output,
			})
		}
		if a := v.arrival(i-1, acts); a != nil {
			arrivals = append(arrivals, *a)
		}
		rest -= l.ForwardTime + l.BackwardTime
		if len(e.forward) > 0 && e.forward[0].Length() <= v.Eps {
			instant = append(instant, computation{op: e.forward[0].Op, layer: i, place: n + i, own: acts + forward})
		}
		if len(e.backward) > 0 && e.backward[0].Length() <= v.Eps {
			instant = append(instant, computation{op: e.backward[0].Op, layer: i, place: n - 1 - i, own: acts + l.Weight + backward})
		}
	}
	h.moments = append(v.moments(instant), arrivals...)
	return h
}

// arrival is the moment before B of layer i starts, if its weight is fetched at that very instant, or so near it that
// rounding decides, else nil: however short its prefetch is, the weight is there while what the computation before it holds still is.
func (v *weightCycle) arrival(i int, held float64) *moment {
	if i < 0 || len(v.layers[i].backward) == 0 {
		return nil
	}
	b := v.layers[i].backward[0]
	near := func(a replay.Arc) bool {
		gap := v.Wrap(b.Start - a.Start)
		return gap <= 2*v.Eps || gap >= v.Period-2*v.Eps
	}
	if !slices.ContainsFunc(v.layers[i].reserved, near) {
		return nil
	}
	return &moment{time: b.Start, computations: []computation{{op: b.Op, layer: i, own: held}}}
}

// moments gathers computations that follow one another at one instant.
func (v *weightCycle) moments(instant []computation) []moment {
	slices.SortFunc(instant, func(a, b computation) int { return a.place - b.place })
	at := func(c computation) float64 {
		o := &v.plan.Ops[c.op]
		return v.Wrap((o.Start + o.End) / 2)
	}
	together := func(a, b computation) bool {
		gap := v.Wrap(at(b) - at(a))
		return (a.place+1)%(2*len(v.layers)) == b.place && (gap <= v.Eps || gap >= v.Period-v.Eps)
	}
	var m []moment
	for k, c := range instant {
		if k == 0 || !together(instant[k-1], c) {
			m = append(m, moment{time: at(c)})
		}
		last := &m[len(m)-1]
		last.computations = append(last.computations, c)
	}
	// F_L and B_L are neighbours, too.
	if k := len(m) - 1; k > 0 && together(instant[len(instant)-1], instant[0]) {
		m[k].computations = append(m[k].computations, m[0].computations...)
		m = m[1:]
	}
	return m
}

// distance returns the time from the start of F_k to the start of B_{k-1}. Where
// the two are simultaneous it is a period if the computations F_k..F_L,
// B_L..B_k between them take time, and else none.
func (v *weightCycle) distance(f, b replay.Arc, between float64) float64 {
	gap := v.Wrap(b.Start - f.Start)
	switch {
	case gap+float64(2*len(v.layers))*v.Eps < between:
		return v.Period // once around, and a little more
	case gap > v.Eps && gap < v.Period-v.Eps:
		return gap
	case between > v.Eps:
		return v.Period
	}
	return 0
}

// A memoryEvent is a step of the memory curve.
type memoryEvent struct {
	// key orders events: reservations are late and releases early by half of
	// what counts as simultaneous, so that of simultaneous ones the releases
	// come first.
	key   float64
	order int8    // of equal keys: release, moment, reservation, prefetch
	time  float64 // as in the plan, in [0, period)
	index int     // of the holding or moment
}

const (
	release int8 = iota
	atMoment
	reserve
	reserveLast
)

// A memorySweep walks along the circle once and keeps what is held.
type memorySweep struct {
	held   *held
	events []memoryEvent
	now    [memoryKinds]float64
	weight []int // how many arcs hold the weight of layer i; it is held once
}

// sweep prepares the walk: now is what is held at time 0.
func (v *weightCycle) sweep(h *held) *memorySweep {
	s := &memorySweep{held: h, now: h.always, weight: make([]int, len(v.layers))}
	for k := range h.holdings {
		x := &h.holdings[k]
		from, to := x.Start+v.Eps/2, x.End-v.Eps/2
		if to <= from {
			continue // no time, or less than one can tell: see moments
		}
		length := to - from
		from = v.Wrap(from)
		to = from + length
		for ; to >= v.Period; to -= v.Period {
			s.add(x, 1)
		}
		order := reserve
		if x.last {
			order = reserveLast
		}
		s.events = append(s.events,
			memoryEvent{key: from, order: order, time: v.Wrap(x.Start), index: k},
			memoryEvent{key: to, order: release, time: v.Wrap(x.End), index: k})
	}
	for k := range h.moments {
		t := h.moments[k].time
		s.events = append(s.events, memoryEvent{key: t, order: atMoment, time: t, index: k})
	}
	slices.SortFunc(s.events, func(a, b memoryEvent) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.order, b.order), cmp.Compare(a.index, b.index))
	})
	return s
}

// add holds x once more, or once less.
func (s *memorySweep) add(x *holding, sign int) {
	if x.kind == heldWeight {
		was := s.weight[x.layer] > 0
		s.weight[x.layer] += sign
		if was == (s.weight[x.layer] > 0) {
			return
		}
	}
	s.now[x.kind] += float64(sign) * x.bytes
}

// step applies the next event and returns the operation that causes it. A
// moment changes nothing.
func (s *memorySweep) step(e memoryEvent) {
	switch e.order {
	case release:
		s.add(&s.held.holdings[e.index], -1)
	case reserve, reserveLast:
		s.add(&s.held.holdings[e.index], 1)
	}
}

func (s *memorySweep) total() float64 {
	return s.now[heldWeight] + s.now[heldGradient] + s.now[heldActivation]
}

// during calls visit with what is held during each computation of m, the last
// one first: what it needs itself, the weights that are there, and those that
// go at this instant but not before it, or one that follows it, has run.
func (s *memorySweep) during(v *weightCycle, m *moment, visit func(c *computation, bytes float64)) {
	going := 0.0
	seen := make(map[int]bool)
	for k := len(m.computations) - 1; k >= 0; k-- {
		c := &m.computations[k]
		if !v.layers[c.layer].permanent && s.weight[c.layer] == 0 && !seen[c.layer] {
			seen[c.layer] = true
			going += v.size(c.layer)
		}
		visit(c, s.now[heldWeight]+c.own+going)
	}
}

// An excess is a time during which memory exceeds the limit.
type excess struct {
	op   int // the reservation that went over the limit; -1: none, it began before time 0
	time float64
	used float64 // at most
}

// checkMemory finds the peak, and each time at which memory exceeds the limit
// from when it does to when it no longer does. The reservation that goes over
// the limit is to blame. O(n log n).
func (v *weightCycle) checkMemory() {
	h := v.memoryHeld()
	s := v.sweep(h)
	limit := v.plan.Platform.Memory
	over := func(used float64) bool { return !platform.Fits(used, limit) }
	blame := func(x excess) {
		p, who := v.plan, "the state at time 0"
		if x.op >= 0 {
			who = p.Ops[x.op].String()
		}
		v.broken(plan.RuleMemory, x.op, x.time, p.Unit.Bytes(x.used-limit), "memory reaches %s of %s bytes with %s", p.Size(x.used),
			p.Size(limit), who)
	}

	r := v.report
	r.PeakMemory = s.total()
	// The excess going on, and the one going on at time 0: the end of one that
	// begins late in the period.
	var going, first *excess
	if over(r.PeakMemory) {
		first = &excess{op: -1, used: r.PeakMemory}
		going = first
	}
	reaches := func(op int, time, used float64) {
		if used > r.PeakMemory {
			r.PeakMemory, r.PeakTime, r.PeakOp = used, time, op
		}
		if going != nil {
			going.used = max(going.used, used)
		}
	}
	for _, e := range s.events {
		s.step(e)
		switch now := s.total(); e.order {
		case atMoment:
			s.during(v, &h.moments[e.index], func(c *computation, used float64) {
				if going == nil && over(used) {
					blame(excess{op: c.op, time: e.time, used: used})
				}
				reaches(c.op, e.time, used)
			})
		case release:
			if going != nil && !over(now) {
				if going != first {
					blame(*going)
				}
				going = nil
			}
		default:
			op := h.holdings[e.index].Op
			if going == nil && over(now) {
				going = &excess{op: op, time: e.time}
			}
			reaches(op, e.time, now)
		}
	}
	switch {
	case going != nil && first != nil:
		going.used = max(going.used, first.used)
		blame(*going)
	case going != nil:
		blame(*going)
	case first != nil: // by rounding
		blame(*first)
	}
}

// Profile returns the memory curve of a weight-offloading plan: steps in order
// of time, the first at time 0, the last one going on to the period. Of steps
// at the same instant only the last is kept, so the memory that computations
// without duration need for their gradient is not seen. The plan need not be
// valid.
func Profile(c *chain.Chain, p *plan.Plan) ([]replay.Sample, error) {
	v, err := readCycle(c, p)
	if err != nil {
		return nil, fmt.Errorf("memory profile: %w", err)
	}
	for i := range v.layers {
		v.findStays(i)
	}
	s := v.sweep(v.memoryHeld())
	sample := func(t float64) replay.Sample {
		return replay.Sample{
			Time: t, Weights: c.Unit.Bytes(s.now[heldWeight]),
			Gradients: c.Unit.Bytes(s.now[heldGradient]), Activations: c.Unit.Bytes(s.now[heldActivation]),
		}
	}
	samples := []replay.Sample{sample(0)}
	key := math.Inf(-1)
	for _, e := range s.events {
		s.step(e)
		switch {
		case e.order == atMoment:
			continue
		case e.key <= v.Eps || e.key-key <= 2*v.Eps: // the instant of the last sample
			samples[len(samples)-1] = sample(samples[len(samples)-1].Time)
		case e.key < v.Period-v.Eps: // else the instant of the first sample
			samples = append(samples, sample(e.time))
		}
		key = e.key
	}
	return samples, nil
}

// A Residency is a time during which memory is held for the weight of a layer:
// from the start of a prefetch to a discard. It ends after the period if it
// goes on in the next one. Start 0 and End the period, without Op, stand for a
// weight that never leaves.
type Residency struct {
	Layer      int // 1-based
	Op         int // index of the prefetch, -1: none
	Start, End float64
}

// Residencies returns when which weight is in GPU memory, in order of layer and
// time. Layers without weight have none. The plan need not be valid.
func Residencies(c *chain.Chain, p *plan.Plan) ([]Residency, error) {
	v, err := readCycle(c, p)
	if err != nil {
		return nil, fmt.Errorf("residencies: %w", err)
	}
	var rs []Residency
	for i := range v.layers {
		v.findStays(i)
		e := &v.layers[i]
		if e.permanent && v.size(i) > 0 {
			rs = append(rs, Residency{Layer: i + 1, Op: -1, End: v.Period})
		}
		slices.SortFunc(e.reserved, replay.ByStart)
		for _, a := range e.reserved {
			rs = append(rs, Residency{Layer: i + 1, Op: a.Op, Start: a.Start, End: a.End})
		}
	}
	return rs, nil
}
