package plan

import (
	"errors"
	"fmt"
)

// ErrNoPlan is wrapped by methods that found no plan and prove nothing by it.
var ErrNoPlan = errors.New("no plan found")

// Infeasible is the error of a method that proved that no plan exists.
type Infeasible struct {
	Problem string
	// Memory is the least memory in bytes for which a plan exists, and Given
	// what there is.
	Memory, Given float64
	Why           string // what needs it: "B_3 needs its weight and its gradient"
}

func (e *Infeasible) Error() string {
	s := fmt.Sprintf("%s: no plan fits in %.0f bytes: at least %.0f bytes are needed", e.Problem, e.Given, e.Memory)
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}
