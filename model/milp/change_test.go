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

// A model whose coefficients change and whose rows go is the one that was built so; copies keep theirs.
func TestChangeRows(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 4).Draw(t, "rows"), rapid.IntRange(1, 4).Draw(t, "columns")
		entry := func() float64 { return float64(rapid.IntRange(-2, 2).Draw(t, "entry")) }
		build := func(a [][]float64, gone []bool) (*Model, []Constr) {
			m := New("model")
			x := m.List("x", cols, Continuous, 0, 3)
			on := m.Var("on", Binary, 0, 1)
			handles := make([]Constr, rows)
			for i := range a {
				var e Expr
				for j := range cols {
					e.Add(a[i][j], x.At(j))
				}
				switch {
				case gone[i]:
					handles[i] = m.Group("g", "").Between(math.Inf(-1), new(Expr), math.Inf(1))
				case i%2 == 1:
					handles[i] = m.Group("g", "").When(Is(on)).AtMost(&e, float64(i))
				default:
					handles[i] = m.Group("g", "").AtMost(&e, float64(i))
				}
			}
			return m, handles
		}
		a := make([][]float64, rows)
		for i := range a {
			for range cols {
				a[i] = append(a[i], entry())
			}
		}
		gone := make([]bool, rows)
		m, handles := build(a, gone)
		before, _ := build(a, gone)
		shared := m.Clone()
		for range rapid.IntRange(1, 6).Draw(t, "changes") {
			i, j := rapid.IntRange(0, rows-1).Draw(t, "row"), rapid.IntRange(0, cols-1).Draw(t, "column")
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				m.RemoveRow(handles[i])
				gone[i] = true
			} else if !gone[i] {
				a[i][j] = entry()
				m.SetCoef(handles[i], m.Col(j).Var(), a[i][j])
			}
		}
		if err := m.Err(); err != nil {
			t.Fatal(err)
		}
		want, _ := build(a, gone)
		for _, x := range []*Model{m, want} { // rows follow
			x.Group("g", "").AtMost(new(Expr).Add(2, x.Col(0).Var()).Add(1, x.Col(0).Var()), 7)
		}
		sameModel(t, want.Plain(), m.Plain())
		sameModel(t, before, shared)
	})
	m := New("model")
	x := m.Var("x", Continuous, 0, 1)
	c := m.Group("g", "").AtMost(new(Expr).Add(1, x), 3)
	for _, mistake := range []struct {
		do func(*Model)
		is error
	}{
		{func(m *Model) { m.SetCoef(Constr{}, x, 1) }, ErrForeignRow},
		{func(m *Model) { m.SetCoef(c, Var{}, 1) }, ErrForeignVar},
		{func(m *Model) { m.SetCoef(c, x, math.Inf(1)) }, ErrNotFinite},
		{func(m *Model) { m.RemoveRow(Constr{}) }, ErrForeignRow},
	} {
		wrong := m.Clone()
		if mistake.do(wrong); !errors.Is(wrong.Err(), mistake.is) {
			t.Errorf("%v, want %v", wrong.Err(), mistake.is)
		}
	}
}
