package exhaustive

import (
	"fmt"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Pipeline returns the best 1-periodic pattern over all allocations.
func Pipeline(c *chain.Chain, m platform.Platform, model string, limit int) (float64, *plan.Plan, error) {
	return 0, nil, fmt.Errorf("%w: %q", plan.ErrProblem, plan.Pipeline)
}

// PipelineOn returns the best k-periodic pattern of an allocation.
func PipelineOn(c *chain.Chain, m platform.Platform, allocation []plan.Stage, model string, k, limit int) (float64, *plan.Plan, error) {
	return 0, nil, fmt.Errorf("%w: %q", plan.ErrProblem, plan.Pipeline)
}
