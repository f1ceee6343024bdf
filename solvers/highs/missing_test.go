//go:build !cgo || nohighs

package highs

import (
	"errors"
	"testing"

	"workbench/model/milp"
	"workbench/solvers"
)

func TestMissing(t *testing.T) {
	m := milp.New("")
	m.Group("row", "").AtMost(new(milp.Expr).Add(1, m.Var("x", milp.Integer, 0, 1)), 1)
	if _, err := New().Solve(t.Context(), m, solvers.Options{}); !errors.Is(err, solvers.ErrMissing) {
		t.Errorf("Solve returns %v", err)
	}
	if err := Available(); !errors.Is(err, solvers.ErrMissing) {
		t.Errorf("Available returns %v", err)
	}
	if _, err := Read("model.mps"); !errors.Is(err, solvers.ErrMissing) {
		t.Errorf("Read returns %v", err)
	}
}
