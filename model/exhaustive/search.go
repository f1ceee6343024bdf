package exhaustive

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/platform"
)

// A shortest is Dijkstra's algorithm over states that are found on the way,
// each written as a 64-bit key. Steps take time and memory. It minimises the
// time within a limit on memory, or the peak of memory; states of equal cost
// are settled in the order in which they were found.
type shortest struct {
	memory float64 // no step may need more
	peak   bool    // minimise the largest memory instead of the sum of times
	limit  int     // most states to settle

	nodes []reached
	slots []int32 // open addressing: 1 + index of nodes, 0: free
	queue queue
	at    int32 // the state that is being left
}

// reached is a state and the best way to it that is known.
type reached struct {
	key     uint64
	cost    float64
	from    int32 // -1: the start
	step    uint32
	settled bool
}

type queued struct {
	cost float64
	node int32
}

// run searches from start and returns the least cost of a state that is a goal
// and the steps to it, each with the state it leads to. leave calls
// [shortest.reach] for every step out of a state.
func (s *shortest) run(start uint64, goal func(uint64) bool, leave func(uint64)) (float64, []reached, error) {
	s.slots = make([]int32, 256)
	s.at = -1
	s.enqueue(start, 0, 0)
	for settled := 0; len(s.queue) > 0; {
		q := s.queue.pop()
		n := &s.nodes[q.node]
		if n.settled {
			continue
		}
		if goal(n.key) {
			return n.cost, s.path(q.node), nil
		}
		if settled++; settled > s.limit {
			return 0, nil, fmt.Errorf("%w: more than %d", ErrLimit, s.limit)
		}
		n.settled = true
		s.at = q.node
		leave(n.key)
	}
	return 0, nil, ErrInfeasible
}

// relax says that a step leads from the state that is being left to another.
func (s *shortest) relax(to uint64, step uint32, time, memory float64) {
	if !platform.Fits(memory, s.memory) {
		return
	}
	cost := s.nodes[s.at].cost
	if s.peak {
		cost = max(cost, memory)
	} else {
		cost += time
	}
	s.enqueue(to, step, cost)
}

// enqueue queues a state if this way to it is better than the known ones.
func (s *shortest) enqueue(key uint64, step uint32, cost float64) {
	i := s.find(key)
	k := s.slots[i] - 1
	if k < 0 {
		k = int32(len(s.nodes))
		s.nodes = append(s.nodes, reached{key: key, cost: math.Inf(1)})
		s.slots[i] = k + 1
		if 2*len(s.nodes) > len(s.slots) {
			s.grow()
		}
	}
	n := &s.nodes[k]
	if n.settled || cost >= n.cost {
		return
	}
	n.cost, n.from, n.step = cost, s.at, step
	s.queue.push(queued{cost, k})
}

// find returns the slot of a key, or the free one where it belongs.
func (s *shortest) find(key uint64) int {
	mask := len(s.slots) - 1
	h := key * 0x9e3779b97f4a7c15
	for i := int(h>>32) & mask; ; i = (i + 1) & mask {
		if k := s.slots[i]; k == 0 || s.nodes[k-1].key == key {
			return i
		}
	}
}

func (s *shortest) grow() {
	s.slots = make([]int32, 2*len(s.slots))
	for k := range s.nodes {
		s.slots[s.find(s.nodes[k].key)] = int32(k) + 1
	}
}

// path returns the states after the start on the way to the k-th node.
func (s *shortest) path(k int32) (p []reached) {
	for ; s.nodes[k].from >= 0; k = s.nodes[k].from {
		p = append(p, s.nodes[k])
	}
	slices.Reverse(p)
	return p
}

func (a queued) less(b queued) bool {
	return a.cost < b.cost || a.cost == b.cost && a.node < b.node
}

// A queue is a binary heap, the least cost first.
type queue []queued

func (h *queue) push(q queued) {
	*h = append(*h, q)
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !q.less(s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = q
}

func (h *queue) pop() queued {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if n := len(s); n > 0 {
		i := 0
		for {
			down := 2*i + 1
			if down >= n {
				break
			}
			if down+1 < n && s[down+1].less(s[down]) {
				down++
			}
			if !s[down].less(last) {
				break
			}
			s[i] = s[down]
			i = down
		}
		s[i] = last
	}
	return first
}
