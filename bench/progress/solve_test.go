package progress

import (
	"math"
	"strings"
	"testing"

	"workbench/bench/solve"
)

// A phase that begins anew knows less than the one before; the line does not.
func TestProgressNeverGoesBackwards(t *testing.T) {
	var out strings.Builder
	s := NewSolve(&out, &solve.Problem{})
	for _, p := range []solve.Progress{
		{Phase: "greedy", Objective: 5, Bound: 1},
		{Phase: "search", Objective: 4, Bound: math.Inf(-1)},
		{Phase: "milp", Objective: math.NaN(), Bound: 2},
		{Phase: "tree", Objective: 6, Bound: math.NaN()},
	} {
		s.Update(p)
	}
	if s.best.Objective != 4 || s.best.Bound != 2 {
		t.Errorf("%+v is known, want 4 and 2", s.best)
	}
}
