package formulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

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

// Program is a formulation built for one instance: everything that the driver
// needs, see [Task.Run].
type Program struct {
	// Model is what is described, exported, solved and certified: one object.
	// Its numbers, taken as exact, keep the Promise.
	Model   *milp.Model
	Promise Promise
	// Assumptions name the plans that the bound binds; none: all of them. See
	// plan.Assumption.
	Assumptions []string
	// Formulation is the name in the table that makes this very model again, from
	// the instance and Options; "" if none does, so that no certificate can be
	// made of it.
	Formulation string
	Options     json.RawMessage
	// Unit is what 1 of the model's objective is worth in the objective of the
	// problem, seconds mostly: a power of two, so that a bound on the one is
	// exactly one on the other. 0 means 1. See Objective.
	Unit float64
	// Start turns a verified plan into values by column for
	// solvers.Options.Start. The plan's own period plays no part in it: the
	// objective at the start is at most the period. It may be nil.
	Start func(*plan.Plan) ([]float64, error)
	// Hint reads off a solution which weights leave when.
	Hint func(x []float64) *Hint
	// Plan makes a plan of a solution; nil for formulations that are bounds
	// only. Its times come of the decisions in x, and whether it fits is for
	// the verifier to say.
	Plan func(x []float64) (*plan.Plan, error)
}

// Objective returns a value of the model's objective, or a bound on it, as one
// of the problem's.
func (p *Program) Objective(model float64) float64 { return model * p.unit() }

// ModelObjective returns a value of the problem's objective as one of the
// model's.
func (p *Program) ModelObjective(objective float64) float64 { return objective / p.unit() }

func (p *Program) unit() float64 {
	if p.Unit == 0 {
		return 1
	}
	return p.Unit
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

// ReadOptions reads the Options of a Program into those of its formulation, nil if
// that has none. Options that say what nobody reads are an error: a certificate
// must not seem to say more than its model.
func ReadOptions(name string, options json.RawMessage, into any) error {
	if len(options) == 0 {
		return nil
	}
	if into == nil {
		return fmt.Errorf("%w: %s has no options, there are %s", ErrInstance, name, options)
	}
	d := json.NewDecoder(bytes.NewReader(options))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: options of %s: %w", ErrInstance, name, err)
	}
	return nil
}
