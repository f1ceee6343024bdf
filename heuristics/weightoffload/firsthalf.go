package weightoffload

import (
	"context"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// FirstHalf offloads the layers of the first half, as M6-10T does ([001] §2),
// in both gaps, and schedules them with Algorithm 2 of [001]. Layers without
// weights do not count. Where the first half is not enough for the memory, or
// Algorithm 2 finds no schedule, the next layers join it one at a time: the
// original has no answer there. It never offloads fewer than half. Smaller memories
// are tried, too (see instance.memories).
//
// The end of ctx ends it with the shortest schedule found until then.
// O(L²) placements for each layer that joins.
func FirstHalf(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return solve(c, p, "first-half", func(in *instance) (*weightoffload.Schedule, error) {
		best := newScheduler(ctx, in, true)
		for _, memory := range in.memories() {
			s := newScheduler(ctx, in, true)
			if s.firstHalf(memory); s.found.T < best.found.T {
				best = s
			}
		}
		if !best.any() {
			return nil, best.none("first-half")
		}
		return best.found, nil
	})
}

// firstHalf stores the schedule of FirstHalf for the given memory in s.found, if there is one.
func (s *scheduler) firstHalf(memory float64) {
	in := s.in
	s.mem.limit = memory
	var heavy []int
	for k, w := range in.W {
		if w > 0 {
			heavy = append(heavy, k)
		}
	}
	away, excess := make([]bool, in.N), make([]float64, in.N)
	in.excess(away, memory, 1, excess)
	for i := 0; i <= len(heavy) && s.ctx.Err() == nil; i++ {
		if i > 0 {
			k := heavy[i-1]
			// Nothing runs between F_L and B_L, nor between B_1 and F_1.
			away[2*k], away[2*k+1] = k > 0, k < in.L-1
			for g := 2 * k; g <= 2*k+1; g++ {
				if away[g] {
					in.cover(g, excess)
				}
			}
		}
		if i < (len(heavy)+1)/2 || slices.Max(excess) > 0 {
			continue
		}
		if s.try(away); s.any() {
			return
		}
	}
}
