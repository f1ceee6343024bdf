package method

import (
	"context"
	"errors"
	"fmt"
	"math"

	"workbench/bench/solve"
	"workbench/heuristics/rematgraph"
	"workbench/ilp/formulation"
	"workbench/ilp/knapsack"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	problemrematgraph "workbench/model/problem/rematgraph"
)

// searchRounds is the patience of the search: seconds on ResNet-50.
const searchRounds = 3000

// isGraph reports whether the problem on an instance is that of graphs.
func isGraph(in *solve.Instance) bool { return in.Kind() == graph.Kind || in.Kind() == training.Kind }

// graphOf returns the graph of an instance that is a chain, made once, whose
// searches end when those of the instance do.
func graphOf(in *solve.Instance) *solve.Instance {
	type key struct{}
	g := solve.Memo(in, key{}, func() *solve.Instance {
		return &solve.Instance{Instance: graph.FromChain(in.Chain()), Name: in.Name, SHA256: in.SHA256, Source: in.Source}
	})
	g.Stop = in.Stop
	return g
}

// viewOf is the key of graphView.
type viewOf struct{}

// madeView is what graphView remembers.
type madeView struct {
	*problemrematgraph.View
	err error
}

// graphView returns the view of an instance that is a graph, made once.
func graphView(in *solve.Instance) (*problemrematgraph.View, error) {
	made := solve.Memo(in, viewOf{}, func() (made madeView) {
		if made.View, made.err = problemrematgraph.New(in.Instance); made.err == nil {
			made.Stopped = func() bool { return in.Stop.Given() }
		}
		return made
	})
	return made.View, made.err
}

// limitedView adapts a method of graphs that knows the platform only.
func limitedView(work func(context.Context, *problemrematgraph.View, platform.Platform) (*plan.Plan, error)) planner {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
		v, err := graphView(in)
		if err != nil {
			return nil, err
		}
		return work(ctx, v, s.Platform)
	}
}

// seededView adapts a search on graphs, of searchRounds rounds.
func seededView(work func(context.Context, *problemrematgraph.View, platform.Platform, uint64, int) (*plan.Plan, error)) planner {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
		return limitedView(func(ctx context.Context, v *problemrematgraph.View, p platform.Platform) (*plan.Plan, error) {
			return work(ctx, v, p, uint64(s.Seed), searchRounds)
		})(ctx, in, s)
	}
}

// minCut and withinBudget are PyTorch's partitioner, of one look and of 101 budgets.
func minCut(aggressive bool) planner {
	return limitedView(func(_ context.Context, v *problemrematgraph.View, p platform.Platform) (*plan.Plan, error) {
		return rematgraph.MinCut(v, p, aggressive)
	})
}

func withinBudget(name string, knapsack rematgraph.Knapsack) planner {
	return limitedView(func(ctx context.Context, v *problemrematgraph.View, p platform.Platform) (*plan.Plan, error) {
		return rematgraph.WithinBudget(ctx, name, v, p, knapsack)
	})
}

// GraphMethods is the table of methods for rematerialization of graphs.
func GraphMethods() []*solve.Method {
	onGraph := func(name, source, summary, complexity string, work planner) *solve.Method {
		m := heuristic(name, source, summary, complexity, work)
		m.Takes = []string{graph.Kind, training.Kind}
		return m
	}
	onStep := func(name, source, summary, complexity string, work planner) *solve.Method {
		m := heuristic(name, source, summary, complexity, work)
		m.Takes = []string{training.Kind} // graphs/v1 do not say what their nodes compute
		return m
	}
	return []*solve.Method{
		onGraph("chen", "Chen et al. 2016, Checkmate §3", "keeps only the tensors at which the graph can be cut; the best number of segments "+
			"that fits", "O(n²)", limitedView(rematgraph.Chen)),
		onGraph("linearised", "[004] 2.1, Thm 6", "cuts the graph into a chain and expands its best persistent plan", "as persistent",
			limitedView(rematgraph.Linearised)),
		onStep("min-cut", "PyTorch, AOTAutograd's default partitioner",
			"keeps the values of least bytes from which pointwise operations make all that the backward reads", "a maximum flow of 2n nodes",
			minCut(false)),
		onStep("min-cut-aggressive", "PyTorch, the same with aggressive_recomputation",
			"the same with all operations but products, convolutions, attention and random ones", "as min-cut", minCut(true)),
		onStep("knapsack-greedy", "PyTorch, activation_memory_budget, greedy",
			"min-cut, beside which products and what else is dear is saved as a budget allows: most time for its bytes first; the best of 101 "+
				"budgets by replay", "101 maximum flows", withinBudget("knapsack-greedy", rematgraph.KnapsackGreedy)),
		onStep("knapsack-dp", "PyTorch, activation_memory_budget, dp", "the same by a dynamic program over parts of 1/10000 of the budget",
			"101 maximum flows, O(10000·n)", withinBudget("knapsack-dp", rematgraph.KnapsackDP)),
		solved(onStep("knapsack-ilp", "PyTorch, activation_memory_budget, ilp", "the same by a MILP, to a gap of 1e-4",
			"101 maximum flows and MILPs of a row", nil), byKnapsacks),
		solved(onStep("layers-lp", "torchtitan, auto_sac_offload_solver without a link",
			"an LP says which part of what a layer saves is kept, all layers taking the same time, and a knapsack which nodes; the best of 101 "+
				"budgets by replay", "101 LPs of O(layers) rows, a MILP of a row for each of their distinct layers", nil), byLayers),
		solved(onStep("sac-ilp", "PyTorch, torch.distributed._tools.sac_ilp",
			"a MILP says which layers are checkpointed and which part of their activations they discard, and a knapsack which operations; the "+
				"best of 101 budgets by replay", "101 MILPs of O(layers) rows, one of a row for each of their distinct layers", nil), bySAC),
		onGraph("search", "ours", "local search over what is retained in each stage, from the best of the others", "O(n²) a move at worst",
			seededView(rematgraph.Search)),
		onGraph("repeat-search", "ours", "the same of a step with a dozen of the blocks that repeat, unrolled to all of them",
			"as search, of a dozen blocks", seededView(rematgraph.RepeatSearch)),
	}
}

// solved makes a method one that solves MILPs and LPs on its way to a plan; work writes
// them into the outcome.
func solved(m *solve.Method, work func(context.Context, *solve.Instance, *problemrematgraph.View, solve.Setting,
	*solve.Outcome) (*plan.Plan, error),
) *solve.Method {
	m.Solver = true
	m.Run = func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		v, err := graphView(in)
		if err != nil {
			return nil, err
		}
		out := &solve.Outcome{}
		out.Plan, err = work(ctx, in, v, s, out)
		out.Stopped = ctx.Err() != nil
		if errors.Is(err, plan.ErrNoPlan) && out.Model != nil {
			out.Note = err.Error() // what was solved is told, too
			err = nil
		}
		return out, userError(err)
	}
	return m
}

// byKnapsacks is the knapsack of PyTorch as a MILP.
func byKnapsacks(ctx context.Context, in *solve.Instance, v *problemrematgraph.View, s solve.Setting,
	out *solve.Outcome,
) (*plan.Plan, error) {
	return rematgraph.WithinBudget(ctx, "knapsack-ilp", v, s.Platform, knapsacks(ctx, in, s, out, scipyGap))
}

// byLayers is torchtitan's LP over layers.
func byLayers(ctx context.Context, in *solve.Instance, v *problemrematgraph.View, s solve.Setting, out *solve.Outcome) (*plan.Plan, error) {
	return rematgraph.ByLayers(ctx, "layers-lp", v, s.Platform, layers(ctx, in, s, out), knapsacks(ctx, in, s, out, scipyGap))
}

// layers solves the outer LP of torchtitan, beside a link if there is one.
func layers(ctx context.Context, in *solve.Instance, s solve.Setting, out *solve.Outcome) rematgraph.Layers {
	return func(b *training.Blocks, budget float64) (kept, sent []float64, err error) {
		program, err := knapsack.Layers(b, budget, s.Platform.Bandwidth)
		if err != nil {
			return nil, nil, err
		}
		x, err := choice(ctx, in, s, out, program, scipyGap)
		if err != nil {
			return nil, nil, err
		}
		if n := len(b.Saved); s.Platform.Bandwidth > 0 {
			sent = x[2*n : 3*n]
		}
		return x[:len(b.Saved)], sent, nil
	}
}

// bySAC is the MILP of PyTorch's selective activation checkpointing.
func bySAC(ctx context.Context, in *solve.Instance, v *problemrematgraph.View, s solve.Setting, out *solve.Outcome) (*plan.Plan, error) {
	outer := func(m *training.Modules, budget float64) ([]float64, error) {
		program, err := knapsack.SAC(m, budget)
		if err != nil {
			return nil, err
		}
		x, err := choice(ctx, in, s, out, program, sacGap)
		if err != nil {
			return nil, err
		}
		r := make([]float64, len(m.ACM))
		for i := range r {
			if x[i] > 0.5 {
				r[i] = math.Round(1e4*x[len(r)+i]) / 1e4 // as there
			}
		}
		return r, nil
	}
	return rematgraph.BySAC(ctx, "sac-ilp", v, s.Platform, outer, knapsacks(ctx, in, s, out, sacGap))
}

// knapsacks solves knapsacks as MILPs to a relative gap.
func knapsacks(ctx context.Context, in *solve.Instance, s solve.Setting, out *solve.Outcome, gap float64) rematgraph.Knapsack {
	return func(memory, time []float64) func(float64) ([]bool, error) {
		return func(budget float64) ([]bool, error) {
			program, err := knapsack.Program(memory, time, budget)
			if err != nil {
				return nil, err
			}
			x, err := choice(ctx, in, s, out, program, gap)
			if err != nil {
				return nil, err
			}
			saved := make([]bool, len(memory))
			for i := range saved {
				saved[i] = x[i] > 0.5
			}
			return saved, nil
		}
	}
}

// choice solves a program about a budget to a relative gap.
func choice(ctx context.Context, in *solve.Instance, s solve.Setting, out *solve.Outcome, program *formulation.Program,
	gap float64,
) ([]float64, error) {
	r, err := s.Task(in, "milp", nil).Run(ctx, formulation.Phases(&formulation.Phase{Program: program, Gap: gap}))
	if err != nil {
		return nil, err
	}
	out.AddResult(r)
	if r.X == nil {
		return nil, fmt.Errorf("%w: the solver has no choice for a budget: %v", plan.ErrNoPlan, r.Ended)
	}
	return r.X, nil
}

// Relative gaps: at which scipy.optimize.milp ends if nothing is said, and gapRel of sac_ilp.
const (
	scipyGap = 1e-4
	sacGap   = 0.05
)
