//go:build cgo && !nohighs

package highs

import (
	"context"
	"testing"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/solvertest"
)

func TestContract(t *testing.T) { solvertest.Run(t, New(), nil) }

// Wrong optima that presolve alone is to blame for are logged.
func TestDifferential(t *testing.T) { solvertest.Differential(t, New(), withoutPresolve{New()}) }

// withoutPresolve is HiGHS with presolve off.
type withoutPresolve struct{ solvers.Backend }

func (b withoutPresolve) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	o.Raw = map[string]string{"presolve": "off"}
	return b.Backend.Solve(ctx, m, o)
}

func TestCycles(t *testing.T) { solvertest.Cycles(t, New(), testfile.Cases(3000)) }

func TestLP(t *testing.T) { solvertest.RunLP(t, Engine{}, true) }
