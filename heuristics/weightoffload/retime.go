package weightoffload

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/cycleratio"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// retimer computes the minimum period for fixed orders. It reads from a schedule, whose times need
// only be approximate, in which gaps weights are on the host and in which order
//
//   - each link carries its transfers,
//   - memory is reserved: starts of prefetches, and of operations that need more than the
//     previous one,
//   - memory is released: deletions, ends of backwards, and starts of operations that need less
//     than the
//     previous one.
//
// With these orders fixed, the m-th reservation fits as soon as the first n(m) releases have
// happened. So all rules are precedences, and the minimum T is their maximum cycle ratio. The
// result is always valid, and no longer than the schedule if that was valid.
//
// With N = O(L) nodes and edges a pass of cycleratio is O(N), and a few dozen passes are usual.
type retimer struct {
	in    *instance
	graph cycleratio.Graph

	order []int     // nodes in the order of their approximate times
	when  []float64 // approximate times, for order

	fetches, sends []item
	reserve        []item
	release        []item
	freed          []float64 // freed[i]: bytes of the first i releases
	barrier        int       // first node of the release barriers
}

// item is an event at time x(node) + offset + lap·T of the cycle that starts at 0.
type item struct {
	// key orders items by approximate time, in units of plan.Tolerance of T, then by rank:
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
// in units of plan.Tolerance of T.
func key(at float64, rank int32, ends int) uint64 {
	return uint64(max(0, at))<<rankBits | uint64(int64(rank)+rankZero)<<1 | uint64(ends)
}

// Releases that are not deletions.
const (
	atStart int32 = iota - 2 // an operation needs less than the one before
	atEnd                    // release of the transient memory of an operation
)

// Nodes: operation j is j, the prefetch of gap g is n+g, the upload of layer k
// is 2n+k, then the release barriers: barrier i is the time by which the first
// i+1 releases of the cycle, and all of the cycles before, have happened.
func newRetimer(in *instance) *retimer {
	r := &retimer{in: in, barrier: 2*in.N + in.L}
	r.when = make([]float64, r.barrier+3*in.L+in.N)
	return r
}

func (r *retimer) fetch(g int) int32 { return int32(r.in.N + g) }
func (r *retimer) send(k int) int32  { return int32(2*r.in.N + k) }

// best writes the schedule with the minimum period for the orders of s into s. It reports false,
// and leaves s unchanged, if there is none or its period exceeds cutoff. from is a lower bound on
// the period at which the search starts.
func (r *retimer) best(s *weightoffload.Schedule, from, cutoff float64) bool {
	if !(s.T > 0) || !r.build(s) {
		return false
	}
	T, err := r.graph.Least(from, cutoff)
	if err != nil {
		return false
	}
	s.T = T
	s.Again = s.Again[:0]
	n := r.in.N
	x := r.graph.Times()
	zero := x[0]
	for j := range s.Op {
		s.Op[j] = x[j] - zero
	}
	for g, away := range s.Away {
		if away {
			s.Pre[g] = x[n+g] - zero
		}
	}
	for k := range s.Up {
		if s.Uploads(k) {
			s.Up[k] = x[2*n+k] - zero
		}
	}
	return true
}

// build makes the graph of s; false if memory cannot be kept.
func (r *retimer) build(s *weightoffload.Schedule) bool {
	in := r.in
	r.graph.Reset(len(r.when))
	r.fetches, r.sends, r.reserve, r.release = r.fetches[:0], r.sends[:0], r.reserve[:0], r.release[:0]
	r.order = r.order[:0]
	r.computations(s)
	away := r.transfers(s)
	r.link(r.fetches)
	r.link(r.sends)
	r.releases(s)
	if !r.reservations(in.Act[in.N-1] + in.Total - away) {
		return false
	}
	slices.SortFunc(r.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.when[a], r.when[b]), cmp.Compare(a, b))
	})
	for _, v := range r.order {
		r.graph.Order(v)
	}
	return true
}

// computations adds the operations, what they reserve and what they release.
func (r *retimer) computations(s *weightoffload.Schedule) {
	in := r.in
	grid := plan.Tolerance * s.T
	for j, t := range s.Op {
		r.node(int32(j), t)
		before, lap := in.Predecessor(j), int32(0)
		if j == 0 {
			lap = -1
		}
		r.edge(j, int32(before), in.U[before], lap)
		at := math.Round((t - s.Op[0]) / grid)
		d := in.Act[j] - in.Act[before]
		if d < 0 {
			r.release = append(r.release, item{key: key(at, int32(j), 0), node: int32(j), gap: atStart, amount: -d})
		}
		if w := in.Transient(j); w > 0 {
			r.release = append(r.release, item{key: key(math.Round((t-s.Op[0]+in.U[j])/grid), int32(j), 1), node: int32(j), gap: atEnd, amount: w})
			d = max(d, 0) + w
		}
		if d > 0 {
			r.reserve = append(r.reserve, item{key: key(at, int32(j), 0), node: int32(j), amount: d})
		}
	}
}

// transfers adds uploads, prefetches and deletions, and returns the bytes on the host only at the
// start of the cycle.
func (r *retimer) transfers(s *weightoffload.Schedule) (away float64) {
	in := r.in
	grid := plan.Tolerance * s.T
	// place returns an item in the cycle that starts at Op[0].
	place := func(node int32, t float64) item {
		lap := -math.Floor((t-s.Op[0])/s.T + plan.Tolerance)
		return item{key: key(math.Round((t-s.Op[0]+lap*s.T)/grid), node, 1), node: node, lap: int32(lap)}
	}
	for k := range s.Up {
		if !s.Uploads(k) {
			continue
		}
		v := r.send(k)
		r.node(v, s.Up[k])
		r.edge(int(v), int32(in.B(k)), in.U[in.B(k)], 0)
		r.sends = append(r.sends, place(v, s.Up[k]))
	}
	for g, leaves := range s.Away {
		if !leaves {
			continue
		}
		k, v, last := g>>1, r.fetch(g), in.Last(g)
		r.node(v, s.Pre[g])
		r.edge(int(v), int32(last), in.U[last], 0)
		if g&1 == 0 || !s.Away[g^1] {
			r.edge(int(v), r.send(k), in.Move[k], 0)
		}
		r.edge(in.Use(g), v, in.Move[k], -int32(g&1))
		p := place(v, s.Pre[g])
		p.amount = in.W[k]
		r.fetches = append(r.fetches, p)
		r.reserve = append(r.reserve, p)
		d := place(int32(last), s.Deleted(in.Instance, g))
		d.gap, d.amount = int32(g), in.W[k]
		// Ranked after its operation, which may be one of the cycle before.
		d.key += uint64(int64(d.lap)*int64(in.N)) << 1
		r.release = append(r.release, d)
		away += in.W[k] * float64(d.lap-p.lap)
	}
	return away
}

func (r *retimer) node(v int32, t float64) {
	r.when[v] = t
	r.order = append(r.order, int(v))
}

func (r *retimer) edge(to int, from int32, cost float64, lap int32) {
	r.graph.Add(cycleratio.Precedence{From: int(from), To: to, Wait: cost, Turns: -int(lap)})
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
		if int(a.node) >= 2*r.in.N {
			k = int(a.node) - 2*r.in.N
		} else {
			k = (int(a.node) - r.in.N) >> 1
		}
		r.edge(int(b.node), a.node, r.in.Move[k], a.lap-b.lap+lap)
	}
}

// releases makes the barriers.
func (r *retimer) releases(s *weightoffload.Schedule) {
	in := r.in
	slices.SortFunc(r.release, byTime)
	r.freed = append(r.freed[:0], 0)
	for i, a := range r.release {
		v := r.barrier + i
		r.node(int32(v), s.Op[0]+float64(a.key>>rankBits)*plan.Tolerance*s.T)
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
			if g&1 == 0 || !s.Away[g^1] {
				r.edge(v, r.send(g>>1), in.Move[g>>1], a.lap)
			}
		}
	}
}

// cause orders what release i of a cycle happens because of: the start of
// operation j of this cycle is 2j, its end 2j+1.
func (r *retimer) cause(i, turn int) int {
	a := &r.release[i]
	c := 2 * (int(a.node) + r.in.N*(turn+int(a.lap)))
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
		for !platform.Fits(held-(float64(turn)*all+r.freed[i]), r.in.Memory) {
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
		if int(q.node) < r.in.N && latest > 2*int(q.node) {
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
