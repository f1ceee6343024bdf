package activationoffload

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
)

// Method is the method name of plans from solutions.
const Method = "offload-milp"

// Formulations returns the formulations of activation offloading, from the simplest on.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "offload", Problem: plan.ActivationOffload, Promise: formulation.LowerBound,
			Title: "amounts per interval, whole tensors in binaries", Source: "[001] §6 in spirit; ours",
			Extra: []string{"equal tensors", "no idle"},
			Kind:  chain.Kind, Build: formulation.Without(Amounts),
		},
		{
			Name: "offload-exact", Problem: plan.ActivationOffload, Promise: formulation.Equal,
			Title: fmt.Sprintf("the problem as it is, up to %d layers", ExactLayers), Source: "the rules; ours",
			Kind: chain.Kind, Build: formulation.Without(Exact),
		},
	}
}
