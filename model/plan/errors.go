package plan

import (
	"errors"
	"fmt"
	"strconv"

	"workbench/model/platform"
)

// ErrNoPlan is wrapped by methods that found no plan and prove nothing by it.
var ErrNoPlan = errors.New("no plan found")

// Infeasible is the error of a method that proved that no plan exists.
type Infeasible struct {
	Problem string
	// Memory is the least memory in units, of a join in slots, for which a plan
	// exists, 0 if it is not known, and Given what there is.
	Memory, Given float64
	Unit          platform.Unit
	Why           string // what needs it: "B_3 needs its weight and its gradient"
}

func (e *Infeasible) Error() string {
	unit := "bytes"
	if e.Problem == Join {
		unit = "slots"
	}
	all := func(x float64) string { return strconv.FormatFloat(e.Unit.Bytes(x), 'f', -1, 64) } // digits: the two may be near
	s := fmt.Sprintf("%s: no plan fits in %s %s", e.Problem, all(e.Given), unit)
	if e.Memory > 0 {
		s += fmt.Sprintf(": at least %s %s are needed", all(e.Memory), unit)
	}
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}
