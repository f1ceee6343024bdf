package placement

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/problem/placement"
)

// iterations is the number of steps of Search.
const iterations = 20_000

// Search improves the order of [FirstFit] by simulated annealing ([anneal]), from the best of the usual orders on.
// It ends with ctx, at a height of goal.Enough, or after some thousand steps; each is a first fit, O(n²).
func Search(ctx context.Context, in *placement.Instance, goal Goal) Found {
	f := Found{Offsets: Greedy(ctx, in, FirstFit), Bound: in.Load()}
	f.Height = in.Height(f.Offsets)
	anneal(ctx, in, &f, goal, iterations)
	return f
}

// anneal lowers f by simulated annealing over the order of first fit, from the order of its offsets on. A buffer
// that exceeds the goal is moved before an earlier one, or the two are exchanged. Every placement in which each
// buffer lies on 0 or on another is first fit in the order of its offsets, so every optimum is reachable.
func anneal(ctx context.Context, in *placement.Instance, f *Found, goal Goal, steps int) {
	order := Sorted(in, Order{Compare: func(_ *placement.Instance, i, j int) int { return cmp.Compare(f.Offsets[i], f.Offsets[j]) }})
	r, s := rand.New(rand.NewPCG(goal.Seed, 0)), newShelves(in.Sections)
	enough := max(f.Bound, goal.Enough)
	current, offsets := slices.Clone(f.Offsets), make([]int64, len(in.Buffers))
	next := make([]int, len(order))
	cost := excess(in, current, enough)
	hot := float64(f.Bound) / 50
	for k := 0; k < steps && ctx.Err() == nil && f.Height > enough; k++ {
		copy(next, order)
		shuffle(in, r, next, current, enough)
		fill(in, next, offsets, s, math.MaxInt64)
		c := excess(in, offsets, enough)
		if h := in.Height(offsets); h < f.Height {
			f.Height, f.Offsets = h, slices.Clone(offsets)
			if goal.OnProgress != nil {
				goal.OnProgress(f.Height, f.Bound)
			}
		}
		heat := hot * math.Pow(1e-3, float64(k)/float64(steps))
		if c <= cost || r.Float64() < math.Exp((cost-c)/heat) {
			cost = c
			order, next = next, order
			current, offsets = offsets, current
		}
	}
}

// excess returns the energy of the annealing: the height, and a tenth of the sum by which buffers
// exceed the goal, so that progress below the top counts.
func excess(in *placement.Instance, offsets []int64, enough int64) float64 {
	sum := 0.0
	for i, at := range offsets {
		if top := at + in.Buffers[i].Size; top > enough {
			sum += float64(top - enough)
		}
	}
	return float64(in.Height(offsets)) + sum/10
}

// shuffle changes an order slightly.
func shuffle(in *placement.Instance, r *rand.Rand, order []int, offsets []int64, enough int64) {
	n := len(order)
	from, to := r.IntN(n), r.IntN(n)
	if r.IntN(3) == 0 {
		order[from], order[to] = order[to], order[from]
		return
	}
	for range n { // the next one that exceeds the goal
		if i := order[from]; offsets[i]+in.Buffers[i].Size > enough {
			break
		}
		from = (from + 1) % n
	}
	to = r.IntN(from + 1)
	i := order[from]
	copy(order[to+1:from+1], order[to:from])
	order[to] = i
}
