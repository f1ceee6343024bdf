package checkmate

import (
	"workbench/ilp/formulation"
	"workbench/model/plan"
)

// checkmateFormulations returns the formulations of rematerialization on graphs, from the simplest on.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "checkmate", Problem: plan.Remat, Promise: formulation.Equal, Staged: true,
			Title: "any graph, for first computations in its order, in stages", Source: "Checkmate (1)–(9)",
			BuildGraph: Printed,
		},
		{
			Name: "checkmate-strong", Problem: plan.Remat, Promise: formulation.Equal, Staged: true,
			Title: "the same with liveness in place of FREE and U", Source: "Checkmate (1), (8); ours",
			BuildGraph: Strong,
		},
	}
}
