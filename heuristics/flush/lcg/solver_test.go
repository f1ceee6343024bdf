package lcg_test

import (
	"testing"

	"workbench/heuristics/flush/lcg"
)

// Two starts, each after the other, raise each other's bounds by one a step: a short horizon refutes them, and for a long one
// the solver gives up where it took minutes before.
func TestLongCyclesAreGivenUp(t *testing.T) {
	for horizon, want := range map[int]lcg.Verdict{100: lcg.Infeasible, 100_000_000: lcg.Unknown} {
		s := lcg.New()
		x, y, first := s.Var(0, horizon), s.Var(0, horizon), s.Bool(true, 1)
		s.Difference(x, y, 1, nil)
		s.Difference(y, x, 1, &first)
		other := first.Not()
		s.Difference(y, x, 1, &other)
		for range 2 {
			if got := s.Solve(t.Context(), 1000); got != want {
				t.Errorf("horizon %d: verdict %v, want %v", horizon, got, want)
			}
		}
	}
}
