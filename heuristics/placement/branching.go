package placement

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/problem/placement"
)

// branching searches a component for a placement below a limit with penalties within a budget, or proves that
// there is none. It generalises the search of Moffitt, MiniMalloc, ASPLOS 2023, §5, from lifetimes to any graph of
// conflicts and to penalties.
//
// Let S be such a placement with the minimum sum of offsets, and call a penalty respected if it is not charged in
// S. In the order of their offsets in S, ties by number, every block lies at the first offset, aligned and clear
// of reserved and pinned ranges, from some height on: that of the highest conflicting or respected block below it.
// Any lower offset from that height on would be free, and charge nothing more. So blocks are placed in this order,
// each at the offsets that follow from its placed neighbours. The search prunes:
//
//   - blocks that do not fit between the last offset and the limit, and cliques of conflicts whose blocks do
//     not fit there together ("section inference");
//   - states in which an unplaced block could fall, free of charge, to an offset that no later block reaches: S
//     would not have the minimum sum (dominance);
//   - of blocks with equal sizes and neighbours, all orders but that of their numbers;
//   - states whose charges exceed the budget: those that every block incurs with placed ones, and those within
//     cliques of conflicts and penalties ([placement.Pool.PenaltyBound]);
//   - states that have failed with at least as much of the budget left.
type branching struct {
	c       *component
	pinned  [][]placement.Range // by block: what it must avoid, sorted and merged
	twin    []int32             // by block: the one before it with equal neighbours, -1: none
	hard    []clique
	charged []clique
	rank    []float64
	key     [][2]uint64
	failed  map[int64]map[[2]uint64]int64 // by limit: the most budget with which a state failed

	ctx         context.Context
	limit       int64
	nodes, most int64
	refuted     map[[2]uint64]int64
	offsets     []int64 // -1: not placed
	low         []int64 // above all placed blocks that conflict
	left        int
	remembered  int
}

// clique is a set of blocks no two of which may overlap, or only at a penalty.
type clique struct {
	blocks []int
	grid   int64
	cost   int64 // of the cheapest penalty
}

func newBranching(c *component) *branching {
	n := len(c.Blocks)
	s := &branching{
		c: c, pinned: make([][]placement.Range, n), twin: make([]int32, n), rank: make([]float64, n), key: make([][2]uint64, n),
		failed: map[int64]map[[2]uint64]int64{}, offsets: make([]int64, n), low: make([]int64, n),
	}
	for a := range c.Blocks {
		s.key[a] = [2]uint64{mix(uint64(a)*2 + 1), mix(uint64(a)*2 + 2)}
		list := slices.Clone(c.Reserved)
		for _, b := range c.Conflicts[a] {
			if x := &c.Blocks[b]; x.Pin >= 0 {
				list = append(list, placement.Range{Begin: x.Pin, End: x.Pin + x.Size})
			}
		}
		slices.SortFunc(list, func(x, y placement.Range) int { return cmp.Compare(x.Begin, y.Begin) })
		s.pinned[a] = list
		s.twin[a] = -1
		for b := a - 1; b >= 0 && s.twin[a] < 0; b-- {
			if s.equal(a, b) {
				s.twin[a] = int32(b)
			}
		}
	}
	used := make([]bool, n)
	for _, x := range c.Cliques(false) {
		s.hard = append(s.hard, s.clique(x.Blocks))
	}
	if len(c.Penalties) > 0 {
		all := c.Cliques(true)
		slices.SortStableFunc(all, func(x, y placement.Clique) int { return cmp.Compare(y.Charged, x.Charged) })
		for _, x := range all {
			if !slices.ContainsFunc(x.Blocks, func(a int) bool { return used[a] }) {
				for _, a := range x.Blocks {
					used[a] = true
				}
				s.charged = append(s.charged, s.clique(x.Blocks))
			}
		}
	}
	return s
}

func (s *branching) clique(blocks []int) clique {
	k := clique{blocks: blocks, cost: math.MaxInt64}
	for _, a := range blocks {
		for x := s.c.Blocks[a].Align; x != 0; {
			k.grid, x = x, k.grid%x
		}
		for _, x := range s.c.soft[a] {
			if _, found := slices.BinarySearch(blocks, int(x.to)); found {
				k.cost = min(k.cost, x.cost)
			}
		}
	}
	return k
}

// equal reports whether two blocks are interchangeable in every placement.
func (s *branching) equal(a, b int) bool {
	x, y := &s.c.Blocks[a], &s.c.Blocks[b]
	if x.Size != y.Size || x.Align != y.Align || x.Pin >= 0 || y.Pin >= 0 || len(s.c.Conflicts[a]) != len(s.c.Conflicts[b]) ||
		len(s.c.soft[a]) != len(s.c.soft[b]) {
		return false
	}
	others := func(of, without int) (list []arc) {
		for _, k := range s.c.Conflicts[of] {
			if int(k) != without {
				list = append(list, arc{k, -1})
			}
		}
		for _, k := range s.c.soft[of] {
			if int(k.to) != without {
				list = append(list, k)
			}
		}
		return list
	}
	return slices.Equal(others(a, b), others(b, a))
}

// shuffle changes which blocks are tried first, randomly from the second round on.
func (s *branching) shuffle(round int, r *rand.Rand) {
	for a := range s.rank {
		b := &s.c.Blocks[a]
		s.rank[a] = float64(b.Size)
		if round%2 == 1 {
			s.rank[a] = float64(b.Upper-b.Lower) * float64(1+len(s.c.Conflicts[a]))
		}
		if round > 1 {
			s.rank[a] *= 0.5 + r.Float64()
		}
	}
}

// run searches with at most the given number of nodes. The component keeps a placement that is found.
func (s *branching) run(ctx context.Context, limit, budget, nodes int64) verdict {
	if s.failed[limit] == nil {
		s.failed[limit] = map[[2]uint64]int64{}
	}
	s.ctx, s.limit, s.nodes, s.most, s.left, s.refuted = ctx, limit, 0, nodes, 0, s.failed[limit]
	cost := int64(0)
	for a := range s.c.Blocks {
		s.offsets[a], s.low[a] = -1, 0
	}
	for a := range s.c.Blocks {
		b := &s.c.Blocks[a]
		if b.Pin < 0 {
			s.left++
			continue
		}
		cost += s.c.charge(a, b.Pin, s.offsets)
		if s.offsets[a] = b.Pin; b.Pin+b.Size > limit {
			return refuted
		}
	}
	return s.node(0, -1, cost, budget)
}

// lowest returns the first offset from x on at which block a avoids reserved and pinned ranges.
func (s *branching) lowest(a int, x int64) int64 {
	b := &s.c.Blocks[a]
	x = placement.AlignUp(x, b.Align)
	for _, r := range s.pinned[a] {
		if x < r.End && r.Begin < x+b.Size {
			x = placement.AlignUp(r.End, b.Align)
		}
	}
	return x
}

// child is a block and the offset at which it is placed next.
type child struct {
	block    int
	at, cost int64
}

// node places the remaining blocks, none before block last at the offset from.
func (s *branching) node(from int64, last int, cost, budget int64) verdict {
	if s.left == 0 {
		s.c.keep(s.offsets)
		return complete
	}
	if s.nodes++; s.nodes > s.most || s.nodes&63 == 0 && s.ctx.Err() != nil {
		return stopped
	}
	key := s.state(from, last)
	if known, ok := s.refuted[key]; ok && known >= budget-cost {
		return refuted
	}
	children, fall, open := s.children(from, last, cost, budget)
	if open {
		for _, x := range children {
			if x.at >= fall {
				continue
			}
			if v := s.descend(x, cost, budget); v != refuted {
				return v
			}
		}
	}
	if s.remembered < mostFailed {
		if _, ok := s.refuted[key]; !ok {
			s.remembered++
		}
		s.refuted[key] = budget - cost
	}
	return refuted
}

// descend places a block and searches on.
func (s *branching) descend(x child, cost, budget int64) verdict {
	top := x.at + s.c.Blocks[x.block].Size
	s.offsets[x.block] = x.at
	s.left--
	type saved struct {
		block int32
		low   int64
	}
	var trail []saved
	for _, b := range s.c.Conflicts[x.block] {
		if s.offsets[b] < 0 && s.low[b] < top {
			trail = append(trail, saved{b, s.low[b]})
			s.low[b] = top
		}
	}
	v := s.node(x.at, x.block, cost+x.cost, budget)
	if v == complete {
		return v
	}
	for _, old := range trail {
		s.low[old.block] = old.low
	}
	s.offsets[x.block] = -1
	s.left++
	return v
}

// children returns the possible next blocks, and the offset from which on a placement is dominated; not open: no
// placement can be completed here.
func (s *branching) children(from int64, last int, cost, budget int64) (list []child, fall int64, open bool) {
	fall = math.MaxInt64
	sum := cost
	earliest := make([]int64, len(s.c.Blocks)) // of unplaced blocks
	for a := range s.c.Blocks {
		if s.offsets[a] >= 0 {
			continue
		}
		b := &s.c.Blocks[a]
		first := s.lowest(a, s.low[a])
		if s.c.charge(a, first, s.offsets) == 0 {
			fall = min(fall, first+b.Size)
		}
		begin := len(list)
		cheapest := int64(math.MaxInt64)
		add := func(height int64) {
			at := s.lowest(a, max(s.low[a], height))
			if at < from || at == from && a < last || at+b.Size > s.limit ||
				slices.ContainsFunc(list[begin:], func(x child) bool { return x.at == at }) {
				return
			}
			x := child{a, at, s.c.charge(a, at, s.offsets)}
			list, cheapest = append(list, x), min(cheapest, x.cost)
		}
		add(0)
		for _, x := range s.c.soft[a] {
			if o := s.offsets[x.to]; o >= 0 {
				add(o + s.c.Blocks[x.to].Size)
			}
		}
		now := s.lowest(a, max(s.low[a], from))
		if earliest[a] = now; now+b.Size > s.limit {
			return nil, 0, false
		}
		sum += min(cheapest, s.c.charge(a, now, s.offsets))
		if t := s.twin[a]; t >= 0 && s.offsets[t] < 0 {
			list = list[:begin]
		}
	}
	if fall <= from || sum+s.unplaced(from) > budget || !s.fits(earliest) {
		return nil, 0, false
	}
	slices.SortFunc(list, func(x, y child) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.cost, y.cost), cmp.Compare(s.rank[y.block], s.rank[x.block]),
			cmp.Compare(x.block, y.block))
	})
	return list, fall, true
}

// fits reports whether the unplaced blocks of each clique fit below the limit.
func (s *branching) fits(earliest []int64) bool {
	for i := range s.hard {
		k := &s.hard[i]
		low, sum, spare := int64(math.MaxInt64), int64(0), int64(0)
		for _, a := range k.blocks {
			if s.offsets[a] < 0 {
				room := placement.AlignUp(s.c.Blocks[a].Size, k.grid)
				low, sum, spare = min(low, earliest[a]), sum+room, max(spare, room-s.c.Blocks[a].Size)
			}
		}
		if sum > 0 && low+sum-spare > s.limit {
			return false
		}
	}
	return true
}

// unplaced returns the penalties that unplaced blocks of cliques incur among each other.
func (s *branching) unplaced(from int64) (sum int64) {
	if s.limit == math.MaxInt64 {
		return 0
	}
	var sizes []int64
	for i := range s.charged {
		k := &s.charged[i]
		sizes = sizes[:0]
		for _, a := range k.blocks {
			if s.offsets[a] < 0 {
				sizes = append(sizes, s.c.Blocks[a].Size)
			}
		}
		if k.cost < math.MaxInt64 {
			sum += k.cost * placement.Overlapping(sizes, s.limit-from)
		}
	}
	return sum
}

// state returns a hash of everything that the subtree of a node depends on: the last block, the
// remaining blocks, what is below each of them, and the offsets of placed blocks with which they
// have penalties.
func (s *branching) state(from int64, last int) (key [2]uint64) {
	add := func(a, b uint64) {
		h := mix(a ^ mix(b))
		key[0] += h
		key[1] += mix(h ^ a)
	}
	add(uint64(from), uint64(last+2))
	for a := range s.c.Blocks {
		if s.offsets[a] >= 0 {
			continue
		}
		add(s.key[a][0], uint64(s.low[a]))
		for _, x := range s.c.soft[a] {
			o, b := s.offsets[x.to], &s.c.Blocks[x.to]
			if o >= 0 && b.Pin < 0 && o+b.Size > s.low[a] {
				add(s.key[a][1]^mix(uint64(x.cost)), mix(uint64(o))^uint64(o+b.Size))
			}
		}
	}
	return key
}
