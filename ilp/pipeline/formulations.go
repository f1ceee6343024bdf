// Package pipeline holds the formulations of asynchronous pipelined model parallelism, [004] chapter 6.
package pipeline

import (
	"encoding/json"
	"fmt"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Names of the formulations.
const (
	printedName  = "pipeline-printed"
	closedName   = "pipeline-closed"
	patternsName = "pipeline"
	strongName   = "pipeline-strong"
)

// MemoryOption is the option that all these formulations share: the memory model, plan.StageModel or
// plan.TaskModel; "" means the latter. Every program records it, because a bound under one model is no bound under
// the other.
type MemoryOption struct {
	MemoryModel string `json:"memory_model"`
}

// options encodes the options of a program.
func options(name string, o any) (json.RawMessage, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("%w: the options of %s: %w", formulation.ErrInstance, name, err)
	}
	return text, nil
}

// memoryOptions returns the options of a program whose only option is the memory model.
func memoryOptions(model string) json.RawMessage {
	return json.RawMessage(`{"memory_model":"` + model + `"}`)
}

// inTasks returns the builder of a formulation that is restricted to the task model.
func inTasks(build func(*chain.Chain, platform.Platform) (*formulation.Program, error)) formulation.Build {
	return formulation.WithOptions(func(c *chain.Chain, p platform.Platform, o MemoryOption) (*formulation.Program, error) {
		if o.MemoryModel != "" && o.MemoryModel != plan.TaskModel {
			return nil, fmt.Errorf("%w: it is of memory_model %s, the options say %q", formulation.ErrInstance, plan.TaskModel, o.MemoryModel)
		}
		return build(c, p)
	})
}

// Formulations returns the formulations of pipelined model parallelism, from the smallest to the strongest.
func Formulations() []formulation.Formulation {
	return []formulation.Formulation{
		{
			Name: printedName, Problem: plan.Pipeline, Promise: formulation.Nothing,
			Title: "the ILP of chapter 6, exactly as printed", Source: "[004] (6.1)–(6.36)",
			Kind: chain.Kind, Build: inTasks(Printed),
		},
		{
			Name: closedName, Problem: plan.Pipeline, Promise: formulation.LowerBound,
			Title: "bounds in closed form, for chains of any length", Source: "[004] 5.1.1; ours",
			Kind: chain.Kind, Build: formulation.WithOptions(Closed),
		},
		{
			Name: patternsName, Problem: plan.Pipeline, Promise: formulation.Equal,
			Title: "allocations and 1-periodic patterns, task model of memory", Source: "[004] (6.1)–(6.36), findings 15",
			Kind: chain.Kind, Build: inTasks(Patterns),
		},
		{
			Name: strongName, Problem: plan.Pipeline, Promise: formulation.Equal,
			Title: "the same, strengthened", Source: "[004] (6.1)–(6.36), findings 15; ours",
			Extra: pipelineCuts,
			Kind:  chain.Kind, Build: formulation.WithOptions(Strong),
		},
	}
}
