package solvers

import (
	"context"
	"fmt"
	"time"

	"workbench/model/milp"
)

// Presolver is an [Engine] that reports the size of a presolved model.
type Presolver interface {
	// Presolve returns the size of the presolved model: zero if nothing remains.
	Presolve(ctx context.Context, p *Problem) (Presolved, error)
}

// Presolved is the size of a model after the presolve of a library.
type Presolved struct{ Cols, Rows, Nonzeros int }

// presolveTime limits the presolve of a model.
const presolveTime = time.Minute

// Presolve returns the size to which a backend's library presolves a model. It uses this process even if b runs
// its solves in others. The error wraps ErrUnsupported for libraries that do not report it.
func Presolve(ctx context.Context, b Backend, m *milp.Model) (Presolved, error) {
	own, ok := b.(*backend)
	if !ok {
		return Presolved{}, fmt.Errorf("%s: %w: the size after presolve", b.Name(), ErrUnsupported)
	}
	e, ok := own.engine.(Presolver)
	if !ok {
		return Presolved{}, fmt.Errorf("%s: %w: the size after presolve", b.Name(), ErrUnsupported)
	}
	if err := m.Err(); err != nil {
		return Presolved{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	d := m.Data()
	p, err := problem(m, &d, new(Options))
	if err != nil {
		return Presolved{}, err
	}
	if contradiction(m, &p.Model) != "" || len(d.Cost) == 0 || len(d.RowLower) == 0 {
		return Presolved{}, nil // without calling a library
	}
	p.Time = presolveTime
	return e.Presolve(ctx, p)
}
