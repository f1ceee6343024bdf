// Package pipeline has the formulations of pipelined model parallelism, [004]
// chapter 6.
package pipeline

import (
	"encoding/json"
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Names of the formulations.
const (
	printedName    = "pipeline-printed"
	allocationName = "pipeline-allocation"
	patternsName   = "pipeline"
	strongName     = "pipeline-strong"
)

// Rebuild makes a program of this package again, given its Formulation and its
// Options: the very same model.
func Rebuild(name string, c *chain.Chain, p platform.Platform, options json.RawMessage) (*formulation.Program, error) {
	if name == allocationName {
		var o AllocationOptions
		if err := formulation.ReadOptions(name, options, &o); err != nil {
			return nil, err
		}
		return AllocationsWith(c, p, o)
	}
	if err := formulation.ReadOptions(name, options, nil); err != nil {
		return nil, err
	}
	switch name {
	case printedName:
		return Printed(c, p)
	case patternsName:
		return Patterns(c, p)
	case strongName:
		return Strong(c, p)
	}
	return nil, fmt.Errorf("%w: there is no formulation %q of pipelines", formulation.ErrInstance, name)
}

// Formulations returns the formulations of pipelined model parallelism, from the simplest on.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: printedName, Problem: plan.Pipeline, Promise: formulation.Nothing,
			Title: "the ILP of chapter 6, exactly as printed", Source: "[004] (6.1)–(6.36)",
			Build: Printed,
		},
		{
			Name: allocationName, Problem: plan.Pipeline, Promise: formulation.LowerBound,
			Title: "allocations without patterns", Source: "ours",
			Extra: []string{"all loads"},
			Build: Allocations,
		},
		{
			Name: patternsName, Problem: plan.Pipeline, Promise: formulation.Equal,
			Title: "allocations and 1-periodic patterns, task model of memory", Source: "[004] (6.1)–(6.36), findings 8, 9",
			Build: Patterns,
		},
		{
			Name: strongName, Problem: plan.Pipeline, Promise: formulation.Equal,
			Title: "the same, strengthened", Source: "[004] (6.1)–(6.36), findings 8, 9; ours",
			Extra: pipelineCuts, Build: Strong,
		},
	}
}
