package placement

import (
	"context"
	"math/rand/v2"
	"slices"

	"workbench/model/problem/placement"
)

// repairer places buffers in an order, each as low as it fits under a limit, and repairs the order where one does
// not fit: it returns to the last state in which that buffer fitted, or further, and places it there. These are
// the decisions and the backjumps of TelaMalloc (Maas, Beaugnon, Chauhan and Ilbeyi, TelaMalloc: Efficient On-Chip
// Memory Allocation for Production Machine Learning Accelerators, ASPLOS 2023, §5): the conflict names the buffers
// to place earlier, and "major backtracks" continue from there. TelaMalloc keeps the domains of all offsets in a
// constraint solver, which detects a buffer that does not fit earlier; here a buffer is tried in its turn, which
// costs a first fit per step. The length of a backjump beyond the conflict is random here, and learned there.
type repairer struct {
	in      *placement.Instance
	r       *rand.Rand
	on      *shelves
	some    *shelf
	offsets []int64
}

func newRepairer(in *placement.Instance, seed uint64) *repairer {
	return &repairer{
		in: in, r: rand.New(rand.NewPCG(seed, 1)), on: newShelves(in.Sections), some: &shelf{},
		offsets: make([]int64, len(in.Buffers)),
	}
}

// placeBelow searches for offsets below a limit, starting from an order, which it changes. It
// places at most placings buffers, and reports whether offsets are found.
func (x *repairer) placeBelow(ctx context.Context, order []int, limit int64, placings int) bool {
	for placings > 0 && ctx.Err() == nil {
		k := fill(x.in, order, x.offsets, x.on, limit)
		if k == len(order) {
			return true
		}
		placings -= k + 1
		i, to := order[k], x.lastGap(order[:k], order[k], limit)
		for to > 0 && x.r.IntN(4) > 0 {
			to -= min(to, 1+x.r.IntN(1+to/8))
		}
		copy(order[to+1:k+1], order[to:k])
		order[to] = i
	}
	return false
}

// lastGap returns the largest number of placed buffers after which buffer i still fits. O(n log n).
func (x *repairer) lastGap(placed []int, i int, limit int64) int {
	b := &x.in.Buffers[i]
	low, high := 0, max(0, len(placed)-1)
	for low < high {
		middle := (low + high + 1) / 2
		x.some.clear()
		for _, f := range x.on.fixed {
			if f.Meets(b) {
				x.some.put(f.Buffer, f.at)
			}
		}
		for _, j := range placed[:middle] {
			if c := &x.in.Buffers[j]; c.Room > 0 && c.Meets(b) {
				x.some.put(c, x.offsets[j])
			}
		}
		if x.some.gap(b.First, b.Last, b.Room)+b.Size <= limit {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// improve searches for offsets lower than height, starting a quarter of the distance to a bound
// below it, and returns the lowest found, nil if there are none. The repaired order for one limit
// is the start for the next. It places about placings buffers in total.
func (x *repairer) improve(ctx context.Context, bound, height int64, placings int) []int64 {
	var best []int64
	for _, o := range Orders() {
		order := Sorted(x.in, o)
		for height > bound {
			limit := min(height-1, bound+(height-bound)/4*3)
			if !x.placeBelow(ctx, order, limit, placings/len(Orders())) {
				break
			}
			best, height = slices.Clone(x.offsets), x.in.Height(x.offsets)
		}
	}
	return best
}

// placings returns the number of buffers placed in the first round of a repair: a fixed number of times each,
// fewer if there are many, but each at least a minimum number of times.
func placings(in *placement.Instance) int {
	const mendings, most, least = 1000, 400_000, 20
	n := len(in.Buffers)
	return max(min(mendings*n, most), least*n)
}

// Repair is first fit, then [repairer] in rounds, each twice as long as the previous one. It ends with ctx, at a
// height of enough, or after goal.Rounds.
func Repair(ctx context.Context, in *placement.Instance, goal Goal) Found {
	f := Found{Offsets: Greedy(ctx, in, FirstFit), Bound: in.Load()}
	f.Height = in.Height(f.Offsets)
	x := newRepairer(in, goal.Seed)
	enough := max(f.Bound, goal.Enough)
	for round := 0; f.Height > enough && ctx.Err() == nil && round < mostRounds && (goal.Rounds == 0 || round < goal.Rounds); round++ {
		if better := x.improve(ctx, enough, f.Height, placings(in)<<round); better != nil {
			f.Offsets, f.Height = better, in.Height(better)
			if goal.OnProgress != nil {
				goal.OnProgress(f.Height, f.Bound)
			}
		}
	}
	return f
}

// mostRounds is the maximum number of rounds of a repair; later rounds rarely find anything.
const mostRounds = 12
