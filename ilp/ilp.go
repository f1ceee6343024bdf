// Package ilp is the table of the MILP formulations. Its packages, one a problem,
// have a file for each: built from an instance with model/milp, solved through the
// interface solvers.Backend, turned into a proven bound or a plan. Plans are timed
// anew from the integer decisions of a solution; no time of a plan is ever a
// number that a solver computed.
package ilp

import (
	"encoding/json"
	"fmt"
	"slices"

	"workbench/ilp/checkmate"
	"workbench/ilp/formulation"
	"workbench/ilp/offload"
	"workbench/ilp/pipeline"
	"workbench/ilp/remat"
	"workbench/ilp/rematoffload"
	"workbench/ilp/swap"
	"workbench/ilp/weights"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Formulations returns the table of formulations, by problem and from the
// simplest on.
func Formulations() []formulation.Formulation {
	return slices.Concat(
		weights.Formulations(), remat.Formulations(), checkmate.Formulations(), offload.Formulations(),
		rematoffload.Formulations(), swap.Formulations(), pipeline.Formulations(),
	)
}

// Rebuild makes the program again that a formulation of that name made of an
// instance and options: the very same model, as a certificate of it needs.
func Rebuild(name string, in plan.Instance, p platform.Platform, options json.RawMessage) (*formulation.Program, error) {
	list := Formulations()
	k := slices.IndexFunc(list, func(f formulation.Formulation) bool { return f.Name == name })
	if k < 0 {
		return nil, fmt.Errorf("%w: there is no formulation %q", formulation.ErrInstance, name)
	}
	f := list[k]
	switch {
	case f.BuildGraph != nil && in.Graph != nil:
		return checkmate.Rebuild(name, in.Graph, p, options)
	case f.Problem == plan.Remat && in.Chain != nil:
		return remat.Build(name, in.Chain, p, options)
	case f.Problem == plan.Pipeline && in.Chain != nil:
		return pipeline.Rebuild(name, in.Chain, p, options)
	}
	if err := formulation.ReadOptions(name, options, nil); err != nil {
		return nil, err
	}
	switch {
	case f.Build != nil && in.Chain != nil:
		return f.Build(in.Chain, p)
	case f.BuildFunctions != nil && in.Functions != nil:
		return f.BuildFunctions(in.Functions, p)
	}
	return nil, fmt.Errorf("%w: %s is not about a %s", formulation.ErrInstance, name, in.Kind())
}
