package method

import (
	"context"

	"workbench/bench/run"
	"workbench/heuristics/rematgraph"
	"workbench/model/graph"
	"workbench/model/plan"
)

// searchRounds is the patience of the search, quickRounds of the one before a
// MILP: seconds and tenths of a second on ResNet-50.
const (
	searchRounds = 3000
	quickRounds  = 300
)

// graphMethods is the table of methods for rematerialization of graphs.
func GraphMethods() []*run.Method {
	graphs := []run.Form{run.AGraph}
	onGraph := func(name, source, summary, complexity string, work func(context.Context, *graph.Graph, run.Setting) (*plan.Plan, error)) *run.Method {
		return &run.Method{
			Problem: plan.Remat, Name: name, Kind: run.Heuristic, Source: source, Summary: summary, Complexity: complexity, Takes: graphs,
			Run: func(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
				p, err := work(ctx, in.Graph, s)
				return &run.Outcome{Plan: p, Stopped: ctx.Err() != nil}, tooLarge(err)
			},
		}
	}
	return []*run.Method{
		onGraph("chen", "Chen et al. 2016, Checkmate §3", "keeps only the tensors at which the graph can be cut; the best number of segments that fits", "O(n²)",
			func(ctx context.Context, g *graph.Graph, s run.Setting) (*plan.Plan, error) {
				return rematgraph.Chen(ctx, g, s.Platform)
			}),
		onGraph("linearised", "[004] 2.1, Thm 6", "cuts the graph into a chain and expands its best persistent plan", "as persistent",
			func(ctx context.Context, g *graph.Graph, s run.Setting) (*plan.Plan, error) {
				return rematgraph.Linearised(ctx, g, s.Platform)
			}),
		onGraph("search", "ours", "local search over what is retained in each stage, from the best of the others", "O(n²) a move at worst",
			func(ctx context.Context, g *graph.Graph, s run.Setting) (*plan.Plan, error) {
				return rematgraph.Search(ctx, g, s.Platform, uint64(s.Seed), searchRounds)
			}),
	}
}
