package rematoffloadgraph

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
	verifyrematgraph "workbench/model/verify/rematgraph"
)

// Offload computes every node once, in the order of the graph, and evicts the value with the farthest next use
// where memory is short. It finds a plan whenever one exists, unless values are pinned. O((n + gaps)·log(gaps)).
func Offload(ctx context.Context, v *rematgraph.View, p platform.Platform) (*plan.Plan, error) {
	if err := v.LinkedFits(p.Memory); err != nil {
		return nil, err
	}
	order := make([]int32, v.N)
	for j := range order {
		order[j] = int32(j)
	}
	c := newRoute(v, order).timed(ctx, p, 0)
	if c == nil {
		return nil, fmt.Errorf("pure-offload: %w: offloading every value that may be offloaded does not suffice", plan.ErrNoPlan)
	}
	return c.plan("pure-offload", p)
}

// covers limits the covers of a route that are tried where computations wait. late limits the total number of
// their computations after ctx has ended, or where computations wait as long as they run: a tenth of a second. A
// route found just before the end needs a cover with little waiting.
const (
	covers = 40
	late   = 20_000
)

// timed covers a route and simulates it; nil if that is impossible. Where computations wait, it tries other
// covers; only a few when ctx has ended or an improvement is unlikely.
func (r *route) timed(ctx context.Context, p platform.Platform, seed uint64) (best *clock) {
	random := rand.New(rand.NewPCG(seed, 2))
	for k := range covers {
		if k > 0 && k*len(r.order) > late && (ctx.Err() != nil || best != nil && best.now > hopeless*r.clock[len(r.order)]) {
			break
		}
		noise := func() float64 { return math.Exp(float64(k%8) / 16 * random.NormFloat64()) }
		away, ok := r.cover(p.Memory, noise)
		if !ok {
			continue
		}
		if c, ok := r.run(p.Memory, p.Bandwidth, away); ok && (best == nil || c.now < best.now) {
			best = c
		}
		if best != nil && best.now <= r.clock[len(r.order)] {
			break
		}
	}
	return best
}

// plan returns the simulated operations as a plan. Its peak is that of the replay, which at a tie runs
// computations of zero duration before prefetches.
func (c *clock) plan(method string, at platform.Platform) (*plan.Plan, error) {
	p := plan.New(plan.RematOffload, method, c.v.Instance, at)
	p.Ops = c.ops
	r, err := verifyrematgraph.Verify(c.v.Graph, p)
	if err != nil {
		return nil, err
	}
	p.Claims = plan.Claims{Makespan: c.now, PeakMemory: r.PeakMemory}
	return p, nil
}
