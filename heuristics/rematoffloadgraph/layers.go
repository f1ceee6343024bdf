package rematoffloadgraph

import (
	"context"
	"fmt"

	"workbench/heuristics/rematgraph"
	"workbench/model/plan"
	"workbench/model/platform"
	problemrematgraph "workbench/model/problem/rematgraph"
)

// ByLayers is the plan of torchtitan's two-level solver (graph_trainer, auto_sac_offload_solver.py) with a link:
// outer selects by layer which fractions of the saved values are kept and offloaded, and inner selects the nodes.
// All others are recomputed right before the first node that needs them. As in [rematgraph.ByLayers], the two
// programs estimate neither the memory nor the time of the plan exactly, so a hundred budgets are tried, and the
// fastest plan that fits is returned.
//
// torchtitan fetches an offloaded value one layer before its use. Here the clock of [Search] fetches it as soon as
// the memory suffices, and computations wait for it. The error wraps plan.ErrNoPlan if no plan fits or no node is
// marked with a layer.
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
		return nil, fmt.Errorf("%s: %w: no budget makes the step fit in %s", method, plan.ErrNoPlan, v.Graph.Unit.Exactly(p.Memory))
	}
	return best.plan(method, p)
}

// longest returns the longest gap of each copy of the offloaded values: that between forward and backward.
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
