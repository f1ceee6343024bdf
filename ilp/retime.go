package ilp

import (
	"errors"
	"fmt"
	"math"
)

// A precedence is a difference constraint of a cyclic schedule: event to comes
// wait or more after event from of turns cycles before,
//
//	t[to] + turns·T − t[from] ≥ wait.
type precedence struct {
	from, to int
	wait     float64
	turns    int
}

// ErrCyclic is wrapped by the error of precedences that no period satisfies.
var ErrCyclic = errors.New("precedences contradict each other")

// retime returns the least period ≥ least with which events can be given times
// that satisfy all precedences, and the earliest such times with t[0] = 0 for
// everything that follows event 0, relative to it.
//
// A cycle of precedences with turns K and waits C asks for K·T ≥ C. The search
// starts at least, looks for a cycle that is not satisfied, and goes on with
// its C/K: each round excludes a cycle for good. O(events · precedences) a
// round.
func retime(events int, ps []precedence, least float64) (period float64, t []float64, err error) {
	const tiny = 1e-12
	period = least
	t, by := make([]float64, events), make([]int, events)
	for range len(ps)*events + 1 {
		for e := range t {
			t[e], by[e] = 0, -1
		}
		late := -1
		for range events + 1 {
			late = -1
			for i := range ps {
				p := &ps[i]
				if x := t[p.from] + p.wait - float64(p.turns)*period; x > t[p.to]+tiny*(period+math.Abs(x)) {
					t[p.to], by[p.to] = x, i
					late = p.to
				}
			}
			if late < 0 {
				return period, t, nil
			}
		}
		wait, turns := violated(ps, by, late)
		if turns <= 0 || wait/float64(turns) <= period {
			return 0, nil, fmt.Errorf("%w: %d turns for %g", ErrCyclic, turns, wait)
		}
		period = wait / float64(turns)
	}
	return 0, nil, ErrCyclic
}

// violated returns the waits and turns of the cycle that event e, still moving
// after as many rounds as there are events, hangs on.
func violated(ps []precedence, by []int, e int) (wait float64, turns int) {
	for range by { // back onto the cycle
		e = ps[by[e]].from
	}
	for first := e; ; {
		p := &ps[by[e]]
		wait += p.wait
		turns += p.turns
		if e = p.from; e == first {
			return wait, turns
		}
	}
}
