// Package remat has the formulations of rematerialization on chains: [002] and
// [004] chapter 2 as a mixed-integer program.
package remat

import (
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
)

// Formulations returns the formulations of rematerialization on chains, from the simplest on.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: nameBound, Problem: plan.Remat, Promise: formulation.LowerBound,
			Title: "chains, a and abar, memory limited during backwards only", Source: "ours",
			Extra: []string{"abar stays", "a is read", "one sweep"},
			Kind:  chain.Kind, Build: formulation.WithOptions(Bound),
		},
		{
			Name: nameMILP, Problem: plan.Remat, Promise: formulation.Restriction, EqualTo: shortChain,
			Title: fmt.Sprintf("chains, a and abar; few sweeps of forwards: up to %d layers the optimum in all tests, beyond in ascending order",
				shortChain), Source: "the rules; ours",
			Extra: []string{"abar stays", "a is read"},
			Kind:  chain.Kind, Build: formulation.WithOptions(MILP),
		},
	}
}
