package placement

import (
	"cmp"
	"context"
	"slices"
)

// mostWindows is how many windows a round looks at, windowNodes how many nodes a search
// of one has in the first round.
const mostWindows, windowNodes = 8, 200

// raise looks for a proof that the bound of a part is not met: in a window of time
// around an instant of a large load, what is alive there cannot be placed under it. Fewer buffers
// are never higher, so what holds of the window holds of the whole; and where they are
// few, the search ends. Windows are twice as long in every round, up to the whole part.
// Each is an instance of its own.
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

// fullest returns sections of large load, so far from each other, the fullest first.
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
