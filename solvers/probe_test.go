package solvers_test

import (
	"context"
	"strings"
	"testing"

	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/enumerate"
)

// silent is enumeration that finds nothing.
type silent struct{ solvers.Backend }

func (silent) Solve(context.Context, *milp.Model, solvers.Options) (*solvers.Result, error) {
	return &solvers.Result{Status: solvers.NoSolution}, nil
}

// worse is enumeration that is content with less.
type worse struct{ solvers.Backend }

func (b worse) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	r, err := b.Backend.Solve(ctx, m, o)
	if err == nil {
		r.Obj += 6
	}
	return r, err
}

// TestWrong: enumeration finds the optima of the probes; those that do not are
// found out.
func TestWrong(t *testing.T) {
	if w := solvers.Wrong(t.Context(), enumerate.New()); w != nil {
		t.Errorf("enumeration: %v", w)
	}
	for want, b := range map[string]solvers.Backend{
		"HiGHS 3043: no solution, the optimum is 9":      silent{enumerate.New()},
		"HiGHS 3043: calls 15 optimal, the optimum is 9": worse{enumerate.New()},
	} {
		w := solvers.Wrong(t.Context(), b)
		if len(w) != len(solvers.Probes()) || !strings.Contains(strings.Join(w, "\n"), want) {
			t.Errorf("%q, want %q among them", w, want)
		}
	}
}
