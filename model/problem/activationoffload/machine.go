package activationoffload

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
)

// Machine turns an order of starts into a plan: each event, a computation or a transfer, starts as
// early as possible, but not before the previous event of the order. Starting events earlier delays
// no later event, so no plan whose events start in this order is shorter; and every plan has such
// an order. The minimum makespan over all orders, including those in which prefetches precede
// offloads, is therefore the optimum of the integral model.
//
// Events are numbered: F_ℓ is ℓ−1, B_ℓ is 2N−ℓ, O_i is 2N+i and P_i is 3N+i.
type Machine struct {
	in    *Instance
	Start []float64 // 4N, by event
	// Of the run: ends of F_ℓ (index 0: time 0), of the offload and of the prefetch of ā_i;
	// negative: not started.
	Ends, Out, Back []float64
	stored          float64 // bytes, including what has ended but is not yet released
	Compute, Link   pending
	Hurry           bool // an event that must wait for memory makes the order infeasible
	Begun           int  // the last ℓ for which B_ℓ has started, N+1 before B_N
}

// pending is the running operation of a resource: its end, and the bytes that are released then.
type pending struct{ End, bytes float64 }

func NewMachine(in *Instance) *Machine {
	return &Machine{
		in: in, Start: make([]float64, 4*in.N), Ends: make([]float64, in.N+1),
		Out: make([]float64, in.N), Back: make([]float64, in.N),
	}
}

func (m *Machine) Reset() {
	for i := range m.Ends {
		m.Ends[i] = -1
	}
	for i := range m.Out {
		m.Out[i], m.Back[i] = -1, -1
	}
	m.Ends[0] = 0
	m.stored = m.in.Abar[0]
	m.Begun = m.in.N + 1
	m.Compute, m.Link = pending{}, pending{}
}

// Run returns the makespan of an order, +Inf if an event never gets the memory or the tensors it
// needs. An order has every computation, in sequence, and both transfers or none of each ā_i.
// O(events).
func (m *Machine) Run(order []int) float64 {
	m.Reset()
	now := 0.0
	for _, e := range order {
		t, ok := m.Begin(e, now)
		if !ok {
			return math.Inf(1)
		}
		m.Start[e], now = t, t
	}
	return m.Compute.End
}

// Begin starts event e at now or as early as possible after it.
func (m *Machine) Begin(e int, now float64) (float64, bool) {
	in, n := m.in, m.in.N
	switch {
	case e < n: // F_ℓ
		l := e + 1
		t, ok := m.wait(max(now, m.Compute.End), in.Abar[l]+in.OF[l])
		if !ok {
			return 0, false
		}
		end := t + in.UF[l]
		m.Ends[l] = end
		m.Compute = pending{end, in.OF[l]}
		// ā_{ℓ-1} is freed when F_ℓ and its offload have ended.
		if out := m.Out[l-1]; out > end {
			m.Link.bytes += in.Abar[l-1]
		} else if out >= 0 {
			m.Compute.bytes += in.Abar[l-1]
		}
		return t, true
	case e < 2*n: // B_ℓ
		l := 2*n - e
		t := max(now, m.Compute.End)
		if m.Out[l-1] >= 0 {
			if m.Back[l-1] < 0 {
				return 0, false
			}
			t = max(t, m.Back[l-1])
		}
		grown := in.Delta[l-1] + in.OB[l]
		if l == n {
			grown += in.Delta[l]
		}
		t, ok := m.wait(t, grown)
		if ok {
			m.Begun = l
			m.Compute = pending{t + in.UB[l], in.OB[l] + in.Abar[l] + in.Delta[l]}
		}
		return t, ok
	case e < 3*n: // O_i
		i := e - 2*n
		if m.Ends[i] < 0 || m.Begun <= i+1 {
			return 0, false
		}
		t, _ := m.wait(max(now, m.Link.End, m.Ends[i]), math.Inf(-1))
		end := t + in.Move[i]
		m.Out[i] = end
		m.Link = pending{End: end}
		if next := m.Ends[i+1]; next > end {
			m.Compute.bytes += in.Abar[i]
		} else if next >= 0 {
			m.Link.bytes = in.Abar[i]
		}
		return t, true
	}
	i := e - 3*n // P_i
	if m.Out[i] < 0 || m.Ends[i+1] < 0 || m.Begun <= i+1 {
		return 0, false
	}
	t, ok := m.wait(max(now, m.Link.End, m.Ends[i+1]), in.Abar[i])
	if ok {
		m.Back[i] = t + in.Move[i]
		m.Link = pending{End: m.Back[i]}
	}
	return t, ok
}

// wait returns the first time from t on at which the given bytes are free, and allocates them. It
// reports false if the pending operations do not release enough.
func (m *Machine) wait(t, bytes float64) (float64, bool) {
	for {
		if m.Compute.End <= t {
			m.stored -= m.Compute.bytes
			m.Compute.bytes = 0
		}
		if m.Link.End <= t {
			m.stored -= m.Link.bytes
			m.Link.bytes = 0
		}
		if bytes < 0 { // an offload
			return t, true
		}
		if platform.Fits(m.stored+bytes, m.in.Memory) {
			m.stored += bytes
			return t, true
		}
		next := math.Inf(1)
		if m.Hurry {
			return t, false
		}
		for _, p := range [...]*pending{&m.Compute, &m.Link} {
			if p.bytes > 0 {
				next = min(next, p.End)
			}
		}
		if math.IsInf(next, 1) {
			return t, false
		}
		t = next
	}
}

// Plan returns the plan of the last order run, with makespan T. O(N log N).
func (m *Machine) Plan(method string, order []int, T float64) *plan.Plan {
	in := m.in
	ops := make([]plan.Op, 0, len(order))
	for _, e := range order {
		o := in.event(e)
		o.Start = m.Start[e]
		o.End = o.Start + in.Duration(e)
		ops = append(ops, o)
	}
	return in.NewPlan(method, ops, T)
}

// event returns the operation of event e, without times.
func (in *Instance) event(e int) plan.Op {
	n := in.N
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

func (in *Instance) Duration(e int) float64 {
	n := in.N
	switch {
	case e < n:
		return in.UF[e+1]
	case e < 2*n:
		return in.UB[2*n-e]
	case e < 3*n:
		return in.Move[e-2*n]
	}
	return in.Move[e-3*n]
}

// OrderOf returns the order of starts of a plan of this instance.
func (in *Instance) OrderOf(p *plan.Plan) []int {
	n := in.N
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
	// In a tie computations come first: a transfer may wait for one of zero duration, and no
	// computation waits for a transfer that starts then.
	slices.SortStableFunc(all, func(a, b started) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.event, b.event))
	})
	order := make([]int, len(all))
	for k, a := range all {
		order[k] = a.event
	}
	return order
}
