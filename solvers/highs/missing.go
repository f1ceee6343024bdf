//go:build !cgo || nohighs

package highs

import (
	"context"
	"fmt"

	"workbench/model/milp"
	"workbench/solvers"
)

// Available returns nil if HiGHS can be used, else an error that says why not.
func Available() error {
	return fmt.Errorf("%w: HiGHS is not built in; build with CGO_ENABLED=1, a C++ compiler, HiGHS and without the tag nohighs",
		solvers.ErrMissing)
}

// Version returns "": there is no library.
func Version() string { return "" }

// Read returns [solvers.ErrMissing].
func Read(string) (*milp.Model, error) { return nil, Available() }

// Name implements [solvers.Engine].
func (Engine) Name() string { return "highs" }

// Run implements [solvers.Engine]: it returns [solvers.ErrMissing].
func (Engine) Run(context.Context, *solvers.Problem) (*solvers.Answer, error) {
	return nil, Available()
}

// OpenLP implements [solvers.LPEngine]: it returns [solvers.ErrMissing].
func (Engine) OpenLP(*milp.Data) (solvers.LP, error) { return nil, Available() }

// Presolve implements [solvers.Presolver]: it returns [solvers.ErrMissing].
func (Engine) Presolve(context.Context, *solvers.Problem) (solvers.Presolved, error) {
	return solvers.Presolved{}, Available()
}
