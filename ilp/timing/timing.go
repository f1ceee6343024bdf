// Package timing has what formulations whose binaries decide precedences share:
// one list of rules gives rows of the model and, of a solution, the precedences
// that its plan is timed by, so that no time of a plan is ever a number that a
// solver computed.
package timing

import (
	"slices"

	"workbench/model/cycleratio"
	"workbench/model/milp"
)

// Rule is a precedence that binds if all of when hold.
type Rule struct {
	cycleratio.Precedence
	When []milp.Literal
}

// Binding returns the precedences that bind in the solution x.
func Binding(rules []Rule, x []float64) []cycleratio.Precedence {
	var ps []cycleratio.Precedence
	for _, r := range rules {
		if !slices.ContainsFunc(r.When, func(l milp.Literal) bool { return !l.IsTrue(x) }) {
			ps = append(ps, r.Precedence)
		}
	}
	return ps
}
