package solvers

import (
	"context"
	"fmt"
	"time"

	"workbench/model/milp"
)

// Presolver is an [Engine] that tells what its presolve leaves of a model.
type Presolver interface {
	// Presolve returns the size of what is left: all zero where that is nothing.
	Presolve(ctx context.Context, p *Problem) (Presolved, error)
}

// Presolved is the size of a model after the presolve of a library.
type Presolved struct{ Cols, Rows, Nonzeros int }

// presolveTime is more than the presolve of any model that is looked at should take.
const presolveTime = time.Minute

// Presolve returns what the presolve of a backend's library leaves of a model, in this process
// even if b runs its solves in others. The error wraps ErrUnsupported for libraries that do
// not tell.
func Presolve(ctx context.Context, b Backend, m *milp.Model) (Presolved, error) {
	own, ok := b.(*backend)
	if !ok {
		return Presolved{}, fmt.Errorf("%s: %w: what presolve leaves", b.Name(), ErrUnsupported)
	}
	e, ok := own.engine.(Presolver)
	if !ok {
		return Presolved{}, fmt.Errorf("%s: %w: what presolve leaves", b.Name(), ErrUnsupported)
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
		return Presolved{}, nil // no library is asked
	}
	p.Time = presolveTime
	return e.Presolve(ctx, p)
}
