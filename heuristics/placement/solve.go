package placement

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"workbench/model/problem/placement"
	"workbench/model/proof"
)

// Placed is a method's result for a layout, by pool.
type Placed struct {
	Blocks          [][]int64 // offsets of the blocks
	Heights, Bounds []int64   // no placement of the pool is lower
	Fits            []bool    // within the capacity
	Impossible      []bool    // proved infeasible
	Penalty         int64
	PenaltyBound    int64         // no placement within the capacities has a lower penalty
	Why             []proof.Share // which argument excluded which part of the search that proved a bound on a height
}

// Value and Bound return the objective, and a bound on it.
func (p *Placed) Value(y *placement.Layout) int64 { return y.Value(p.Heights, p.Penalty) }
func (p *Placed) Bound(y *placement.Layout) int64 { return y.Value(p.Bounds, p.PenaltyBound) }

// Method places the plain instance of a pool; Structured, unless it is nil, places components of other pools.
type Method struct {
	Plain      func(context.Context, *placement.Instance, Goal) Found
	Structured func(context.Context, []*component, Goal, func())
}

// Constructive returns a greedy method in all usual orders: first fit, best fit (tight), or, on plain instances
// only, place.
func Constructive(place func(*placement.Instance, []int) []int64, structured, tight bool) Method {
	m := Method{Plain: func(ctx context.Context, in *placement.Instance, _ Goal) Found {
		offsets := Greedy(ctx, in, place)
		return Found{Offsets: offsets, Height: in.Height(offsets), Bound: in.Load()}
	}}
	if structured {
		m.Structured = func(ctx context.Context, all []*component, _ Goal, _ func()) {
			for _, c := range all {
				offsets := make([]int64, len(c.Blocks))
				for _, order := range c.structuredOrders() {
					if c.greedy(ctx, order, offsets, tight) {
						c.keep(offsets)
					}
				}
			}
		}
	}
	return m
}

// Heap returns the heap simulator of XLA (GlobalDecreasingSizeBestFitHeap): buffers by decreasing size, each in
// the smallest gap in which it fits.
func Heap() Method {
	return Method{
		Plain: func(_ context.Context, in *placement.Instance, _ Goal) Found {
			offsets := BestFit(in, Sorted(in, Orders()[0]))
			return Found{Offsets: offsets, Height: in.Height(offsets), Bound: in.Load()}
		},
		Structured: func(ctx context.Context, all []*component, _ Goal, _ func()) {
			for _, c := range all {
				offsets := make([]int64, len(c.Blocks))
				c.greedy(ctx, c.structuredOrders()[0], offsets, true)
				c.keep(offsets)
			}
		},
	}
}

// climbs is the number of placements that TVM's planner tries.
const climbs = 500

// HillClimb returns a method after the hill climbing of TVM's unified static memory planner: first
// fit by size, then swaps of a buffer that reaches the height with an earlier one that is alive at
// the same time. A worse order is kept with a small probability. 500 placements.
func HillClimb() Method {
	return Method{
		Plain: func(ctx context.Context, in *placement.Instance, goal Goal) Found {
			f := Found{Offsets: FirstFit(in, Sorted(in, Orders()[0])), Bound: in.Load()}
			f.Height = in.Height(f.Offsets)
			swaps(ctx, in, &f, goal)
			return f
		},
		Structured: func(ctx context.Context, all []*component, goal Goal, _ func()) {
			for _, c := range all {
				offsets := make([]int64, len(c.Blocks))
				c.greedy(ctx, c.structuredOrders()[0], offsets, false)
				c.keep(offsets)
				c.climb(ctx, climbs, rand.New(rand.NewPCG(goal.Seed, 2)))
			}
		},
	}
}

// swaps runs the hill climbing of HillClimb.
func swaps(ctx context.Context, in *placement.Instance, f *Found, goal Goal) {
	r, s := rand.New(rand.NewPCG(goal.Seed, 2)), newShelves(in.Sections)
	order := Sorted(in, Orders()[0])
	offsets := append([]int64(nil), f.Offsets...)
	height := f.Height
	for k := 0; k < climbs && ctx.Err() == nil && f.Height > max(f.Bound, goal.Enough); k++ {
		var tops, below []int
		for p, i := range order {
			if offsets[i]+in.Buffers[i].Size == height {
				tops = append(tops, p)
			}
		}
		at := tops[r.IntN(len(tops))]
		for p, i := range order[:at] {
			if in.Buffers[i].Meets(&in.Buffers[order[at]]) {
				below = append(below, p)
			}
		}
		if len(below) == 0 {
			continue
		}
		with := below[r.IntN(len(below))]
		order[at], order[with] = order[with], order[at]
		fill(in, order, offsets, s, math.MaxInt64)
		switch h := in.Height(offsets); {
		case h < f.Height:
			f.Height, height = h, h
			copy(f.Offsets, offsets)
		case h <= height || r.IntN(100) < 5:
			height = h
		default:
			order[at], order[with] = order[with], order[at]
			fill(in, order, offsets, s, math.MaxInt64)
		}
	}
}

// Exact returns the default method: [Least] in plain pools, otherwise the best greedy placement,
// then rounds of hill climbing and [branching].
func Exact() Method {
	return Method{Plain: Least, Structured: func(ctx context.Context, all []*component, goal Goal, report func()) {
		for _, c := range all {
			c.construct(ctx)
		}
		report()
		for round := 0; ctx.Err() == nil && (goal.Rounds == 0 || round < goal.Rounds); round++ {
			open := false
			enough := goal.Enough
			for _, c := range all {
				enough = max(enough, c.bound)
			}
			for _, c := range all {
				if !c.proved() && (c.best.over > 0 || c.best.cost > c.costBound || c.best.height > enough) && !c.impossible {
					open = true
					c.improve(ctx, round, enough, goal.Seed)
					report()
				}
			}
			if !open {
				return
			}
		}
	}}
}

// Refuses reports whether the method cannot place a pool of the layout.
func (m Method) Refuses(y *placement.Layout) bool {
	for _, p := range y.Pools {
		if m.Structured == nil && p.Plain == nil && len(p.Blocks) > 0 {
			return true
		}
	}
	return false
}

// Place places every pool. Each has an equal share of the time until ctx ends. With goal.Fit a pool is done when
// it is within its capacity. onProgress, which may be nil, receives the objective and its bound.
func (m Method) Place(ctx context.Context, y *placement.Layout, goal Goal, onProgress func(value, bound int64)) *Placed {
	n := len(y.Pools)
	f := &Placed{Blocks: make([][]int64, n), Heights: make([]int64, n), Fits: make([]bool, n), Impossible: make([]bool, n)}
	f.Bounds, _ = y.Bounds()
	for k, p := range y.Pools {
		if goal.Fit {
			goal.Enough = p.Capacity
		}
		share, cancel := timeShare(ctx, n-k)
		report := func(height, bound, cost, costBound int64) {
			f.Heights[k], f.Bounds[k] = height, max(bound, f.Bounds[k])
			if onProgress != nil && k == n-1 {
				onProgress(y.Value(f.Heights, f.Penalty+cost), y.Value(f.Bounds, f.PenaltyBound+costBound))
			}
		}
		switch {
		case len(p.Blocks) == 0:
			f.Fits[k] = true
		case p.Plain != nil:
			g := goal
			g.OnProgress = func(height, bound int64) { report(height, bound, 0, 0) }
			found := m.Plain(share, p.Plain, g)
			report(found.Height, found.Bound, 0, 0)
			if found.Why != nil {
				f.Why = found.Why
			}
			f.Blocks[k], f.Fits[k], f.Impossible[k] = found.Offsets, found.Height <= p.Capacity, f.Bounds[k] > p.Capacity
		default:
			m.structured(share, f, p, k, goal, report)
		}
		cancel()
	}
	return f
}

// timeShare returns a context with one of parts equal parts of the remaining time.
func timeShare(ctx context.Context, parts int) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited || parts == 1 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/time.Duration(parts))
}

// structured places pool k, which is not plain.
func (m Method) structured(ctx context.Context, f *Placed, p *placement.Pool, k int, goal Goal,
	report func(height, bound, cost, costBound int64),
) {
	parts, blocks := p.Components()
	all := make([]*component, len(parts))
	for i, part := range parts {
		all[i] = newComponent(part)
	}
	gather := func() (height, bound, cost, costBound, over int64) {
		cost, costBound = p.Constant, p.Constant
		for _, c := range all {
			height, bound, over = max(height, c.best.height), max(bound, c.bound), max(over, c.best.over)
			cost, costBound = cost+c.best.cost, costBound+c.costBound
		}
		return
	}
	m.Structured(ctx, all, goal, func() {
		height, bound, cost, costBound, _ := gather()
		report(height, bound, cost, costBound)
	})
	height, bound, cost, costBound, over := gather()
	report(height, bound, cost, costBound)
	f.Penalty, f.PenaltyBound, f.Fits[k] = f.Penalty+cost, f.PenaltyBound+costBound, over == 0
	f.Blocks[k] = make([]int64, len(p.Blocks))
	for a, b := range p.Blocks { // those without a size
		f.Blocks[k][a] = max(0, b.Pin)
	}
	for i, c := range all {
		f.Impossible[k] = f.Impossible[k] || c.impossible
		for j, a := range blocks[i] {
			f.Blocks[k][a] = c.offsets[j]
		}
	}
}
