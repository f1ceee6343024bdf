// Package exhaustive is the engine under the exhaustive searches, which find optimal plans
// of tiny instances in the packages below it, one a problem. They exist to hold methods,
// formulations and verifiers against, and share no code with any of them.
package exhaustive

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"workbench/model/platform"
)

// Errors of searches that end without a plan.
var (
	// ErrInfeasible: every state was tried, there is no plan.
	ErrInfeasible = errors.New("exhaustive search: no plan exists")
	// ErrLimit: the search visited as many states as it may.
	ErrLimit = errors.New("exhaustive search: too many states")
	// ErrTooHard: the instance is not one for exhaustive search.
	ErrTooHard = errors.New("exhaustive search: not a tiny instance with integer times")
)

// A Search is best-first search in a graph of states that is made on the way: Dijkstra's
// algorithm or, with Bound, A* (Hart, Nilsson and Raphael 1968). With Dominates it is
// label-setting with dominance: a state then has several labels, of which none is better
// than another (Desrochers and Soumis 1988). R is what labels have in addition to their
// costs; labels of equal cost are expanded in the order in which they were made.
type Search[S comparable, R any] struct {
	Memory float64 // no step or state may need more
	Peak   bool    // minimise the largest memory of the steps, not the sum of their times
	Limit  int     // most labels to expand

	// Hash returns a number that few states share; nil: by package maphash. Needs returns
	// the memory of a state; nil: only steps need memory. Bound returns a consistent lower
	// bound on the cost from a label to the goal; nil: 0. Dominates reports whether a is as
	// good as b, which has the same state; nil: by cost.
	Hash      func(S) uint64
	Needs     func(S) float64
	Bound     func(*Label[S, R]) float64
	Dominates func(a, b *Label[S, R]) bool

	Labels  []Label[S, R]
	slots   []int32 // hash table with open addressing: 1 + the last label of a state, 0: free
	seed    maphash.Seed
	states  int
	queue   queue
	current int32 // the label that is being expanded, -1: none
}

// A Label is a way to a state.
type Label[S comparable, R any] struct {
	State S
	Cost  float64
	Rest  R
	From  int32  // the label before, -1: the start
	Step  uint32 // what led here from there

	next                int32 // another label of the state, -1: none
	expanded, dominated bool
}

// Run searches from start, and returns the index of a label of least cost whose state is a
// goal. expand calls [Search.Add] or [Search.AddLabel] for every step out of a state. The
// errors are [ErrInfeasible] and [ErrLimit].
func (s *Search[S, R]) Run(start S, goal func(S) bool, expand func(Label[S, R])) (int32, error) {
	s.slots, s.seed, s.current = make([]int32, 256), maphash.MakeSeed(), -1
	s.AddLabel(Label[S, R]{State: start})
	for expanded := 0; len(s.queue) > 0; {
		k := s.queue.pop().label
		x := &s.Labels[k]
		if x.expanded || x.dominated {
			continue
		}
		if goal(x.State) {
			return k, nil
		}
		if expanded++; expanded > s.Limit {
			return 0, fmt.Errorf("%w: more than %d", ErrLimit, s.Limit)
		}
		x.expanded, s.current = true, k
		expand(*x)
	}
	return 0, ErrInfeasible
}

// Add adds a step from the label that is being expanded, which takes time and needs memory.
func (s *Search[S, R]) Add(to S, step uint32, time, memory float64) {
	if !platform.Fits(memory, s.Memory) {
		return
	}
	cost := s.Labels[s.current].Cost
	if s.Peak {
		cost = max(cost, memory)
	} else {
		cost += time
	}
	slot := s.find(to)
	if k := s.slots[slot] - 1; k >= 0 && s.Dominates == nil && s.Labels[k].Cost <= cost {
		return
	}
	s.put(slot, Label[S, R]{State: to, Step: step, Cost: cost})
}

// AddLabel adds a label, reached from the one that is being expanded, unless its state does
// not fit or a label of the same state dominates it. Labels that it dominates are dropped.
func (s *Search[S, R]) AddLabel(x Label[S, R]) {
	s.put(s.find(x.State), x)
}

func (s *Search[S, R]) put(slot int, x Label[S, R]) {
	k := s.slots[slot] - 1
	if k < 0 {
		if s.Needs != nil && !platform.Fits(s.Needs(x.State), s.Memory) {
			return
		}
		s.states++
	}
	last := int32(len(s.Labels))
	at := last
	x.From, x.next, x.expanded = s.current, k, false // x may be a changed copy of an expanded label
	s.Labels = append(s.Labels, x)
	for ; k >= 0; k = s.Labels[k].next {
		switch y := &s.Labels[k]; {
		case y.dominated:
		case s.dominates(k, last):
			s.Labels = s.Labels[:last]
			return
		case s.dominates(last, k):
			if y.dominated = true; !y.expanded {
				at = k // nothing was reached from y: x takes its place
			}
		}
	}
	if at < last {
		s.Labels = s.Labels[:last]
		x.next = s.Labels[at].next
		s.Labels[at] = x
	} else if s.slots[slot] = at + 1; 2*s.states > len(s.slots) {
		s.grow()
	}
	key := x.Cost
	if s.Bound != nil {
		key += s.Bound(&s.Labels[at])
	}
	s.queue.push(queued{key, at})
}

// find returns the slot of a state, or the free one where it belongs.
func (s *Search[S, R]) find(x S) int {
	mask := len(s.slots) - 1
	for i := int(s.hash(x)) & mask; ; i = (i + 1) & mask {
		if k := s.slots[i]; k == 0 || s.Labels[k-1].State == x {
			return i
		}
	}
}

func (s *Search[S, R]) hash(x S) uint64 {
	if s.Hash != nil {
		return s.Hash(x) * 0x9e3779b97f4a7c15 >> 32 // Fibonacci hashing
	}
	return maphash.Comparable(s.seed, x)
}

func (s *Search[S, R]) grow() {
	old := s.slots
	s.slots = make([]int32, 2*len(old))
	for _, k := range old {
		if k > 0 {
			s.slots[s.find(s.Labels[k-1].State)] = k
		}
	}
}

func (s *Search[S, R]) dominates(a, b int32) bool {
	if s.Dominates != nil {
		return s.Dominates(&s.Labels[a], &s.Labels[b])
	}
	return s.Labels[a].Cost <= s.Labels[b].Cost
}

// Path returns the labels after the start on the way to the k-th.
func (s *Search[S, R]) Path(k int32) (path []Label[S, R]) {
	for ; s.Labels[k].From >= 0; k = s.Labels[k].From {
		path = append(path, s.Labels[k])
	}
	slices.Reverse(path)
	return path
}

// SmallInteger returns x if it is an integer of 0 to 100, and an error that wraps
// [ErrTooHard] and names what it is otherwise.
func SmallInteger(what string, x float64) (int8, error) {
	if !(x >= 0 && x <= 100) || x != math.Trunc(x) {
		return 0, fmt.Errorf("%w: %s is %g; an integer of 0 to 100 would do", ErrTooHard, what, x)
	}
	return int8(x), nil
}

type queued struct {
	key   float64
	label int32
}

func (a queued) less(b queued) bool {
	return a.key < b.key || a.key == b.key && a.label < b.label
}

// A queue is a binary heap, the least key first.
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
