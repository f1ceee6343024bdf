package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"workbench/bench"
	"workbench/heuristics/pipeline"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// readings are two other readings of [004] 7.3, that are no methods of the
// catalogue.
//
// pipedream-star-memory: the catalogue's pipedream-star schedules the partition
// that knows no memory; that of the thesis changes with M ("the period of the
// allocations (the dashed lines) are non-increasing with M"), so that its
// PipeDream knows some. Which estimate it has is not said.
//
// madpipe-paper: one allocation with the grid of 7.3.1 and K = ∞ in Algorithm 8,
// where the catalogue's madpipe schedules several. The list scheduler stands
// for the ILP of 7.2.
func readings() []*bench.Method {
	method := func(name string, run func(*chain.Chain, platform.Platform) (*plan.Plan, error)) *bench.Method {
		return &bench.Method{
			Problem: plan.Pipeline, Name: name, Kind: bench.Heuristic,
			Run: func(_ context.Context, in *bench.Instance, s bench.Setting) (*bench.Outcome, error) {
				p, err := run(in.Chain, s.Platform)
				if err != nil {
					return nil, err
				}
				p.Method = name
				return &bench.Outcome{Plan: p}, nil
			},
		}
	}
	return []*bench.Method{
		method("pipedream-star-memory", func(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			stages := fittingPartition(c, p)
			if stages == nil {
				return nil, fmt.Errorf("pipedream-star-memory: %w: no partition fits as PipeDream reckons", plan.ErrNoPlan)
			}
			return pipeline.OneFOneBStarOn(c, p, stages, pipeline.Options{})
		}),
		method("madpipe-paper", func(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			stages, _, err := pipeline.MadPipeAllocation(c, p, pipeline.PaperGrid, pipeline.Options{})
			if err != nil {
				return nil, err
			}
			return pipeline.Schedule(c, p, stages, pipeline.Options{})
		}),
	}
}

// fittingPartition is the partition of PipeDream in which the r-th stage from
// the end keeps r mini-batches, as in its own 1F1B with as many in flight as
// stages, and fits with them by the 𝓜(i,j,r) of [004] 7.1.1: the contiguous
// allocation of the smallest load, a link's being 2a_ℓ/β. It returns nil if
// there is none. O(P·n²).
func fittingPartition(c *chain.Chain, p platform.Platform) []plan.Stage {
	n := c.Len()
	a, d := make([]float64, n+1), make([]float64, n+1)
	time, weight, stored := make([]float64, n+1), make([]float64, n+1), make([]float64, n+1) // Σ of layers 1..ℓ
	a[0], d[0] = c.Input.Activation, c.Input.Gradient
	for i, l := range c.Layers {
		a[i+1], d[i+1] = l.Activation, l.Gradient
		time[i+1] = time[i] + l.ForwardTime + l.BackwardTime
		weight[i+1] = weight[i] + l.Weight
		stored[i+1] = stored[i] + a[i]
	}
	needs := func(i, j, g int) float64 { // 𝓜(i,j,g)
		m := float64(p.WeightCopies)*(weight[j]-weight[i-1]) + float64(g)*(stored[j]-stored[i-1])
		if i > 1 {
			m += a[i-1] + d[i-1]
		}
		if j < n {
			m += a[j] + d[j]
		}
		return m
	}
	procs := min(p.Processors, n)
	best := make([][]float64, procs+1) // best[r][i]: layers i+1..n in r stages
	end := make([][]int, procs+1)      // end[r][i]: where the first of them ends
	for r := range best {
		best[r], end[r] = make([]float64, n+1), make([]int, n+1)
		for i := range best[r] {
			best[r][i] = math.Inf(1)
		}
	}
	best[0][n] = 0
	for r := 1; r <= procs; r++ {
		for i := range n {
			for j := i + 1; j <= n; j++ {
				load := max(time[j]-time[i], best[r-1][j])
				if j < n {
					load = max(load, 2*a[j]/p.Bandwidth)
				}
				if load < best[r][i] && needs(i+1, j, r) <= p.Memory {
					best[r][i], end[r][i] = load, j
				}
			}
		}
	}
	stages := 0
	for r := range best {
		if best[r][0] < best[stages][0] {
			stages = r
		}
	}
	if math.IsInf(best[stages][0], 1) {
		return nil
	}
	var list []plan.Stage
	for i, r := 0, stages; r > 0; r-- {
		list = append(list, plan.Stage{Processor: stages - r, From: i + 1, To: end[r][i]})
		i = end[r][i]
	}
	return slices.Clip(list)
}
