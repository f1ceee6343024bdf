package placement

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/instance/lifetimes"
	"workbench/model/problem/placement"
)

// rating compares placements: the excess over the capacity, then the penalties, then the height; less is better.
type rating struct{ over, cost, height int64 }

func (r rating) compare(s rating) int {
	return cmp.Or(cmp.Compare(r.over, s.over), cmp.Compare(r.cost, s.cost), cmp.Compare(r.height, s.height))
}

// arc is a penalty with another block.
type arc struct {
	to   int32
	cost int64
}

// component is a pool, or a part of one, that is not plain, and the best placement so far.
type component struct {
	*placement.Pool
	soft    [][]arc // penalties by block
	step    int64   // every height is a multiple of it
	offsets []int64
	best    rating
	// No placement is lower, or within the capacity cheaper. impossible: none exists.
	bound, costBound int64
	impossible       bool
	search           *branching
	intervals        *repairer // of the lifetimes alone; nil: conflicts do not follow from lifetimes
}

func newComponent(p *placement.Pool) *component {
	c := &component{Pool: p, soft: make([][]arc, len(p.Blocks)), best: rating{over: math.MaxInt64}}
	for _, x := range p.Penalties {
		c.soft[x.First] = append(c.soft[x.First], arc{x.Second, x.Cost})
		c.soft[x.Second] = append(c.soft[x.Second], arc{x.First, x.Cost})
	}
	common := func(x int64) {
		for x != 0 {
			c.step, x = x, c.step%x
		}
	}
	for a := range p.Blocks {
		b := &p.Blocks[a]
		common(b.Size)
		common(b.Align)
		common(max(0, b.Pin))
	}
	for _, r := range p.Reserved {
		common(r.End)
	}
	c.step = max(1, c.step)
	c.bound, _ = p.Bound()
	c.bound = placement.AlignUp(c.bound, c.step)
	c.costBound = p.PenaltyBound()
	c.impossible = c.bound > p.Capacity
	c.intervals = c.newIntervals()
	return c
}

// newIntervals returns a repairer of a component whose blocks have one alignment and no penalties, and conflict
// only if their lifetimes overlap; else nil. It separates all simultaneously alive blocks, so that its results are
// placements. Pinned blocks and reserved ranges are fixed: the latter are permanent buffers, numbered after the
// blocks. O(pairs).
func (c *component) newIntervals() *repairer {
	l := &lifetimes.Lifetimes{Align: c.Blocks[0].Align}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for a := range c.Blocks {
		b := &c.Blocks[a]
		if b.Align != l.Align || len(c.soft[a]) > 0 || slices.ContainsFunc(c.Conflicts[a], func(d int32) bool {
			return c.Blocks[d].Lower >= b.Upper || b.Lower >= c.Blocks[d].Upper
		}) {
			return nil
		}
		first, last = min(first, b.Lower), max(last, b.Upper)
		l.Buffers = append(l.Buffers, lifetimes.Buffer{Lower: b.Lower, Upper: b.Upper, Size: float64(b.Size)})
	}
	for _, r := range c.Reserved {
		low := r.Begin / l.Align * l.Align
		l.Buffers = append(l.Buffers, lifetimes.Buffer{Lower: first, Upper: last, Size: float64(r.End - low)})
	}
	in := placement.New(l)
	x := newRepairer(in, 0)
	for i := range in.Buffers {
		switch {
		case i >= len(c.Blocks):
			x.offsets[i] = c.Reserved[i-len(c.Blocks)].Begin / l.Align * l.Align
		case c.Blocks[i].Pin >= 0:
			x.offsets[i] = c.Blocks[i].Pin
		default:
			continue
		}
		x.on.fixed = append(x.on.fixed, fixedBuffer{&in.Buffers[i], x.offsets[i]})
	}
	return x
}

// rate returns the rating of offsets.
func (c *component) rate(offsets []int64) (r rating) {
	for a := range c.Blocks {
		top := offsets[a] + c.Blocks[a].Size
		r.height = max(r.height, top)
		r.over += max(0, top-c.Capacity)
	}
	r.cost = c.Charge(offsets)
	return r
}

// keep keeps offsets that are better, and reports whether they are.
func (c *component) keep(offsets []int64) bool {
	r := c.rate(offsets)
	if r.compare(c.best) >= 0 {
		return false
	}
	c.best, c.offsets = r, slices.Clone(offsets)
	return true
}

// proved reports whether the best placement is proved optimal, or the component infeasible.
func (c *component) proved() bool {
	return c.impossible || c.best.over == 0 && c.best.cost <= c.costBound && c.best.height <= c.bound
}

// structuredOrders returns the blocks in the usual orders, and by decreasing number of neighbours.
func (c *component) structuredOrders() [][]int {
	key := func(f func(a int) float64) []int {
		order := make([]int, len(c.Blocks))
		for a := range order {
			order[a] = a
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f(b), f(a)) })
		return order
	}
	size := func(a int) float64 { return float64(c.Blocks[a].Size) }
	length := func(a int) float64 { return float64(c.Blocks[a].Upper - c.Blocks[a].Lower) }
	return [][]int{
		key(size),
		key(func(a int) float64 { return size(a) * length(a) }),
		key(length),
		key(func(a int) float64 { return -float64(c.Blocks[a].Lower) }),
		key(func(a int) float64 { return float64(len(c.Conflicts[a]) + len(c.soft[a])) }),
	}
}

// greedy places blocks one after the other, pinned ones first, each at the offset with the minimum rating, the
// lowest at a tie. With tight set it uses the smallest gap, not the lowest one. It reports whether it finished: it
// stops when ctx ends, if a placement exists already. O(n · neighbours²), less without penalties.
func (c *component) greedy(ctx context.Context, order []int, offsets []int64, tight bool) bool {
	for a := range offsets {
		if offsets[a] = -1; c.Blocks[a].Pin >= 0 {
			offsets[a] = c.Blocks[a].Pin
		}
	}
	var taken []placement.Range
	for k, a := range order {
		if k%64 == 0 && c.offsets != nil && ctx.Err() != nil {
			return false
		}
		if offsets[a] >= 0 {
			continue
		}
		taken = append(taken[:0], c.Reserved...)
		for _, b := range c.Conflicts[a] {
			if at := offsets[b]; at >= 0 {
				taken = append(taken, placement.Range{Begin: at, End: at + c.Blocks[b].Size})
			}
		}
		slices.SortFunc(taken, func(x, y placement.Range) int { return cmp.Compare(x.Begin, y.Begin) })
		offsets[a] = c.choose(a, taken, offsets, tight)
	}
	return true
}

// choose returns the offset at which greedy puts block a, given the taken ranges.
func (c *component) choose(a int, taken []placement.Range, offsets []int64, tight bool) int64 {
	b := &c.Blocks[a]
	best, gap := c.gap(a, taken, 0, tight)
	cost := c.charge(a, best, offsets)
	if cost == 0 && best+b.Size <= c.Capacity {
		return best
	}
	for _, x := range c.soft[a] {
		if offsets[x.to] < 0 {
			continue
		}
		at, width := c.gap(a, taken, offsets[x.to]+c.Blocks[x.to].Size, tight)
		if at+b.Size > c.Capacity {
			continue
		}
		if k := c.charge(a, at, offsets); best+b.Size > c.Capacity || k < cost || k == cost &&
			(tight && width < gap || (!tight || width == gap) && at < best) {
			best, cost, gap = at, k, width
		}
	}
	return best
}

// gap returns the lowest aligned offset from x on at which block a avoids sorted ranges, or that in the smallest
// gap, and the width of the gap.
func (c *component) gap(a int, taken []placement.Range, x int64, tight bool) (at, width int64) {
	b := &c.Blocks[a]
	at, width = -1, math.MaxInt64
	x = placement.AlignUp(x, b.Align)
	for _, r := range taken {
		if x+b.Size <= r.Begin && (at < 0 || r.Begin-x < width) {
			if at, width = x, r.Begin-x; !tight {
				return at, width
			}
		}
		if r.End > x {
			x = placement.AlignUp(r.End, b.Align)
		}
	}
	if at < 0 {
		at = x
	}
	return at, width
}

// charge returns the penalties of block a at an offset with placed blocks.
func (c *component) charge(a int, at int64, offsets []int64) (cost int64) {
	end := at + c.Blocks[a].Size
	for _, x := range c.soft[a] {
		if o := offsets[x.to]; o >= 0 && at < o+c.Blocks[x.to].Size && o < end {
			cost += x.cost
		}
	}
	return cost
}

// freeOrders returns the blocks that are not fixed, in the usual orders of first fit.
func (c *component) freeOrders() (orders [][]int) {
	for _, o := range Orders() {
		orders = append(orders, slices.DeleteFunc(Sorted(c.intervals.in, o), func(i int) bool {
			return i >= len(c.Blocks) || c.Blocks[i].Pin >= 0
		}))
	}
	return orders
}

// fit starts with first fit and the skyline by lifetimes, in all orders.
func (c *component) fit(ctx context.Context) {
	x := c.intervals
	for _, order := range c.freeOrders() {
		if c.offsets != nil && (ctx.Err() != nil || c.proved()) {
			return
		}
		fill(x.in, order, x.offsets, x.on, math.MaxInt64)
		c.keep(x.offsets[:len(c.Blocks)])
		skylineAround(x.in, order, x.on.fixed, x.offsets)
		c.keep(x.offsets[:len(c.Blocks)])
	}
}

// repair looks for placements within the capacity, then for lower ones, by [repairer]; each round
// places twice as many blocks as the one before.
func (c *component) repair(ctx context.Context, round int, enough int64) {
	x := c.intervals
	for _, order := range c.freeOrders() {
		for {
			low, high := max(c.bound, enough), c.best.height
			limit := min(high-1, low+(high-low)/4*3)
			if c.best.over > 0 {
				limit = c.Capacity
			} else if high <= low {
				return
			}
			if !x.placeBelow(ctx, order, limit, placings(x.in)<<min(round, mostRounds)/len(Orders())) || !c.keep(x.offsets[:len(c.Blocks)]) {
				break
			}
		}
	}
}

// construct starts with the best of first fit and best fit in all orders.
func (c *component) construct(ctx context.Context) {
	if c.intervals != nil {
		c.fit(ctx)
	}
	offsets := make([]int64, len(c.Blocks))
	for _, tight := range []bool{false, true} {
		for _, order := range c.structuredOrders() {
			if c.offsets != nil && c.proved() || !c.greedy(ctx, order, offsets, tight) {
				return
			}
			c.keep(offsets)
		}
	}
}

// climb improves the order of greedy by hill climbing with sideways steps: a block that exceeds the goal, or
// incurs a penalty, is moved before another, or the two are exchanged.
func (c *component) climb(ctx context.Context, steps int, r *rand.Rand) {
	n := len(c.Blocks)
	order := make([]int, n)
	for a := range order {
		order[a] = a
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.offsets[a], c.offsets[b]) })
	offsets, next := make([]int64, n), make([]int, n)
	if !c.greedy(ctx, order, offsets, false) {
		return
	}
	current, now := slices.Clone(offsets), c.rate(offsets)
	for k := 0; k < steps && ctx.Err() == nil && !c.proved(); k++ {
		copy(next, order)
		from, to := r.IntN(n), r.IntN(n)
		for range n {
			a := next[from]
			if c.best.cost > c.costBound && c.charge(a, current[a], current) > 0 || current[a]+c.Blocks[a].Size > c.bound {
				break
			}
			from = (from + 1) % n
		}
		if r.IntN(3) == 0 {
			next[from], next[to] = next[to], next[from]
		} else {
			to = r.IntN(from + 1)
			a := next[from]
			copy(next[to+1:from+1], next[to:from])
			next[to] = a
		}
		if !c.greedy(ctx, next, offsets, false) {
			return
		}
		c.keep(offsets)
		if s := c.rate(offsets); s.compare(now) <= 0 || r.IntN(200) == 0 {
			now = s
			order, next = next, order
			current, offsets = offsets, current
		}
	}
}

// maxBranching is the maximum number of blocks for branching.
const maxBranching = 2_000

// improve runs a round for a component that is not proved optimal: hill climbing, then the search for a better
// placement, a proof that there is none, and for one that attains the bound.
func (c *component) improve(ctx context.Context, round int, enough int64, seed uint64) {
	if c.impossible {
		return
	}
	r := rand.New(rand.NewPCG(seed, uint64(round)))
	if c.intervals != nil {
		if c.repair(ctx, round, enough); len(c.Blocks) > maxBranching {
			return
		}
	}
	c.climb(ctx, 200<<min(round, 12), r)
	if len(c.Blocks) > maxBranching {
		return
	}
	if c.search == nil {
		c.search = newBranching(c)
	}
	c.search.shuffle(round, r)
	nodes := int64(2_000) << min(round, 40)
	for ctx.Err() == nil && (c.best.over > 0 || c.best.cost > c.costBound) { // the penalties first
		budget := int64(math.MaxInt64)
		if c.best.over == 0 {
			budget = c.best.cost - 1
		}
		switch c.search.run(ctx, c.Capacity, budget, nodes) {
		case stopped:
			return
		case refuted:
			c.impossible = c.best.over > 0
			c.costBound = c.best.cost
		}
		if c.impossible {
			return
		}
	}
	for _, low := range []bool{true, false} {
		for ctx.Err() == nil && c.best.height > max(c.bound, enough) {
			limit := c.bound
			if !low {
				limit = max(c.bound, enough, c.best.height-c.step)
			}
			verdict := c.search.run(ctx, limit, c.best.cost, nodes)
			if verdict == refuted {
				c.bound = placement.AlignUp(limit+1, c.step)
			}
			if verdict == stopped {
				break
			}
		}
	}
}
