package solvers_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
)

// packing asks for three boxes of size 4 in two bins of size 5, among rows that
// have nothing to do with it. Bounds propagation does not see it.
func packing() *milp.Model {
	m := milp.New("packing")
	in := m.Grid("in", 3, 2, milp.Binary, 0, 1)
	weight := m.List("weight", 4, milp.Continuous, 0, 10)
	somewhere := m.Group("somewhere", "[001] (2)").Label(func(i int) string { return fmt.Sprintf("box %d", i) })
	memory := m.Group("memory", "[001] (4)")
	other := m.Group("weights", "")
	var e milp.Expr
	for i := range 3 {
		somewhere.Equal(e.Reset().Add(1, in.At(i, 0)).Add(1, in.At(i, 1)), 1)
		other.Between(1, e.Reset().Add(1, weight.At(i)).Add(2, weight.At(i+1)), 9)
	}
	for k := range 2 {
		e.Reset()
		for i := range 3 {
			e.Add(4, in.At(i, k))
		}
		memory.AtMost(&e, 5)
	}
	other.AtMost(e.Reset().Add(1, weight.At(0)).Add(-1, in.At(0, 0)), 3)
	m.Maximize(e.Reset().Add(1, weight.At(3)))
	return m
}

// limits is a slip: more is wanted than the bounds give.
func limits() *milp.Model {
	m := milp.New("limits")
	x := m.List("x", 3, milp.Integer, 0, 2)
	var e milp.Expr
	m.Group("free", "").AtMost(e.Add(1, x.At(0)).Add(1, x.At(1)), 9)
	m.Group("demand", "[002] (7)").AtLeast(e.Reset().Add(2, x.At(0)).Add(3, x.At(2)), 12)
	return m
}

func TestExplain(t *testing.T) {
	for name, m := range map[string]*milp.Model{"packing.txt": packing(), "limits.txt": limits()} {
		e, err := solvers.Explain(t.Context(), enumerate.New(), m, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if e.Status != solvers.Infeasible || !e.Conflict.Minimal || !e.Least {
			t.Errorf("%s: %+v", name, e)
		}
		testfile.Golden(t, "explain_"+name, e.Text(m))
	}
}

func TestExplainCrossedBounds(t *testing.T) {
	m := milp.New("crossed")
	m.Var("x", milp.Continuous, 2, 1)
	e, err := solvers.Explain(t.Context(), enumerate.New(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Status != solvers.Infeasible || e.Probes != 0 || len(e.Conflict.Bounds) != 2 {
		t.Errorf("%+v", e)
	}
	testfile.Golden(t, "explain_crossed.txt", e.Text(m))
}

func TestExplainFeasible(t *testing.T) {
	m := milp.New("fine")
	m.Var("x", milp.Integer, 0, 1)
	e, err := solvers.Explain(t.Context(), enumerate.New(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Status != solvers.Feasible || e.Conflict != nil || e.Text(m) != "model fine has a solution\n" {
		t.Errorf("%+v", e)
	}
}

func TestExplainRefuses(t *testing.T) {
	bad := milp.New("bad")
	bad.Var("x", milp.Integer, math.NaN(), 1)
	for _, m := range []*milp.Model{nil, bad} {
		if _, err := solvers.Explain(t.Context(), enumerate.New(), m, solvers.Options{}); !errors.Is(err, solvers.ErrModel) {
			t.Error(err)
		}
	}
}

// tired solves a few models and finds nothing from then on.
type tired struct {
	solvers.Backend
	left int
}

func (b *tired) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	if b.left--; b.left < 0 {
		return &solvers.Result{Status: solvers.NoSolution, Stop: solvers.Time, Bound: math.Inf(-1)}, nil
	}
	return b.Backend.Solve(ctx, m, o)
}

// TestExplainWithinLimits checks that a conflict is not called minimal, but is
// one, however few probes are decided.
func TestExplainWithinLimits(t *testing.T) {
	m := packing()
	full, err := solvers.Explain(t.Context(), enumerate.New(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for left := range full.Probes {
		e, err := solvers.Explain(t.Context(), &tired{enumerate.New(), left}, m, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			if e.Status != solvers.NoSolution || e.Conflict != nil {
				t.Errorf("%+v", e)
			}
			testfile.Golden(t, "explain_undecided.txt", e.Text(m))
			continue
		}
		if e.Status != solvers.Infeasible || e.Conflict.Minimal {
			t.Errorf("%d probes: %+v", left, e)
		}
		if feasible(t, m, e.Conflict.Rows) {
			t.Errorf("%d probes: what is left has a solution", left)
		}
	}
}

func TestExplainCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := &cancelling{enumerate.New(), 4, cancel}
	m := packing()
	e, err := solvers.Explain(ctx, b, m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Status != solvers.Infeasible || e.Conflict.Minimal || feasible(t, m, e.Conflict.Rows) {
		t.Errorf("%+v", e)
	}
}

// cancelling cancels after a few solves.
type cancelling struct {
	solvers.Backend
	left   int
	cancel func()
}

func (b *cancelling) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	if b.left--; b.left < 0 {
		b.cancel()
	}
	return b.Backend.Solve(ctx, m, o)
}

// feasible reports whether the given sides of the rows of m have a solution.
func feasible(t interface{ Fatalf(string, ...any) }, m *milp.Model, sides []milp.Limit) bool {
	d := m.Data()
	lower, upper := slices.Repeat([]float64{math.Inf(-1)}, m.NumRows()), slices.Repeat([]float64{math.Inf(1)}, m.NumRows())
	for _, s := range sides {
		if s.Side == milp.Below {
			lower[s.Index] = d.RowLower[s.Index]
		} else {
			upper[s.Index] = d.RowUpper[s.Index]
		}
	}
	d.RowLower, d.RowUpper = lower, upper
	d.Cost = make([]float64, len(d.Cost))
	r, err := enumerate.New().Solve(context.Background(), milp.FromData(d), solvers.Options{})
	if err != nil {
		t.Fatalf("%v", err)
	}
	_, ok := r.Solution()
	return ok
}

// TestExplainRandom checks conflicts and relief by definition: the conflict has
// no solution, less of it has one, and with the relief all has one.
func TestExplainRandom(t *testing.T) {
	found := 0
	testfile.Property(t, func(t *rapid.T) {
		m := milp.New("random")
		x := m.List("x", 4, milp.Integer, 0, 2)
		y := m.List("y", 2, milp.Continuous, -1, 4)
		small := rapid.IntRange(-3, 3)
		for i := range rapid.IntRange(2, 7).Draw(t, "rows") {
			var e milp.Expr
			for j := range 4 {
				e.Add(float64(small.Draw(t, "a")), x.At(j))
			}
			for j := range 2 {
				e.Add(float64(small.Draw(t, "b")), y.At(j))
			}
			lo := float64(rapid.IntRange(-4, 9).Draw(t, "lo"))
			m.Group(fmt.Sprintf("group %d", i%3), "").Between(lo, &e, lo+float64(rapid.IntRange(0, 3).Draw(t, "width")))
		}
		e, err := solvers.Explain(context.Background(), enumerate.New(), m, solvers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if e.Status == solvers.Feasible {
			return
		}
		found++
		if e.Status != solvers.Infeasible || !e.Conflict.Minimal {
			t.Fatalf("%+v", e)
		}
		rows := e.Conflict.Rows
		if feasible(t, m, rows) {
			t.Fatalf("the conflict has a solution:\n%s", e.Text(m))
		}
		for k := range rows {
			if !feasible(t, m, slices.DeleteFunc(slices.Clone(rows), func(l milp.Limit) bool { return l.Index == rows[k].Index })) {
				t.Fatalf("%v is not needed:\n%s", rows[k], e.Text(m))
			}
		}
		relieved := m.Data()
		relieved.RowLower, relieved.RowUpper = slices.Clone(relieved.RowLower), slices.Clone(relieved.RowUpper)
		for _, r := range e.Relief {
			if r.Side.Side == milp.Below {
				relieved.RowLower[r.Side.Index] -= r.Amount
			} else {
				relieved.RowUpper[r.Side.Index] += r.Amount
			}
		}
		r, err := enumerate.New().Solve(context.Background(), milp.FromData(relieved), solvers.Options{})
		if err != nil || r.Status != solvers.Optimal {
			t.Fatalf("no solution in spite of relief: %v, %v\n%s", r, err, e.Text(m))
		}
	})
	if found == 0 {
		t.Error("no random model was infeasible: the test says nothing")
	}
}
