package remat

import (
	"context"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Revolve returns the fastest plan of automatic differentiation adapted to networks ([004] 2.4.4,
// after Griewank and Walther): only outputs a are ever kept, persistently, and F_all runs right
// before each backward. So it is Theorem 6 without C_1, and every layer but the last is computed at
// least twice. Errors and complexity as of [Persistent].
func Revolve(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return solveExact(ctx, "revolve", c, p, 0)
}

// RevolveCurve returns the trade-off between memory and makespan of [Revolve] up to most bytes.
func RevolveCurve(ctx context.Context, c *chain.Chain, most float64) (*Curve, error) {
	return newCurve(ctx, "revolve", c, most, 0)
}
