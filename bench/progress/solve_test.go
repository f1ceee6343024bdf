package progress

import (
	"math"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
)

// A phase that begins anew knows less than the one before; the line does not.
func TestProgressNeverGoesBackwards(t *testing.T) {
	var out strings.Builder
	s := NewSolve(&out, &solve.Problem{}, 0)
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

// A terminal shows the time that is left, dim unless NO_COLOR is set.
func TestTimeLeft(t *testing.T) {
	line := func() string {
		var out strings.Builder
		s := NewSolve(&out, &solve.Problem{}, time.Hour)
		s.tty = true
		s.print(solve.Progress{Phase: "search", Objective: 5, Bound: 4})
		return out.String()
	}
	t.Setenv("NO_COLOR", "")
	if got := line(); !strings.Contains(got, " (at most 3") || !strings.Contains(got, "s left)  search") || !strings.Contains(got, "\033[2m") {
		t.Errorf("%q", got)
	}
	t.Setenv("NO_COLOR", "1")
	if got := line(); strings.Contains(got, "\033[2m") {
		t.Errorf("%q has a colour", got)
	}
}
