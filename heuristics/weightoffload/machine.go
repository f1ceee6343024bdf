package weightoffload

import (
	"math"

	"workbench/model/platform"
)

// timeline is the memory in use as a step function of time: m[i] bytes from t[i] to t[i+1], the
// last forever. Most changes are near its end, so every operation works from there.
type timeline struct {
	t, m []float64
	// burst[i] is the memory that a zero-duration operation holds at time t[i] only; -Inf if there
	// is none.
	burst []float64
	limit float64
}

func (l *timeline) reset(m float64) {
	l.t = append(l.t[:0], math.Inf(-1))
	l.m = append(l.m[:0], m)
	l.burst = append(l.burst[:0], math.Inf(-1))
}

// add changes the memory by d from time at on. O(steps after at).
func (l *timeline) add(at, d float64) {
	i := len(l.t) - 1
	for ; l.t[i] > at; i-- {
		l.m[i] += d
		l.burst[i] += d
	}
	if l.t[i] == at {
		l.m[i] += d
		return
	}
	l.t = append(l.t, 0)
	l.m = append(l.m, 0)
	l.burst = append(l.burst, 0)
	copy(l.t[i+2:], l.t[i+1:])
	copy(l.m[i+2:], l.m[i+1:])
	copy(l.burst[i+2:], l.burst[i+1:])
	l.t[i+1], l.m[i+1], l.burst[i+1] = at, l.m[i]+d, math.Inf(-1)
}

// addUsage adds d from start to end. At the time of a zero-duration hold the total counts as a
// burst: what is released at that time, after the hold, had to fit together with it.
func (l *timeline) addUsage(start, end, d float64) {
	l.add(start, d)
	if start == end {
		i := len(l.t) - 1
		for ; l.t[i] > start; i-- {
		}
		l.burst[i] = max(l.burst[i], l.m[i])
	}
	if d != 0 {
		l.add(end, -d)
	}
}

// earliest returns the first time t ≥ from such that d more bytes fit from t on, +Inf if there is
// none. At time t itself bursts have ended: reservations come last in a tie. O(steps after t).
func (l *timeline) earliest(d, from float64) float64 {
	i := len(l.t) - 1
	if !platform.Fits(l.m[i]+d, l.limit) {
		return math.Inf(1)
	}
	for {
		if !platform.Fits(l.m[i]+d, l.limit) {
			return max(from, l.t[i+1])
		}
		if l.t[i] <= from {
			return from
		}
		if !platform.Fits(l.burst[i]+d, l.limit) {
			return l.t[i]
		}
		i--
	}
}

// window returns the first time t ≥ from such that d more bytes fit from t on
// and another extra bytes until t+duration; +Inf if there is none. O(steps
// after t).
func (l *timeline) window(d, extra, duration, from float64) float64 {
	t := l.earliest(d, from)
	if extra <= 0 || math.IsInf(t, 1) {
		return t
	}
	i := len(l.t) - 1
	for ; l.t[i] > t; i-- {
	}
	for ; ; i++ {
		if !platform.Fits(l.m[i]+d+extra, l.limit) {
			if i == len(l.t)-1 {
				return math.Inf(1)
			}
			t = l.t[i+1]
			continue
		}
		if i == len(l.t)-1 || l.t[i+1] >= t+duration {
			return t
		}
	}
}

// fits reports whether d more bytes fit once all that is placed has ended.
func (l *timeline) fits(d float64) bool { return platform.Fits(l.m[len(l.m)-1]+d, l.limit) }

// machine places operations one after the other in the order of the program,
// each as early as its data, its resource and the memory allow, given all that
// was placed before it: what placed operations will use is known, so nothing
// placed later can harm them.
type machine struct {
	in   *instance
	mem  timeline
	act  int     // operation that ran last: its activations are held
	free float64 // end of the last computation
	pre  float64 // T_ava(Pre): when the prefetch link is free
	off  float64 // T_ava(Off): when the upload link is free
}

func newMachine(in *instance) *machine {
	return &machine{in: in, mem: timeline{limit: in.Memory}}
}

// start resets the machine to the state before B_L with the given bytes of weights on the GPU, and
// reports whether they fit.
func (m *machine) start(weights float64) bool {
	m.act = m.in.N - 1
	held := m.in.Act[m.act] + weights
	m.mem.reset(held)
	m.free, m.pre, m.off = 0, 0, 0
	return platform.Fits(held, m.mem.limit)
}

// prefetch places the prefetch of w_k not before from and returns its start,
// +Inf if it never fits.
func (m *machine) prefetch(k int, from float64) float64 {
	t := m.mem.earliest(m.in.W[k], max(from, m.pre))
	if math.IsInf(t, 1) {
		return t
	}
	m.mem.add(t, m.in.W[k])
	m.pre = t + m.in.Move[k]
	return t
}

// compute places operation j not before ready and returns its start, +Inf if
// it never fits.
func (m *machine) compute(j int, ready float64) float64 {
	gradient := m.in.Transient(j)
	d := m.in.Act[j] - m.in.Act[m.act]
	t := m.mem.window(d, gradient, m.in.U[j], max(ready, m.free))
	if math.IsInf(t, 1) {
		return t
	}
	m.mem.add(t, d)
	m.act, m.free = j, t+m.in.U[j]
	m.mem.addUsage(t, m.free, gradient)
	return t
}

// upload places the upload of w_k not before from and returns its start.
func (m *machine) upload(k int, from float64) float64 {
	t := max(from, m.off)
	m.off = t + m.in.Move[k]
	return t
}

// remove deletes w_k at time t.
func (m *machine) remove(k int, t float64) { m.mem.add(t, -m.in.W[k]) }
