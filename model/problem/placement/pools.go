package placement

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ErrTooLarge is wrapped by the error of [NewLayout] for pools with too many conflicting pairs.
var ErrTooLarge = errors.New("too many pairs of buffers may not overlap")

// MaxPairs is the maximum number of conflicting pairs of blocks in a pool that is not plain. Plain
// pools have no such limit.
const MaxPairs = 30_000_000

// Layout is an instance by pools. No constraint joins two pools, so each is a separate problem.
type Layout struct {
	Lifetimes *lifetimes.Lifetimes
	Objective string // an objective of package lifetimes
	Pools     []*Pool
}

// Pool is the problem of one pool: blocks, each a buffer or a set of colocated buffers, in the
// order of their first buffers.
type Pool struct {
	ID       string
	Capacity int64 // math.MaxInt64: none
	Blocks   []Block
	// Plain is the instance of the blocks if only lifetimes, sizes and a common alignment matter.
	// Otherwise it is nil, and the fields below are set.
	Plain     *Instance
	Reserved  []Range   // sorted, disjoint
	Conflicts [][]int32 // by block: the blocks that it must not overlap, sorted
	Penalties []Penalty
	Constant  int64 // penalties of colocated buffers, charged in every placement

	hard []Clique // cliques of conflicts, cached
}

// Block is a buffer or a set of colocated buffers. Its lifetime lies in Lower to Upper.
type Block struct {
	Buffers      []int
	Size, Align  int64
	Pin          int64 // -1: none
	Lower, Upper int64
}

// Range is the addresses from Begin to End, excluding End.
type Range struct{ Begin, End int64 }

// Penalty is the cost if two blocks, First < Second, without conflict overlap.
type Penalty struct {
	First, Second int32
	Cost          int64
}

// AlignUp returns the first multiple of align that is at least x.
func AlignUp(x, align int64) int64 { return (x + align - 1) / align * align }

// NewLayout returns the instance of valid lifetimes by pool; objective, if not "", replaces theirs.
// The error is a *plan.Infeasible if colocated buffers have no common offset, or wraps
// [ErrTooLarge]. O(n log n + pairs).
func NewLayout(l *lifetimes.Lifetimes, objective string) (*Layout, error) {
	y := &Layout{Lifetimes: l, Objective: cmp.Or(objective, l.Objective, lifetimes.Height)}
	for _, p := range l.PoolList() {
		x := &Pool{ID: p.ID, Capacity: math.MaxInt64}
		if p.Capacity < platform.MaxTotal {
			x.Capacity = int64(p.Capacity)
		}
		x.Reserved = merged(p.Reserved)
		y.Pools = append(y.Pools, x)
	}
	of := make([]int, len(l.Buffers)) // by buffer: its block in its pool
	classOf := map[int][]int{}
	for _, class := range l.Classes() {
		for _, i := range class {
			classOf[i] = class
		}
	}
	for i := range l.Buffers {
		pool, class := y.Pools[l.Buffers[i].Pool], classOf[i]
		switch {
		case class == nil:
			class = []int{i}
		case class[0] != i:
			of[i] = of[class[0]]
			continue
		}
		b, err := newBlock(l, class)
		if err != nil {
			return nil, err
		}
		of[i] = len(pool.Blocks)
		pool.Blocks = append(pool.Blocks, b)
	}
	plain := y.plain()
	for k, p := range y.Pools {
		if plain[k] {
			p.Plain = p.instance(l)
			continue
		}
		if err := p.relate(l, of, k); err != nil {
			return nil, err
		}
		if y.Objective == lifetimes.TotalPenalty {
			p.penalise(l, of, k)
		}
	}
	return y, nil
}

// merged sorts ranges and merges adjacent ones.
func merged(list []lifetimes.Range) []Range {
	var all []Range
	for _, r := range list {
		all = append(all, Range{int64(r.Begin), int64(r.End)})
	}
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.Begin, b.Begin) })
	out := all[:0]
	for _, r := range all {
		if n := len(out); n > 0 && r.Begin <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, r.End)
		} else {
			out = append(out, r)
		}
	}
	return out
}

func newBlock(l *lifetimes.Lifetimes, class []int) (Block, error) {
	b := Block{Buffers: class, Size: int64(l.Buffers[class[0]].Size), Align: 1, Pin: -1, Lower: math.MaxInt64, Upper: math.MinInt64}
	for _, i := range class {
		x, grid := &l.Buffers[i], l.GridOf(i)
		a, c := b.Align, grid
		for c != 0 {
			a, c = c, a%c
		}
		if b.Align = b.Align / a * grid; float64(b.Align) >= platform.MaxTotal {
			return b, infeasible(l, "the alignments of buffers colocated with %q have no common multiple below %g units", x.ID, platform.MaxTotal)
		}
		if x.Pinned {
			b.Pin = int64(x.Offset)
		}
		b.Lower, b.Upper = min(b.Lower, x.Lower), max(b.Upper, x.Upper)
	}
	return b, nil
}

func infeasible(l *lifetimes.Lifetimes, format string, args ...any) error {
	return &plan.Infeasible{Problem: Problem, Unit: l.Unit, Why: fmt.Sprintf(format, args...)}
}

// plain reports for each pool whether only lifetimes, sizes and a common alignment matter.
func (y *Layout) plain() []bool {
	l, plain := y.Lifetimes, make([]bool, len(y.Pools))
	for k, p := range y.Pools {
		plain[k] = len(p.Reserved) == 0
		for _, b := range p.Blocks {
			x := &l.Buffers[b.Buffers[0]]
			if len(b.Buffers) > 1 || b.Pin >= 0 || x.Gaps != nil || b.Align != p.Blocks[0].Align {
				plain[k] = false
			}
		}
	}
	lists := [][]lifetimes.Pair{l.Separations, l.Exclusions}
	if y.Objective == lifetimes.TotalPenalty {
		for _, x := range l.Penalties {
			lists = append(lists, []lifetimes.Pair{x.Pair})
		}
	}
	for _, list := range lists {
		for _, x := range list {
			if k := l.Buffers[x.First].Pool; k == l.Buffers[x.Second].Pool {
				plain[k] = false
			}
		}
	}
	return plain
}

// instance returns the plain instance of the blocks.
func (p *Pool) instance(l *lifetimes.Lifetimes) *Instance {
	if len(p.Blocks) == 0 {
		return nil
	}
	part := &lifetimes.Lifetimes{Name: l.Name, Align: l.Align, Unit: l.Unit, Buffers: make([]lifetimes.Buffer, len(p.Blocks))}
	for k, b := range p.Blocks {
		part.Buffers[k] = l.Buffers[b.Buffers[0]]
	}
	if a := part.Buffers[0].Align; a > 0 {
		part.Align = a
	}
	return New(part)
}

// relate computes the conflicts of pool k.
func (p *Pool) relate(l *lifetimes.Lifetimes, of []int, k int) error {
	n := len(p.Blocks)
	excluded := map[Range]bool{} // pairs of buffers
	for _, x := range l.Exclusions {
		i, j := int64(x.First), int64(x.Second)
		excluded[Range{min(i, j), max(i, j)}] = true
	}
	p.Conflicts = make([][]int32, n)
	pairs := 0
	join := func(a, b int) {
		if a != b && p.Blocks[a].Size > 0 && p.Blocks[b].Size > 0 {
			p.Conflicts[a], p.Conflicts[b] = append(p.Conflicts[a], int32(b)), append(p.Conflicts[b], int32(a))
			pairs++
		}
	}
	var order []int
	for a := range p.Blocks {
		order = append(order, p.Blocks[a].Buffers...)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(l.Buffers[i].Lower, l.Buffers[j].Lower) })
	var alive []int
	for _, i := range order {
		x := &l.Buffers[i]
		alive = slices.DeleteFunc(alive, func(j int) bool { return l.Buffers[j].Upper <= x.Lower })
		for _, j := range alive {
			if x.Overlaps(&l.Buffers[j]) && !excluded[Range{int64(min(i, j)), int64(max(i, j))}] {
				join(of[i], of[j])
			}
		}
		if alive = append(alive, i); pairs > MaxPairs {
			return fmt.Errorf("%w: more than %d in pool %q, which has pins, pairs, gaps, reserved ranges or several alignments", ErrTooLarge,
				MaxPairs, p.ID)
		}
	}
	for _, x := range l.Separations {
		if l.Buffers[x.First].Pool == k && l.Buffers[x.Second].Pool == k {
			join(of[x.First], of[x.Second])
		}
	}
	for i := range l.Buffers {
		if x := &l.Buffers[i]; x.Exclusive && x.Pool == k {
			for b := range p.Blocks {
				join(of[i], b)
			}
		}
	}
	for a := range p.Conflicts {
		slices.Sort(p.Conflicts[a])
		p.Conflicts[a] = slices.Compact(p.Conflicts[a])
	}
	return nil
}

// Conflict reports whether two blocks conflict. O(log n).
func (p *Pool) Conflict(a, b int) bool {
	_, found := slices.BinarySearch(p.Conflicts[a], int32(b))
	return found
}

// penalise adds up the penalties of pool k by pair of blocks.
func (p *Pool) penalise(l *lifetimes.Lifetimes, of []int, k int) {
	costs := map[Penalty]int64{}
	for _, x := range l.Penalties {
		a, b := of[x.First], of[x.Second]
		switch {
		case x.Cost == 0 || l.Buffers[x.First].Pool != k || l.Buffers[x.Second].Pool != k || p.Blocks[a].Size == 0 || p.Blocks[b].Size == 0:
		case a == b:
			p.Constant += x.Cost
		case !p.Conflict(a, b):
			costs[Penalty{First: int32(min(a, b)), Second: int32(max(a, b))}] += x.Cost
		}
	}
	for pair, cost := range costs {
		pair.Cost = cost
		p.Penalties = append(p.Penalties, pair)
	}
	slices.SortFunc(p.Penalties, func(a, b Penalty) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second)) })
}

// Pairs returns the conflicting pairs of blocks, the smaller index first. O(pairs).
func (p *Pool) Pairs() (pairs [][2]int) {
	for a := range p.Conflicts {
		for _, b := range p.Conflicts[a] {
			if int(b) > a {
				pairs = append(pairs, [2]int{a, int(b)})
			}
		}
	}
	return pairs
}

// Fit returns the first offset at or after x at which block a is aligned and outside the reserved
// ranges, or its pin if it has one.
func (p *Pool) Fit(a int, x int64) int64 {
	b := &p.Blocks[a]
	if b.Pin >= 0 {
		return b.Pin
	}
	x = AlignUp(x, b.Align)
	for _, r := range p.Reserved {
		if x < r.End && r.Begin < x+b.Size {
			x = AlignUp(r.End, b.Align)
		}
	}
	return x
}

// Height returns the maximum end of the blocks at these offsets.
func (p *Pool) Height(offsets []int64) (h int64) {
	for a := range p.Blocks {
		if b := &p.Blocks[a]; b.Size > 0 {
			h = max(h, offsets[a]+b.Size)
		}
	}
	return h
}

// Charge returns the penalties of these offsets.
func (p *Pool) Charge(offsets []int64) int64 {
	sum := p.Constant
	for _, x := range p.Penalties {
		a, b := x.First, x.Second
		if offsets[a] < offsets[b]+p.Blocks[b].Size && offsets[b] < offsets[a]+p.Blocks[a].Size {
			sum += x.Cost
		}
	}
	return sum
}

// Names returns the names of the buffers of some blocks, at most the first few.
func (y *Layout) Names(p *Pool, blocks []int) string {
	const most = 6
	var names []string
	for _, a := range blocks {
		if len(names) == most {
			names = append(names, fmt.Sprintf("and %d more", len(blocks)-most))
			break
		}
		names = append(names, y.Lifetimes.Buffers[p.Blocks[a].Buffers[0]].ID)
	}
	return strings.Join(names, ", ")
}

// Offsets returns the offsets of all buffers from those of the blocks of each pool.
func (y *Layout) Offsets(blocks [][]int64) []int64 {
	offsets := make([]int64, len(y.Lifetimes.Buffers))
	for k, p := range y.Pools {
		for a, b := range p.Blocks {
			for _, i := range b.Buffers {
				offsets[i] = blocks[k][a]
			}
		}
	}
	return offsets
}

// Components returns the connected components of the pool under conflicts and penalties, without
// constant penalties, and for each its blocks in p. Blocks of size 0 are in none. O(pairs).
func (p *Pool) Components() (parts []*Pool, blocks [][]int) {
	near := make([][]int32, len(p.Blocks))
	for _, x := range p.Penalties {
		near[x.First], near[x.Second] = append(near[x.First], x.Second), append(near[x.Second], x.First)
	}
	local := make([]int32, len(p.Blocks))
	for a := range local {
		local[a] = -1
	}
	for a := range p.Blocks {
		if local[a] >= 0 || p.Blocks[a].Size == 0 {
			continue
		}
		set := []int{a}
		local[a] = 0
		for k := 0; k < len(set); k++ {
			for _, list := range [][]int32{p.Conflicts[set[k]], near[set[k]]} {
				for _, b := range list {
					if local[b] < 0 {
						local[b], set = 0, append(set, int(b))
					}
				}
			}
		}
		slices.Sort(set)
		if len(set) == len(p.Blocks) {
			whole := *p // with the cliques that are known
			whole.Constant = 0
			return []*Pool{&whole}, [][]int{set}
		}
		part := &Pool{ID: p.ID, Capacity: p.Capacity, Reserved: p.Reserved, Conflicts: make([][]int32, len(set))}
		for k, b := range set {
			local[b] = int32(k)
		}
		for k, b := range set {
			part.Blocks = append(part.Blocks, p.Blocks[b])
			for _, c := range p.Conflicts[b] {
				part.Conflicts[k] = append(part.Conflicts[k], local[c])
			}
			for _, c := range near[b] {
				if x := (Penalty{local[b], local[c], 0}); x.First < x.Second {
					i, _ := slices.BinarySearchFunc(p.Penalties, [2]int32{int32(b), c}, func(y Penalty, at [2]int32) int {
						return cmp.Or(cmp.Compare(y.First, at[0]), cmp.Compare(y.Second, at[1]))
					})
					x.Cost = p.Penalties[i].Cost
					part.Penalties = append(part.Penalties, x)
				}
			}
		}
		slices.SortFunc(part.Penalties, func(a, b Penalty) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Second, b.Second)) })
		parts, blocks = append(parts, part), append(blocks, set)
	}
	return parts, blocks
}
