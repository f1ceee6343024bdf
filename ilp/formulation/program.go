package formulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

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

// Unfit is the error of a formulation for an instance of which a view says err: that, if
// there is no plan, a *plan.Infeasible; else it wraps ErrInstance.
func Unfit(err error) error {
	if errors.As(err, new(*plan.Infeasible)) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInstance, err)
}

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

// bounds reports whether bounds on the program are bounds on the problem.
func (p *Program) bounds() bool { return p.Promise == Equal || p.Promise == LowerBound }

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

// Build makes a Program of an instance of the formulation's kind and options, nil
// for its defaults. The error wraps ErrInstance, ErrTooLong or is a
// *plan.Infeasible.
type Build func(in plan.Instance, p platform.Platform, options json.RawMessage) (*Program, error)

// A Builder makes a Program of one type of instance, as [Build] does.
type Builder[T plan.Instance] func(T, platform.Platform) (*Program, error)

// Without returns a Build of a formulation that has no options.
func Without[T plan.Instance](build Builder[T]) Build {
	with := WithOptions(func(in T, p platform.Platform, _ struct{}) (*Program, error) { return build(in, p) })
	return func(in plan.Instance, p platform.Platform, options json.RawMessage) (*Program, error) {
		if len(options) > 0 {
			return nil, fmt.Errorf("%w: it has no options, there are %s", ErrInstance, options)
		}
		return with(in, p, nil)
	}
}

// WithOptions returns a Build that reads options of type O. Options that say what nobody
// reads are an error: a certificate must not seem to say more than its model.
func WithOptions[T plan.Instance, O any](build func(T, platform.Platform, O) (*Program, error)) Build {
	return func(in plan.Instance, p platform.Platform, options json.RawMessage) (*Program, error) {
		x, ok := in.(T)
		if !ok {
			return nil, fmt.Errorf("%w: it is not about a %s", ErrInstance, in.Kind())
		}
		var o O
		if len(options) > 0 {
			d := json.NewDecoder(bytes.NewReader(options))
			d.DisallowUnknownFields()
			if err := d.Decode(&o); err != nil {
				return nil, fmt.Errorf("%w: its options %s: %w", ErrInstance, options, err)
			}
		}
		return build(x, p, o)
	}
}

// Rebuild makes the program again that the formulation of that name in a table
// made of an instance and options.
func Rebuild(list []Formulation, name string, in plan.Instance, p platform.Platform, options json.RawMessage) (*Program, error) {
	for _, f := range list {
		if f.Name != name {
			continue
		}
		program, err := f.Build(in, p, options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return program, nil
	}
	return nil, fmt.Errorf("%w: there is no formulation %q", ErrInstance, name)
}
