package enumerate_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/enumerate"
)

// The contract is tested in package solvertest, which knows this backend.

func TestRefusesLargeModels(t *testing.T) {
	for name, build := range map[string]func(m *milp.Model){
		"combinations":     func(m *milp.Model) { m.List("x", 32, milp.Binary, 0, 1) },
		"range":            func(m *milp.Model) { m.Var("x", milp.Integer, 0, 1<<31) },
		"unbounded":        func(m *milp.Model) { m.Var("x", milp.Integer, 0, 1e30) },
		"continuous":       func(m *milp.Model) { m.List("x", 201, milp.Continuous, 0, 1) },
		"continuous, rows": func(m *milp.Model) { rows(m, m.Var("x", milp.Continuous, 0, 1), 501) },
	} {
		m := milp.New(name)
		build(m)
		rows(m, m.Col(0).Var(), 1)
		_, err := enumerate.New().Solve(t.Context(), m, solvers.Options{})
		if !errors.Is(err, solvers.ErrUnsupported) || !strings.Contains(err.Error(), solvers.CanLarge.String()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func rows(m *milp.Model, v milp.Var, n int) {
	g := m.Group("row", "")
	for range n {
		g.AtMost(new(milp.Expr).Add(1, v), 1)
	}
}

func TestTakesTheLargestModels(t *testing.T) {
	for name, build := range map[string]func(m *milp.Model){
		"combinations": func(m *milp.Model) { m.List("x", 31, milp.Binary, 0, 1) },
		"rows":         func(m *milp.Model) { rows(m, m.Var("x", milp.Integer, 0, 1), 501) },
	} {
		m := milp.New(name)
		build(m)
		rows(m, m.Col(0).Var(), 1)
		// Nothing is wanted, so the first point is the optimum.
		r, err := enumerate.New().Solve(t.Context(), m, solvers.Options{})
		if err != nil || r.Status != solvers.Optimal {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// TestPartialStart checks that given values are tried first, and that the rest
// of the search is not confined to them.
func TestPartialStart(t *testing.T) {
	m := milp.New("start")
	x := m.List("x", 20, milp.Integer, 0, 1)
	var e milp.Expr
	for j := range 20 {
		e.Add(float64(1+j%3), x.At(j))
	}
	m.Group("some", "").AtLeast(&e, 7)
	m.Minimize(&e)
	start := slices.Repeat([]float64{math.NaN()}, 20)
	start[19] = 1
	var first []float64
	r, err := enumerate.New().Solve(t.Context(), m, solvers.Options{Start: start, OnProgress: func(p solvers.Progress) {
		if first == nil {
			first = p.X
		}
	}})
	if err != nil || r.Status != solvers.Optimal || r.Obj != 7 || r.Start != solvers.StartAccepted {
		t.Fatalf("%+v, %v", r, err)
	}
	if first == nil || first[19] != 1 {
		t.Errorf("the first incumbent is %v", first)
	}

	// Two values that leave nothing: the search must go on without them.
	g := m.Group("not both", "")
	g.AtMost(e.Reset().Add(1, x.At(0)).Add(1, x.At(19)), 1)
	start[0] = 1
	r, err = enumerate.New().Solve(t.Context(), m, solvers.Options{Start: start})
	if err != nil || r.Status != solvers.Optimal || r.Obj != 7 || r.Start != solvers.StartRejected {
		t.Fatalf("%+v, %v", r, err)
	}
}
