package solvertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
)

// Differential compares b with the enumerating backend on random small models:
// up to 8 integer columns of small ranges, up to 4 continuous ones, integral
// data. Both must agree whether there is an optimum, and on its value. Without
// -rapid.checks it takes 100 models. A failure prints the model.
//
// others are known to be right where b is known to be wrong, such as the same
// library without presolve. What any of them agrees on is logged as a defect of
// b and does not fail the test. Neither does a model that b gives up, saying so;
// but one in fifty is the most.
func Differential(t *testing.T, b solvers.Backend, others ...solvers.Backend) {
	t.Helper()
	judge := enumerate.New()
	ctx := t.Context()
	models, given := 0, 0
	testfile.Property(t, func(r *rapid.T) {
		m := RandomModel(r)
		err := agree(ctx, judge, b, m)
		models++
		if errors.Is(err, errGivenUp) {
			given++
			return
		}
		if err == nil {
			return
		}
		var text strings.Builder
		_ = m.Print(&text) // a Builder takes anything
		for _, other := range others {
			if agree(ctx, judge, other, m) == nil {
				t.Logf("known defect: %v\n%s", err, text.String())
				return
			}
		}
		r.Fatalf("%v\n%s", err, text.String())
	})
	if given > max(2, models/50) {
		t.Errorf("gave up %d of %d small models", given, models)
	}
}

// errGivenUp is for a backend that neither solves a model nor claims to.
var errGivenUp = errors.New("given up")

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
	switch got.Status {
	case solvers.Feasible, solvers.NoSolution, solvers.Imprecise, solvers.Numerical:
		return errGivenUp
	}
	if want.Status == solvers.Optimal {
		return hasOptimum(m, got, want.Obj)
	}
	if got.Status != want.Status && (got.Status != solvers.InfeasibleOrUnbounded || want.Status != solvers.Infeasible &&
		want.Status != solvers.Unbounded) {
		return fmt.Errorf("%v, %s says %v", got.Status, judge.Name(), want.Status)
	}
	return nil
}

// RandomModel draws a small model that enumeration solves in no time. All kinds
// of rows and bounds occur. Three in four are made around a point, so that they
// have a solution; some are infeasible or unbounded.
func RandomModel(t *rapid.T) *milp.Model {
	m := newModel("random")
	var v []milp.Var
	var point []float64
	for range pickOne(t, "integers", 9) {
		lo := rapid.IntRange(-3, 2).Draw(t, "lower")
		width := rapid.IntRange(0, 2).Draw(t, "width")
		v = append(v, m.col(milp.Integer, float64(lo), float64(lo+width)))
		point = append(point, float64(lo+rapid.IntRange(0, width).Draw(t, "value")))
	}
	for range pickOne(t, "continuous", 5) {
		at := float64(rapid.IntRange(-3, 3).Draw(t, "value"))
		lo, up := around(t, "bounds", at)
		v, point = append(v, m.col(milp.Continuous, lo, up)), append(point, at)
	}
	planted := pickOne(t, "planted", 4) > 0
	for range pickOne(t, "rows", 8) {
		terms, at := expression(t, v, point)
		if !planted {
			at = float64(rapid.IntRange(-12, 12).Draw(t, "sides"))
		}
		lo, up := around(t, "sides", at)
		m.row(lo, up, terms...)
	}
	randomConditions(t, m, v, point, planted)
	offset := float64(rapid.IntRange(-9, 9).Draw(t, "offset"))
	terms, _ := expression(t, v, point)
	if rapid.Bool().Draw(t, "max") {
		m.max(offset, terms...)
	} else {
		m.min(offset, terms...)
	}
	return m.Model
}

// randomConditions adds a switch, a semicontinuous column of it, and rows that bind if it and
// perhaps another switch have a value.
func randomConditions(t *rapid.T, m model, v []milp.Var, point []float64, planted bool) {
	if !rapid.Bool().Draw(t, "conditions") {
		return
	}
	a, b, x := m.col(milp.Binary, 0, 1), m.col(milp.Binary, 0, 1),
		m.col(rapid.SampledFrom([]milp.Kind{milp.Continuous, milp.Integer}).Draw(t, "kind"), -1, 3)
	m.Group("semi", "").Semi(x, a, float64(rapid.IntRange(-1, 2).Draw(t, "semi")), 3)
	limited := []milp.Var{a, b, x}
	at := []float64{0, float64(rapid.IntRange(0, 1).Draw(t, "value")), 0}
	for k, w := range v {
		if lo, up := m.Bounds(w); !math.IsInf(lo, 0) && !math.IsInf(up, 0) {
			limited, at = append(limited, w), append(at, point[k])
		}
	}
	for range pickOne(t, "conditional rows", 4) {
		e := new(milp.Expr)
		terms, side := expression(t, limited, at)
		e.Terms = append(e.Terms, terms...)
		if !planted {
			side = float64(rapid.IntRange(-12, 12).Draw(t, "sides"))
		}
		when := []milp.Literal{{Var: a, Not: rapid.Bool().Draw(t, "not")}, {Var: b, Not: rapid.Bool().Draw(t, "not")}}
		c := m.Group("if", "").When(when[:rapid.IntRange(1, 2).Draw(t, "literals")]...)
		if rapid.Bool().Draw(t, "at least") {
			c.AtLeast(e, side)
		} else {
			c.AtMost(e, side)
		}
	}
}

// pickOne draws one of 0, …, n−1, all alike: rapid's ranges prefer small ones.
func pickOne(t *rapid.T, label string, n int) int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return rapid.SampledFrom(all).Draw(t, label)
}

// expression draws the coefficients of some of the variables, and returns the
// value at a point.
func expression(t *rapid.T, v []milp.Var, point []float64) (terms []milp.Term, at float64) {
	for j, x := range v {
		if pickOne(t, "occurs", 3) > 0 {
			c := float64(pickOne(t, "coefficient", 11) - 5)
			terms, at = append(terms, term(c, x)), at+c*point[j]
		}
	}
	return terms, at
}

// around draws bounds that contain at, one in two with an infinite one.
func around(t *rapid.T, label string, at float64) (lo, up float64) {
	lo = at - float64(rapid.IntRange(0, 3).Draw(t, label))
	up = at + float64(rapid.IntRange(0, 3).Draw(t, label))
	switch pickOne(t, label, 8) {
	case 0, 1:
		lo = -inf
	case 2, 3:
		up = inf
	case 4:
		lo, up = -inf, inf
	}
	return lo, up
}
