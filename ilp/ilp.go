// Package ilp holds the MILP formulations, one file each.
//
// A formulation is built from an instance with model/milp and solved through
// the interface solvers.Backend: this package knows no solver. It turns a
// solution into a proven bound or a plan, and a plan into a MIP start. Plans
// are re-timed from the integer decisions of a solution; no time of a plan is
// ever a number that a solver computed.
//
// [Formulations] is the table of all of them. Start reading at weights.go,
// which follows [001] §6 equation by equation.
package ilp

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/functions"
	"workbench/model/graph"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Errors of building a formulation.
var (
	// ErrInstance is wrapped by the error for an instance or platform that no
	// model can be built for.
	ErrInstance = errors.New("instance unfit for a formulation")
	// ErrTooLong is wrapped by the error for a chain beyond what a formulation
	// is meant for.
	ErrTooLong = errors.New("chain too long for this formulation")
	// ErrStart is wrapped by the error for a plan that cannot be a start.
	ErrStart = errors.New("plan unfit as a start")
)

// Program is a formulation built for one instance.
type Program struct {
	Model *milp.Model
	// Start turns a verified plan into values by column for
	// solvers.Options.Start. The plan's own period plays no part in it: the
	// objective at the start is at most the period.
	Start func(*plan.Plan) ([]float64, error)
	// Hint reads off a solution which weights leave when.
	Hint func(x []float64) *Hint
	// Plan makes a plan of a solution; nil for formulations that are bounds
	// only.
	Plan func(x []float64) (*plan.Plan, error)
}

// Hint is what a solution of a relaxation tells a heuristic.
type Hint struct {
	// Away[2k+d] says whether w_{k+1} leaves the GPU between B and F (d = 0) or
	// between F and the next B (d = 1): the choices (k,d) of [001] §5.
	Away []bool
	// Idle[j] is the idle time after operation j of package cycle, seconds.
	Idle []float64
}

// Builder makes a Program of an instance. The error wraps ErrInstance,
// ErrTooLong or is a *plan.Infeasible.
type Builder func(*chain.Chain, platform.Platform) (*Program, error)

// GraphBuilder makes a Program of a graph, as [Builder] does of a chain.
type GraphBuilder func(*graph.Graph, platform.Platform) (*Program, error)

// FunctionsBuilder makes a Program of a sequence of functions, as [Builder] does
// of a chain.
type FunctionsBuilder func(*functions.Sequence, platform.Platform) (*Program, error)

// checkPlatform reports what no model can be built for.
func checkPlatform(c *chain.Chain, p platform.Platform) error {
	switch {
	case c == nil || c.Len() == 0:
		return fmt.Errorf("%w: the chain has no layers, at least one is needed", ErrInstance)
	case !(p.Memory > 0) || math.IsInf(p.Memory, 0):
		return fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", ErrInstance, p.Memory)
	case !(p.Bandwidth > 0) || math.IsInf(p.Bandwidth, 0):
		return fmt.Errorf("%w: bandwidth is %v bytes per second, it must be positive and finite", ErrInstance, p.Bandwidth)
	}
	return nil
}
