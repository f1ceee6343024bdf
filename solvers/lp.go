package solvers

import (
	"context"
	"fmt"
	"time"

	"workbench/model/milp"
)

// LP is a linear program that stays loaded in a library while bounds, costs and
// rows change, and is solved from the basis of the solve before. It is for one
// goroutine at a time and has to be closed.
//
// Nothing that it says is checked: it is for makers of certificates, whose
// answers somebody else checks.
type LP interface {
	// SetBounds gives columns other bounds, ±Inf for none.
	SetBounds(columns []int32, lower, upper []float64) error
	// SetCosts gives columns other costs.
	SetCosts(columns []int32, costs []float64) error
	// AddRows adds lower ≤ A x ≤ upper, A by rows as in [milp.Data].
	AddRows(lower, upper []float64, start, col []int32, val []float64) error
	// AddCols adds columns with their entries in the rows that there are: column k has
	// val[start[k]:start[k+1]] in the rows of the same places of row.
	AddCols(cost, lower, upper []float64, start, row []int32, val []float64) error
	// SetSides gives a row other sides, ±Inf for none.
	SetSides(row int32, lower, upper float64) error
	// SetCoef gives a column another coefficient in a row.
	SetCoef(row, column int32, value float64) error
	// Solve minimises or maximises, as the model says, within the limits and
	// until ctx ends. Limits and infeasibility are answers.
	Solve(ctx context.Context, o LPOptions) (*LPResult, error)
	// Close frees the library's memory. No method is to be called after it.
	Close()
}

// LPOptions of one solve. The zero value solves from the last basis.
type LPOptions struct {
	Time       time.Duration // of wall time; 0: no limit
	Iterations int           // of the simplex method; 0: no limit
	// Cutoff ends a minimisation that is proved to be above it, with Stop
	// Objective and the multipliers that it has then.
	Cutoff Opt[float64]
	// Attempt above 0 takes another way, from scratch, for when the first
	// answer was of no use.
	Attempt int
}

// LPResult is what a library says of a linear program.
type LPResult struct {
	// Status is Optimal, Infeasible, Unbounded, NoSolution for a limit that
	// Stop names, or Numerical.
	Status Status
	Stop   Stop
	// Objective is NaN where it is not known; at a limit of iterations it is
	// that of the last one, at the cutoff that.
	Objective float64
	// X and Reduced by column and Dual by row, with the signs of [Duals], if Optimal; at
	// the cutoff Dual alone.
	X, Reduced, Dual []float64
	// Ray by row, if Infeasible and known: multipliers y for which no x in its
	// bounds has yᵀAx within what y makes of the sides. Either y or −y.
	Ray        []float64
	Iterations int64
	Raw        string // the library's own status
}

// LPEngine is an [Engine] that keeps linear programs.
type LPEngine interface {
	// OpenLP loads the linear relaxation of d, of a model without mistakes. It
	// keeps nothing of d. An error wraps ErrMissing, ErrUnsupported or
	// ErrSolver.
	OpenLP(d *milp.Data) (LP, error)
}

// OpenLP loads the linear relaxation of d in the library of b, in this process
// even if b runs its solves in others.
func OpenLP(b Backend, d *milp.Data) (LP, error) {
	if own, ok := b.(*backend); ok {
		if e, ok := own.engine.(LPEngine); ok {
			return e.OpenLP(d)
		}
	}
	return nil, fmt.Errorf("%s: %w: linear programs that change", b.Name(), ErrUnsupported)
}
