package platform

import "math"

// Excess returns (objective − bound) / |objective|, by which an objective that is minimised exceeds a number, as a fraction: 0 where
// both are equal, negative where the objective is below, infinite where the bound is.
func Excess(objective, bound float64) float64 {
	if objective == bound {
		return 0
	}
	return (objective - bound) / math.Max(math.Abs(objective), 1e-300)
}

// Gap returns the optimality gap of an objective that is minimised and a lower bound, a fraction: [Excess], but 0 where the
// objective is below the bound, as it may be by rounding. The one definition of a gap in this program.
func Gap(objective, bound float64) float64 { return max(0, Excess(objective, bound)) }

// Closed reports whether the gap of an objective and a lower bound is at most a tolerance. It is false where the objective is
// infinite: there is no plan. Solvers have absolute gaps, too, and maximise: see solvers.Problem.Closed.
func Closed(objective, bound, tolerance float64) bool { return Excess(objective, bound) <= tolerance }
