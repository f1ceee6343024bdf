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

// defects are the cases that versions of HiGHS are known to fail.
func defects() map[string]string {
	if Version() != "1.10.0" {
		return nil
	}
	return map[string]string{
		"golden/presolve takes a continuous column for an integer": "presolve calls 0 optimal, right with presolve off",
		"golden/weights that nearly fit":                           "infeasible, as a column whose bound is 1 − 3.3e-7 is taken for whole",
		"golden/a side of 6e-5 beside 500":                         "0.4 optimal, there is a solution of 0",
		"golden/a byte beside a value":                             "infeasible, there is a solution of 0",
	}
}

func TestContract(t *testing.T) { solvertest.Run(t, New(), defects()) }

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
