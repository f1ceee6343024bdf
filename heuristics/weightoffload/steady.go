package weightoffload

import (
	"math"

	"workbench/model/problem/weightoffload"
)

// steady schedules a selection cycle after cycle and keeps one: every cycle is placed by the rules
// of Algorithm 2 from the end of the previous one, not from a cut point, so transfers may cross the
// start of the cycle. After a few cycles the schedule usually repeats itself. If not, its orders
// are still those of a good schedule, which the retimer makes exact.
type steady struct {
	machine
	gone    []float64 // by gap: when its weight was last deleted
	fetched []float64 // by gap: start of the prefetch last placed
	sent    []float64 // end of the upload of w_k, +Inf before it is placed
	waiting []int

	// ahead is the number of prefetches placed before the operation they could wait for. With 0
	// nothing delays a computation that can run. With more, a backward may wait while a prefetch
	// uses the memory of its gradient, which keeps a bottleneck link busy.
	ahead int
	next  int // operation, counted on through the cycles, of the last prefetch placed
	count int // prefetches placed for operations still to come
}

func newSteady(in *instance) *steady {
	return &steady{machine: *newMachine(in), gone: make([]float64, in.N), fetched: make([]float64, in.N), sent: make([]float64, in.L)}
}

// run schedules the gaps in which s has weights on the host for laps cycles and writes the last one
// into s. It stops and reports false if something never fits. O(laps·L) placements.
func (m *steady) run(s *weightoffload.Schedule, laps int) bool {
	in := m.in
	here := in.Total
	for k, w := range in.W {
		if s.Away[2*k+1] {
			here -= w
		}
	}
	if !m.start(here) {
		return false
	}
	for g := range m.gone {
		m.gone[g] = math.Inf(-1)
	}
	m.waiting = m.waiting[:0]
	m.next, m.count = -1, 0
	began := 0.0
	for lap := range laps {
		before := began
		for j := range in.N {
			if !m.step(s, lap*in.N+j) {
				return false
			}
		}
		began = s.Op[0]
		s.T = began - before
	}
	// One more start of a cycle gives the period of the last.
	s.T = max(s.T, m.free-began)
	for g := 1; g < in.N; g += 2 {
		s.Pre[g] += s.T
	}
	s.Shift(-s.Op[0])
	return true
}

// step places operation now, counted on through the cycles, with its prefetch
// and what follows it.
func (m *steady) step(s *weightoffload.Schedule, now int) bool {
	in, j := m.in, now%m.in.N
	k, g := in.Layer(j), in.Gap(j)
	if s.Away[g] {
		if m.next < now {
			m.next = now
			m.fetched[g] = m.prefetch(k, m.gone[g])
		} else {
			m.count--
		}
	}
	m.lookAhead(s, now)
	ready := m.free
	if s.Away[g] {
		s.Pre[g] = m.fetched[g]
		ready = max(ready, s.Pre[g]+in.Move[k])
	}
	s.Op[j] = m.compute(j, ready)
	if math.IsInf(s.Op[j], 1) {
		return false
	}
	next := g ^ 1
	if in.Backward(j) {
		m.sent[k] = math.Inf(1)
		switch {
		case s.Away[2*k]:
			m.early(s)
			m.dispatch(s, k, m.free)
		case s.Away[2*k+1]:
			m.waiting = append(m.waiting, k)
		}
	}
	if s.Away[next] {
		if math.IsInf(m.sent[k], 1) {
			m.due(s, k)
		}
		m.gone[next] = max(m.free, m.sent[k])
		m.remove(k, m.gone[next])
	}
	return true
}

// lookAhead places prefetches for operations after now while memory for it remains.
func (m *steady) lookAhead(s *weightoffload.Schedule, now int) {
	in := m.in
	need := max(0, in.Act[now%in.N]-in.Act[m.act]) + in.Transient(now%in.N)
	for m.count < m.ahead {
		x := max(m.next, now) + 1
		for ; x < now+in.N && !s.Away[in.Gap(x%in.N)]; x++ {
		}
		g := in.Gap(x % in.N)
		w := in.W[g>>1]
		// Its gap must have started.
		if used := in.Last(g); x >= now+in.N || x-(x-used+in.N)%in.N >= now || !m.mem.fits(w+need) {
			return
		}
		m.fetched[g] = m.prefetch(g>>1, m.gone[g])
		m.next = x
		m.count++
	}
}

// dispatch uploads w_k not before from.
func (m *steady) dispatch(s *weightoffload.Schedule, k int, from float64) {
	s.Up[k] = m.upload(k, from)
	m.sent[k] = m.off
}

// early uploads waiting weights that fit before the end of the current
// backward, those with the next forwards first.
func (m *steady) early(s *weightoffload.Schedule) {
	for n := len(m.waiting); n > 0; n-- {
		k := m.waiting[n-1]
		j := m.in.B(k)
		from := max(m.off, s.Op[j]+m.in.U[j])
		if m.free-from < m.in.Move[k] {
			return
		}
		m.dispatch(s, k, from)
		m.waiting = m.waiting[:n-1]
	}
}

// due uploads w_k, after F_k if need be but before if the link was free.
// Forwards come in the reverse order of backwards, so k is the last to wait.
func (m *steady) due(s *weightoffload.Schedule, k int) {
	m.waiting = m.waiting[:len(m.waiting)-1]
	j := m.in.B(k)
	m.dispatch(s, k, s.Op[j]+m.in.U[j])
}
