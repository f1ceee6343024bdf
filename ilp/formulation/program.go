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
	// ErrInstance is wrapped by the error for an instance or platform for which no model can be built.
	ErrInstance = errors.New("instance unfit for a formulation")
	// ErrTooLong is wrapped by the error for a chain longer than the maximum of a formulation.
	ErrTooLong = errors.New("chain too long for this formulation")
	// ErrStart is wrapped by the error for a plan that cannot be a start.
	ErrStart = errors.New("plan cannot be a start")
)

// Unfit returns the error of a formulation for an instance whose view failed with err: err itself if it is a
// *plan.Infeasible, otherwise an error that wraps ErrInstance.
func Unfit(err error) error {
	if errors.As(err, new(*plan.Infeasible)) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInstance, err)
}

// Program is a formulation built for one instance: everything that the driver
// needs, see [Task.Run].
type Program struct {
	// Model is the one object that is described, exported, solved and certified. Its numbers, taken as exact, keep
	// the Promise.
	Model   *milp.Model
	Promise Promise
	// Assumptions restrict the plans to which the bound applies; none: all plans. See plan.Assumption.
	Assumptions []string
	// Formulation is the name in the table from which this model can be rebuilt with the instance and Options. It
	// is "" if no entry builds it, and then no certificate can be made of it.
	Formulation string
	Options     json.RawMessage
	// Unit is the value of one unit of the model's objective in the objective of the problem, usually in seconds.
	// It is a power of two, so that conversion is exact. 0 means 1. See Objective.
	Unit float64
	// Start returns the values of the columns for a verified plan, for solvers.Options.Start. It ignores the
	// plan's own period: the objective of the start is at most the period. It may be nil.
	Start func(*plan.Plan) ([]float64, error)
	// Hint returns the eviction decisions and idle times of a solution.
	Hint func(x []float64) *Hint
	// Plan returns the plan of a solution; it is nil for formulations that only yield bounds. Its times follow
	// from the decisions in x, and the verifier decides whether it fits.
	Plan func(x []float64) (*plan.Plan, error)
}

// Objective converts a value of the model's objective, or a bound on it, to the problem's.
func (p *Program) Objective(model float64) float64 { return model * p.unit() }

// ModelObjective converts a value of the problem's objective to the model's.
func (p *Program) ModelObjective(objective float64) float64 { return objective / p.unit() }

// bounds reports whether bounds on the program are bounds on the problem.
func (p *Program) bounds() bool { return p.Promise == Equal || p.Promise == LowerBound }

func (p *Program) unit() float64 {
	if p.Unit == 0 {
		return 1
	}
	return p.Unit
}

// Hint holds what a heuristic uses of a solution of a relaxation.
type Hint struct {
	// Away[2k+d] reports whether w_{k+1} is on the host between B and F (d = 0) or between F and the next B (d =
	// 1): the choices (k,d) of [001] §5.
	Away []bool
	// Idle[j] is the idle time after operation j of package weightoffload, seconds.
	Idle []float64
}

// Build returns the Program of an instance of the formulation's kind. options is nil for the defaults. The error
// wraps ErrInstance or ErrTooLong, or is a *plan.Infeasible.
type Build func(in plan.Instance, p platform.Platform, options json.RawMessage) (*Program, error)

// Builder returns the Program of one type of instance, as [Build] does.
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

// WithOptions returns a Build that reads options of type O. Unknown options are an error, since a certificate
// records them.
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

// Rebuild returns the program that the named formulation of a table builds for an instance and options.
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
