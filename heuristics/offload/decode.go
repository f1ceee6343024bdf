package offload

import "math"

// A decoder turns a list of events into a plan as a machine does, but less
// strictly: of the list only the order of the transfers counts, and for each
// prefetch how many computations stand before it, which have to have started.
// The next computation and the next transfer compete, the one that can start
// earlier goes first. So a transfer that is late holds up no computation, and
// offloads start as early as they can.
type decoder struct {
	m       *machine
	link    []int  // transfers of the list in order
	gate    []int  // computations that stand before each
	fetched []bool // by i: the list has transfers of ā_i
	order   []int  // what was started, in order: an order for the machine
}

func newDecoder(in *instance) *decoder {
	return &decoder{m: newMachine(in), fetched: make([]bool, in.n), link: make([]int, 0, 2*in.n), gate: make([]int, 0, 2*in.n), order: make([]int, 0, 4*in.n)}
}

// run returns the makespan, +Inf if the list gives no plan or no makespan below
// cutoff. Afterwards d.order is the order of starts, whose times the machine
// holds. O(events).
func (d *decoder) run(list []int, cutoff float64) float64 {
	m, n := d.m, d.m.in.n
	d.link, d.gate, d.order = d.link[:0], d.gate[:0], d.order[:0]
	clear(d.fetched)
	computed := 0
	for _, e := range list {
		switch {
		case e < 2*n:
			computed++
			continue
		case e < 3*n:
			d.gate = append(d.gate, 0)
		default:
			d.gate = append(d.gate, computed)
			d.fetched[e-3*n] = true
		}
		d.link = append(d.link, e)
	}
	m.reset()
	now, next := 0.0, 0
	for c := 0; c < 2*n; {
		at := d.compute(c, now)
		e := c
		if next < len(d.link) && c >= d.gate[next] {
			if t := d.transfer(d.link[next], now); t < at {
				at, e = t, d.link[next]
			}
		}
		if !(at < cutoff) {
			return math.Inf(1)
		}
		t, ok := m.begin(e, now)
		if !ok {
			return math.Inf(1)
		}
		m.start[e], now = t, t
		d.order = append(d.order, e)
		if e == c {
			c++
		} else {
			next++
		}
	}
	if next < len(d.link) || !(m.compute.end < cutoff) {
		return math.Inf(1)
	}
	return m.compute.end
}

// compute returns when computation c can start, as things stand.
func (d *decoder) compute(c int, now float64) float64 {
	m, in, n := d.m, d.m.in, d.m.in.n
	t := max(now, m.compute.end)
	if c < n {
		return m.when(t, in.abar[c+1]+in.oF[c+1])
	}
	l := 2*n - c
	if d.fetched[l-1] {
		if m.back[l-1] < 0 {
			return math.Inf(1)
		}
		t = max(t, m.back[l-1])
	}
	grown := in.delta[l-1] + in.oB[l]
	if l == n {
		grown += in.delta[l]
	}
	return m.when(t, grown)
}

// transfer returns when transfer e can start, as things stand.
func (d *decoder) transfer(e int, now float64) float64 {
	m, in, n := d.m, d.m.in, d.m.in.n
	if e < 3*n {
		i := e - 2*n
		if m.ends[i] < 0 {
			return math.Inf(1)
		}
		return max(now, m.link.end, m.ends[i])
	}
	i := e - 3*n
	if m.out[i] < 0 || m.ends[i+1] < 0 {
		return math.Inf(1)
	}
	return m.when(max(now, m.link.end, m.ends[i+1]), in.abar[i])
}

// when returns the first time from t on when so many bytes are free, +Inf if
// what is under way does not release enough. It changes nothing.
func (m *machine) when(t, bytes float64) float64 {
	need := m.stored + bytes - m.in.limit
	if need <= 0 {
		return t
	}
	first, second := &m.compute, &m.link
	if second.end < first.end {
		first, second = second, first
	}
	if need <= first.bytes {
		return max(t, first.end)
	}
	if need <= first.bytes+second.bytes {
		return max(t, second.end)
	}
	return math.Inf(1)
}
