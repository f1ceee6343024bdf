package activationoffload

import (
	"math"
	"math/bits"
	"slices"

	view "workbench/model/problem/activationoffload"
)

// space is activation offloading as a shortest-path problem with labels, for Optimum. A label is a
// partial plan: computations 1..m and some transfers have been started.
//
//   - away is the set of activations whose last transfer is an offload,
//   - computed is the end of computation m, carried that of the last transfer.
//
// Computation q is F_q for q ≤ N, then B_{2N+1−q}. The continuations depend on nothing else (see
// compute, send and fetch). So of two labels with the same m and away, one that is no earlier in
// both times is dominated.
//
// Events are not added in order of time: a computation is added before every transfer during which
// it starts. So a computation starts when all transfers of its label have ended, or later, while a
// transfer may start long before the computations of its label have ended.
//
// Of activations of equal size those with the smallest indices are away. Proof. Each is offloaded
// at most once and then prefetched once (exhaustive/activationoffload.Search, 1). Let the q-th
// smallest activation of the size have the q-th offload and the prefetch that is q-th from the end,
// or neither if that prefetch comes first. The first q offloads were of q activations, the largest
// index of which is at least the q-th smallest; so F has produced it by then, and likewise no
// prefetch comes too late. At each time at least as many offloads, with the forward that follows,
// have ended as before; and dropping a prefetch and a later offload leaves at least as much away.
// So a set is a number of activations of each size, and these are packed into 64 bits.
type space struct {
	*instance
	// By computation q, from 1:
	u     []float64 // seconds
	until []float64 // u_1 + … + u_q
	layer []int
	need  []float64 // X_q: bytes that must be away during q
	idle  []float64 // the same between q and q+1
	// By computation q, from 0: bounds on what is left of any plan after q.
	rest []float64 // seconds from the end of q to that of the plan
	haul []float64 // seconds from the end of a transfer, with nothing away

	sizes []size
	moves []int // i of the ā_i that may move, ascending
	of    []int // by i: its index in sizes, -1: does not move
	rank  []int // by i: how many of its size have smaller numbers
	// By i: before the end of the plan, by how much ā_{i-1} is needed at least.
	due []float64
}

// size is the data of the activations of one size.
type size struct {
	bytes, move float64
	members     []int // i of ā_i, ascending
	shift       int   // of their number in a set
	mask        uint64
}

// set is a set of activations: the number of each size that is away, packed.
type set uint64

func (z *size) extract(a set) int { return int(uint64(a) >> z.shift & z.mask) }
func (z *size) one() set          { return 1 << z.shift }

// label is a partial plan.
type label struct {
	away              set
	bytes             float64 // total size of away
	computed, carried float64 // seconds
	node              int32   // how it came about
}

// newSpace returns false if the sizes do not fit into 64 bits. O(N²).
func newSpace(in *instance) (*space, bool) {
	n := in.N
	s := &space{
		instance: in, u: make([]float64, 2*n+2), until: make([]float64, 2*n+1), layer: make([]int, 2*n+2),
		need: make([]float64, 2*n+2), idle: make([]float64, 2*n+1), of: make([]int, n+1), rank: make([]int, n+1),
	}
	x := in.Excess()
	for q := 1; q <= 2*n; q++ {
		if l := q; q <= n {
			s.layer[q], s.u[q], s.need[q] = l, in.UF[l], x.Forward[l]
			s.idle[q] = in.Before[l] + in.Abar[l] - in.Memory
		} else {
			l = 2*n + 1 - q
			s.layer[q], s.u[q], s.need[q] = l, in.UB[l], x.Backward[l]
			s.idle[q] = in.Before[l] + in.Delta[l-1] - in.Memory
		}
		s.until[q] = s.until[q-1] + s.u[q]
	}
	s.tails()
	return s, s.pack()
}

// pack finds the sizes.
func (s *space) pack() bool {
	for i := range s.of {
		s.of[i] = -1
		// ā_{N-1} is never offloaded: F_N and B_N use it, only prefetches between them need memory,
		// and these fit together with ā_{N-1} at B_N in any case.
		if i > s.N-2 || s.Abar[i] == 0 {
			continue
		}
		s.moves = append(s.moves, i)
		k := slices.IndexFunc(s.sizes, func(z size) bool { return z.bytes == s.Abar[i] })
		if k < 0 {
			k = len(s.sizes)
			s.sizes = append(s.sizes, size{bytes: s.Abar[i], move: s.Move[i]})
		}
		z := &s.sizes[k]
		s.of[i], s.rank[i] = k, len(z.members)
		z.members = append(z.members, i)
	}
	shift := 0
	for k := range s.sizes {
		z := &s.sizes[k]
		width := bits.Len(uint(len(z.members)))
		z.shift, z.mask = shift, 1<<width-1
		shift += width
	}
	return shift <= 64
}

// tails fills rest and haul. When computation q ends, X_q bytes are away, whose prefetches start
// then or later and take r(X_q) until the end of the plan, as in Bounds; when it starts, X_q bytes
// have been sent.
func (s *space) tails() {
	n := s.N
	x := s.WholeTensors()
	e := s.EagerSchedule(x, view.MinSets)
	s.due = e.Bwd
	s.rest, s.haul = make([]float64, 2*n+1), make([]float64, 2*n+1)
	f := view.NewFrontier(view.MinSets, max(slices.Max(x.Forward), slices.Max(x.Backward)))
	var back [2][]float64
	back[0], back[1] = make([]float64, n+1), make([]float64, n+1)
	for l := 2; l <= n; l++ {
		f.Add(s.Abar[l-2], s.Move[l-2], 0, e.Bwd[l-1])
		for phase, bytes := range [...]float64{x.Forward[l], x.Backward[l]} {
			if bytes > 0 {
				back[phase][l] = max(s.When(e.Fetch, s.FirstWith(0, bytes), bytes), f.Least(bytes, func(a view.Shipment) float64 { return a.Back }))
			}
		}
	}
	s.haul[2*n] = math.Inf(-1)
	for q := 2 * n; q >= 1; q-- {
		l, phase, bytes := s.layer[q], 0, 0.0
		if bytes = x.Forward[l]; q > n {
			phase, bytes = 1, x.Backward[l]
		}
		tail := s.u[q] + max(back[phase][l], s.rest[q])
		s.rest[q-1] = tail
		s.haul[q-1] = s.haul[q]
		if bytes > 0 {
			s.haul[q-1] = max(s.haul[q-1], bytes/s.Bandwidth+tail)
		}
	}
}

// mayImprove reports whether lower bounds allow a continuation of l, whose last computation is m,
// with makespan below T. They use the remaining computations, the X_q − bytes that are still to be
// sent before each q > m, and what is away: ā_i must return before B_{i+1} starts. O(N).
func (s *space) mayImprove(T float64, m int, l *label) bool {
	if !(l.computed+s.rest[m] < T && l.carried-l.bytes/s.Bandwidth+s.haul[m] < T) {
		return false
	}
	back := 0.0
	for _, i := range s.moves {
		if s.rank[i] < s.sizes[s.of[i]].extract(l.away) {
			back = max(back, s.due[i+1]) + s.Move[i]
		}
	}
	return l.carried+back < T
}

// upTo returns the bytes of ā_0..ā_i that are away.
func (s *space) upTo(i int, away set) float64 {
	bytes := 0.0
	for k := range s.sizes {
		z := &s.sizes[k]
		for c := z.extract(away); c > 0; c-- {
			if z.members[c-1] <= i {
				bytes += float64(c) * z.bytes
				break
			}
		}
	}
	return bytes
}

// is reports whether ā_i is away.
func (s *space) is(i int, away set) bool {
	return i >= 0 && s.of[i] >= 0 && s.rank[i] < s.sizes[s.of[i]].extract(away)
}

// added is a label with the event that was added last.
type added struct {
	label
	start float64
	i     int // of the activation transferred
}

// compute adds computation m+1.
func (s *space) compute(m int, l *label) (added, bool) {
	q := m + 1
	gone := l.bytes
	i := s.layer[q] - 1 // the input
	if s.is(i, l.away) {
		if q > s.N {
			return added{}, false
		}
		gone -= s.Abar[i]
	}
	if gone < s.need[q] {
		return added{}, false
	}
	start := max(l.computed, l.carried)
	return added{label{l.away, l.bytes, start + s.u[q], l.carried, 0}, start, 0}, true
}

// send adds the offload of the next activation of a size, ā_i. It starts when F_i
// and the transfers before have ended: F_i has ended u_{i+1} + … + u_m seconds
// before computation m if none of these waited, and else before the transfer for
// which one of them waited.
func (s *space) send(m int, l *label, z *size) (added, bool) {
	c := z.extract(l.away)
	if c == len(z.members) {
		return added{}, false
	}
	i, last := z.members[c], m
	if m >= s.N {
		last = s.layer[m] - 2 // what is larger m needs, or it is freed
	}
	if i > last {
		return added{}, false
	}
	at := l.carried
	if i > 0 {
		at = max(at, l.computed-(s.until[m]-s.until[i]))
	}
	return added{label{l.away + z.one(), l.bytes + z.bytes, l.computed, at + z.move, 0}, at, i}, true
}

// fetch adds the prefetch of the last activation of a size, ā_i. It starts when the previous
// transfers have ended, and the started computations for which too little would be away. If none of
// these is running, the activations alone must fit, which is less than a computation needs. (That
// F_{i+1} has ended is implied: otherwise the label without both transfers of ā_i dominates.)
func (s *space) fetch(m int, l *label, z *size) (added, bool) {
	c := z.extract(l.away)
	if c == 0 {
		return added{}, false
	}
	i := z.members[c-1]
	away := l.away - z.one()
	at := l.carried
	for q := m; q > 0; q-- {
		end := l.computed - (s.until[m] - s.until[q])
		if end <= at {
			break
		}
		if s.need[q] > 0 && s.upTo(s.layer[q]-2, away) < s.need[q] {
			at = end
		}
	}
	if at >= l.computed && s.idle[m] > 0 && s.upTo(s.idleUpTo(m), away) < s.idle[m] {
		return added{}, false
	}
	return added{label{away, l.bytes - z.bytes, l.computed, at + z.move, 0}, at, i}, true
}

// idleUpTo returns the largest i for which ā_i may be away between m and m+1.
func (s *space) idleUpTo(m int) int {
	if m < s.N {
		return m - 1
	}
	return s.N
}
