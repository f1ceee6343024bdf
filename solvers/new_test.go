package solvers

import (
	"context"
	"testing"

	"workbench/model/milp"
)

// fakeEngine answers what a test tells it.
type fakeEngine struct {
	can Features
	run func(ctx context.Context, p *Problem) (*Answer, error)
}

func (f fakeEngine) Name() string  { return "fake 1" }
func (f fakeEngine) Can() Features { return f.can }
func (f fakeEngine) Run(ctx context.Context, p *Problem) (*Answer, error) {
	return f.run(ctx, p)
}

// pick is max 3x + 2y, x + y ≤ 4, x ≤ 3, integers: 11 at (3, 1).
func pick() *milp.Model {
	m := milp.New("pick")
	x, y := m.Var("x", milp.Integer, 0, 3), m.Var("y", milp.Integer, 0, 4)
	var e milp.Expr
	m.Group("sum", "").AtMost(e.Add(1, x).Add(1, y), 4)
	m.Maximize(e.Reset().Add(3, x).Add(2, y))
	return m
}

func TestSeam(t *testing.T) {
	b := New(fakeEngine{CanInteger, func(_ context.Context, p *Problem) (*Answer, error) {
		return &Answer{Status: Optimal, X: []float64{2.9999999, 1}, Bound: 11.000001}, nil
	}})
	r, err := b.Solve(t.Context(), pick(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != Optimal || r.Obj != 11 || r.X[0] != 3 || r.Bound != 11.000001 {
		t.Fatalf("%+v", r)
	}
}
