package rematoffloadgraph

import (
	"context"
	"fmt"

	"workbench/heuristics/rematgraph"
	"workbench/model/plan"
	"workbench/model/platform"
	problemrematgraph "workbench/model/problem/rematgraph"
)

// ByLayers is the plan of torchtitan's two-level solver (graph_trainer, auto_sac_offload_solver.py) beside a
// link: outer says by layer which parts of what is saved are kept and sent, and inner which
// nodes; what is neither runs again right before the first node that needs it. As in [rematgraph.ByLayers] what the
// two programs promise is neither the memory nor the time of the plan, so a hundred budgets are
// tried, and the fastest plan that fits is taken.
//
// There what is sent is fetched a layer before it is needed; here the clock of [Search] says when, as soon as
// there is room, and computations wait for it. The error wraps plan.ErrNoPlan if no plan fits or no node is marked with a
// layer.
func ByLayers(ctx context.Context, method string, v *problemrematgraph.View, p platform.Platform, outer rematgraph.Layers,
	inner rematgraph.Shares,
) (*plan.Plan, error) {
	if err := v.LinkedFits(p.Memory); err != nil {
		return nil, err
	}
	var best *clock
	err := rematgraph.ByLayersWithLink(ctx, v, outer, inner, func(s *problemrematgraph.Schedule, away []bool) {
		r := newRoute(v, s.Order())
		if c, ok := r.run(p.Memory, p.Bandwidth, r.longest(away)); ok && (best == nil || c.now < best.now) {
			best = c
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	switch err := ctx.Err(); {
	case best == nil && err != nil:
		return nil, fmt.Errorf("%s: %w: %w", method, plan.ErrNoPlan, err)
	case best == nil:
		return nil, fmt.Errorf("%s: %w: at no budget does the step fit in %s", method, plan.ErrNoPlan, v.Graph.Unit.Exactly(p.Memory))
	}
	return best.plan(method, p)
}

// longest returns the longest gap of each stay of values that are sent: that between forward and
// backward.
func (r *route) longest(sent []bool) (away []gap) {
	of := map[int]gap{}
	for _, g := range r.gaps() {
		if x, known := of[g.stay]; sent[r.stays[g.stay].value] && (!known || g.to-g.from > x.to-x.from) {
			g.due = g.from + 1 // it is sent at once
			of[g.stay] = g
		}
	}
	for s := range r.stays {
		if g, known := of[s]; known {
			away = append(away, g)
		}
	}
	return away
}
