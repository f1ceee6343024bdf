package main

import (
	"context"

	"workbench/bench/run"
	"workbench/heuristics/pipeline"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// readings are other readings of [004] 7.3, that are no methods of the catalogue.
//
// madpipe-paper: one allocation with the grid of 7.3.1 and K = ∞ in Algorithm 8,
// where the catalogue's madpipe schedules several. The list scheduler stands
// for the ILP of 7.2.
func readings() []*run.Method {
	method := func(name string, runs func(*chain.Chain, platform.Platform) (*plan.Plan, error)) *run.Method {
		return &run.Method{
			Problem: plan.Pipeline, Name: name, Kind: run.Heuristic,
			Run: func(_ context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
				p, err := runs(in.Chain, s.Platform)
				if err != nil {
					return nil, err
				}
				p.Method = name
				return &run.Outcome{Plan: p}, nil
			},
		}
	}
	return []*run.Method{
		method("madpipe-paper", func(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
			stages, _, err := pipeline.MadPipeAllocation(c, p, pipeline.PaperGrid, pipeline.Options{})
			if err != nil {
				return nil, err
			}
			return pipeline.Schedule(c, p, stages, pipeline.Options{})
		}),
	}
}
