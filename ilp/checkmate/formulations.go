// Package checkmate has the formulations of rematerialization on graphs: the one
// of Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor
// Rematerialization", MLSys 2020, as printed, and ours, which is stronger.
//
// Sizes enter rows as numbers that solvers can tell apart, see memoryRows and
// grain; times are scaled by a power of two. In exact arithmetic every model
// is a relaxation of the problem of the file, or the problem itself.
package checkmate

import (
	"encoding/json"
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Names of the formulations.
const (
	printedName = "checkmate"
	strongName  = "checkmate-strong"
	besideName  = "checkmate-beside"
)

// Formulations returns the formulations of the package, the simpler one first.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: besideName, Problem: plan.Remat, Promise: formulation.LowerBound,
			Title: "what does not fit in memory beside one node is computed again", Source: "ours",
			BuildGraph: Beside,
		},
		{
			Name: printedName, Problem: plan.Remat, Promise: formulation.Equal, Staged: true,
			Title: "any graph, for first computations in its order, in stages", Source: "Checkmate (1)–(9)",
			BuildGraph: Printed,
		},
		{
			Name: strongName, Problem: plan.Remat, Promise: formulation.Equal, Staged: true,
			Title: "the same with liveness in place of FREE and U", Source: "Checkmate (1), (8); ours",
			BuildGraph: Strong,
		},
	}
}

// Rebuild makes a program of this package again, given its Formulation and its
// Options: the very same model.
func Rebuild(name string, g *graph.Graph, p platform.Platform, options json.RawMessage) (*formulation.Program, error) {
	switch name {
	case printedName:
		if err := formulation.ReadOptions(name, options, nil); err != nil {
			return nil, err
		}
		return Printed(g, p)
	case strongName:
		var o Options
		if err := formulation.ReadOptions(name, options, &o); err != nil {
			return nil, err
		}
		return With(g, p, o)
	case besideName:
		var o besideOptions
		if err := formulation.ReadOptions(name, options, &o); err != nil {
			return nil, err
		}
		in, err := newInstance(g, p)
		if err != nil {
			return nil, err
		}
		if o.Node < 0 || o.Node >= in.n {
			return nil, fmt.Errorf("%w: options of %s: there is no node %d", formulation.ErrInstance, name, o.Node)
		}
		return in.beside(o.Node), nil
	}
	return nil, fmt.Errorf("%w: no formulation %q of graphs", formulation.ErrInstance, name)
}
