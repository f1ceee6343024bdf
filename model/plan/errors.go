package plan

import (
	"errors"
	"fmt"
	"strconv"

	"workbench/model/platform"
)

// ErrNoPlan is wrapped by methods that found no plan and prove nothing by it.
var ErrNoPlan = errors.New("no plan found")

// ErrNoInstance is the error of verifiers that are given a nil instance.
var ErrNoInstance = errors.New("there is none")

// ErrProblem is wrapped by the error of package verify for plans of problems without a verifier on
// such an instance.
var ErrProblem = errors.New("no verifier for this problem")

// ErrUnreadable is wrapped when a plan is not broken but cannot be replayed at
// all: no period, no memory, no instance.
var ErrUnreadable = errors.New("plan cannot be replayed")

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
