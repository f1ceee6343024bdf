package solvertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/enumerate"
)

// Differential compares b with the enumerating backend on random small models:
// up to 8 integer columns of small ranges, up to 4 continuous ones, integral
// data. Both must agree whether there is an optimum, and on its value. Without
// -rapid.checks it takes 100 models. A failure prints the model.
func Differential(t *testing.T, b solvers.Backend) {
	t.Helper()
	judge := enumerate.New()
	rapid.Check(t, func(t *rapid.T) {
		m := RandomModel(t)
		if err := agree(context.Background(), judge, b, m); err != nil {
			var text strings.Builder
			_ = m.Print(&text) // a Builder takes anything
			t.Fatalf("%v\n%s", err, text.String())
		}
	})
}

// agree solves m with both backends, each under the contract, and compares.
func agree(ctx context.Context, judge, b solvers.Backend, m *milp.Model) error {
	want, err := (&harness{ctx: ctx, backend: judge}).solve(m, solvers.Options{})
	if err != nil {
		return fmt.Errorf("%s: %w", judge.Name(), err)
	}
	got, err := (&harness{ctx: ctx, backend: b}).solve(m, solvers.Options{})
	if errors.Is(err, errRefused) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", b.Name(), err)
	}
	if want.Status == solvers.Optimal {
		return hasOptimum(m, got, want.Obj)
	}
	if got.Status != want.Status && (got.Status != solvers.InfeasibleOrUnbounded || want.Status != solvers.Infeasible && want.Status != solvers.Unbounded) {
		return fmt.Errorf("%v, %s says %v", got.Status, judge.Name(), want.Status)
	}
	return nil
}

// RandomModel draws a small model that enumeration solves in no time. All kinds
// of rows and bounds occur, and some models are infeasible or unbounded.
func RandomModel(t *rapid.T) *milp.Model {
	m := newModel("random")
	var v []milp.Var
	for range rapid.IntRange(0, 8).Draw(t, "integers") {
		lo := rapid.IntRange(-3, 2).Draw(t, "lower")
		v = append(v, m.col(milp.Integer, float64(lo), float64(lo+rapid.IntRange(0, 2).Draw(t, "range"))))
	}
	for range rapid.IntRange(0, 4).Draw(t, "continuous") {
		lo, up := bounds(t, "bounds")
		v = append(v, m.col(milp.Continuous, lo, up))
	}
	expression := func(label string) []milp.Term {
		var terms []milp.Term
		for _, x := range v {
			if rapid.IntRange(0, 2).Draw(t, label) > 0 {
				terms = append(terms, term(float64(rapid.IntRange(-5, 5).Draw(t, label)), x))
			}
		}
		return terms
	}
	for range rapid.IntRange(0, 6).Draw(t, "rows") {
		lo, up := bounds(t, "sides")
		m.row(3*lo, 3*up, expression("row")...)
	}
	offset := float64(rapid.IntRange(-9, 9).Draw(t, "offset"))
	if rapid.Bool().Draw(t, "max") {
		m.max(offset, expression("objective")...)
	} else {
		m.min(offset, expression("objective")...)
	}
	return m.Model
}

// bounds draws a pair of bounds, mostly finite.
func bounds(t *rapid.T, label string) (lo, up float64) {
	lo = float64(rapid.IntRange(-4, 4).Draw(t, label))
	up = lo + float64(rapid.IntRange(0, 6).Draw(t, label))
	switch rapid.IntRange(0, 7).Draw(t, label) {
	case 0:
		lo = -inf
	case 1:
		up = inf
	case 2:
		lo, up = -inf, inf
	}
	return lo, up
}
