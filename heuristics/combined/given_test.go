package combined

import (
	"context"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// POFO is the plan of [POFOClaim].
func POFO(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	_, out, err := POFOClaim(ctx, c, p, slots)
	return out, err
}

// OffloadAll is the plan of offloadAll.
func OffloadAll(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s, err := in.offloadAll()
	if err != nil {
		return nil, err
	}
	return s.Plan("offload-all")
}
