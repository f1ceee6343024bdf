package rematoffload

import (
	"context"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// POFO is the plan of [POFOClaim].
func POFO(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	_, out, err := POFOClaim(ctx, c, p, slots)
	return out, err
}
