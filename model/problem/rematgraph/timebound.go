package rematgraph

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"workbench/model/proof"
)

// TimeBound is a lower bound on the makespan of plans, and what it comes from.
type TimeBound struct {
	Seconds float64
	Why     string
	Node    int // at which not everything fits; -1: there is none
	// Again are nodes that might be computed again after Node, by several ways:
	// where searches can start.
	Again [][]int
}

// TimeBound returns a proven lower bound on the makespan of any plan in so many
// bytes: the time of all nodes, and the largest time of computing again what
// does not fit beside the first computation of one node x. It is infinite below
// LeastBound.
//
// When x is first computed, every node that x depends on has been computed and
// none that depends on x has. A value that one of the latter reads, or a result,
// is in memory during x, or its writer is computed after that: again, if x
// depends on it, else perhaps for the first time, which costs nothing here. In
// either case every value that the writer reads is in memory during x or computed
// later too. Backward nodes that may be computed again are no exception. What is
// kept must fit beside what is in memory during x for sure. The cheapest such
// choice is a knapsack with precedences. Two relaxations of it are computed, and
// the bound is the larger: one without integrality (see relaxed) and one without
// precedences and without what may be computed for the first time (see
// choice.knapsack).
//
// Times are counted in quanta, each rounded down, and all else is in whole
// numbers: the bound is rounded down by at most 1e-15 of the total time for
// every node, and not at all where times are multiples of a quantum.
//
// Once v.Stopped reports true no further node x is tried, but for the first 64; the bound of those that were
// holds. The next call tries all of them unless the graph is large: then searches begin with
// this bound instead of spending their time on a better one. O(n) for each of at most 4,000 nodes, beside
// the relaxations.
func (v *View) TimeBound(memory float64) TimeBound {
	return v.bounds().remember([2]float64{memory}, func() TimeBound { return v.timeBound(memory) })
}

// remember computes a bound of so much memory and bandwidth once: of a large graph that
// takes seconds.
func (b *bounds) remember(at [2]float64, compute func() TimeBound) TimeBound {
	made, _ := b.timed.LoadOrStore(at, sync.OnceValue(compute))
	bound := made.(func() TimeBound)()
	if b.v.stopped() && b.v.N <= leastNodes {
		b.timed.Delete(at)
	}
	return bound
}

func (v *View) timeBound(memory float64) TimeBound {
	if v.Fits(memory) != nil {
		_, why := v.LeastBound()
		return TimeBound{Seconds: math.Inf(1), Why: why, Node: -1}
	}
	b := v.bounds()
	total := int64(0)
	for _, t := range b.time {
		total += t
	}
	out, again := b.hardest(memory)
	out.Seconds = float64(total+again) * b.quantum
	return out
}

// mostQuanta is about the number of quanta of the time of all nodes: sums are
// below 2⁵³.
const mostQuanta = 1 << 51

// quantise sets the times in quanta. A quantum is a power of two.
func (b *bounds) quantise() {
	b.quantum = 1
	if total := b.v.Graph.TotalTime(); total > 0 {
		_, exponent := math.Frexp(total / mostQuanta)
		b.quantum = max(math.Ldexp(1, exponent), math.SmallestNonzeroFloat64)
	}
	b.time = make([]int64, b.v.N)
	for i, t := range b.v.Time {
		b.time[i] = int64(t / b.quantum)
	}
}

// hardestMost is the number of nodes at which the relaxations are solved.
const hardestMost = 32

// hardest returns the node at which most time must go into computing again, and
// that time in quanta. The fractional knapsack, without precedences, says where
// to look.
func (b *bounds) hardest(memory float64) (TimeBound, int64) {
	c := newChoice(b)
	all := b.dearest(hardestMost, func(x int) (time int64, ok bool) {
		if !c.load(x, memory) {
			return 0, false
		}
		time, _ = c.fractional()
		return time, true
	})
	if len(all) == 0 {
		return TimeBound{Node: -1, Why: proof.SumOfComputations}, 0
	}
	worst := all[0]
	for _, p := range all {
		if b.v.stopped() {
			break
		}
		c.load(p.node, memory)
		if time := max((&relaxed{choice: c}).solve(worst.time), c.knapsack(worst.time)); time > worst.time {
			worst = dear{p.node, time}
		}
	}
	c.load(worst.node, memory)
	r := &relaxed{choice: c}
	r.solve(0)
	c.knapsack(0)
	return TimeBound{
		Node: worst.node, Why: fmt.Sprintf("what does not fit in memory beside %s is computed again", b.v.Graph.Nodes[worst.node].ID),
		Again: [][]int{c.again, r.less, r.more},
	}, worst.time
}

// A dear node is one beside which so many quanta are computed again, about.
type dear struct {
	node int
	time int64
}

// looked is the number of nodes from which on every second is looked at first, from twice as many
// on every third, and so on, and then those that were left out behind the dearest: a look takes O(nodes).
const looked = 4000

// firstLooks is the number of nodes that are tried even when there is no time left: a search
// of a large graph begins with what they suggest.
const firstLooks = 64

// dearest returns so many nodes of the most time, the first ones of equals.
func (b *bounds) dearest(most int, time func(x int) (time int64, ok bool)) (all []dear) {
	step := 1 + b.v.N/looked
	seen := 0
	look := func(x int) {
		if seen >= firstLooks && b.v.stopped() {
			return
		}
		seen++
		if t, ok := time(x); ok {
			all = append(all, dear{x, t})
		}
	}
	choose := func() {
		slices.SortStableFunc(all, func(p, q dear) int { return cmp.Or(cmp.Compare(q.time, p.time), cmp.Compare(p.node, q.node)) })
		all = all[:min(len(all), most)]
	}
	look(0)
	stride := step
	for stride < b.v.N {
		stride *= 2
	}
	for ; stride >= step; stride /= 2 { // coarse first, for what is stopped
		for x := stride; x < b.v.N; x += 2 * stride {
			look(x)
		}
	}
	choose()
	for _, p := range slices.Clone(all) {
		for x := p.node + 1; x < min(p.node+step, b.v.N); x++ {
			look(x)
		}
	}
	choose()
	return all
}
