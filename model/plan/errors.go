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
	// Memory is what is proved to be needed at least, in units, of a join in slots,
	// 0 if that is not known, and Given what there is.
	Memory, Given float64
	Unit          platform.Unit
	Why           string // what needs it: "B_3 needs its weight and its gradient"
}

func (e *Infeasible) Error() string {
	s := fmt.Sprintf("%s: no plan fits in %s", e.Problem, e.size(e.Given))
	if e.Memory > 0 {
		s += fmt.Sprintf(": at least %s are needed", e.size(e.Memory))
	}
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}

// size writes a size.
func (e *Infeasible) size(x float64) string {
	if rules := RulesOf(e.Problem); rules != nil && rules.Slots {
		return strconv.FormatFloat(x, 'f', -1, 64) + " slots"
	}
	return e.Unit.Exactly(x)
}
