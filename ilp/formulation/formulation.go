// Package formulation is the contract of the MILP formulations: a [Formulation] is an entry of their table, a
// [Program] is built from one for an instance.
package formulation

import (
	"fmt"
)

// Promise is the relation of the optimum of a formulation to that of its problem.
type Promise uint8

const (
	// Nothing: kept because a paper has it. Its optimum is no bound.
	Nothing Promise = iota
	// LowerBound: at most the optimum. So are every lower bound on it that a solver proves, and its LP relaxation.
	LowerBound
	// Equal: the optimum itself, which the plans of its solutions attain.
	Equal
	// Restriction: at least the optimum. Every solution is a plan with its objective, but not every plan is a
	// solution: its bounds are no bounds on the problem.
	Restriction
)

func (p Promise) String() string {
	switch p {
	case Nothing:
		return "no promise"
	case LowerBound:
		return "lower bound"
	case Equal:
		return "exact"
	case Restriction:
		return "restriction"
	}
	return fmt.Sprintf("Promise(%d)", uint8(p))
}

// Formulation is one entry of the table of formulations.
type Formulation struct {
	Name    string
	Problem string
	Title   string
	Source  string
	Promise Promise
	// EqualTo is the number of layers up to which a restriction attains the optimum in all tests, so that a check
	// requires it; 0: a check requires the relation only.
	EqualTo int
	// Staged restricts the relation to the schedules of Checkmate: first computations in graph order, and between
	// two of them every node computed at most once, in that order.
	Staged bool
	// Extra lists the constraint groups beyond those of the source. Each can be left out to measure its effect:
	// milp.Model.Without.
	Extra []string
	// Kind is the kind of the instances that Build takes.
	Kind  string
	Build Build
}
