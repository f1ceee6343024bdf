package flush

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Formulations returns the formulations of synchronous pipeline schedules, from the smallest to the strongest.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "flush-bounds", Problem: plan.Flush, Promise: formulation.LowerBound,
			Title: "the bounds in closed form", Source: "ours",
			Kind: stages.Kind, Build: formulation.Without(Bounds),
		},
		{
			Name: "flush-orders", Problem: plan.Flush, Promise: formulation.Equal,
			Title: "an order of each pair of operations on a GPU", Source: "Qi et al. 2024, App. G",
			Kind: stages.Kind, Build: formulation.Without(Orders),
		},
		{
			Name: "flush-places", Problem: plan.Flush, Promise: formulation.Equal,
			Title: "orders, with what comes before and after each operation", Source: "ours, after Queyranne and Schulz 1994",
			Extra: []string{"closed", "before", "after", "monotone"},
			Kind:  stages.Kind, Build: formulation.Without(Places),
		},
	}
}

// Phases returns the phases of a solve: first the closed-form bounds, then the MILP with machine rows. The first
// phase has one column and suffices where a plan attains these bounds.
func Phases(in *stages.Partition, p platform.Platform) formulation.Next {
	solved := 0
	return func(*formulation.Result) (*formulation.Phase, error) {
		solved++
		switch solved {
		case 1:
			program, err := Bounds(in, p)
			return &formulation.Phase{Program: program, Relax: true}, err
		case 2:
			program, err := Places(in, p)
			return &formulation.Phase{Program: program}, err
		}
		return nil, nil
	}
}
