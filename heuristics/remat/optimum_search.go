package remat

import (
	"context"
	"math"
	"math/bits"

	model "workbench/model/problem/remat"
	"workbench/model/proof"
)

// maxSearched is the maximum length of a chain for the search: a set is one word.
const maxSearched = 63

// held is a state: bit i of a and abar is set if a_i or ā_i is stored; next is the next backward,
// and δ_next is stored.
type held struct {
	a, abar uint64
	next    int
}

// optimumSearch is A* over the stored states, under all rules of the problem, and so complete. Its
// estimate of the remaining time is the bound of canonical plans from a state on.
//
// Plans are in a normal form without loss of generality: no value is computed that is stored or
// that no operation reads, and values are discarded right after the last operation that reads them.
// So a step is a computation, with its input discarded or not, and every stored value will be read.
// It follows that a_ℓ is not stored when ā_ℓ is computed or B_ℓ runs, for nothing reads it
// thereafter. If ā and a have equal size, only F_all is used, which dominates.
type optimumSearch struct {
	v     *model.View // sums of its times are exact
	low   *canonical
	limit int     // most states to reach
	upper float64 // stop at this time

	nodes []reached
	known map[held]int32
	queue []open
	table []float64 // scratch of remaining

	excluded proof.States
}

// reached is a state and the best path to it so far.
type reached struct {
	x    held
	time float64
	rest float64 // estimate of the time that remains
	from int32   // -1: the start
	step move
}

// move is a computation, after which its input may be discarded.
type move struct {
	op    uint8
	layer uint8
	drop  bool
}

// Computations of a search.
const (
	moveAll = iota
	moveCk
	moveB
)

type open struct {
	bound, time float64
	node        int32
}

// less orders the queue: by bound, then the one that is further on.
func (q open) less(r open) bool {
	return q.bound < r.bound || q.bound == r.bound && (q.time > r.time || q.time == r.time && q.node > r.node)
}

func (s *optimumSearch) put(q open) {
	s.queue = append(s.queue, q)
	k := len(s.queue) - 1
	for k > 0 {
		up := (k - 1) / 2
		if !q.less(s.queue[up]) {
			break
		}
		s.queue[k] = s.queue[up]
		k = up
	}
	s.queue[k] = q
}

func (s *optimumSearch) popBest() open {
	top, last := s.queue[0], s.queue[len(s.queue)-1]
	s.queue = s.queue[:len(s.queue)-1]
	k, n := 0, len(s.queue)
	for 2*k+1 < n {
		down := 2*k + 1
		if down+1 < n && s.queue[down+1].less(s.queue[down]) {
			down++
		}
		if !s.queue[down].less(last) {
			break
		}
		s.queue[k] = s.queue[down]
		k = down
	}
	if n > 0 {
		s.queue[k] = last
	}
	return top
}

// run searches for a plan that takes less than upper. It returns the last node
// of a best plan, or -1, and a lower bound on the time of all plans that take
// less than upper: upper itself if it is proved that there is none. done says
// whether the search came to its end.
func (s *optimumSearch) run(ctx context.Context) (last int32, bound float64, done bool) {
	s.known, s.excluded = map[held]int32{}, proof.States{}
	s.addLabel(held{a: 1, next: s.v.N}, 0, -1, move{})
	for taken := 0; len(s.queue) > 0; taken++ {
		// Estimates made after the end of low are worthless.
		if len(s.nodes) >= s.limit || s.low.stopped || taken%256 == 0 && ctx.Err() != nil {
			return -1, bound, false
		}
		top := s.popBest()
		bound = max(bound, top.bound)
		n := s.nodes[top.node]
		if top.time > n.time {
			continue // reached sooner since
		}
		s.excluded.Enumerated++
		if n.x.next == 0 {
			return top.node, n.time, true
		}
		s.expand(top.node, n)
	}
	return -1, s.upper, true
}

// addLabel records a path to x.
func (s *optimumSearch) addLabel(x held, time float64, from int32, by move) {
	at, found := s.known[x]
	if found && s.nodes[at].time <= time {
		s.excluded.Dominated++
		return
	}
	if !found {
		rest := s.remaining(x)
		at = int32(len(s.nodes))
		s.known[x] = at
		s.nodes = append(s.nodes, reached{x: x, rest: rest})
	}
	n := &s.nodes[at]
	n.time, n.from, n.step = time, from, by
	if time+n.rest < s.upper {
		s.put(open{time + n.rest, time, at})
	} else {
		s.excluded.Bounded++
	}
}

// size returns the bytes stored in x, including the gradient.
func size(v *model.View, x held) float64 {
	sum := v.Delta[x.next]
	for set := x.a; set != 0; set &= set - 1 {
		sum += v.A[bits.TrailingZeros64(set)]
	}
	for set := x.abar; set != 0; set &= set - 1 {
		sum += v.Abar[bits.TrailingZeros64(set)]
	}
	return sum
}

// expand takes every step out of a state.
func (s *optimumSearch) expand(at int32, n reached) {
	steps(s.v, n.x, size(s.v, n.x), func(y held, do move, duration, memory float64) {
		if s.v.Fits(memory) {
			s.addLabel(y, n.time+duration, at, do)
		} else {
			s.excluded.OutOfMemory++
		}
	})
}

// steps calls f with every step out of x, the state it leads to, its duration
// and the memory during it.
func steps(v *model.View, x held, before float64, f func(y held, do move, duration, memory float64)) {
	for l := 1; l <= x.next; l++ {
		in, out := uint64(1)<<(l-1), uint64(1)<<l
		if (x.a|x.abar)&in == 0 || x.a&out != 0 {
			continue
		}
		if l == x.next && x.abar&out != 0 {
			y := held{a: x.a &^ in, abar: x.abar &^ out, next: l - 1}
			f(y, move{moveB, uint8(l), false}, v.UB[l], before+v.Delta[l-1]+v.OB[l])
			if x.abar&in != 0 {
				y.abar &^= in
				f(y, move{moveB, uint8(l), true}, v.UB[l], before+v.Delta[l-1]+v.OB[l])
			}
		}
		if x.abar&out != 0 {
			continue
		}
		for _, drop := range [...]bool{false, true} {
			y := x
			if drop {
				if l == 1 {
					break // B_1 will read a_0
				}
				y.a &^= in
				y.abar &^= in
			}
			if l < x.next && v.A[l] < v.Abar[l] {
				z := y
				z.a |= out
				f(z, move{moveCk, uint8(l), drop}, v.UF[l], before+v.A[l]+v.OC[l])
			}
			y.abar |= out
			f(y, move{moveAll, uint8(l), drop}, v.UF[l], before+v.Abar[l]+v.OF[l])
		}
	}
}

// remaining returns a lower bound on the time from state x on. The proof of canonical holds from
// any state if an item of the stack whose memory could shrink by a sweep past it counts only the
// size it could shrink to. Such sweeps replace it by items above it, or turn the a of the next
// item into an ā. Every item will be read, so it serves at least one phase.
func (s *optimumSearch) remaining(x held) float64 {
	v := s.v
	if x.next == 0 {
		return 0
	}
	set := (x.a | x.abar) & (1<<x.next - 1)
	k := bits.OnesCount64(set)
	item, below := make([]int, k+1), make([]float64, k+1)
	light := math.Inf(1) // minimum a above
	for i, above := x.next-1, k; i >= 0; i-- {
		bit := uint64(1) << i
		if set&bit != 0 {
			w := min(v.A[i], light)
			if above < k {
				if j := item[above+1]; x.abar>>j&1 == 0 {
					w = min(w, v.Abar[j]-v.A[j])
				}
			}
			item[above], below[above] = i, w
			above--
		}
		light = min(light, v.A[i])
	}
	for j := 1; j <= k; j++ {
		below[j] += below[j-1]
	}
	rows := 2 * (x.next + 1)
	if need := (k + 1) * rows; cap(s.table) < need {
		s.table = make([]float64, need)
	}
	table := s.table[:(k+1)*rows]
	for j := range table {
		table[j] = -1
	}
	var from func(k, t, has int) float64
	from = func(k, t, has int) float64 {
		switch {
		case t == 0:
			return 0
		case k == 0:
			return math.Inf(1)
		}
		cell := &table[k*rows+2*t+has]
		if *cell >= 0 {
			return *cell
		}
		best := math.Inf(1)
		base, m := item[k], s.v.Memory-below[k]
		for l := base + 1; l <= t; l++ {
			for leaves := range 2 {
				c := phases{serve, has, leaves, base + 1, t, l}
				if !c.exists() || s.low.floor(c) >= best {
					continue
				}
				if time := s.low.value(c, m, best).value; time < best {
					best = min(best, time+from(k-1, l-1, leaves))
				}
			}
		}
		if base > 0 && x.abar>>base&1 != 0 {
			c := phases{serve, has, 0, base + 1, t, base + 1}
			if time := s.low.value(c, m, best).value; time < best {
				best = min(best, time+from(k-1, base, 1))
			}
		}
		*cell = best
		return best
	}
	return from(k, x.next, int(x.abar>>x.next&1))
}

// build appends the operations that lead to a node.
func (s *optimumSearch) build(q *model.Sequence, last int32) {
	var path []int32
	for at := last; s.nodes[at].from >= 0; at = s.nodes[at].from {
		path = append(path, at)
	}
	for k := len(path) - 1; k >= 0; k-- {
		step(q, s.nodes[path[k]].step)
	}
}

// step appends a step.
func step(q *model.Sequence, do move) {
	l := int(do.layer)
	switch do.op {
	case moveAll:
		q.All(l)
	case moveCk:
		if do.drop && q.Has(l-1) {
			q.None(l)
			return
		}
		q.Checkpoint(l)
	case moveB:
		q.Backward(l)
	}
	if do.drop {
		q.Discard(l - 1)
	}
}
