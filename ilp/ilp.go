// Package ilp is the table of the MILP formulations. Its packages, one a problem,
// have a file for each: built from an instance with model/milp, solved through the
// interface solvers.Backend, turned into a proven bound or a plan. Plans are timed
// anew from the integer decisions of a solution; no time of a plan is ever a
// number that a solver computed.
package ilp

import (
	"encoding/json"
	"slices"

	"workbench/ilp/activationoffload"
	"workbench/ilp/flush"
	"workbench/ilp/formulation"
	"workbench/ilp/pipeline"
	"workbench/ilp/placement"
	"workbench/ilp/remat"
	"workbench/ilp/rematgraph"
	"workbench/ilp/rematoffload"
	"workbench/ilp/swap"
	"workbench/ilp/weightoffload"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Formulations returns the table of formulations, by problem and from the
// simplest on.
func Formulations() []formulation.Formulation {
	return slices.Concat(
		weightoffload.Formulations(), remat.Formulations(), rematgraph.Formulations(), activationoffload.Formulations(),
		rematoffload.Formulations(), swap.Formulations(), pipeline.Formulations(), flush.Formulations(), placement.Formulations(),
	)
}

// Rebuild makes the program again that a formulation of that name made of an
// instance and options: the very same model, as a certificate of it needs.
func Rebuild(name string, in plan.Instance, p platform.Platform, options json.RawMessage) (*formulation.Program, error) {
	return formulation.Rebuild(Formulations(), name, in, p, options)
}
