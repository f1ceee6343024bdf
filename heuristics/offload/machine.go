package offload

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/plan"
)

// A machine turns an order of starts into a plan: each event, a computation or
// a transfer, starts as early as it can, but not before the event in front of it
// in the order. Starting events earlier makes nothing that follows later, so
// that no plan whose events start in this order is shorter; and every plan has
// such an order. The least makespan over all orders is therefore the optimum of
// the integral model, orders in which prefetches precede offloads included.
//
// Events are numbered: F_ℓ is ℓ−1, B_ℓ is 2N−ℓ, O_i is 2N+i and P_i is 3N+i.
type machine struct {
	in    *instance
	start []float64 // 4N, by event
	// Of the run: ends of F_ℓ (index 0: time 0), of the offload and of the
	// prefetch of ā_i; negative: not yet started.
	ends, out, back []float64
	stored          float64 // bytes, what has been released by now not counted
	compute, link   pending
	hurry           bool // nothing may wait for memory
	begun           int  // the last ℓ of which B_ℓ has started, N+1 before B_N
}

// pending is what a resource does, and what is released when it ends.
type pending struct{ end, bytes float64 }

func newMachine(in *instance) *machine {
	return &machine{
		in: in, start: make([]float64, 4*in.n), ends: make([]float64, in.n+1),
		out: make([]float64, in.n), back: make([]float64, in.n),
	}
}

func (m *machine) reset() {
	for i := range m.ends {
		m.ends[i] = -1
	}
	for i := range m.out {
		m.out[i], m.back[i] = -1, -1
	}
	m.ends[0] = 0
	m.stored = m.in.abar[0]
	m.begun = m.in.n + 1
	m.compute, m.link = pending{}, pending{}
}

// run returns the makespan of order, +Inf if an event never finds the memory or
// the tensors it needs. Orders must hold every computation, in its order, and of
// transfers both or none of each ā_i. O(events).
func (m *machine) run(order []int) float64 {
	m.reset()
	now := 0.0
	for _, e := range order {
		t, ok := m.begin(e, now)
		if !ok {
			return math.Inf(1)
		}
		m.start[e], now = t, t
	}
	return m.compute.end
}

// begin starts event e at now or later, as early as it can.
func (m *machine) begin(e int, now float64) (float64, bool) {
	in, n := m.in, m.in.n
	switch {
	case e < n: // F_ℓ
		l := e + 1
		t, ok := m.wait(max(now, m.compute.end), in.abar[l]+in.oF[l])
		if !ok {
			return 0, false
		}
		end := t + in.uF[l]
		m.ends[l] = end
		m.compute = pending{end, in.oF[l]}
		// ā_{ℓ-1} leaves when F_ℓ and its offload have ended.
		if out := m.out[l-1]; out > end {
			m.link.bytes += in.abar[l-1]
		} else if out >= 0 {
			m.compute.bytes += in.abar[l-1]
		}
		return t, true
	case e < 2*n: // B_ℓ
		l := 2*n - e
		t := max(now, m.compute.end)
		if m.out[l-1] >= 0 {
			if m.back[l-1] < 0 {
				return 0, false
			}
			t = max(t, m.back[l-1])
		}
		grown := in.delta[l-1] + in.oB[l]
		if l == n {
			grown += in.delta[l]
		}
		t, ok := m.wait(t, grown)
		if ok {
			m.begun = l
			m.compute = pending{t + in.uB[l], in.oB[l] + in.abar[l] + in.delta[l]}
		}
		return t, ok
	case e < 3*n: // O_i
		i := e - 2*n
		if m.ends[i] < 0 || m.begun <= i+1 {
			return 0, false
		}
		t, _ := m.wait(max(now, m.link.end, m.ends[i]), math.Inf(-1))
		end := t + in.move[i]
		m.out[i] = end
		m.link = pending{end: end}
		if next := m.ends[i+1]; next > end {
			m.compute.bytes += in.abar[i]
		} else if next >= 0 {
			m.link.bytes = in.abar[i]
		}
		return t, true
	}
	i := e - 3*n // P_i
	if m.out[i] < 0 || m.ends[i+1] < 0 || m.begun <= i+1 {
		return 0, false
	}
	t, ok := m.wait(max(now, m.link.end, m.ends[i+1]), in.abar[i])
	if ok {
		m.back[i] = t + in.move[i]
		m.link = pending{end: m.back[i]}
	}
	return t, ok
}

// wait returns the first time from t on when so many bytes are free, and takes
// them; false if what is under way does not release enough.
func (m *machine) wait(t, bytes float64) (float64, bool) {
	for {
		if m.compute.end <= t {
			m.stored -= m.compute.bytes
			m.compute.bytes = 0
		}
		if m.link.end <= t {
			m.stored -= m.link.bytes
			m.link.bytes = 0
		}
		if bytes < 0 { // an offload
			return t, true
		}
		if m.stored+bytes <= m.in.limit {
			m.stored += bytes
			return t, true
		}
		next := math.Inf(1)
		if m.hurry {
			return t, false
		}
		for _, p := range [...]*pending{&m.compute, &m.link} {
			if p.bytes > 0 {
				next = min(next, p.end)
			}
		}
		if math.IsInf(next, 1) {
			return t, false
		}
		t = next
	}
}

// plan writes the order that was run last, of makespan T. O(N log N).
func (m *machine) plan(method string, order []int, T float64) *plan.Plan {
	in := m.in
	ops := make([]plan.Op, 0, len(order))
	for _, e := range order {
		o := in.event(e)
		o.Start = m.start[e]
		o.End = o.Start + in.duration(e)
		ops = append(ops, o)
	}
	return in.newPlan(method, ops, T)
}

// event returns the operation of event e, without times.
func (in *instance) event(e int) plan.Op {
	n := in.n
	switch {
	case e < n:
		return plan.Op{Op: plan.OpFAll, Layer: e + 1}
	case e < 2*n:
		return plan.Op{Op: plan.OpB, Layer: 2*n - e}
	case e < 3*n:
		return plan.Op{Op: plan.OpO, Tensor: plan.TensorAbar, Layer: e - 2*n}
	}
	return plan.Op{Op: plan.OpP, Tensor: plan.TensorAbar, Layer: e - 3*n}
}

func (in *instance) duration(e int) float64 {
	n := in.n
	switch {
	case e < n:
		return in.uF[e+1]
	case e < 2*n:
		return in.uB[2*n-e]
	case e < 3*n:
		return in.move[e-2*n]
	}
	return in.move[e-3*n]
}

// orderOf returns the order of starts of a plan of this instance.
func (in *instance) orderOf(p *plan.Plan) []int {
	n := in.n
	type started struct {
		event int
		at    float64
	}
	var all []started
	for k := range p.Ops {
		o := &p.Ops[k]
		e := o.Layer
		switch o.Op {
		case plan.OpFAll:
			e--
		case plan.OpB:
			e = 2*n - e
		case plan.OpO:
			e += 2 * n
		case plan.OpP:
			e += 3 * n
		}
		all = append(all, started{e, o.Start})
	}
	// Computations first at the same instant: a transfer may wait for one that
	// takes no time, none waits for a transfer that starts then.
	slices.SortStableFunc(all, func(a, b started) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.event, b.event))
	})
	order := make([]int, len(all))
	for k, a := range all {
		order[k] = a.event
	}
	return order
}
