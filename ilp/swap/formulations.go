package swap

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/functions"
	"workbench/model/plan"
)

// Formulations returns the formulations of out-of-core swapping, from the smallest to the strongest.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "swap", Problem: plan.Swap, Promise: formulation.LowerBound,
			Title: "amounts per interval, whole variables in binaries", Source: "[001] §6 in spirit; ours",
			Kind: functions.Kind, Build: formulation.Without(Amounts),
		},
	}
}
