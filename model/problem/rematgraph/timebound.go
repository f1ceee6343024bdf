package rematgraph

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"workbench/model/proof"
)

// TimeBound is a lower bound on the makespan of plans, with its reason.
type TimeBound struct {
	Seconds float64
	Why     string
	Node    int // the node at which not everything fits; -1: none
	// Again has candidate sets of nodes to recompute after Node, from several relaxations; searches
	// can start from them.
	Again [][]int
}

// TimeBound returns a proven lower bound on the makespan of any plan in the given memory in bytes:
// the time of all nodes, plus the maximum, over nodes x, of the minimum recomputation time for what
// does not fit during the first computation of x. It is infinite below LeastBound.
//
// Proof. When x is first computed, all ancestors of x have been computed and no descendant has. A
// value that a descendant reads, or a result, is in memory during x, or its writer is computed
// after x. If the writer is an ancestor of x, this is a recomputation; otherwise it may be the
// first computation, which costs nothing here. In that case every value that the writer reads is in
// memory during x or computed later, too. This holds for backward nodes that may be recomputed as
// well. The values kept must fit next to those certainly in memory during x. The cheapest such
// choice is a knapsack with precedences. The bound is the larger of two relaxations: the Lagrangian
// one without integrality (see relaxed), and the one without precedences and without first
// computations (see choice.knapsack).
//
// Times are counted in quanta, each rounded down, and all else in integers. So the bound loses at
// most 1e-15 of the total time for every node, and nothing if times are multiples of a quantum.
//
// Once v.Stopped reports true, no node x after the first 64 is tried; the bound of the nodes tried
// is valid. The next call tries all of them unless the graph is large: then searches use this bound
// rather than spend their time on a better one. O(n) for each of at most 4,000 nodes, plus the
// relaxations.
func (v *View) TimeBound(memory float64) TimeBound {
	return v.bounds().remember([2]float64{memory}, func() TimeBound { return v.timeBound(memory) })
}

// remember caches the bound of a memory and bandwidth, which takes seconds for a large graph.
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

// mostQuanta is about the number of quanta of the time of all nodes, chosen so that sums stay below
// 2⁵³.
const mostQuanta = 1 << 51

// quantise sets the times in quanta. A quantum is a power of two, so conversion is exact.
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

// hardest returns the node with the maximum recomputation time, and that time in quanta. The
// fractional knapsack without precedences selects the nodes to try.
func (b *bounds) hardest(memory float64) (TimeBound, int64) {
	c := newChoice(b)
	all := b.mostExpensive(hardestMost, func(x int) (time int64, ok bool) {
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
			worst = expensive{p.node, time}
		}
	}
	c.load(worst.node, memory)
	r := &relaxed{choice: c}
	r.solve(0)
	c.knapsack(0)
	return TimeBound{
		Node: worst.node, Why: fmt.Sprintf("values that do not fit in memory during %s are recomputed", b.v.Graph.Nodes[worst.node].ID),
		Again: [][]int{c.again, r.less, r.more},
	}, worst.time
}

// expensive is a node with an estimate of the recomputation time it forces, in quanta.
type expensive struct {
	node int
	time int64
}

// looked limits the nodes that are evaluated, since each takes O(nodes). From this many nodes on
// every second one is evaluated first, from twice as many every third one, and so on; then those
// that follow the most expensive ones.
const looked = 4000

// firstLooks is the number of nodes that are evaluated even when no time remains, since a search of
// a large graph starts from their suggestions.
const firstLooks = 64

// mostExpensive returns the most nodes with the largest time, in order of time and then of index.
func (b *bounds) mostExpensive(most int, time func(x int) (time int64, ok bool)) (all []expensive) {
	step := 1 + b.v.N/looked
	seen := 0
	look := func(x int) {
		if seen >= firstLooks && b.v.stopped() {
			return
		}
		seen++
		if t, ok := time(x); ok {
			all = append(all, expensive{x, t})
		}
	}
	choose := func() {
		slices.SortStableFunc(all, func(p, q expensive) int { return cmp.Or(cmp.Compare(q.time, p.time), cmp.Compare(p.node, q.node)) })
		all = all[:min(len(all), most)]
	}
	look(0)
	stride := step
	for stride < b.v.N {
		stride *= 2
	}
	for ; stride >= step; stride /= 2 { // coarse first, in case the search is stopped
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
