// Package rematgraph holds the formulations of rematerialization on graphs: that of Jain et al., "Checkmate:
// Breaking the Memory Wall with Optimal Tensor Rematerialization", MLSys 2020, as printed, and a stronger one.
//
// Sizes enter rows as numbers that solvers can distinguish, see memoryRows and grain; times are scaled by a power
// of two. In exact arithmetic every model is a relaxation of the problem of the file, or the problem itself.
package rematgraph

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/graph"
	"workbench/model/plan"
)

// Names of the formulations.
const (
	printedName = "checkmate"
	strongName  = "checkmate-strong"
	besideName  = "checkmate-beside"
	linkedName  = "training-beside"
	onceName    = "checkmate-once"
)

// Formulations returns the formulations of the package, the simpler one first.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: besideName, Problem: plan.Remat, Promise: formulation.LowerBound,
			Title: "values that do not fit in memory during one node are recomputed", Source: "ours",
			Kind: graph.Kind, Build: formulation.WithOptions(TimeBound),
		},
		linkedFormulation(),
		{
			Name: printedName, Problem: plan.Remat, Promise: formulation.Equal, Staged: true,
			Title: "any graph, for first computations in its order, in stages", Source: "Checkmate (1)–(9)",
			Kind: graph.Kind, Build: formulation.Without(Printed),
		},
		{
			Name: strongName, Problem: plan.Remat, Promise: formulation.Equal, Staged: true,
			Title: "the same with liveness in place of FREE and U", Source: "Checkmate (1), (8); ours",
			Kind: graph.Kind, Build: formulation.WithOptions(Strong),
		},
		{
			Name: onceName, Problem: plan.Remat, Promise: formulation.Restriction, Staged: true,
			Title: "the same, no node recomputed more than once", Source: "after Kusumoto et al. 2019; ours",
			Kind: graph.Kind, Build: formulation.Without(Once),
		},
	}
}
