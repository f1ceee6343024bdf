package placement

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
)

// Formulations returns the formulations of placement, from the smallest to the strongest.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "placement-load", Problem: plan.Placement, Promise: formulation.LowerBound,
			Title: "what is alive together", Source: "folklore",
			Kind: lifetimes.Kind, Build: formulation.Without(Load),
		},
		{
			Name: "placement-orders", Problem: plan.Placement, Promise: formulation.Equal,
			Title: "an order of each pair alive together", Source: "Sekiyama et al. 2018 (1)-(6)",
			Kind: lifetimes.Kind, Build: formulation.Without(Orders),
		},
		{
			Name: "placement-cliques", Problem: plan.Placement, Promise: formulation.Equal,
			Title: "orders of pairs, stacked in each section", Source: "ours, after Queyranne and Schulz 1994",
			Extra: []string{"load", "under", "over", "cycles", "twins", "turan"},
			Kind:  lifetimes.Kind, Build: formulation.Without(Cliques),
		},
	}
}
