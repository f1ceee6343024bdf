package rematgraph

import (
	"container/heap"
	"encoding/binary"
	"math/bits"
	"slices"
)

// demand is a state of the backward search: the values that must be in memory, and the nodes that
// must still be computed, before the suffix of a plan that is already fixed.
type demand struct {
	need, left []uint64 // sets of values, of nodes
	size       float64  // of need
	toCome     int      // number of nodes in left
	bytes      float64  // peak memory of the suffix
	end        *demand  // the state after this one
	by         []int32  // the nodes computed between this state and end, last first
}

// demands is a priority queue by memory, then by the number of nodes left.
type demands []*demand

func (q demands) Len() int { return len(q) }

func (q demands) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.bytes != b.bytes {
		return a.bytes < b.bytes
	}
	return a.toCome < b.toCome || a.toCome == b.toCome && a.size < b.size
}

func (q demands) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *demands) Push(x any) { *q = append(*q, x.(*demand)) }

func (q *demands) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// leastSearch is Dijkstra's algorithm for the minimum peak memory. It searches the plans of a graph
// backwards, with the maximum memory so far as the distance.
//
// Only plans without useless computations that free each value after its last read are searched;
// any other plan holds more. Going backwards, a value is not needed before y has written it, and
// what y reads is needed. So the states are demands, from nothing needed and all nodes left to
// nothing left. A node that is computed once is chosen only when nothing that depends on it is
// needed or left.
//
// A demand dominates another one with a superset of needs and nodes left. Steps that lead to a
// dominating demand within the memory of the suffix are therefore forced: a computation whose
// inputs are all needed already, or forward nodes recomputed in graph order from the other needed
// values (see sweep). A demand that is dominated by an earlier one is discarded.
//
// An eager search also forces steps that reduce memory by going back to smaller inputs, and
// postpones nothing (see View.late). Its plans are valid, but it does not prove optimality.
type leastSearch struct {
	*bounds
	eager bool
	queue demands
	known map[string][]uint64 // by left: the need sets reached so far
	key   []byte              // scratch
	again []uint64            // scratch of sweep: the nodes to recompute
	last  []int32             // by value: its last reader among again, -1: none
	asked []uint64            // scratch of candidates: nodes
	late  []int               // see View.late
	work  int                 // work of sweeps so far, in nodes
}

// search looks for a plan with a peak below upper. It returns the minimum peak of such plans, but
// at least from, and the order of the computations; upper if there is none. If the limit of states
// or of work ends it, done is false and bytes is a lower bound on the peak of every plan.
func (b *bounds) search(from, upper float64, eager bool, states int) (bytes float64, order []int32, done bool) {
	most := leastSweeps
	if b.results { // a training step, whose backward nodes are recomputed as well
		most >>= 5
	}
	s := &leastSearch{
		bounds: b, eager: eager, late: b.v.late(), known: map[string][]uint64{},
		again: make([]uint64, b.v.Words), last: make([]int32, b.v.M), asked: make([]uint64, b.v.Words),
	}
	s.queue = demands{s.all(from)}
	for taken := 0; len(s.queue) > 0; taken++ {
		d := heap.Pop(&s.queue).(*demand)
		switch {
		case d.bytes >= upper:
			return upper, nil, true
		case taken == states || s.work > most || b.v.stopped():
			return d.bytes, nil, false
		}
		s.applyForced(d)
		if d.toCome == 0 && empty(d.need) {
			return d.bytes, d.order(), true
		}
		if s.first(d) {
			s.branch(d, upper)
		}
	}
	return upper, nil, true
}

// all returns the initial demand, that of the empty suffix. Results are needed. The nodes left are
// those that are computed once, and those from which neither such a node nor a result is made.
func (s *leastSearch) all(bytes float64) *demand {
	v := s.v
	d := &demand{need: make([]uint64, v.ValueWords), left: make([]uint64, v.Words), bytes: bytes}
	made := make([]uint64, v.Words)
	for j, is := range v.Once {
		if is {
			insert(made, j)
		}
	}
	for i, is := range v.Result {
		if is {
			insert(made, v.Writer[i])
			insert(d.need, i)
			d.size += v.Memory[i]
		}
	}
	for j := range v.N {
		if v.Once[j] || !has(made, j) && !meets(s.row(s.after, j), made) {
			insert(d.left, j)
			d.toCome++
		}
	}
	return d
}

// order returns the computations of the plan whose first state is d.
func (d *demand) order() []int32 {
	var order []int32
	for ; d != nil; d = d.end {
		slices.Reverse(d.by)
		order = append(order, d.by...)
	}
	return order
}

// first reports whether no earlier demand dominates d, and stores d.
func (s *leastSearch) first(d *demand) bool {
	s.key = s.key[:0]
	for _, x := range d.left {
		s.key = binary.LittleEndian.AppendUint64(s.key, x)
	}
	known := s.known[string(s.key)]
	s.work += len(known)
	for k := 0; k < len(known); k += s.v.ValueWords {
		if contains(d.need, known[k:k+s.v.ValueWords]) {
			return false
		}
	}
	s.known[string(s.key)] = append(known, d.need...)
	return true
}

// branch pushes every demand one computation before d onto the queue.
func (s *leastSearch) branch(d *demand, upper float64) {
	for y := range s.candidates(d) {
		bytes, _, ok := s.cost(d, y)
		if !ok || bytes >= upper || s.eager && s.early(d, y) {
			continue
		}
		e := *d
		e.need, e.left, e.by, e.end = slices.Clone(d.need), slices.Clone(d.left), nil, d
		e.bytes = max(d.bytes, bytes)
		s.fixBefore(&e, y)
		heap.Push(&s.queue, &e)
	}
}

// early reports whether y, as the last computation before d, is postponed: its value may be made
// late from a value that a node still has to read, and that node cannot be the next computation.
func (s *leastSearch) early(d *demand, y int) bool {
	p := s.late[y]
	return p >= 0 && !has(d.need, p) && slices.ContainsFunc(s.v.Succ[p],
		func(r int) bool { return r != y && has(d.left, r) && meets(s.row(s.after, r), s.asked) })
}

// candidates yields the nodes that write needed values or are left, in descending order. The loop
// may change the demand if it ends then.
func (s *leastSearch) candidates(d *demand) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		s.ask(d)
		for k := len(s.asked) - 1; k >= 0; k-- {
			for x := s.asked[k]; x != 0; {
				b := 63 - bits.LeadingZeros64(x)
				x &^= 1 << b
				if !yield(k<<6 + b) {
					return
				}
			}
		}
	}
}

// ask sets s.asked to the nodes that write needed values or are left.
func (s *leastSearch) ask(d *demand) {
	copy(s.asked, d.left)
	for i := range each(d.need) {
		insert(s.asked, s.v.Writer[i])
	}
}

// needs reports whether a value of node y is needed.
func (s *leastSearch) needs(d *demand, y int) bool {
	return slices.ContainsFunc(s.v.Writes[y], func(i int) bool { return has(d.need, i) })
}

// cost returns the memory during y as the last computation before d, and by how much the needed
// bytes grow. ok is false if y cannot be that computation. s.asked must be that of d.
func (s *leastSearch) cost(d *demand, y int) (bytes, more float64, ok bool) {
	v := s.v
	if v.Once[y] && (!has(d.left, y) || meets(s.row(s.after, y), s.asked)) {
		return 0, 0, false
	}
	for _, p := range v.Pred[y] {
		if !has(d.need, p) {
			if w := v.Writer[p]; v.Once[w] && !has(d.left, w) {
				return 0, 0, false
			}
			more += v.Memory[p]
		}
	}
	for _, i := range v.Writes[y] {
		if has(d.need, i) {
			more -= v.Memory[i]
		}
	}
	return v.Graph.Input + d.size + more + v.Written[y] + v.Overhead[y], more, true
}

// fixBefore makes y the last computation before d.
func (s *leastSearch) fixBefore(d *demand, y int) {
	s.meet(d, y)
	for _, p := range s.v.Pred[y] {
		if !has(d.need, p) {
			insert(d.need, p)
			d.size += s.v.Memory[p]
		}
	}
	d.by = append(d.by, int32(y))
}

// meet removes y from the nodes left and its values from the needed ones.
func (s *leastSearch) meet(d *demand, y int) {
	for _, i := range s.v.Writes[y] {
		if has(d.need, i) {
			remove(d.need, i)
			d.size -= s.v.Memory[i]
		}
	}
	if has(d.left, y) {
		remove(d.left, y)
		d.toCome--
	}
}

// applyForced applies all steps that lead to a dominating demand without more memory.
func (s *leastSearch) applyForced(d *demand) {
	for s.settleOne(d) || s.sweep(d, -1) || s.sweepOne(d) {
	}
}

func (s *leastSearch) settleOne(d *demand) bool {
	for y := range s.candidates(d) {
		bytes, more, ok := s.cost(d, y)
		if !ok || bytes > d.bytes {
			continue
		}
		if s.readsOnly(d.need, y) || s.eager && more <= 0 && s.needs(d, y) && !s.v.Once[y] {
			s.fixBefore(d, y)
			return true
		}
	}
	return false
}

// readsOnly reports whether everything that y reads is in a set.
func (s *leastSearch) readsOnly(set []uint64, y int) bool {
	return !slices.ContainsFunc(s.v.Pred[y], func(p int) bool { return !has(set, p) })
}

func (s *leastSearch) sweepOne(d *demand) bool {
	for y := range s.candidates(d) {
		if s.needs(d, y) && !s.v.Once[y] && s.sweep(d, y) {
			return true
		}
	}
	return false
}

// sweep recomputes nodes that write needed values from the other needed values, each once and in
// graph order: y or, if y is negative, all of them. It does nothing if that takes more than
// d.bytes. O(n + recomputed nodes · degree).
func (s *leastSearch) sweep(d *demand, y int) bool {
	v := s.v
	s.work += v.N
	goal := func(j int) bool { return j == y || y < 0 && !v.Once[j] } // for writers of needed values
	clear(s.again)
	use := v.Graph.Input + d.size
	for i := range each(d.need) {
		if goal(v.Writer[i]) {
			s.compute(v.Writer[i])
			use -= v.Memory[i]
		}
	}
	if !s.ancestors(d.need, goal) {
		return false
	}
	var order []int32
	for j := range each(s.again) {
		if use+v.Written[j]+v.Overhead[j] > d.bytes {
			return false
		}
		use += v.Written[j]
		order = append(order, int32(j))
		for _, i := range v.Writes[j] {
			// A value needed anyway was there before; a value without readers is freed at once.
			if has(d.need, i) && !goal(j) || !has(d.need, i) && s.last[i] < 0 {
				use -= v.Memory[i]
			}
		}
		for _, p := range v.Pred[j] {
			if has(s.again, v.Writer[p]) && s.last[p] == int32(j) && !has(d.need, p) {
				use -= v.Memory[p]
			}
		}
	}
	slices.Reverse(order)
	for _, j := range order {
		s.meet(d, int(j))
	}
	d.by = append(d.by, order...)
	return len(order) > 0
}

// compute adds a node to s.again.
func (s *leastSearch) compute(j int) {
	if !has(s.again, j) {
		insert(s.again, j)
		for _, i := range s.v.Writes[j] {
			s.last[i] = -1
		}
	}
}

// ancestors adds to s.again the nodes that must be recomputed from the needed values that no goal
// writes, and sets the last reader of each value. It reports false if one of them can be computed
// only once.
func (s *leastSearch) ancestors(need []uint64, goal func(int) bool) bool {
	v := s.v
	for j := v.N - 1; j >= 0; j-- {
		if !has(s.again, j) {
			continue
		}
		for _, p := range v.Pred[j] {
			w := v.Writer[p]
			if has(need, p) && !goal(w) {
				continue
			}
			if v.Once[w] {
				return false
			}
			s.compute(w)
			s.last[p] = max(s.last[p], int32(j))
		}
	}
	return true
}
