//go:build !cgo || !unix

package lpsolve

import (
	"context"
	"fmt"

	"workbench/model/milp"
	"workbench/solvers"
)

// Available returns nil if lp_solve can be used, else an error that says why not.
func Available() error {
	return fmt.Errorf("%w: loading lp_solve needs a build with CGO_ENABLED=1 and a C compiler, on a Unix system", solvers.ErrMissing)
}

// Version returns "": there is no library.
func Version() string { return "" }

// Read returns [solvers.ErrMissing].
func Read(string, milp.MPSFormat) (*milp.Model, error) { return nil, Available() }

// Name implements [solvers.Engine].
func (Engine) Name() string { return "lpsolve" }

// Run implements [solvers.Engine]: it returns [solvers.ErrMissing].
func (Engine) Run(context.Context, *solvers.Problem) (*solvers.Answer, error) {
	return nil, Available()
}
