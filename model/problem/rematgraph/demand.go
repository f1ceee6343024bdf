package rematgraph

import (
	"container/heap"
	"encoding/binary"
	"math/bits"
	"slices"
)

// demand is what the end of a plan asks of its beginning: the values that have to
// be in memory, and the nodes that have to be computed in it for their own sake.
type demand struct {
	need, left []uint64 // of values, of nodes
	size       float64  // of need
	toCome     int      // nodes of left
	bytes      float64  // that the end of the plan takes
	end        *demand  // of a shorter end of the plan
	by         []int32  // what is computed before that, last first
}

// demands is a queue: of the least memory, the one that is furthest on.
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

// leastSearch is Dijkstra's algorithm, with the largest memory so far in the place
// of time, over the plans of a graph from their ends to their beginnings.
//
// A plan computes nothing in vain and frees a value after the last computation
// that reads it: any other is one of these with more in memory. Going backwards,
// before y was computed y was not needed, and what y reads was. So the states are
// demands, from nothing needed and everything left to nothing left at all; a node
// that is computed once is taken when nothing that depends on it is needed or left.
//
// A demand is no harder to meet than one that asks for the same and more. So
// whatever leads to less, within the memory that the end of the plan takes anyway,
// is done at once: a computation all of whose inputs are needed, or forwards being
// computed in the order of the graph from the rest (see sweep).
//
// Nor is there a way on from one that asks for the same and more than another that took no
// more memory.
//
// An eager search also takes at once what makes room by going back to smaller
// inputs, and puts nothing off (see View.late). Its plans are plans; that there are no
// others it does not prove.
type leastSearch struct {
	*bounds
	eager bool
	queue demands
	known map[string][]uint64 // by what is left: what was needed
	key   []byte              // scratch
	again []uint64            // scratch of sweep: the nodes that it computes
	last  []int32             // of their values, the last of them that reads it, -1: none
	asked []uint64            // scratch of candidates: nodes
	late  []int               // see View.late
	work  int                 // that sweeps have done, in nodes
}

// search looks for a plan of less than upper. It returns the least memory of such
// plans, but no less than from, and the order of the computations; upper if there
// is none; and, done being false, a lower bound on it at the end of so many states
// or of as much work.
func (b *bounds) search(from, upper float64, eager bool, states int) (bytes float64, order []int32, done bool) {
	most := leastSweeps
	if b.results { // a training step, in which backward nodes are computed again as well
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

// all is the demand of the empty end of a plan: results are needed, and left is
// every node that is computed once, and those that neither such a node nor a result
// is made from.
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

// order returns the computations of a plan whose beginning is d.
func (d *demand) order() []int32 {
	var order []int32
	for ; d != nil; d = d.end {
		slices.Reverse(d.by)
		order = append(order, d.by...)
	}
	return order
}

// first reports whether d is none that asks for the same and more than one that was
// reached before, which took no more memory, and notes it.
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

// branch puts every demand one computation before d into the queue.
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

// early reports whether a plan in which y is the last computation before d puts y off: its
// value is made late of one that some node is to read that cannot be that computation.
func (s *leastSearch) early(d *demand, y int) bool {
	p := s.late[y]
	return p >= 0 && !has(d.need, p) && slices.ContainsFunc(s.v.Succ[p],
		func(r int) bool { return r != y && has(d.left, r) && meets(s.row(s.after, r), s.asked) })
}

// candidates yields the nodes that write what is needed or are left, from the last
// on. What is yielded may be taken, if the loop ends then.
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

// ask sets s.asked to the nodes that write what is needed or are left.
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

// cost returns the memory during y, the last computation before d, and how much
// more is needed before it than after it; ok is false if y cannot be that. It is
// called while s.asked is that of d.
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

// meet takes y out of what is left, and what it writes out of what is needed.
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

// applyForced does all that leads to a demand that is easier to meet, and costs no
// memory.
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

// readsOnly reports whether all that y reads is in a set.
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

// sweep computes nodes that write what is needed, and may be computed again, from
// the rest of what is needed, each that takes once and in the order of the graph: y
// or, y being negative, all of them. It does nothing if that takes more than
// d.bytes. O(n + what it computes · degree).
func (s *leastSearch) sweep(d *demand, y int) bool {
	v := s.v
	s.work += v.N
	goal := func(j int) bool { return j == y || y < 0 && !v.Once[j] } // if a value of it is needed
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
			// What is needed anyway was there before; what nobody reads goes at once.
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

// ancestors adds to s.again what it takes to compute that from what is needed but
// written by no goal, and notes the last reader of each value; false if something
// could be computed once only.
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
