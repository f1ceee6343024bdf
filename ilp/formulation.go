package ilp

import (
	"fmt"

	"workbench/model/plan"
)

// Promise is what the optimum of a formulation is to the optimum of its
// problem.
type Promise uint8

const (
	// Nothing: kept because a paper has it. Its optimum proves nothing.
	Nothing Promise = iota
	// LowerBound: at most the optimum. So is every bound on it that a solver
	// proves, and that of its LP relaxation.
	LowerBound
	// Equal: the optimum itself, and its solutions make plans that have it.
	Equal
)

func (p Promise) String() string {
	switch p {
	case Nothing:
		return "no promise"
	case LowerBound:
		return "lower bound"
	case Equal:
		return "exact"
	}
	return fmt.Sprintf("Promise(%d)", uint8(p))
}

// Formulation is one entry of the table of formulations.
type Formulation struct {
	Name    string
	Problem string
	Title   string
	Source  string
	Promise Promise
	// Staged says that the promise is about the schedules of Checkmate alone:
	// first computations in the order of the graph, and between two of them
	// every node computed once at most, in that order.
	Staged bool
	// Extra are the constraint groups beyond the source's, that can be left
	// out one by one to see what they are worth: milp.Model.Without.
	Extra []string
	// Build takes chains, BuildGraph graphs, BuildFunctions sequences of
	// functions; the other two are nil.
	Build          Builder
	BuildGraph     GraphBuilder
	BuildFunctions FunctionsBuilder
}

// Formulations returns the table of formulations, by problem and from the
// simplest on.
func Formulations() []Formulation {
	return []Formulation{
		{
			Name: "weights-printed", Problem: plan.WeightOffload, Promise: Nothing,
			Title: "the lower bound of the paper, exactly as printed", Source: "[001] (2)–(8)",
			Build: WeightsPrinted,
		},
		{
			Name: "weights-printed-memory", Problem: plan.WeightOffload, Promise: Nothing,
			Title: "the lower bound of the paper, (4) as printed, (6) corrected", Source: "[001] (2)–(8), findings 1",
			Build: WeightsPrintedMemory,
		},
		{
			Name: "weights", Problem: plan.WeightOffload, Promise: LowerBound,
			Title: "the lower bound of the paper, (4) and (6) corrected", Source: "[001] (2)–(8), findings 1",
			Build: Weights,
		},
		{
			Name: "weights-nested", Problem: plan.WeightOffload, Promise: LowerBound,
			Title: "the same in O(L) columns, strengthened", Source: "[001] (2)–(8), findings 1; ours",
			Extra: []string{"whole weights", "arrival", "there and back", "in flight"},
			Build: WeightsNested,
		},
		{
			Name: "weights-exact", Problem: plan.WeightOffload, Promise: Equal,
			Title: fmt.Sprintf("the problem as it is, up to %d layers", ExactLayers), Source: "the rules; ours",
			Extra: []string{"loads"},
			Build: WeightsExact,
		},
		{
			Name: "chain-milp-bound", Problem: plan.Remat, Promise: LowerBound,
			Title: "chains, a and abar, memory limited during backwards only", Source: "ours",
			Extra: []string{"abar stays", "a is read", "too large", "one sweep"},
			Build: ChainBound,
		},
		{
			Name: "chain-milp", Problem: plan.Remat, Promise: Equal,
			Title: fmt.Sprintf("chains, a and abar; forwards beyond %d layers in ascending order", shortChain), Source: "the rules; ours",
			Extra: []string{"abar stays", "a is read", "too large"},
			Build: ChainMILP,
		},
		{
			Name: "checkmate", Problem: plan.Remat, Promise: Equal, Staged: true,
			Title: "any graph, for first computations in its order, in stages", Source: "Checkmate (1)–(9)",
			BuildGraph: Checkmate,
		},
		{
			Name: "checkmate-strong", Problem: plan.Remat, Promise: Equal, Staged: true,
			Title: "the same with liveness in place of FREE and U", Source: "Checkmate (1), (8); ours",
			BuildGraph: CheckmateStrong,
		},
		{
			Name: "offload", Problem: plan.ActivationOffload, Promise: LowerBound,
			Title: "amounts per interval, whole tensors in binaries", Source: "[001] §6 in spirit; ours",
			Extra: []string{"equal tensors", "no idle"},
			Build: Offload,
		},
		{
			Name: "offload-exact", Problem: plan.ActivationOffload, Promise: Equal,
			Title: fmt.Sprintf("the problem as it is, up to %d layers", OffloadExactLayers), Source: "the rules; ours",
			Build: OffloadExact,
		},
		{
			Name: "remat-offload", Problem: plan.RematOffload, Promise: LowerBound,
			Title: "recomputation and paging in stages, memory limited at first forwards and backwards", Source: "POET in spirit; ours",
			Build: RematOffload,
		},
		{
			Name: "swap", Problem: plan.Swap, Promise: LowerBound,
			Title: "amounts per interval, whole variables in binaries", Source: "[001] §6 in spirit; ours",
			BuildFunctions: SwapMILP,
		},
		{
			Name: "pipeline-printed", Problem: plan.Pipeline, Promise: Nothing,
			Title: "the ILP of chapter 6, exactly as printed", Source: "[004] (6.1)–(6.36)",
			Build: PipelinePrinted,
		},
		{
			Name: "pipeline-allocation", Problem: plan.Pipeline, Promise: LowerBound,
			Title: "allocations without patterns", Source: "ours",
			Extra: []string{"all loads"},
			Build: PipelineAllocation,
		},
		{
			Name: "pipeline", Problem: plan.Pipeline, Promise: Equal,
			Title: "allocations and 1-periodic patterns, task model of memory", Source: "[004] (6.1)–(6.36), findings 8, 9",
			Build: PipelineILP,
		},
		{
			Name: "pipeline-strong", Problem: plan.Pipeline, Promise: Equal,
			Title: "the same, strengthened", Source: "[004] (6.1)–(6.36), findings 8, 9; ours",
			Extra: pipelineCuts, Build: PipelineStrong,
		},
	}
}
