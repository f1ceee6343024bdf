package rematgraph

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/graph"
	"workbench/model/stages"
)

// TimeBound returns a proven lower bound on the makespan in seconds of any plan
// in so many bytes, and how it comes about: the time of all nodes, and the
// largest time of computing again what does not fit beside one node x that is
// computed once. It is infinite below LeastBound.
//
// A forward value that x depends on and that is read after x, by a node that is
// computed once itself, is in memory during x or computed again after it. In
// the latter case every forward value that it reads is kept or computed again
// too. What is kept must fit beside what is in memory during x for sure. The
// cheapest such choice is a knapsack with precedences. Two relaxations of it
// are computed, and the bound is the larger: one without integrality (see
// relaxed) and one without precedences (see choice.knapsack).
func TimeBound(g *graph.Graph, memory float64) (seconds float64, why string, err error) {
	v, err := stages.Of(g)
	if err != nil {
		return 0, "", err
	}
	b := newBounds(v)
	if least, why := b.memory(); roomy(memory) < least {
		return math.Inf(1), why, nil
	}
	h := b.hardest(memory)
	if h.node < 0 {
		return g.TotalTime(), "every node is computed", nil
	}
	return g.TotalTime() + h.time, fmt.Sprintf("what does not fit in memory beside %s is computed again", g.Nodes[h.node].ID), nil
}

// hard is what TimeBound finds.
type hard struct {
	node  int     // x; -1: everything fits everywhere
	time  float64 // of computing again at least
	again [][]int // values to compute again, by several ways: starts of searches
}

// hardestMost is the number of nodes at which the relaxations are solved.
const hardestMost = 32

// hardest returns the node at which most time must go into computing again.
// The fractional knapsack, without precedences, says where to look.
func (b *bounds) hardest(memory float64) hard {
	c := newChoice(b)
	type at struct {
		node int
		time float64
	}
	var all []at
	for x := range b.v.N {
		if b.v.Once[x] && c.load(x, memory) {
			time, _ := c.fractional()
			all = append(all, at{x, time})
		}
	}
	if len(all) == 0 {
		return hard{node: -1}
	}
	slices.SortStableFunc(all, func(p, q at) int { return cmp.Compare(q.time, p.time) })
	h := hard{node: all[0].node, time: all[0].time}
	for _, p := range all[:min(len(all), hardestMost)] {
		c.load(p.node, memory)
		time := max((&relaxed{choice: c}).solve(h.time), c.knapsack(h.time))
		if time > h.time {
			h.node, h.time = p.node, time
		}
	}
	c.load(h.node, memory)
	r := &relaxed{choice: c}
	r.solve(0)
	c.knapsack(0)
	h.again = [][]int{c.again, r.less, r.more}
	return h
}
