package rematoffload

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
)

// Formulations returns the formulations of rematerialization with offloading, from the smallest to the strongest.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "remat-offload", Problem: plan.RematOffload, Promise: formulation.LowerBound,
			Title: "recomputation and paging in stages, memory limited at first forwards and backwards", Source: "POET in spirit; ours",
			Extra: []string{groupSentOrAgain},
			Kind:  chain.Kind, Build: formulation.Without(Stages),
		},
	}
}
