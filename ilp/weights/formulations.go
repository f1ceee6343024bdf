package weights

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/plan"
)

// weightsFormulations returns the formulations of weight offloading, from the simplest on.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "weights-printed", Problem: plan.WeightOffload, Promise: formulation.Nothing,
			Title: "the lower bound of the paper, exactly as printed", Source: "[001] (2)–(8)",
			Build: Printed,
		},
		{
			Name: "weights-printed-memory", Problem: plan.WeightOffload, Promise: formulation.Nothing,
			Title: "the lower bound of the paper, (4) as printed, (6) corrected", Source: "[001] (2)–(8), findings 1",
			Build: PrintedMemory,
		},
		{
			Name: "weights", Problem: plan.WeightOffload, Promise: formulation.LowerBound,
			Title: "the lower bound of the paper, (4) and (6) corrected", Source: "[001] (2)–(8), findings 1",
			Build: Paper,
		},
		{
			Name: "weights-nested", Problem: plan.WeightOffload, Promise: formulation.LowerBound,
			Title: "the same in O(L) columns, strengthened", Source: "[001] (2)–(8), findings 1; ours",
			Extra: []string{"whole weights", "arrival", "there and back", "in flight"},
			Build: Nested,
		},
		{
			Name: "weights-exact", Problem: plan.WeightOffload, Promise: formulation.Equal,
			Title: fmt.Sprintf("the problem as it is, up to %d layers", ExactLayers), Source: "the rules; ours",
			Extra: []string{"loads"},
			Build: Exact,
		},
	}
}
