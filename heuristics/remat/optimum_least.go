package remat

import (
	"context"
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// LeastMemory returns the least memory in bytes for which a plan exists, and a
// plan that needs no more. If it is not proved to be the least (a limit on
// states, or the end of ctx), memory is a lower bound, with the plan of least
// memory that is known.
//
// The least memory of canonical plans is an upper bound, that without the
// memory of forwards a lower bound; where they differ a search over the stored
// states decides. O(N⁴) and the search.
func LeastMemory(ctx context.Context, c *chain.Chain) (memory float64, p *plan.Plan, proved bool, err error) {
	if err := checkOptimum(c, 0); err != nil {
		return 0, nil, false, err
	}
	v := newView(c)
	if need := 2 * canonicalBytes(v.n); need > maxTables {
		return 0, nil, false, &TooLargeError{Need: need, Limit: maxTables, What: fmt.Sprintf("the least memory of %d layers", v.n)}
	}
	low, high := newCanonical(ctx, v, false), newCanonical(ctx, v, true)
	if low.stopped || high.stopped {
		return 0, nil, false, fmt.Errorf("%s: least memory: %w", Problem, context.Cause(ctx))
	}
	memory, q, proved, err := leastMemory(ctx, low, high, OptimumOptions{}.defaults().States)
	if err != nil {
		return 0, nil, false, err
	}
	return memory, q.plan("least-memory", c, platform.Platform{Memory: q.peak}), proved, nil
}

// leastMemory returns the least memory, or a lower bound on it if proved is
// false, and the best plan.
func leastMemory(ctx context.Context, low, high *canonical, states int) (memory float64, q *sequence, proved bool, err error) {
	v := low.v
	least := leastBound(low)
	m := high.least[high.index(high.root())]
	q = newSequence(v)
	high.build(q, high.root(), roomy(m+v.a[0])-v.a[0], math.Inf(1), false)
	if high.stopped {
		return 0, nil, false, fmt.Errorf("%s: least memory: %w", Problem, context.Cause(ctx))
	}
	if q.peak <= roomy(least) {
		return q.peak, q, true, nil
	}
	if v.n > maxSearched || states < 0 {
		return least, q, false, nil
	}
	s := &optimumSearch{v: v, limit: states, upper: q.peak}
	last, bound, done := s.bottleneck(ctx, least)
	if last >= 0 {
		q = newSequence(v)
		s.build(q, last)
	}
	if done {
		return q.peak, q, true, nil
	}
	return min(max(bound, least), q.peak), q, false, nil
}

// leastBound is a lower bound on the least memory.
func leastBound(low *canonical) float64 {
	return max(low.least[low.index(low.root())]+low.v.a[0], low.v.leastForwards())
}

// leastForwards is the memory that forwards need whatever else is stored: F_ℓ
// runs for the first time beside δ_N, F_all_N then, and F_all_ℓ beside some
// gradient; and a_0 is there until B_1.
func (v *view) leastForwards() float64 {
	input := func(l int) float64 {
		if l == 1 {
			return v.a[0]
		}
		return v.a[0] + v.a[l-1]
	}
	least := v.delta[v.n] + v.abar[v.n] + v.oF[v.n] + input(v.n)
	gradient := math.Inf(1)
	for l := v.n; l >= 1; l-- {
		gradient = min(gradient, v.delta[l])
		least = max(least, v.delta[v.n]+input(l)+v.a[l]+v.oF[l], gradient+input(l)+v.abar[l]+v.oF[l])
	}
	return least
}

// bottleneck is Dijkstra's algorithm with the largest memory so far in the
// place of time. It returns the last node of a plan that needs less than upper,
// or -1, and a lower bound on the memory of such plans.
func (s *optimumSearch) bottleneck(ctx context.Context, least float64) (last int32, bound float64, done bool) {
	s.known = map[held]int32{}
	start := held{a: 1, next: s.v.n}
	s.peak(start, max(least, s.v.size(start)), -1, move{})
	for taken := 0; len(s.queue) > 0; taken++ {
		top := s.take()
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
		s.v.steps(n.x, s.v.size(n.x), func(y held, do move, _, memory float64) {
			s.peak(y, max(n.time, memory), top.node, do)
		})
	}
	return -1, s.upper, true
}

// peak notes a way to x that needs so much memory.
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
