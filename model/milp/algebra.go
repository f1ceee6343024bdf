package milp

import (
	"fmt"
	"math"
)

// Sum returns Σ v.
func Sum(vars ...Var) *Expr {
	e := new(Expr)
	for _, v := range vars {
		e.Add(1, v)
	}
	return e
}

// Dot returns Σ c[k]·v[k]. It panics if the lengths differ.
func Dot(c []float64, v []Var) *Expr {
	if len(c) != len(v) {
		panic(fmt.Sprintf("milp: %d coefficients of %d variables", len(c), len(v)))
	}
	e := new(Expr)
	for k, x := range v {
		e.Add(c[k], x)
	}
	return e
}

// Value returns the value of v in a point with one value per column.
func (v Var) Value(x []float64) float64 { return x[v.id] }

// difference returns left − right, both unchanged.
func difference(left, right *Expr) *Expr {
	return new(Expr).AddExpr(1, left).AddExpr(-1, right)
}

// LessEqual adds left ≤ right.
func (g Group) LessEqual(left, right *Expr) Constr { return g.AtMost(difference(left, right), 0) }

// GreaterEqual adds left ≥ right.
func (g Group) GreaterEqual(left, right *Expr) Constr { return g.AtLeast(difference(left, right), 0) }

// Equals adds left = right.
func (g Group) Equals(left, right *Expr) Constr { return g.Equal(difference(left, right), 0) }

// LessEqual adds left ≤ right where the condition holds.
func (c Conditional) LessEqual(left, right *Expr) Constr {
	return c.AtMost(difference(left, right), 0)
}

// Between adds lo ≤ e ≤ up where the condition holds, as two rows.
func (c Conditional) Between(lo float64, e *Expr, up float64) (low, high Constr) {
	return c.AtLeast(e, lo), c.AtMost(e, up)
}

// Equal adds e = b where the condition holds, as two rows.
func (c Conditional) Equal(e *Expr, b float64) (low, high Constr) { return c.Between(b, e, b) }

// Product adds z = a·b, for binaries a and b and z within [0, 1], as three rows (McCormick):
// z ≤ a, z ≤ b, z ≥ a + b − 1.
func (g Group) Product(z, a, b Var) {
	g.LessEqual(Sum(z), Sum(a))
	g.LessEqual(Sum(z), Sum(b))
	g.GreaterEqual(Sum(z), Sum(a, b).AddConst(-1))
}

// Piecewise adds y = f(x), for f linear between the points (xs[k], ys[k]) with xs increasing, and so xs[0] ≤ x ≤
// xs[n−1]. With n − 1 segments it adds n − 1 columns name[k], the fraction of segment k below x, and n − 2
// binaries name.full[k]. This is the incremental method of Markowitz and Manne (1957), whose relaxation is the
// convex hull.
func (g Group) Piecewise(name string, x, y Var, xs, ys []float64) {
	n := len(xs)
	if n < 2 || len(ys) != n {
		g.m.failf("%s: %d and %d coordinates, of at least two points: %w", name, n, len(ys), ErrShape)
		return
	}
	part := g.m.List(name, n-1, Continuous, 0, 1)
	full := g.m.List(name+".full", n-2, Binary, 0, 1)
	ex, ey := Sum(x).AddConst(-xs[0]), Sum(y).AddConst(-ys[0])
	for k := range n - 1 {
		if !(xs[k+1] > xs[k]) || math.IsInf(xs[k+1]-xs[k], 0) {
			g.m.failf("%s: points %v and %v do not increase: %w", name, xs[k], xs[k+1], ErrShape)
			return
		}
		ex.Add(xs[k]-xs[k+1], part.At(k))
		ey.Add(ys[k]-ys[k+1], part.At(k))
		if k > 0 {
			g.LessEqual(Sum(part.At(k)), Sum(full.At(k-1)))
		}
		if k < n-2 {
			g.LessEqual(Sum(full.At(k)), Sum(part.At(k)))
		}
	}
	g.Equal(ex, 0)
	g.Equal(ey, 0)
}
