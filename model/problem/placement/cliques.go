package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Clique is a set of blocks no two of which may overlap, or only at a penalty. They need not be
// alive at the same time.
type Clique struct {
	Blocks []int
	// Height is the height that they need together, see [Pool.stack]. For a clique with penalties,
	// Charged is the minimum number of its pairs that overlap within the capacity.
	Height  int64
	Charged int64
}

// maxSeeds is the maximum number of cliques that are grown, and maxChecks the maximum number of
// comparisons, except for the first clique.
const maxSeeds, maxChecks = 2_000, 5_000_000

// Cliques returns maximal cliques of the blocks of a pool that is not plain: of conflicts, or of
// conflicts and penalties together. Each is grown greedily from a block by the largest compatible
// block, or by the one with the most neighbours, so that every block is in one; one more contains
// the blocks alive at the time of the maximum load. O(seeds · conflicts).
func (p *Pool) Cliques(penalties bool) []Clique {
	if p.hard != nil && !penalties {
		return p.hard
	}
	near := p.Conflicts
	if penalties {
		near = make([][]int32, len(p.Blocks))
		for a := range near {
			near[a] = slices.Clone(p.Conflicts[a])
		}
		for _, x := range p.Penalties {
			near[x.First], near[x.Second] = append(near[x.First], x.Second), append(near[x.Second], x.First)
		}
		for a := range near {
			slices.Sort(near[a])
		}
	}
	seen, list := map[string]bool{}, []Clique{}
	orders := []func(a, b int32) int{
		func(a, b int32) int {
			return cmp.Or(cmp.Compare(p.Blocks[b].Size, p.Blocks[a].Size), cmp.Compare(a, b))
		},
		func(a, b int32) int { return cmp.Or(cmp.Compare(len(near[b]), len(near[a])), cmp.Compare(a, b)) },
	}
	checks := 0
	grow := func(blocks []int, candidates []int32) {
		for _, b := range candidates {
			joins := !slices.ContainsFunc(blocks, func(c int) bool {
				checks++
				_, found := slices.BinarySearch(near[c], b)
				return !found
			})
			if joins {
				blocks = append(blocks, int(b))
			}
		}
		slices.Sort(blocks)
		var key []byte
		for _, b := range blocks {
			key = append(key, byte(b), byte(b>>8), byte(b>>16))
		}
		if seen[string(key)] {
			return
		}
		seen[string(key)] = true
		c := Clique{Blocks: blocks}
		if penalties {
			c.Charged = p.charged(blocks)
		} else {
			c.Height = p.stack(blocks)
		}
		list = append(list, c)
	}
	if busiest := p.busiest(); len(busiest) > 0 {
		slices.SortFunc(busiest, orders[0])
		grow(nil, busiest)
	}
	for _, order := range orders {
		for a := range min(len(p.Blocks), maxSeeds) {
			if p.Blocks[a].Size == 0 || checks > maxChecks {
				continue
			}
			candidates := slices.Clone(near[a])
			slices.SortFunc(candidates, order)
			grow([]int{a}, candidates)
		}
	}
	if !penalties {
		p.hard = list
	}
	return list
}

// busiest returns the blocks alive at the time of the maximum load. O(n log n).
func (p *Pool) busiest() (blocks []int32) {
	var edges [][2]int64 // time, size; ends come first in a tie
	for a := range p.Blocks {
		b := &p.Blocks[a]
		edges = append(edges, [2]int64{b.Lower, b.Size}, [2]int64{b.Upper, -b.Size})
	}
	slices.SortFunc(edges, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	sum, most, at := int64(0), int64(0), int64(0)
	for _, e := range edges {
		if sum += e[1]; sum > most {
			most, at = sum, e[0]
		}
	}
	for a := range p.Blocks {
		if b := &p.Blocks[a]; b.Size > 0 && b.Lower <= at && at < b.Upper {
			blocks = append(blocks, int32(a))
		}
	}
	return blocks
}

// stack returns the height that blocks need no two of which overlap, outside the reserved ranges.
// With g the greatest common divisor of their alignments, each block except the topmost of every
// free range occupies its size rounded up to g.
func (p *Pool) stack(blocks []int) int64 {
	g, pin := int64(0), int64(0)
	least := int64(math.MaxInt64)
	for _, a := range blocks {
		for x := p.Blocks[a].Align; x != 0; {
			g, x = x, g%x
		}
		least = min(least, p.Blocks[a].Size)
	}
	rest, spare := int64(0), int64(0)
	for _, a := range blocks {
		b := &p.Blocks[a]
		room := AlignUp(b.Size, g)
		rest, spare = rest+room, max(spare, room-b.Size)
		pin = max(pin, p.Fit(a, 0)+b.Size)
	}
	at := int64(0)
	for _, r := range p.Reserved {
		free := max(0, r.Begin-at)
		if free < least {
			at = max(at, AlignUp(r.End, g))
			continue
		}
		if rest-spare <= free {
			break
		}
		rest -= AlignUp(free, g)
		at = max(at, AlignUp(r.End, g))
	}
	if rest > 0 {
		at += max(0, rest-spare)
	}
	return max(at, pin)
}

// Bound returns a lower bound on the height of every placement, and the blocks that need it.
// O(cliques).
func (p *Pool) Bound() (height int64, blocks []int) {
	if p.Plain != nil {
		return p.Plain.Load(), nil
	}
	for _, c := range p.Cliques(false) {
		if c.Height > height || blocks == nil {
			height, blocks = c.Height, c.Blocks
		}
	}
	return height, blocks
}

// charged returns the minimum number of pairs of the blocks that overlap within the capacity, where
// every two conflict or have a penalty. At most k of them, the smallest, lie side by side, so the
// blocks that do not overlap have no clique of size k+1. By Turán's theorem (1941) at least as many
// pairs overlap as in k classes of nearly equal sizes.
func (p *Pool) charged(blocks []int) int64 {
	if p.Capacity == math.MaxInt64 {
		return 0
	}
	var sizes []int64
	for _, a := range blocks {
		sizes = append(sizes, p.Blocks[a].Size)
	}
	free := p.Capacity
	for _, r := range p.Reserved {
		free -= max(0, min(r.End, p.Capacity)-r.Begin)
	}
	return Overlapping(sizes, free)
}

// Overlapping returns the minimum number of pairs of blocks with these sizes, which it sorts, that
// overlap in the given memory: see [Pool.Cliques].
func Overlapping(sizes []int64, free int64) int64 {
	slices.Sort(sizes)
	k := int64(0)
	for _, s := range sizes {
		if free -= s; free < 0 {
			break
		}
		k++
	}
	if k == 0 {
		return 0 // nothing fits: see the height
	}
	q, r := int64(len(sizes))/k, int64(len(sizes))%k
	return r*q*(q+1)/2 + (k-r)*q*(q-1)/2
}

// PenaltyBound returns a lower bound on the penalties of every placement within the capacity, by
// disjoint cliques, each of which pays its cheapest pairs. O(cliques · pairs).
func (p *Pool) PenaltyBound() int64 {
	if len(p.Penalties) == 0 {
		return p.Constant
	}
	cliques := p.Cliques(true)
	slices.SortStableFunc(cliques, func(a, b Clique) int { return cmp.Compare(b.Charged, a.Charged) })
	used, sum := make([]bool, len(p.Blocks)), p.Constant
	for _, c := range cliques {
		if c.Charged == 0 || slices.ContainsFunc(c.Blocks, func(a int) bool { return used[a] }) {
			continue
		}
		for _, a := range c.Blocks {
			used[a] = true
		}
		var costs []int64
		for _, x := range p.Penalties {
			_, first := slices.BinarySearch(c.Blocks, int(x.First))
			_, second := slices.BinarySearch(c.Blocks, int(x.Second))
			if first && second {
				costs = append(costs, x.Cost)
			}
		}
		slices.Sort(costs)
		for _, x := range costs[:min(int64(len(costs)), c.Charged)] {
			sum += x
		}
	}
	return sum
}

// Plain returns the single pool if only lifetimes, sizes and a common alignment matter and there is
// no capacity; else nil.
func (y *Layout) Plain() *Instance {
	if len(y.Pools) != 1 || y.Pools[0].Capacity != math.MaxInt64 {
		return nil
	}
	return y.Pools[0].Plain
}

// Bounds returns lower bounds on the heights of the pools, and their sum.
func (y *Layout) Bounds() (heights []int64, sum int64) {
	for _, p := range y.Pools {
		h := int64(0)
		if len(p.Blocks) > 0 {
			h, _ = p.Bound()
		}
		heights, sum = append(heights, h), sum+h
	}
	return heights, sum
}

// Fits returns why nothing fits in the capacities or in the given memory for all pools. It returns
// nil if the bounds fit, which does not prove that a placement does.
func (y *Layout) Fits(memory float64) error {
	heights, sum := y.Bounds()
	for k, p := range y.Pools {
		if heights[k] <= p.Capacity {
			continue
		}
		why := "pool " + p.ID + ": buffers alive at one time take as much, wherever they lie"
		if _, blocks := p.Bound(); blocks != nil {
			why = "pool " + p.ID + ": buffers " + y.Names(p, blocks) + ", which may not overlap, take as much"
		}
		return &plan.Infeasible{Problem: Problem, Memory: float64(heights[k]), Given: float64(p.Capacity), Unit: y.Lifetimes.Unit, Why: why}
	}
	if !platform.Fits(float64(sum), memory) {
		why := "buffers alive at one time take as much, wherever they lie"
		if y.Plain() == nil {
			why = "buffers that may not overlap take as much, wherever they lie"
		}
		return &plan.Infeasible{Problem: Problem, Memory: float64(sum), Given: memory, Unit: y.Lifetimes.Unit, Why: why}
	}
	return nil
}

// PenaltyBound returns the sum of [Pool.PenaltyBound] over the pools.
func (y *Layout) PenaltyBound() (sum int64) {
	for _, p := range y.Pools {
		if p.Plain == nil {
			sum += p.PenaltyBound()
		}
	}
	return sum
}

// Bound returns a lower bound on the objective.
func (y *Layout) Bound() int64 {
	heights, _ := y.Bounds()
	return y.Value(heights, y.PenaltyBound())
}

// High returns a sum of heights that suffices for everything that fits the capacities: that of all
// blocks stacked.
func (y *Layout) High() (sum int64) {
	for _, p := range y.Pools {
		high := int64(0)
		for i := range p.Blocks {
			b := &p.Blocks[i]
			switch {
			case b.Size == 0:
			case p.Plain != nil:
				high += p.Plain.Buffers[i].Room
			default:
				high = max(high, b.Pin+b.Size)
			}
		}
		if p.Plain == nil {
			for _, r := range p.Reserved {
				high = max(high, r.End)
			}
			for i := range p.Blocks {
				if b := &p.Blocks[i]; b.Pin < 0 && b.Size > 0 {
					high = AlignUp(high, b.Align) + b.Size
				}
			}
		}
		sum += min(high, p.Capacity)
	}
	return sum
}

// Plan returns the plan of these offsets of all buffers, with its claims.
func (y *Layout) Plan(method string, blocks [][]int64, m platform.Platform) *plan.Plan {
	p := plan.New(Problem, method, y.Lifetimes, m)
	offsets := y.Offsets(blocks)
	p.Offsets = make([]plan.Offset, len(offsets))
	for i, at := range offsets {
		p.Offsets[i] = plan.Offset{ID: y.Lifetimes.Buffers[i].ID, Offset: float64(at)}
	}
	for k, pool := range y.Pools {
		p.Claims.PeakMemory += float64(pool.Height(blocks[k]))
	}
	return p
}

// BlockOffsets returns the offsets of a plan by pool and block. The error names a buffer without
// offset.
func (y *Layout) BlockOffsets(p *plan.Plan) ([][]int64, error) {
	at := make(map[string]float64, len(p.Offsets))
	for _, o := range p.Offsets {
		at[o.ID] = o.Offset
	}
	blocks := make([][]int64, len(y.Pools))
	for k, pool := range y.Pools {
		for _, b := range pool.Blocks {
			id := y.Lifetimes.Buffers[b.Buffers[0]].ID
			x, ok := at[id]
			if !ok || x != math.Trunc(x) {
				return nil, fmt.Errorf("buffer %q has no offset, or none in whole units", id)
			}
			blocks[k] = append(blocks[k], int64(x))
		}
	}
	return blocks, nil
}

// Value returns the objective value of heights and penalties of the pools.
func (y *Layout) Value(heights []int64, penalty int64) int64 {
	switch y.Objective {
	case lifetimes.TotalPenalty:
		return penalty
	case lifetimes.LargestHeight:
		return slices.Max(heights)
	}
	sum := int64(0)
	for _, h := range heights {
		sum += h
	}
	return sum
}
