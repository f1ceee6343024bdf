package stages

import (
	"fmt"
	"math/bits"

	"workbench/model/plan"
	"workbench/model/platform"
)

// Fits returns a *plan.Infeasible error if no plan of the graph fits in so many
// bytes because of [View.LeastBound]. No error proves nothing.
func (v *View) Fits(memory float64) error {
	if least, why := v.LeastBound(); !platform.Fits(least, memory) {
		return &plan.Infeasible{Problem: plan.Remat, Memory: least, Given: memory, Why: why}
	}
	return nil
}

// LeastBound returns a proven lower bound on the memory of any plan in bytes,
// and what needs it. It is the larger of two, over all nodes and edges:
//
// During the first computation of v the memory holds what it reads, writes and
// takes besides; and every value u that may be computed only once, was computed
// before (v depends on u) and will be read again (by a node that depends on
// v).
//
// Let w read x, which is computed once, and the forward value f. If f is in
// memory while x is computed, it counts there; if not, f is computed between x
// and w, and x counts there, as does what is computed once by then and read by
// w or later. The smaller of both is needed.
//
// Sizes being whole, it is exact. O(n²·(n/64 + degree)) the first time.
func (v *View) LeastBound() (bytes float64, why string) {
	b := v.bounds()
	return b.least, b.why
}

// bounds holds what the bounds are made from.
type bounds struct {
	v           *View
	least       float64 // LeastBound
	why         string
	quantum     float64  // seconds, see TimeBound
	time        []int64  // of nodes, in quanta
	before      []uint64 // before[i·Words:]: the nodes that i depends on
	after       []uint64 // after[i·Words:]: the nodes that depend on i
	readers     []uint64 // the successors of i
	readersOnce []uint64 // those of them that are computed once
}

// bounds returns those of the view, which are made once.
func (v *View) bounds() *bounds {
	v.once.Do(func() {
		v.made = newBounds(v)
		v.made.least, v.made.why = v.made.memory()
		v.made.quantise()
	})
	return v.made
}

func newBounds(v *View) *bounds {
	w := v.Words
	flat := make([]uint64, 4*v.N*w)
	part := func(k int) []uint64 { return flat[k*v.N*w : (k+1)*v.N*w] }
	b := &bounds{v: v, before: part(0), after: part(1), readers: part(2), readersOnce: part(3)}
	for i := range v.N {
		for _, p := range v.Pred[i] {
			union(b.row(b.before, i), b.row(b.before, p))
			insert(b.row(b.before, i), p)
			insert(b.row(b.readers, p), i)
			if v.Once[i] {
				insert(b.row(b.readersOnce, p), i)
			}
		}
	}
	for i := v.N - 1; i >= 0; i-- {
		for _, q := range v.Succ[i] {
			union(b.row(b.after, i), b.row(b.after, q))
			insert(b.row(b.after, i), q)
		}
	}
	return b
}

func (b *bounds) row(x []uint64, i int) []uint64 { return x[i*b.v.Words : (i+1)*b.v.Words] }

// has reports whether i is in a set.
func has(set []uint64, i int) bool { return set[i>>6]>>(i&63)&1 != 0 }

func insert(set []uint64, i int) { set[i>>6] |= 1 << (i & 63) }

func union(set, other []uint64) {
	for k, x := range other {
		set[k] |= x
	}
}

func meets(set, other []uint64) bool {
	for k, x := range other {
		if set[k]&x != 0 {
			return true
		}
	}
	return false
}

// during marks what is in memory during the first computation of x for sure,
// x included, and returns its size with the input and the overhead.
func (b *bounds) during(x int, sure []bool) float64 {
	v := b.v
	clear(sure)
	sure[x] = true
	for _, p := range v.Pred[x] {
		sure[p] = true
	}
	after := b.row(b.after, x)
	for k, set := range b.row(b.before, x) {
		for ; set != 0; set &= set - 1 {
			if u := k<<6 + bits.TrailingZeros64(set); v.Once[u] && meets(b.row(b.readers, u), after) {
				sure[u] = true
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
	sure := make([]bool, v.N)
	for x := range v.N {
		here := b.during(x, sure)
		if here > bytes || x == 0 {
			bytes, why = here, fmt.Sprintf("%s with what it reads and what cannot be computed again", name(x))
		}
		if !v.Once[x] {
			continue
		}
		for _, w := range v.Succ[x] {
			held := -1.0 // what is computed once and in memory from x to w
			for _, f := range v.Pred[w] {
				if v.Once[f] || sure[f] || here+v.Memory[f] <= bytes {
					continue
				}
				if held < 0 {
					held = b.between(x, w)
				}
				again := v.Graph.Input + v.Memory[f] + v.Overhead[f] + held
				for _, p := range v.Pred[f] {
					// What held counts may be among them.
					if !v.Once[p] {
						again += v.Memory[p]
					}
				}
				if need := min(here+v.Memory[f], again); need > bytes {
					bytes, why = need, fmt.Sprintf("%s reads both %s and %s, and one of them is computed with the other in memory", name(w), name(x), name(f))
				}
			}
		}
	}
	return bytes, why
}

// between returns the size of what is computed once, by x at the latest, and
// read by w or by nodes that depend on w.
func (b *bounds) between(x, w int) float64 {
	bytes := b.v.Memory[x]
	for k, set := range b.row(b.before, x) {
		for ; set != 0; set &= set - 1 {
			u := k<<6 + bits.TrailingZeros64(set)
			if b.v.Once[u] && (has(b.row(b.readers, u), w) || meets(b.row(b.readers, u), b.row(b.after, w))) {
				bytes += b.v.Memory[u]
			}
		}
	}
	return bytes
}
