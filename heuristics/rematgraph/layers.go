package rematgraph

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// Layers solves an outer program: it returns which part of what a layer saves is kept, and which is sent
// to the host, nil without a link. The error wraps plan.ErrNoPlan if the budget is too small for it.
type Layers func(b *training.Blocks, budget float64) (kept, sent []float64, err error)

// Shares solves an inner program with a link, for the items of a layer. It returns which items are
// kept, with total memory at most keep, and which are sent, with total memory about send.
type Shares func(memory, time []float64, sendable []bool, keep, send float64) (kept, sent []bool, err error)

// ByLayers returns the plan of torchtitan's two-level solver (graph_trainer,
// auto_sac_offload_solver.py) without a link. outer chooses for each layer the fraction of saved
// memory that is kept, and inner the nodes of the layer that are kept; equal layers with equal
// fractions are solved once. Nodes that are not kept are recomputed right before the first node
// that needs them.
//
// As printed, every layer takes the mean time, recomputing a fraction of a layer takes that
// fraction of its time, and memory is counted by layers. So neither memory nor time is that of the
// plan. As in [WithinBudget], a hundred budgets are tried, fractions of training.Blocks.Whole, and
// the fastest plan that fits by replay is returned. Parameters are resident and not counted. Nodes
// outside layers run once; random ones and those that may not be recomputed are kept. The error
// wraps plan.ErrNoPlan if no plan fits or no node is marked with a layer.
func ByLayers(ctx context.Context, method string, v *rematgraph.View, p platform.Platform, outer Layers,
	inner Knapsack,
) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	s := newLayered(v, inner)
	if len(s.items) == 0 {
		return nil, fmt.Errorf("%s: %w: no forward node that the backward reads is marked with a layer", method, plan.ErrNoPlan)
	}
	return bestOfBudgets(ctx, method, v, p, s.blocks.Whole(), func(budget float64) (*partition, error) {
		kept, _, err := outer(&s.blocks, budget)
		if err != nil {
			return nil, err
		}
		return s.partition(kept)
	})
}

// bestOfBudgets returns the fastest plan that fits by replay among those that choose makes of the
// budgets 0, 0.01, …, 1 of whole. A budget that is too small for choose is skipped.
func bestOfBudgets(ctx context.Context, method string, v *rematgraph.View, p platform.Platform, whole float64,
	choose func(budget float64) (*partition, error),
) (*plan.Plan, error) {
	var all []Budget
	err := eachBudget(ctx, whole, func(budget float64) error {
		c, err := choose(budget)
		if err == nil {
			all = append(all, Budget{Part: budget / whole, Again: c.timeAgain(), cut: c})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if best := fastest(ctx, all, fitsIn(p.Memory)); best != nil {
		return fit(method, best, p)
	}
	return nil, fmt.Errorf("%s: %w: no budget makes the step fit in %s", method, plan.ErrNoPlan, v.Graph.Unit.Exactly(p.Memory))
}

// eachBudget calls choose with the budgets 0, 0.01, …, 1 of whole until ctx ends. A budget without
// a plan is skipped.
func eachBudget(ctx context.Context, whole float64, choose func(budget float64) error) error {
	for k := range mostBudgets + 1 {
		err := choose(whole * float64(k) / mostBudgets)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, plan.ErrNoPlan) {
			return err
		}
	}
	return nil
}

// ByLayersWithLink is [ByLayers] with a link to the host. It calls take with the result of each
// distinct budget: a schedule of what is kept, sent and recomputed, and which values are sent. The
// caller evaluates it.
func ByLayersWithLink(ctx context.Context, v *rematgraph.View, outer Layers, inner Shares,
	take func(s *rematgraph.Schedule, away []bool),
) error {
	s := newLayered(v, nil)
	if len(s.items) == 0 {
		return fmt.Errorf("%w: no forward node that the backward reads is marked with a layer", plan.ErrNoPlan)
	}
	inner = onceShared(inner)
	var again, away []bool // of the last budget
	return eachBudget(ctx, s.blocks.Whole(), func(budget float64) error {
		kept, sent, err := outer(&s.blocks, budget)
		if err != nil {
			return err
		}
		c, goes, err := s.shared(kept, sent, inner)
		if err != nil {
			return err
		}
		if !slices.Equal(c.again, again) || !slices.Equal(goes, away) {
			again, away = c.again, goes
			take(c.carryOut(), away)
		}
		return nil
	})
}

// onceShared solves equal layers once.
func onceShared(inner Shares) Shares {
	type shared struct{ kept, sent []bool }
	solved := map[string]shared{}
	return func(memory, time []float64, sendable []bool, keep, send float64) (kept, sent []bool, err error) {
		key := fmt.Sprint(memory, time, sendable, keep, send)
		x, known := solved[key]
		if !known {
			if x.kept, x.sent, err = inner(memory, time, sendable, keep, send); err != nil {
				return nil, nil, err
			}
			solved[key] = x
		}
		return x.kept, x.sent, nil
	}
}

// timeAgain returns the time of the nodes that may be recomputed.
func (c *partition) timeAgain() (seconds float64) {
	for j, again := range c.again {
		if again {
			seconds += c.v.Time[j]
		}
	}
	return seconds
}

// layered is a training step by layers.
type layered struct {
	v      *rematgraph.View
	blocks training.Blocks
	layer  []int   // by node: its layer, -1 none
	items  [][]int // by layer: the forward nodes that the backward reads and that may be recomputed
	inner  saving
}

func newLayered(v *rematgraph.View, inner Knapsack) *layered {
	layer, n := layersOf(v)
	s := &layered{v: v, layer: layer, items: make([][]int, n), inner: once(inner)}
	c, b := newPartition(v), &s.blocks
	b.Saved, b.Must, b.Temp = make([]float64, n), make([]float64, n), make([]float64, n)
	total, back := 0.0, 0.0
	for j, l := range layer {
		switch saved := c.saved(j); {
		case !c.forward(j) && l < 0:
			b.Loss = max(b.Loss, v.Written[j]+v.Overhead[j])
		case !c.forward(j):
			back += v.Time[j]
			b.Temp[l] = max(b.Temp[l], v.Written[j]+v.Overhead[j])
		case l < 0:
			b.Rest += saved
		default:
			total += v.Time[j]
			b.Saved[l] += saved
			if s.fixed(j) {
				b.Must[l] += saved
			} else if saved > 0 {
				s.items[l] = append(s.items[l], j)
			}
		}
	}
	b.Time, b.Back = total/float64(max(1, n)), back/float64(max(1, n))
	return s
}

// layersOf returns the layer of every node, -1 for nodes outside layers, and the number of layers,
// in forward order.
func layersOf(v *rematgraph.View) (layer []int, n int) {
	layer = make([]int, v.N)
	index := map[string]int{}
	for j := range layer {
		x := &v.Graph.Nodes[j]
		l, known := index[x.Layer]
		if !known && x.Layer != "" && x.Phase == training.Forward {
			l, known = len(index), true
			index[x.Layer] = l
		}
		if layer[j] = -1; known {
			layer[j] = l
		}
	}
	return layer, len(index)
}

// saved returns the bytes that the backward reads of forward node j.
func (c *partition) saved(j int) (bytes float64) {
	for _, i := range c.v.Writes[j] {
		if c.forward(j) && slices.ContainsFunc(c.v.Succ[i], func(k int) bool { return !c.forward(k) }) {
			bytes += c.v.Memory[i]
		}
	}
	return bytes
}

// fixed reports whether node j runs once.
func (s *layered) fixed(j int) bool { return s.v.Once[j] || s.v.Graph.Nodes[j].Random }

// partition returns the choice of nodes for what the outer program keeps.
func (s *layered) partition(kept []float64) (*partition, error) {
	c := s.recomputeAll()
	for l, items := range s.items {
		memory, time := c.sizes(items)
		saved, err := s.inner(memory, time, s.target(l, kept))
		if err != nil {
			return nil, err
		}
		for k, j := range items {
			c.again[j] = !saved[k]
		}
	}
	return c, nil
}

// shared returns the choice of nodes for what the outer program keeps and sends, and which
// values are sent.
func (s *layered) shared(kept, sent []float64, inner Shares) (c *partition, away []bool, err error) {
	c, away = s.recomputeAll(), make([]bool, s.v.M)
	for l, items := range s.items {
		memory, time := c.sizes(items)
		sendable := make([]bool, len(items))
		for k, j := range items {
			sendable[k] = !slices.ContainsFunc(s.v.Writes[j], func(i int) bool { return s.v.Pinned[i] })
		}
		keep, goes, err := inner(memory, time, sendable, s.target(l, kept), sent[l]*s.blocks.Saved[l])
		if err != nil {
			return nil, nil, err
		}
		for k, j := range items {
			c.again[j] = !keep[k] && !goes[k]
			for _, i := range s.v.Writes[j] {
				away[i] = goes[k]
			}
		}
	}
	return c, away, nil
}

// recomputeAll returns the choice in which every node that may be recomputed is.
func (s *layered) recomputeAll() *partition {
	c := newPartition(s.v)
	for j, l := range s.layer {
		c.again[j] = l >= 0 && c.forward(j) && !s.fixed(j)
	}
	return c
}

// sizes returns what the backward reads of items, and their times.
func (c *partition) sizes(items []int) (memory, time []float64) {
	memory, time = make([]float64, len(items)), make([]float64, len(items))
	for k, j := range items {
		memory[k], time[k] = c.saved(j), c.v.Time[j]
	}
	return memory, time
}

// target returns what the items of a layer may take of what is kept.
func (s *layered) target(l int, kept []float64) float64 {
	return max(0, kept[l]*s.blocks.Saved[l]-s.blocks.Must[l])
}
