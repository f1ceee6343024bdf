// Package timing has what formulations whose binaries decide precedences share:
// one list of rules gives rows of the model and, of a solution, the precedences
// that its plan is timed by, so that no time of a plan is ever a number that a
// solver computed.
package timing

import (
	"workbench/model/cycleratio"
	"workbench/model/milp"
)

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
	cycleratio.Precedence
	When []Literal
}
