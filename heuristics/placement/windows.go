package placement

import (
	"cmp"
	"context"
	"slices"
)

// mostWindows limits the windows of a round, windowNodes the nodes of a search of one in the first round.
const mostWindows, windowNodes = 8, 200

// raise searches for a proof that the bound of a part is not attained. In a window of time around a section of
// large load, the buffers alive there cannot be placed under the bound. Fewer buffers are never higher, so a bound
// for the window holds for the whole; and with few buffers, the search ends. Windows double in every round, up to
// the whole part. Each is an instance of its own.
func (p *part) raise(ctx context.Context, round int) {
	half := 1 << min(round, 30)
	if 2*half >= p.in.Sections {
		return
	}
	for _, s := range p.fullest(half) {
		var buffers []int
		for i := range p.in.Buffers {
			if b := &p.in.Buffers[i]; b.Room > 0 && b.Last >= s-half && b.First <= s+half {
				buffers = append(buffers, i)
			}
		}
		t := newTree(p.in.Subset(buffers))
		if t == nil {
			continue
		}
		for p.bound < p.height && ctx.Err() == nil {
			t.prepare(0, 0, 0)
			if t.run(ctx, p.bound, windowNodes<<min(round, 40)) != refuted {
				break
			}
			p.raiseTo(p.rises.Up(p.bound+1), t)
		}
	}
}

// fullest returns sections of large load at a minimum distance from each other, by decreasing load.
func (p *part) fullest(apart int) []int {
	loads := p.in.Loads()
	all := make([]int, len(loads))
	for s := range all {
		all[s] = s
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(loads[b], loads[a]) })
	var chosen []int
	for _, s := range all {
		near := slices.ContainsFunc(chosen, func(c int) bool { return s-c <= apart && c-s <= apart })
		if !near && len(chosen) < mostWindows {
			chosen = append(chosen, s)
		}
	}
	return chosen
}
