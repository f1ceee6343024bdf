package platform

import "math"

// Gap returns the optimality gap (objective − bound) / |objective| of an objective that
// is minimised, a fraction: 0 where both are equal, negative where the objective is below
// the bound, infinite where that is. The one definition of a gap in this program.
func Gap(objective, bound float64) float64 {
	if objective == bound {
		return 0
	}
	return (objective - bound) / math.Max(math.Abs(objective), 1e-300)
}
