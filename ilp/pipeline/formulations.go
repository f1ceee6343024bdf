package pipeline

import (
	"workbench/ilp/formulation"
	"workbench/model/plan"
)

// pipelineFormulations returns the formulations of pipelined model parallelism, from the simplest on.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: "pipeline-printed", Problem: plan.Pipeline, Promise: formulation.Nothing,
			Title: "the ILP of chapter 6, exactly as printed", Source: "[004] (6.1)–(6.36)",
			Build: Printed,
		},
		{
			Name: "pipeline-allocation", Problem: plan.Pipeline, Promise: formulation.LowerBound,
			Title: "allocations without patterns", Source: "ours",
			Extra: []string{"all loads"},
			Build: Allocations,
		},
		{
			Name: "pipeline", Problem: plan.Pipeline, Promise: formulation.Equal,
			Title: "allocations and 1-periodic patterns, task model of memory", Source: "[004] (6.1)–(6.36), findings 8, 9",
			Build: Patterns,
		},
		{
			Name: "pipeline-strong", Problem: plan.Pipeline, Promise: formulation.Equal,
			Title: "the same, strengthened", Source: "[004] (6.1)–(6.36), findings 8, 9; ours",
			Extra: pipelineCuts, Build: Strong,
		},
	}
}
