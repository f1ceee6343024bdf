package milp_test

import (
	"math"
	"strings"
	"testing"

	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/enumerate"
)

// best is the optimum by enumeration, NaN: there is none.
func best(t *testing.T, m *milp.Model) (float64, []float64) {
	t.Helper()
	r, err := enumerate.New().Solve(t.Context(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, _ := r.Solution()
	return r.Obj, x
}

// TestProduct: z is a·b in every point.
func TestProduct(t *testing.T) {
	for point := range 4 {
		for _, sign := range []float64{-1, 1} {
			m := milp.New("product")
			a, b, z := m.Var("a", milp.Binary, 0, 1), m.Var("b", milp.Binary, 0, 1), m.Var("z", milp.Continuous, 0, 1)
			m.Group("product", "").Product(z, a, b)
			m.Fix(a, float64(point&1))
			m.Fix(b, float64(point>>1))
			m.Minimize(new(milp.Expr).Add(sign, z))
			if _, x := best(t, m); x == nil || z.Value(x) != a.Value(x)*b.Value(x) {
				t.Errorf("a, b = %d, sign %v: %v", point, sign, x)
			}
		}
	}
}

// TestPiecewise: y is f(x) wherever x is, whichever way it is pushed.
func TestPiecewise(t *testing.T) {
	xs, ys := []float64{0, 1, 3, 4}, []float64{2, 0, 4, 3}
	for at, want := range map[float64]float64{0: 2, 0.5: 1, 1: 0, 2: 2, 3: 4, 3.5: 3.5, 4: 3} {
		for _, sign := range []float64{-1, 1} {
			m := milp.New("piecewise")
			x, y := m.Var("x", milp.Continuous, -10, 10), m.Var("y", milp.Continuous, -10, 10)
			m.Group("f", "").Piecewise("part", x, y, xs, ys)
			m.Fix(x, at)
			m.Minimize(new(milp.Expr).Add(sign, y))
			if _, p := best(t, m); p == nil || math.Abs(y.Value(p)-want) > 1e-9 {
				t.Errorf("x = %v, sign %v: %v, want %v", at, sign, p, want)
			}
		}
	}
	m := milp.New("")
	m.Group("f", "").Piecewise("part", m.Var("x", milp.Continuous, 0, 1), m.Var("y", milp.Continuous, 0, 1), []float64{0, 0}, []float64{0, 1})
	if m.Err() == nil {
		t.Error("points that do not increase are accepted")
	}
}

// TestTwoSides: expressions on both sides, sums, products of arrays, and conditions with two sides.
func TestTwoSides(t *testing.T) {
	m := milp.New("two sides")
	x := []milp.Var{m.Var("x", milp.Integer, 0, 9), m.Var("x", milp.Integer, 0, 9), m.Var("x", milp.Integer, 0, 9)}
	on := m.Var("on", milp.Binary, 0, 1)
	g := m.Group("row", "")
	g.LessEqual(milp.Sum(x[0], x[1]).AddConst(2), milp.Sum(x[2]))
	g.GreaterEqual(milp.Sum(x[1]), milp.Sum(x[0]).AddConst(1))
	g.Equals(milp.Dot([]float64{2, 1}, x[:2]), milp.Dot([]float64{1, -2}, []milp.Var{x[2], on}))
	g.When(milp.Is(on)).Equal(milp.Sum(x[2]), 8)
	g.When(milp.IsNot(on)).Between(3, milp.Sum(x[2]), 5)
	m.Maximize(milp.Sum(x...).AddExpr(10, milp.Sum(on)))
	if obj, p := best(t, m); p == nil || obj != 24 || p[2] != 8 || 2*p[0]+p[1] != 6 {
		t.Errorf("%v at %v", obj, p)
	}
}

// TestMistakesHaveTheirLine: the line of the builder that makes a mistake is in its error.
func TestMistakesHaveTheirLine(t *testing.T) {
	m := milp.New("mistake")
	m.Group("row", "").AtMost(milp.Sum(m.Var("x", milp.Continuous, 0, 1)), math.NaN())
	if err := m.Err(); err == nil || !strings.Contains(err.Error(), "algebra_test.go:") {
		t.Errorf("%v", err)
	}
}
