package weights

import (
	"cmp"
	"math"
	"slices"
)

// retimer finds the least period for fixed orders. It reads from a schedule,
// whose times need only be approximate, which gaps are away and in which order
//
//   - each link carries its transfers,
//   - memory is reserved: starts of prefetches, and of operations that need
//     more than the one before,
//   - memory is released: deletions, ends of backwards, and starts of
//     operations that need less than the one before.
//
// With these orders fixed, the m-th reservation fits as soon as the first n(m)
// releases have happened, so all rules are of the form
//
//	x(to) ≥ x(from) + cost + lap·T,
//
// and the least T is the largest ratio Σcost/−Σlap of a cycle of this graph.
// It is found by Newton's method: start at a lower bound, look for a cycle
// that is positive at T (Bellman–Ford), raise T to its ratio, repeat. Whatever
// the schedule was, the result is valid, and it is no longer than the schedule
// if that was valid.
//
// With N = O(L) nodes and edges a pass is O(N) and a few dozen are usual; the
// worst case is O(N²) passes.
type retimer struct {
	in *instance

	edges []edge // sorted by target, once built
	raw   []edge
	first []int32 // first[v]..first[v+1] are the edges into v
	order []int32 // nodes in the order of their approximate times

	when []float64 // approximate times, for order
	x    []float64
	via  []int32 // edge that determines x, -1: none
	mark []int32

	fetches, sends []item
	reserve        []item
	release        []item
	freed          []float64 // freed[i]: bytes of the first i releases
	barrier        int       // first node of the release barriers

	critical []int32 // nodes of the last positive cycle found
}

type edge struct {
	to, from int32
	lap      int32
	cost     float64
}

// item is an event at time x(node) + offset + lap·T of the cycle that starts
// at 0.
type item struct {
	// key orders items by approximate time, in units of 1e-9 T, then by rank:
	// causes before effects at the same time.
	key    uint64
	node   int32
	lap    int32
	gap    int32 // of a deletion; else what releases memory
	amount float64
}

// Bits of item.key: time, rank, and whether something ends.
const (
	rankBits = 32
	rankZero = 1 << (rankBits - 2)
)

// key returns the key of an event at the approximate time at ∈ [0,T], given
// in units of 1e-9 T.
func key(at float64, rank int32, ends int) uint64 {
	return uint64(max(0, at))<<rankBits | uint64(int64(rank)+rankZero)<<1 | uint64(ends)
}

// Releases that are not deletions.
const (
	atStart int32 = iota - 2 // an operation needs less than the one before
	atEnd                    // the gradient of a backward is gone
)

// Nodes: operation j is j, the prefetch of gap g is n+g, the upload of layer k
// is 2n+k, then the release barriers: barrier i is the time by which the first
// i+1 releases of the cycle, and all of the cycles before, have happened.
func newRetimer(in *instance) *retimer {
	r := &retimer{in: in, barrier: 2*in.n + in.L}
	most := r.barrier + 2*in.L + in.n
	r.first = make([]int32, most+1)
	r.when = make([]float64, most)
	r.x = make([]float64, most)
	r.via = make([]int32, most)
	r.mark = make([]int32, most)
	r.raw = make([]edge, 0, 12*in.n)
	return r
}

func (r *retimer) fetch(g int) int32 { return int32(r.in.n + g) }
func (r *retimer) send(k int) int32  { return int32(2*r.in.n + k) }

// best writes the schedule of least period with the orders of s into s, and
// returns false, leaving s alone, if there is none or its period exceeds
// cutoff. from is a lower bound of the period: the search starts there.
func (r *retimer) best(s *schedule, from, cutoff float64) bool {
	if !(s.T > 0) || !r.build(s) {
		return false
	}
	T, ok := r.solve(from, cutoff)
	if !ok {
		return false
	}
	s.T = T
	s.again = s.again[:0]
	n := r.in.n
	zero := r.x[0]
	for j := range s.op {
		s.op[j] = r.x[j] - zero
	}
	for g, away := range s.away {
		if away {
			s.pre[g] = r.x[n+g] - zero
		}
	}
	for k := range s.up {
		if s.uploads(k) {
			s.up[k] = r.x[2*n+k] - zero
		}
	}
	return true
}

// build makes the graph of s.
func (r *retimer) build(s *schedule) bool {
	in := r.in
	r.raw = r.raw[:0]
	r.fetches, r.sends, r.reserve, r.release = r.fetches[:0], r.sends[:0], r.reserve[:0], r.release[:0]
	r.order = r.order[:0]
	grid := 1e-9 * s.T
	// place returns an item in the cycle that starts at op[0], in units of
	// what counts as simultaneous.
	place := func(node int32, t float64) item {
		lap := -math.Floor((t-s.op[0])/s.T + 1e-9)
		return item{key: key(math.Round((t-s.op[0]+lap*s.T)/grid), node, 1), node: node, lap: int32(lap)}
	}
	held := in.Act[in.n-1] + in.total
	for j, t := range s.op {
		r.node(int32(j), t)
		before, lap := in.before(j), int32(0)
		if j == 0 {
			lap = -1
		}
		r.edge(j, int32(before), in.U[before], lap)
		at := math.Round((t - s.op[0]) / grid)
		d := in.Act[j] - in.Act[before]
		if d < 0 {
			r.release = append(r.release, item{key: key(at, int32(j), 0), node: int32(j), gap: atStart, amount: -d})
		}
		if in.Backward(j) {
			w := in.W[in.Layer(j)]
			if w > 0 {
				r.release = append(r.release, item{key: key(math.Round((t-s.op[0]+in.U[j])/grid), int32(j), 1), node: int32(j), gap: atEnd, amount: w})
			}
			d = max(d, 0) + w
		}
		if d > 0 {
			r.reserve = append(r.reserve, item{key: key(at, int32(j), 0), node: int32(j), amount: d})
		}
	}
	for k := range s.up {
		if !s.uploads(k) {
			continue
		}
		v := r.send(k)
		r.node(v, s.up[k])
		r.edge(int(v), int32(in.B(k)), in.U[in.B(k)], 0)
		r.sends = append(r.sends, place(v, s.up[k]))
	}
	for g, away := range s.away {
		if !away {
			continue
		}
		k, v, last := g>>1, r.fetch(g), in.last(g)
		r.node(v, s.pre[g])
		r.edge(int(v), int32(last), in.U[last], 0)
		if g&1 == 0 || !s.away[g^1] {
			r.edge(int(v), r.send(k), in.move[k], 0)
		}
		r.edge(in.use(g), v, in.move[k], -int32(g&1))
		p := place(v, s.pre[g])
		p.amount = in.W[k]
		r.fetches = append(r.fetches, p)
		r.reserve = append(r.reserve, p)
		d := place(int32(last), s.deleted(in, g))
		d.gap, d.amount = int32(g), in.W[k]
		// Ranked after its operation, which may be one of the cycle before.
		d.key += uint64(int64(d.lap)*int64(in.n)) << 1
		r.release = append(r.release, d)
		held -= in.W[k] * float64(d.lap-p.lap)
	}
	r.link(r.fetches)
	r.link(r.sends)
	r.releases(s)
	if !r.reservations(held) {
		return false
	}
	r.finish()
	return true
}

func (r *retimer) node(v int32, t float64) {
	r.when[v] = t
	r.order = append(r.order, v)
}

func (r *retimer) edge(to int, from int32, cost float64, lap int32) {
	r.raw = append(r.raw, edge{int32(to), from, lap, cost})
}

func byTime(a, b item) int { return cmp.Compare(a.key, b.key) }

// link makes the transfers of one link follow each other.
func (r *retimer) link(items []item) {
	slices.SortFunc(items, byTime)
	for i, b := range items {
		a, lap := item{}, int32(0)
		if i > 0 {
			a = items[i-1]
		} else {
			a, lap = items[len(items)-1], -1
		}
		var k int
		if int(a.node) >= 2*r.in.n {
			k = int(a.node) - 2*r.in.n
		} else {
			k = (int(a.node) - r.in.n) >> 1
		}
		r.edge(int(b.node), a.node, r.in.move[k], a.lap-b.lap+lap)
	}
}

// releases makes the barriers.
func (r *retimer) releases(s *schedule) {
	in := r.in
	slices.SortFunc(r.release, byTime)
	r.freed = append(r.freed[:0], 0)
	for i, a := range r.release {
		v := r.barrier + i
		r.node(int32(v), s.op[0]+float64(a.key>>rankBits)*1e-9*s.T)
		r.freed = append(r.freed, r.freed[i]+a.amount)
		if i > 0 {
			r.edge(v, int32(v-1), 0, 0)
		} else {
			r.edge(v, int32(r.barrier+len(r.release)-1), 0, -1)
		}
		switch a.gap {
		case atStart:
			r.edge(v, a.node, 0, 0)
		case atEnd:
			r.edge(v, a.node, in.U[a.node], 0)
		default:
			g := int(a.gap)
			r.edge(v, a.node, in.U[a.node], a.lap)
			if g&1 == 0 || !s.away[g^1] {
				r.edge(v, r.send(g>>1), in.move[g>>1], a.lap)
			}
		}
	}
}

// cause orders what release i of a cycle happens because of: the start of
// operation j of this cycle is 2j, its end 2j+1.
func (r *retimer) cause(i, turn int) int {
	a := &r.release[i]
	c := 2 * (int(a.node) + r.in.n*(turn+int(a.lap)))
	if a.gap != atStart {
		c++
	}
	return c
}

// reservations makes each reservation wait for the releases that it needs when
// held bytes are in use at the start of the cycle; false if no releases would
// do.
func (r *retimer) reservations(held float64) bool {
	slices.SortFunc(r.reserve, byTime)
	count := len(r.release)
	all := r.freed[count]
	// n releases since the start of the cycle, those before it negative.
	n := -2 * count
	turn, i := -2, 0
	latest := math.MinInt
	for _, q := range r.reserve {
		held += q.amount
		for held-(float64(turn)*all+r.freed[i]) > r.in.limit {
			if n > 2*count || count == 0 {
				return false
			}
			latest = max(latest, r.cause(i, turn))
			n++
			if i++; i == count {
				turn, i = turn+1, 0
			}
		}
		// An operation cannot wait for its own end or a later operation. The
		// graph would not show that if they take no time.
		if int(q.node) < r.in.n && latest > 2*int(q.node) {
			return false
		}
		if n > -2*count {
			t, b := turn, i-1
			if b < 0 {
				t, b = turn-1, count-1
			}
			r.edge(int(q.node), int32(r.barrier+b), 0, int32(t)-q.lap)
		}
	}
	return true
}

// finish sorts the edges by target and the nodes by time.
func (r *retimer) finish() {
	clear(r.first)
	for i := range r.raw {
		r.first[r.raw[i].to+1]++
	}
	for v := 1; v < len(r.first); v++ {
		r.first[v] += r.first[v-1]
	}
	if cap(r.edges) < len(r.raw) {
		r.edges = make([]edge, 2*len(r.raw))
	}
	r.edges = r.edges[:len(r.raw)]
	for i := range r.raw {
		e := &r.raw[i]
		r.edges[r.first[e.to]] = *e
		r.first[e.to]++
	}
	for v := len(r.first) - 1; v > 0; v-- {
		r.first[v] = r.first[v-1]
	}
	r.first[0] = 0
	slices.SortFunc(r.order, func(a, b int32) int {
		if c := cmp.Compare(r.when[a], r.when[b]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
}

// solve returns the least period T ≥ from, with the earliest times x at it.
func (r *retimer) solve(from, cutoff float64) (float64, bool) {
	T := from
	for {
		switch ratio, ok := r.pass(T); {
		case !ok:
			return 0, false
		case ratio == 0:
			return T, true
		default:
			if ratio <= T {
				ratio = T * (1 + 1e-12)
			}
			T = ratio
			if T > cutoff {
				return 0, false
			}
		}
	}
}

// pass finds the earliest times at period T and returns 0, or returns the
// largest ratio of the positive cycles it meets. False: some cycle is positive
// at every T.
func (r *retimer) pass(T float64) (ratio float64, ok bool) {
	for _, v := range r.order {
		r.x[v] = math.Inf(-1)
		r.via[v] = -1
	}
	r.x[0] = 0
	tol := 1e-13 * T
	for round := 0; ; round++ {
		changed := false
		for _, v := range r.order {
			x := r.x[v]
			for i := r.first[v]; i < r.first[v+1]; i++ {
				e := &r.edges[i]
				if t := r.x[e.from] + e.cost + float64(e.lap)*T; t > x+tol {
					x = t
					r.via[v] = i
					changed = true
				}
			}
			r.x[v] = x
		}
		if !changed {
			return 0, true
		}
		if round == 0 {
			continue
		}
		if ratio, ok = r.cycles(); !ok || ratio > 0 {
			return ratio, ok
		}
	}
}

// cycles returns the largest ratio of the cycles of the edges via, 0 if there
// is none, and keeps the nodes of that cycle. False: a cycle has no ratio.
func (r *retimer) cycles() (float64, bool) {
	for _, v := range r.order {
		r.mark[v] = 0
	}
	best := 0.0
	for i, v := range r.order {
		id := int32(i + 1)
		for u := v; r.mark[u] == 0; u = r.edges[r.via[u]].from {
			r.mark[u] = id
			if r.via[u] < 0 {
				break
			}
			if w := r.edges[r.via[u]].from; r.mark[w] == id {
				cost, laps := 0.0, int32(0)
				for y := w; ; {
					e := &r.edges[r.via[y]]
					cost += e.cost
					laps += e.lap
					if y = e.from; y == w {
						break
					}
				}
				if laps >= 0 {
					return 0, false
				}
				if ratio := cost / float64(-laps); ratio > best {
					best = ratio
					r.critical = r.critical[:0]
					for y := w; ; {
						r.critical = append(r.critical, y)
						if y = r.edges[r.via[y]].from; y == w {
							break
						}
					}
				}
			}
		}
	}
	return best, true
}
