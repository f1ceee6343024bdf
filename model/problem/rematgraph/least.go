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

// Fits returns a *plan.Infeasible error if it proves that no plan of the graph fits in the given
// memory in bytes. A nil error proves nothing.
func (v *View) Fits(memory float64) error {
	b := v.bounds()
	if v.N > leastNodes && platform.Fits(b.least, memory) || v.N <= leastNodes && platform.Fits(b.frugal(), memory) {
		return nil // a search could not prove more
	}
	if x := v.Least(); !platform.Fits(x.Low, memory) {
		return &plan.Infeasible{Problem: plan.Remat, Memory: x.Low, Given: memory, Why: x.Why}
	}
	return nil
}

// LeastBound returns a proven lower bound on the memory of any plan in bytes, and the reason. It is
// the maximum of three bounds over all nodes and values:
//
// First computation. During the first computation of x, memory holds the inputs, outputs and
// workspace of x. It also holds every value that can be computed only once, was computed before (x
// depends on its node), and is a result or will be read (by a node that depends on x).
//
// Two inputs. Let w read own, a value of a node x that is computed once, and f, a value of a node
// that may be recomputed. If f is in memory during x, it adds to the memory there. If not, f is
// computed between x and w while own is held, together with everything computed once by then and
// read by w or later. The minimum of the two cases is a bound.
//
// Results. During the last computation that makes a result, all results of other nodes are in
// memory, since they are there at the end and are not made later. So some node that writes a result
// fits together with all other results.
//
// Sizes are integers, so the sums are exact. O(n²·(n/64 + degree)) on the first call.
func (v *View) LeastBound() (bytes float64, why string) {
	b := v.bounds()
	return b.least, b.why
}

// bounds caches the data of the bounds. Sets are sets of nodes.
type bounds struct {
	v       *View
	least   float64 // result of LeastBound
	why     string
	quantum float64  // seconds, see TimeBound
	time    []int64  // of nodes, in quanta
	before  []uint64 // before[i·Words:]: the nodes that node i depends on
	after   []uint64 // after[i·Words:]: the nodes that depend on node i
	results bool     // some value is a result

	timed  sync.Map       // [memory, bandwidth] → func() TimeBound
	frugal func() float64 // the peak of View.Frugal

	mutex sync.Mutex // guards the fields below
	known *Least     // result of View.Least so far
	over  bool       // its searches have finished
}

// bounds returns the bounds of the view, computed once.
func (v *View) bounds() *bounds {
	v.once.Do(func() {
		v.made = newBounds(v)
		v.made.least, v.made.why = v.made.memory()
		v.made.quantise()
		v.made.frugal = sync.OnceValue(func() float64 { return v.frugalPeak(func() bool { return false }) })
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

// contains reports whether other is a subset of set.
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

// mayRecompute reports whether node j may be recomputed when node x is computed, for the first time
// or later. It may not if j is computed once, or if x or a node that x depends on has mutated what
// j reads.
func (b *bounds) mayRecompute(j, x int) bool {
	until := b.v.Until[j]
	return until == b.v.N || until != j && until != x && !has(b.row(b.before, x), until)
}

// during marks the values that are certainly in memory during the first computation of x, including
// its own, and returns their size plus the input and the workspace. With a link to the host
// (linked) only pinned values are certain, apart from those that x reads and writes.
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

// memory computes [View.LeastBound].
func (b *bounds) memory() (bytes float64, why string) {
	v := b.v
	name := func(i int) string { return v.Graph.Nodes[i].ID }
	sure := make([]bool, v.M)
	for x := range v.N {
		here := b.during(x, sure, false)
		if here > bytes || x == 0 {
			bytes, why = here, fmt.Sprintf("%s with its inputs and the values that cannot be recomputed", name(x))
		}
		if !v.Once[x] {
			continue
		}
		for _, own := range v.Writes[x] {
			for _, w := range v.Succ[own] {
				held := -1.0 // bytes computed once and in memory from x to w
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
						// Those computed once may be part of held.
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

// between returns the size of the values computed once, no later than x, and read by w or a node
// that depends on w. Of the values of x it counts only own.
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

// end returns the minimum memory with which a node can be the last one to make a result, and that
// node; 0 if there are no results.
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
