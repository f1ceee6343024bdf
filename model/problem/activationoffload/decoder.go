package activationoffload

import "math"

// Decoder turns a list of events into a plan like [Machine], but less strictly. Of the list only
// the order of the transfers counts, and for each prefetch the number of computations before it,
// which must have started. The next computation and the next transfer compete; the one that can
// start earlier goes first. So a late transfer delays no computation, and offloads start as early
// as possible.
type Decoder struct {
	M       *Machine
	link    []int  // transfers in list order
	gate    []int  // by transfer: the number of computations that must have started
	fetched []bool // by i: the list has transfers of ā_i
	Order   []int  // events in order of start: an order for the machine
}

func NewDecoder(in *Instance) *Decoder {
	return &Decoder{
		M: NewMachine(in), fetched: make([]bool, in.N), link: make([]int, 0, 2*in.N), gate: make([]int, 0, 2*in.N),
		Order: make([]int, 0, 4*in.N),
	}
}

// Run returns the makespan, +Inf if the list yields no plan or no makespan below cutoff. Afterwards
// d.Order is the order of starts, whose times are in d.M. O(events).
func (d *Decoder) Run(list []int, cutoff float64) float64 {
	m, n := d.M, d.M.in.N
	d.link, d.gate, d.Order = d.link[:0], d.gate[:0], d.Order[:0]
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
	m.Reset()
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
		t, ok := m.Begin(e, now)
		if !ok {
			return math.Inf(1)
		}
		m.Start[e], now = t, t
		d.Order = append(d.Order, e)
		if e == c {
			c++
		} else {
			next++
		}
	}
	if next < len(d.link) || !(m.Compute.End < cutoff) {
		return math.Inf(1)
	}
	return m.Compute.End
}

// compute returns the earliest start of computation c in the current state.
func (d *Decoder) compute(c int, now float64) float64 {
	m, in, n := d.M, d.M.in, d.M.in.N
	t := max(now, m.Compute.End)
	if c < n {
		return m.when(t, in.Abar[c+1]+in.OF[c+1])
	}
	l := 2*n - c
	if d.fetched[l-1] {
		if m.Back[l-1] < 0 {
			return math.Inf(1)
		}
		t = max(t, m.Back[l-1])
	}
	grown := in.Delta[l-1] + in.OB[l]
	if l == n {
		grown += in.Delta[l]
	}
	return m.when(t, grown)
}

// transfer returns the earliest start of transfer e in the current state.
func (d *Decoder) transfer(e int, now float64) float64 {
	m, in, n := d.M, d.M.in, d.M.in.N
	if e < 3*n {
		i := e - 2*n
		if m.Ends[i] < 0 {
			return math.Inf(1)
		}
		return max(now, m.Link.End, m.Ends[i])
	}
	i := e - 3*n
	if m.Out[i] < 0 || m.Ends[i+1] < 0 {
		return math.Inf(1)
	}
	return m.when(max(now, m.Link.End, m.Ends[i+1]), in.Abar[i])
}

// when returns the first time from t on at which the given bytes are free, +Inf if the pending
// operations do not release enough. It changes nothing.
func (m *Machine) when(t, bytes float64) float64 {
	need := m.stored + bytes - m.in.Memory
	if need <= 0 {
		return t
	}
	first, second := &m.Compute, &m.Link
	if second.End < first.End {
		first, second = second, first
	}
	if need <= first.bytes {
		return max(t, first.End)
	}
	if need <= first.bytes+second.bytes {
		return max(t, second.End)
	}
	return math.Inf(1)
}
