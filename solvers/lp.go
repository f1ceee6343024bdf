package solvers

import (
	"context"
	"fmt"
	"time"

	"workbench/model/milp"
)

// LP is a linear program that stays loaded in a library while bounds, costs and rows change. Each solve starts
// from the basis of the previous one. It is for one goroutine at a time and must be closed.
//
// Its results are unchecked: it serves the search for certificates, which are checked independently.
type LP interface {
	// SetBounds replaces the bounds of columns, ±Inf for none.
	SetBounds(columns []int32, lower, upper []float64) error
	// SetCosts replaces the costs of columns.
	SetCosts(columns []int32, costs []float64) error
	// AddRows adds lower ≤ A x ≤ upper, A by rows as in [milp.Data].
	AddRows(lower, upper []float64, start, col []int32, val []float64) error
	// AddCols adds columns with their entries in the existing rows: column k has the values
	// val[start[k]:start[k+1]] in the rows at the same positions of row.
	AddCols(cost, lower, upper []float64, start, row []int32, val []float64) error
	// SetSides replaces the sides of a row, ±Inf for none.
	SetSides(row int32, lower, upper float64) error
	// SetCoef replaces the coefficient of a column in a row.
	SetCoef(row, column int32, value float64) error
	// Solve minimises or maximises, according to the model, within the limits and until ctx ends. Limits and
	// infeasibility are answers.
	Solve(ctx context.Context, o LPOptions) (*LPResult, error)
	// Close frees the library's memory. No method may be called after it.
	Close()
}

// LPOptions of one solve. The zero value solves from the last basis.
type LPOptions struct {
	Time       time.Duration // of wall time; 0: no limit
	Iterations int           // of the simplex method; 0: no limit
	// Cutoff ends a minimisation whose optimum is proved to be above it, with Stop Objective and the multipliers
	// at that time.
	Cutoff Opt[float64]
	// Attempt above 0 selects another algorithm, from scratch, for use when the first answer was unusable.
	Attempt int
}

// LPResult is a library's result for a linear program.
type LPResult struct {
	// Status is Optimal, Infeasible, Unbounded, NoSolution for a limit that
	// Stop names, or Numerical.
	Status Status
	Stop   Stop
	// Objective is NaN where it is not known; at a limit of iterations it is that of the last iteration, at the
	// cutoff its value then.
	Objective float64
	// X and Reduced are by column and Dual by row, with the signs of [Duals], if Optimal; at the cutoff only Dual
	// is set.
	X, Reduced, Dual []float64
	// Ray is by row, if Infeasible and known: multipliers y such that no x within its bounds gives yᵀAx a value
	// that the sides allow. The sign of y is not determined.
	Ray        []float64
	Iterations int64
	Raw        string // the library's own status
}

// LPEngine is an [Engine] that keeps linear programs loaded.
type LPEngine interface {
	// OpenLP loads the linear relaxation of d, of a valid model. It does not keep d. The error wraps ErrMissing,
	// ErrUnsupported or ErrSolver.
	OpenLP(d *milp.Data) (LP, error)
}

// OpenLP loads the linear relaxation of d in the library of b. It uses this process even if b runs its solves in
// others.
func OpenLP(b Backend, d *milp.Data) (LP, error) {
	if own, ok := b.(*backend); ok {
		if e, ok := own.engine.(LPEngine); ok {
			return e.OpenLP(d)
		}
	}
	return nil, fmt.Errorf("%s: %w: incremental linear programs", b.Name(), ErrUnsupported)
}
