package exhaustive

import (
	"fmt"
	"math"

	"workbench/model/platform"
)

// A clocked is A* over states at whole times.
type clocked[S comparable] struct {
	memory float64
	limit  int // most states to settle
	rules  rules[S]
	nodes  []moment[S]
	known  map[S]int32
	queue  queue
}

// A moment is a way to a state.
type moment[S comparable] struct {
	state   S
	time    int32
	from    int32 // the node before, -1: the start
	did     uint32
	settled bool
}

// rules are what a clocked search asks of states.
type rules[S comparable] interface {
	needs(S) float64 // the memory in use
	bound(S) float64 // the seconds that are left at least
	finished(S) bool // everything is done
	expand(x S, at, time int32)
}

// run returns the best way from start to a state in which everything is done. leave calls
// offer for every step out of a state.
func (s *clocked[S]) run(r rules[S], start S) (int32, error) {
	s.rules, s.known = r, make(map[S]int32)
	s.enqueue(start, -1, 0, 0)
	for settled := 0; len(s.queue) > 0; {
		at := s.queue.pop().node
		m := s.nodes[at]
		if m.settled {
			continue
		}
		if r.finished(m.state) {
			return at, nil
		}
		if settled++; settled > s.limit {
			return 0, fmt.Errorf("%w: more than %d", ErrLimit, s.limit)
		}
		s.nodes[at].settled = true
		r.expand(m.state, at, m.time)
	}
	return 0, ErrInfeasible
}

// enqueue queues a state if it fits and this way to it is the earliest known.
func (s *clocked[S]) enqueue(x S, from int32, did uint32, time int32) {
	k, known := s.known[x]
	if !known {
		if !platform.Fits(s.rules.needs(x), s.memory) {
			return
		}
		k = int32(len(s.nodes))
		s.nodes = append(s.nodes, moment[S]{state: x, time: math.MaxInt32})
		s.known[x] = k
	}
	m := &s.nodes[k]
	if m.settled || time >= m.time {
		return
	}
	m.time, m.from, m.did = time, from, did
	s.queue.push(queued{float64(time) + s.rules.bound(x), k})
}
