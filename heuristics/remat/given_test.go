package remat

import (
	"context"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// FloatingSlotsPrinted is FloatingSlots by [004] (2.6) as printed. The plan may
// need more memory than there is, and its makespan is no bound on anything.
func FloatingSlotsPrinted(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	k, err := floatingSlotsCurve(ctx, "floating-slots-printed", c, p.Memory, slots, true)
	if err != nil {
		return nil, err
	}
	return k.plan(p)
}
