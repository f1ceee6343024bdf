package placement

import (
	"context"
	"math"
	"slices"

	"workbench/model/problem/placement"
	"workbench/model/proof"
)

// tree searches for a placement of height at most limit, or proves that there is none. It combines the search of
// Moffitt, MiniMalloc, ASPLOS 2023, §5, with the y-check of Côté, Dell'Amico and Iori, Operations Research 62(3),
// 2014, §4. Like both, it builds placements from the bottom up, each buffer on 0 or on another one ("canonical"
// there, "normal patterns" here).
//
// Let S be a placement that fits with the minimum sum of offsets. In S every buffer lies on 0 or on another one.
// At a node some buffers are placed as in S, and every other has
//
//   - drop, its offset if it is dropped now: the top of the placed buffers under it;
//   - low ≥ drop, a lower bound on its offset in S. If low > drop, it has been excluded from drop, and so lies
//     on an unplaced buffer j: low is at least the minimum low + room of those that it overlaps in time.
//
// The minimum low of a section and the rooms of its unplaced buffers must fit under limit ("section inference"). A
// buffer that is excluded from its drop, though all unplaced buffers start above it, would fall in S: such nodes
// are dominated, as in MiniMalloc.
//
// A buffer is ready if low = drop and every other one that it overlaps in time has low + room > low: nothing can
// fit under it any more. A section is ready if all buffers that share its minimum low are. Branching chooses a
// ready section and one of these buffers: it lies at its low, or is excluded from it. Neither paper has the second
// branch, which is that of constraint programming. MiniMalloc places buffers in the order of their offsets over
// all times, and y-check those of the lowest niche from left to right. Here the choice of the section is free:
// fewest choices, minimum slack, most failures so far. Parts that are disjoint in time are searched separately,
// and failed states are remembered.
//
// O(buffers alive together · their sections) a node.
type tree struct {
	in    *placement.Instance
	items []item    // by First
	first []int32   // items with a first section ≥ s begin at first[s]
	meets [][]int32 // items alive together with an item
	in0   [][]int32 // items of a section
	spare []int64   // of a section, the maximum excess of a room over its size
	least []int64   // by section: the minimum room
	low   []int64   // of an item: its low, none if it is placed
	room  []int64   // of an item
	limit int64     // the height sought
	rank  []float64 // the order in which the buffers of a section are tried
	rule  sectionBy // the branching rule
	key   [][2]uint64
	// failed are the states without a completion at a limit, by 128 bits of hash.
	failed     map[[2]uint64]struct{}
	failures   map[int64]map[[2]uint64]struct{} // by limit
	remembered int

	section []section
	fails   []float64 // of a section
	dirty   []int32
	isDirty []bool
	items0  []savedItem // trails
	sects0  []savedSection
	placed  []int32

	nodes, most int64
	why         proof.Tally // nodes excluded in this run
	visits      int64       // sections and items visited by all nodes: the cost of a run
	ctx         context.Context
}

// item is a buffer and its state at a node.
type item struct {
	first, last int
	size, room  int64
	buffer      int   // in the instance
	twin        int32 // a number that items of equal lifetime and size share
	drop, low   int64
	placed      bool // at low
}

// section is the state of a section at a node, over its unplaced buffers.
type section struct {
	rest     int64 // the sum of their rooms
	count    int32 // number of buffers with the minimum low
	crossing int32 // how many are in the next section, too
	low      least // of low
	top      least // of low + room
	next     int64 // the second value of low
}

// least is a minimum, its owner, and the minimum over all others.
type least struct {
	value, other int64
	of           int32
}

// none is the minimum of an empty set.
const none = math.MaxInt64 / 4

func (l *least) add(x int64, of int32) {
	if x < l.value {
		l.value, l.other, l.of = x, l.value, of
	} else if x < l.other {
		l.other = x
	}
}

// without returns the minimum over all but one.
func (l *least) without(of int32) int64 {
	if l.of == of {
		return l.other
	}
	return l.value
}

type savedItem struct {
	item      int32
	drop, low int64
}

type savedSection struct {
	section int32
	value   section
}

// verdict is the result of a search.
type verdict int8

const (
	stopped  verdict = iota // by the number of nodes or the context
	refuted                 // there is no placement
	complete                // all items are placed
)

// sectionBy is the rule for choosing the section to branch on.
type sectionBy int

const (
	tightest   sectionBy = iota // minimum product of choices and slack
	lowest                      // minimum low
	fewest                      // minimum number of choices
	failing                     // minimum ratio of choices to failures so far: Boussemart et al., ECAI 2004
	lowTight                    // minimum sum of low and slack
	sectionBys                  // number of rules
)

// mostMeets limits the pairs of simultaneously alive buffers of a tree.
const mostMeets = 30_000_000

// newTree returns a tree for an instance, or nil if too many pairs of its buffers are
// alive together.
func newTree(in *placement.Instance) *tree {
	t := &tree{in: in, failures: map[int64]map[[2]uint64]struct{}{}}
	for i := range in.Buffers {
		b := &in.Buffers[i]
		if b.Room > 0 {
			t.items = append(t.items, item{first: b.First, last: b.Last, size: b.Size, room: b.Room, buffer: i})
		}
	}
	slices.SortStableFunc(t.items, func(a, b item) int {
		if a.first != b.first {
			return a.first - b.first
		}
		return a.last - b.last
	})
	n := in.Sections
	t.first, t.in0 = make([]int32, n+1), make([][]int32, n)
	t.section, t.fails, t.isDirty = make([]section, n), make([]float64, n), make([]bool, n)
	t.spare, t.least = make([]int64, n), make([]int64, n)
	for s := range t.least {
		t.least[s] = none
	}
	pairs := 0
	for i := range t.items {
		x := &t.items[i]
		for s := x.first; s <= x.last; s++ {
			pairs += len(t.in0[s])
			t.in0[s] = append(t.in0[s], int32(i))
			t.spare[s], t.least[s] = max(t.spare[s], x.room-x.size), min(t.least[s], x.room)
		}
		if pairs > mostMeets {
			return nil
		}
	}
	for s, i := 0, 0; s <= n; s++ {
		for i < len(t.items) && t.items[i].first < s {
			i++
		}
		t.first[s] = int32(i)
	}
	t.low, t.room = make([]int64, len(t.items)), make([]int64, len(t.items))
	t.relate()
	return t
}

// relate finds the pairs of items that overlap in time, and twins.
func (t *tree) relate() {
	t.meets = make([][]int32, len(t.items))
	t.rank, t.key = make([]float64, len(t.items)), make([][2]uint64, len(t.items))
	type shape struct {
		first, last int
		size        int64
	}
	twins := map[shape]int32{}
	for i := range t.items {
		x := &t.items[i]
		for j := int(t.first[x.first]); j < len(t.items) && t.items[j].first <= x.last; j++ {
			if j > i || t.items[j].first == x.first && j != i {
				if j > i {
					t.meets[i] = append(t.meets[i], int32(j))
					t.meets[j] = append(t.meets[j], int32(i))
				}
			}
		}
		s := shape{x.first, x.last, x.size}
		if _, ok := twins[s]; !ok {
			twins[s] = int32(i)
		}
		x.twin = twins[s]
		t.key[i] = [2]uint64{mix(uint64(i)*2 + 1), mix(uint64(i)*2 + 2)}
	}
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// run searches at a height, with at most the given number of nodes. States that failed at this height are
// remembered.
func (t *tree) run(ctx context.Context, limit, nodes int64) verdict {
	if t.failed = t.failures[limit]; t.failed == nil {
		t.failed = map[[2]uint64]struct{}{}
		t.failures[limit] = t.failed
	}
	t.ctx, t.limit, t.nodes, t.most, t.visits, t.why = ctx, limit, 0, nodes, 0, proof.Tally{}
	t.reset()
	if !t.propagate(0, t.in.Sections) {
		t.why["no room above the minimum offset of a section"]++
		return refuted
	}
	return t.node(0, t.in.Sections)
}

// reset unplaces all items.
func (t *tree) reset() {
	t.items0, t.sects0, t.placed, t.dirty = t.items0[:0], t.sects0[:0], t.placed[:0], t.dirty[:0]
	for s := range t.section {
		t.section[s] = section{}
		t.isDirty[s] = false
	}
	for i := range t.items {
		x := &t.items[i]
		x.drop, x.low, x.placed, t.low[i], t.room[i] = 0, 0, false, 0, x.room
		for s := x.first; s <= x.last; s++ {
			t.section[s].rest += x.room
			if s < x.last {
				t.section[s].crossing++
			}
		}
	}
	for s := range t.section {
		t.touch(s)
	}
}

// touch marks the values of a section as outdated.
func (t *tree) touch(s int) {
	if !t.isDirty[s] {
		t.isDirty[s] = true
		t.dirty = append(t.dirty, int32(s))
	}
}

// offsets writes the offsets of the placed items.
func (t *tree) offsets(to []int64) {
	for i := range t.items {
		to[t.items[i].buffer] = t.items[i].low
	}
}
