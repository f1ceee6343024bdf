package weightoffload

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
)

// Formulations returns the formulations of weight offloading, from the simplest on.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "weights-printed", Problem: plan.WeightOffload, Promise: formulation.Nothing,
			Title: "the lower bound of the paper, exactly as printed", Source: "[001] (2)–(8)",
			Kind: chain.Kind, Build: formulation.Without(Printed),
		},
		{
			Name: "weights-printed-memory", Problem: plan.WeightOffload, Promise: formulation.Nothing,
			Title: "the lower bound of the paper, (4) as printed, (6) corrected", Source: "[001] (2)–(8), findings 1",
			Kind: chain.Kind, Build: formulation.Without(PrintedMemory),
		},
		{
			Name: "weights", Problem: plan.WeightOffload, Promise: formulation.LowerBound,
			Title: "the lower bound of the paper, (4) and (6) corrected", Source: "[001] (2)–(8), findings 1",
			Kind: chain.Kind, Build: formulation.Without(Paper),
		},
		{
			Name: "weights-nested", Problem: plan.WeightOffload, Promise: formulation.LowerBound,
			Title: "the same in O(L) columns, strengthened", Source: "[001] (2)–(8), findings 1; ours",
			Extra: []string{"whole weights", "arrival", "there and back", "in flight"},
			Kind:  chain.Kind, Build: formulation.Without(Nested),
		},
		{
			Name: "weights-exact", Problem: plan.WeightOffload, Promise: formulation.Equal,
			Title: fmt.Sprintf("the problem as it is, up to %d layers", ExactLayers), Source: "the rules; ours",
			Extra: []string{"loads"},
			Kind:  chain.Kind, Build: formulation.Without(Exact),
		},
	}
}
