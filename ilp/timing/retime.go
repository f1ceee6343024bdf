// Package timing finds the times of cyclic schedules from the decisions of a
// solution, so that no time of a plan is ever a number that a solver computed.
package timing

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/milp"
)

// A Precedence is a difference constraint of a cyclic schedule: event to comes
// wait or more after event from of turns cycles before,
//
//	t[to] + turns·T − t[from] ≥ wait.
type Precedence struct {
	From, To int
	Wait     float64
	Turns    int
}

// ErrCyclic is wrapped by the error of precedences that no period satisfies.
var ErrCyclic = errors.New("precedences contradict each other")

// Retime returns the least period ≥ least with which events can be given times
// that satisfy all precedences, and the earliest such times with t[0] = 0 for
// everything that follows event 0, relative to it.
//
// A cycle of precedences with turns K and waits C asks for K·T ≥ C. The search
// starts at least, looks for a cycle that is not satisfied, and goes on with
// its C/K: each round excludes a cycle for good. O(events · precedences) a
// round.
func Retime(events int, ps []Precedence, least float64) (period float64, t []float64, err error) {
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
				if x := t[p.From] + p.Wait - float64(p.Turns)*period; x > t[p.To]+tiny*(period+math.Abs(x)) {
					t[p.To], by[p.To] = x, i
					late = p.To
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
func violated(ps []Precedence, by []int, e int) (wait float64, turns int) {
	for range by { // back onto the cycle
		e = ps[by[e]].From
	}
	for first := e; ; {
		p := &ps[by[e]]
		wait += p.Wait
		turns += p.Turns
		if e = p.From; e == first {
			return wait, turns
		}
	}
}

// Literal is the condition that a binary has a value.
type Literal struct {
	V     milp.Var
	Value float64 // 0 or 1
}

// Is and IsNot are the conditions that v is 1 and that it is 0.
func Is(v milp.Var) Literal    { return Literal{v, 1} }
func IsNot(v milp.Var) Literal { return Literal{v, 0} }

// Holds reports whether l holds in the solution x.
func (l Literal) Holds(x []float64) bool { return (x[l.V.Index()] > 0.5) == (l.Value == 1) }

// Rule is a precedence that holds if all of when do.
type Rule struct {
	Precedence
	When []Literal
}
