package rematgraph

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"workbench/model/plan"
	"workbench/model/platform"
)

// Fits returns a *plan.Infeasible error if it is proved that no plan of the graph
// fits in so many bytes. No error proves nothing.
func (v *View) Fits(memory float64) error {
	b := v.bounds()
	if v.N > leastNodes && platform.Fits(b.least, memory) || v.N <= leastNodes && platform.Fits(b.frugal(), memory) {
		return nil // no search would prove more
	}
	if x := v.Least(); !platform.Fits(x.Low, memory) {
		return &plan.Infeasible{Problem: plan.Remat, Memory: x.Low, Given: memory, Why: x.Why}
	}
	return nil
}

// LeastBound returns a proven lower bound on the memory of any plan in bytes,
// and what needs it. It is the largest of three, over all nodes and values:
//
// During the first computation of x the memory holds what it reads, writes and
// takes besides; and every value of a node u that may be computed only once, was
// computed before (x depends on u), and is a result or will be read again (by a
// node that depends on x).
//
// Let w read x, a value of a node that is computed once, and f, one of a node that
// may be computed again. If f is in memory while that node is computed, it counts
// there; if not, f is computed between it and w, and x counts there, as does what
// is computed once by then and read by w or later. The smaller of both is needed.
//
// The last computation that makes a result has beside it all results that its
// node does not write, for they are there at the end and are not made later: so
// there is a node that writes a result beside which all others fit.
//
// Sizes being whole, it is exact. O(n²·(n/64 + degree)) the first time.
func (v *View) LeastBound() (bytes float64, why string) {
	b := v.bounds()
	return b.least, b.why
}

// bounds holds what the bounds are made from. Sets are of nodes.
type bounds struct {
	v       *View
	least   float64 // LeastBound
	why     string
	quantum float64  // seconds, see TimeBound
	time    []int64  // of nodes, in quanta
	before  []uint64 // before[i·Words:]: the nodes that node i depends on
	after   []uint64 // after[i·Words:]: the nodes that depend on node i
	results bool     // there are results

	timed  sync.Map       // [memory, bandwidth] → func() TimeBound
	frugal func() float64 // the peak of View.Frugal

	mutex sync.Mutex // of what follows
	known *Least     // by View.Least
	over  bool       // its searches came to their ends
}

// bounds returns those of the view, which are made once.
func (v *View) bounds() *bounds {
	v.once.Do(func() {
		v.made = newBounds(v)
		v.made.least, v.made.why = v.made.memory()
		v.made.quantise()
		v.made.frugal = sync.OnceValue(func() float64 {
			peak, _, _ := v.Frugal().Peak()
			return peak
		})
	})
	return v.made
}

func newBounds(v *View) *bounds {
	w := v.Words
	flat := make([]uint64, 2*v.N*w)
	b := &bounds{v: v, before: flat[:v.N*w], after: flat[v.N*w:], results: slices.Contains(v.Result, true)}
	for i := range v.N {
		for _, p := range v.Pred[i] {
			union(b.row(b.before, i), b.row(b.before, v.Writer[p]))
			insert(b.row(b.before, i), v.Writer[p])
		}
	}
	for i := v.N - 1; i >= 0; i-- {
		for _, p := range v.Writes[i] {
			for _, q := range v.Succ[p] {
				union(b.row(b.after, i), b.row(b.after, q))
				insert(b.row(b.after, i), q)
			}
		}
	}
	return b
}

func (b *bounds) row(x []uint64, i int) []uint64 { return x[i*b.v.Words : (i+1)*b.v.Words] }

// has reports whether i is in a set.
func has(set []uint64, i int) bool { return set[i>>6]>>(i&63)&1 != 0 }

func insert(set []uint64, i int) { set[i>>6] |= 1 << (i & 63) }

func remove(set []uint64, i int) { set[i>>6] &^= 1 << (i & 63) }

func empty(set []uint64) bool {
	return !slices.ContainsFunc(set, func(x uint64) bool { return x != 0 })
}

// each yields the members of a set.
func each(set []uint64) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for k, x := range set {
			for ; x != 0; x &= x - 1 {
				if !yield(k<<6 + bits.TrailingZeros64(x)) {
					return
				}
			}
		}
	}
}

func union(set, other []uint64) {
	for k, x := range other {
		set[k] |= x
	}
}

// contains reports whether all of other is in set.
func contains(set, other []uint64) bool {
	for k, x := range other {
		if x&^set[k] != 0 {
			return false
		}
	}
	return true
}

func meets(set, other []uint64) bool {
	for k, x := range other {
		if set[k]&x != 0 {
			return true
		}
	}
	return false
}

// readIn reports whether a node of a set reads value i. O(readers).
func (b *bounds) readIn(i int, set []uint64) bool {
	return slices.ContainsFunc(b.v.Succ[i], func(j int) bool { return has(set, j) })
}

// mayRecompute reports whether node j may be computed again when node x is computed for
// the first time or later: not if it is computed once, nor if a node that x
// depends on, or x, has changed what it reads.
func (b *bounds) mayRecompute(j, x int) bool {
	until := b.v.Until[j]
	return until == b.v.N || until != j && until != x && !has(b.row(b.before, x), until)
}

// during marks the values that are in memory during the first computation of x
// for sure, its own included, and returns their size with the input and the
// overhead. ChoiceAt a link these are, but for what x reads and writes, pinned ones only.
func (b *bounds) during(x int, sure []bool, linked bool) float64 {
	v := b.v
	clear(sure)
	for _, p := range v.Writes[x] {
		sure[p] = true
	}
	for _, p := range v.Pred[x] {
		sure[p] = true
	}
	after := b.row(b.after, x)
	for u := range each(b.row(b.before, x)) {
		if b.mayRecompute(u, x) {
			continue
		}
		for _, p := range v.Writes[u] {
			if linked && !v.Pinned[p] {
				continue
			}
			if v.Result[p] || b.readIn(p, after) {
				sure[p] = true
			}
		}
	}
	bytes := v.Graph.Input + v.Overhead[x]
	for u, is := range sure {
		if is {
			bytes += v.Memory[u]
		}
	}
	return bytes
}

// memory finds LeastBound.
func (b *bounds) memory() (bytes float64, why string) {
	v := b.v
	name := func(i int) string { return v.Graph.Nodes[i].ID }
	sure := make([]bool, v.M)
	for x := range v.N {
		here := b.during(x, sure, false)
		if here > bytes || x == 0 {
			bytes, why = here, fmt.Sprintf("%s with what it reads and what cannot be computed again", name(x))
		}
		if !v.Once[x] {
			continue
		}
		for _, own := range v.Writes[x] {
			for _, w := range v.Succ[own] {
				held := -1.0 // what is computed once and in memory from x to w
				for _, f := range v.Pred[w] {
					j := v.Writer[f]
					if v.Once[j] || sure[f] || here+v.Memory[f] <= bytes {
						continue
					}
					if held < 0 {
						held = b.between(x, own, w)
					}
					again := v.Graph.Input + v.Written[j] + v.Overhead[j] + held
					for _, p := range v.Pred[j] {
						// What held counts may be among them.
						if !v.Once[v.Writer[p]] {
							again += v.Memory[p]
						}
					}
					if need := min(here+v.Memory[f], again); need > bytes {
						bytes, why = need, fmt.Sprintf("%s reads both %s and %s, and one of them is computed with the other in memory", name(w), v.ID(own),
							v.ID(f))
					}
				}
			}
		}
	}
	if end, node := b.end(); end > bytes {
		bytes, why = end, fmt.Sprintf("all results are in memory when the last of them is made, as by %s", name(node))
	}
	return bytes, why
}

// between returns the size of what is computed once, by x at the latest, and
// read by w or by nodes that depend on w; x by its value own.
func (b *bounds) between(x, own, w int) float64 {
	v := b.v
	bytes := v.Memory[own]
	for u := range each(b.row(b.before, x)) {
		if !v.Once[u] {
			continue
		}
		for _, p := range v.Writes[u] {
			if slices.Contains(v.Succ[p], w) || b.readIn(p, b.row(b.after, w)) {
				bytes += v.Memory[p]
			}
		}
	}
	return bytes
}

// end returns the least memory in which a node can be the last one to make a
// result, and that node; 0 if there are no results.
func (b *bounds) end() (bytes float64, node int) {
	v := b.v
	results := 0.0
	for i, is := range v.Result {
		if is {
			results += v.Memory[i]
		}
	}
	bytes = math.Inf(1)
	for j := range v.N {
		own, makes := 0.0, false
		for _, i := range v.Writes[j] {
			if v.Result[i] {
				own, makes = own+v.Memory[i], true
			}
		}
		if !makes {
			continue
		}
		need := v.Graph.Input + results - own + v.Written[j] + v.Overhead[j]
		for _, i := range v.Pred[j] {
			if !v.Result[i] {
				need += v.Memory[i]
			}
		}
		if need < bytes {
			bytes, node = need, j
		}
	}
	if math.IsInf(bytes, 1) {
		return 0, 0
	}
	return bytes, node
}
