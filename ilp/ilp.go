// Package ilp is the table of the MILP formulations. Its packages, one a problem,
// have a file for each: built from an instance with model/milp, solved through the
// interface solvers.Backend, turned into a proven bound or a plan. Plans are timed
// anew from the integer decisions of a solution; no time of a plan is ever a
// number that a solver computed.
package ilp

import (
	"slices"

	"workbench/ilp/checkmate"
	"workbench/ilp/formulation"
	"workbench/ilp/offload"
	"workbench/ilp/pipeline"
	"workbench/ilp/remat"
	"workbench/ilp/rematoffload"
	"workbench/ilp/swap"
	"workbench/ilp/weights"
)

// Formulations returns the table of formulations, by problem and from the
// simplest on.
func Formulations() []formulation.Formulation {
	return slices.Concat(
		weights.Formulations(), remat.Formulations(), checkmate.Formulations(), offload.Formulations(),
		rematoffload.Formulations(), swap.Formulations(), pipeline.Formulations(),
	)
}
