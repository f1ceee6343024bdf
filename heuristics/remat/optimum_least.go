package remat

import (
	"context"
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
)

// LeastMemory returns the minimum memory in bytes for which a plan exists, and a plan with that
// peak. If proved is false (a limit on states, or the end of ctx), memory is a lower bound, with
// the known plan of minimum memory.
//
// The minimum memory of canonical plans is an upper bound, that without the memory of forwards a
// lower bound. If they differ, a search over the stored states decides. O(N⁴) and the search.
func LeastMemory(ctx context.Context, c *chain.Chain) (memory float64, p *plan.Plan, proved bool, err error) {
	v, err := model.Checked(c)
	if err != nil {
		return 0, nil, false, err
	}
	if need := 2 * canonicalBytes(v.N); need > maxTables {
		return 0, nil, false, &TooLargeError{Need: need, Limit: maxTables, What: fmt.Sprintf("the least memory of %d layers", v.N)}
	}
	low, high := newCanonical(ctx, v, false), newCanonical(ctx, v, true)
	if low.stopped || high.stopped {
		return 0, nil, false, fmt.Errorf("%s: least memory: %w", Problem, context.Cause(ctx))
	}
	memory, q, proved := leastMemory(ctx, low, high, optimumLimits.states)
	return memory, q.Plan("least-memory", c, platform.Platform{Memory: q.Peak}), proved, nil
}

// leastMemory returns the minimum memory, or a lower bound on it if proved is false, and the best
// plan.
func leastMemory(ctx context.Context, low, high *canonical, states int) (memory float64, q *model.Sequence, proved bool) {
	v := low.v
	least := leastBound(low)
	q = v.NewSequence()
	high.buildAny(q, high.root(), high.least[high.index(high.root())])
	if q.Peak <= least {
		return q.Peak, q, true
	}
	if v.N > maxSearched || states < 0 {
		return least, q, false
	}
	s := &optimumSearch{v: v, limit: states, upper: q.Peak}
	last, bound, done := s.bottleneck(ctx, least)
	if last >= 0 {
		q = v.NewSequence()
		s.build(q, last)
	}
	if done {
		return q.Peak, q, true
	}
	return max(bound, least), q, false
}

// quickLeast returns a lower bound on the memory of any plan of a chain of at most maxSearched
// layers, usually the minimum, with its reason.
func quickLeast(v *model.View) (memory float64, why string) {
	const states = 1 << 16
	ctx := context.Background()
	memory, _, proved := leastMemory(ctx, newCanonical(ctx, v, false), newCanonical(ctx, v, true), states)
	return memory, whyLeast(proved)
}

func whyLeast(proved bool) string {
	if proved {
		return "the least peak of any plan"
	}
	return "a lower bound on the peak of any plan"
}

// leastBound returns a lower bound on the minimum memory.
func leastBound(low *canonical) float64 {
	bound, _ := low.v.LeastBound()
	return max(bound, low.least[low.index(low.root())]+low.v.A[0])
}

// bottleneck is Dijkstra's algorithm with the largest memory so far in the
// place of time. It returns the last node of a plan that needs less than upper,
// or -1, and a lower bound on the memory of such plans.
func (s *optimumSearch) bottleneck(ctx context.Context, least float64) (last int32, bound float64, done bool) {
	s.known = map[held]int32{}
	start := held{a: 1, next: s.v.N}
	s.peak(start, max(least, size(s.v, start)), -1, move{})
	for taken := 0; len(s.queue) > 0; taken++ {
		top := s.popBest()
		n := s.nodes[top.node]
		if top.bound > n.time {
			continue
		}
		bound = top.bound
		if n.x.next == 0 {
			return top.node, bound, true
		}
		if len(s.nodes) >= s.limit || taken%256 == 0 && ctx.Err() != nil {
			return -1, bound, false
		}
		steps(s.v, n.x, size(s.v, n.x), func(y held, do move, _, memory float64) {
			s.peak(y, max(n.time, memory), top.node, do)
		})
	}
	return -1, s.upper, true
}

// peak records a path to x with the given peak memory.
func (s *optimumSearch) peak(x held, memory float64, from int32, by move) {
	at, found := s.known[x]
	if found && s.nodes[at].time <= memory || memory >= s.upper {
		return
	}
	if !found {
		at = int32(len(s.nodes))
		s.known[x] = at
		s.nodes = append(s.nodes, reached{x: x})
	}
	n := &s.nodes[at]
	n.time, n.from, n.step = memory, from, by
	// Of equal memory, the state that is further on.
	s.put(open{memory, float64(-x.next), at})
}
