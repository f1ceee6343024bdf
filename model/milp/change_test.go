package milp

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/testfile"
)

// A model whose columns come one by one after its rows is the model whose rows come after
// its columns.
func TestColumnAfterRows(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(1, 5).Draw(t, "columns")
		a := make([][]float64, rows)
		for i := range a {
			for range cols {
				a[i] = append(a[i], float64(rapid.IntRange(-2, 2).Draw(t, "entry")))
			}
		}
		early, late := New("model"), New("model")
		var e, cost Expr
		var x []Var
		for j := range cols {
			x = append(x, early.Var("x", Integer, 0, float64(j)))
			cost.Add(float64(j-2), x[j])
		}
		early.Minimize(&cost)
		var handles []Constr
		for i := range rows {
			e.Reset()
			for j := range cols {
				e.Add(a[i][j], x[j])
			}
			early.Group("g", "").AtMost(&e, float64(i))
			handles = append(handles, late.Group("g", "").AtMost(new(Expr), float64(i)))
		}
		before := late.Clone()
		for j := range cols {
			var entries []Entry
			for i := range rows { // in two parts
				entries = append(entries, Entry{handles[i], a[i][j] - 1}, Entry{handles[i], 1})
			}
			late.Column("x", Integer, 0, float64(j), float64(j-2), entries)
		}
		if err := late.Err(); err != nil {
			t.Fatal(err)
		}
		sameModel(t, ungrouped(early), ungrouped(late))
		if before.NumCols() != 0 || before.NumNonzeros() != 0 {
			t.Fatal("the copy changed")
		}
		// Rows may follow.
		late.Group("g", "").AtMost(e.Reset().Add(2, late.Col(0).Var()).Add(1, late.Col(0).Var()), 7)
		if r := late.Row(rows); len(r.Val) != 1 || r.Val[0] != 3 {
			t.Fatalf("a row after columns is %v", r)
		}
	})
}

// Sides change in the model and not in its copies; what is foreign or no number is a mistake.
func TestSetSides(t *testing.T) {
	m := New("model")
	x := m.Var("x", Continuous, 0, 1)
	c := m.Group("g", "").AtMost(new(Expr).Add(1, x), 3)
	before := m.Clone()
	m.SetSides(c, -1, 2)
	if r := m.Row(0); r.Lower != -1 || r.Upper != 2 {
		t.Errorf("%v", r)
	}
	if r := before.Row(0); r.Upper != 3 {
		t.Errorf("the copy has %v", r)
	}
	before.SetSides(c, math.Inf(-1), 5) // it is its row, too
	if diff := cmp.Diff([]float64{2, 5}, []float64{m.Row(0).Upper, before.Row(0).Upper}); diff != "" {
		t.Error(diff)
	}
	for _, mistake := range []struct {
		do func(*Model)
		is error
	}{
		{func(m *Model) { m.SetSides(Constr{}, 0, 1) }, ErrForeignRow},
		{func(m *Model) { m.SetSides(c, math.NaN(), 1) }, ErrNotFinite},
		{func(m *Model) { m.SetSides(c, math.Inf(1), math.Inf(1)) }, ErrNotFinite},
		{func(m *Model) { m.Column("y", Continuous, 0, 1, math.NaN(), nil) }, ErrNotFinite},
		{func(m *Model) { m.Column("y", Continuous, 0, 1, 0, []Entry{{c, math.Inf(1)}}) }, ErrNotFinite},
		{func(m *Model) { m.Column("y", Continuous, 0, 1, 0, []Entry{{Constr{}, 1}}) }, ErrForeignRow},
	} {
		wrong := m.Clone()
		mistake.do(wrong)
		if err := wrong.Err(); !errors.Is(err, mistake.is) {
			t.Errorf("%v, want %v", err, mistake.is)
		}
	}
}
