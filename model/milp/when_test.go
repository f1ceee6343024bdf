package milp

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

// Plain has the solutions of the model, of all points of a grid, whatever the numbers; its
// constants are the least that leave out nothing, and columns, rows and names are the same.
func TestPlainIsTheModel(t *testing.T) {
	feasible, bound := 0, 0
	testfile.Property(t, func(t *rapid.T) {
		m := randomConditional(t)
		p := m.Plain()
		if err := m.Err(); err != nil || p.Err() != nil {
			t.Fatal(err, p.Err())
		}
		if p.NumCols() != m.NumCols() || !slices.Equal(p.RowNames(), m.RowNames()) || p.Plain() != p {
			t.Fatal("not the same columns and rows")
		}
		for x := range grid(m) {
			have, want := len(p.Violations(x, 1e-9)) == 0, len(m.Violations(x, 1e-9)) == 0
			if have != want {
				t.Fatalf("%v: %t without conditions, %t with\n%s", x, have, want, text(m))
			}
			if want {
				feasible++
			}
			for r := range m.Rows() {
				if !r.Binds(x) && !missesNothing(r, x) {
					bound++
				}
			}
		}
	})
	if feasible < 1000 || bound < 1000 {
		t.Errorf("%d feasible points, %d rows that conditions switch off", feasible, bound)
	}
}

func missesNothing(r Row, x []float64) bool {
	sum := 0.0
	for k, j := range r.Col {
		sum += r.Val[k] * x[j]
	}
	return r.Lower <= sum && sum <= r.Upper
}

// randomConditional draws a model of two binaries, an integer and a continuous column with
// conditional rows over all of them.
func randomConditional(t *rapid.T) *Model {
	m := New("random")
	v := []Var{m.Var("a", Binary, 0, 1), m.Var("b", Binary, 0, 1), m.Var("n", Integer, -2, 2), m.Var("x", Continuous, -1, 1.5)}
	g := m.Group("if", "")
	coefficient := rapid.OneOf(rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }), rapid.Float64Range(-2, 2))
	for range rapid.IntRange(1, 4).Draw(t, "rows") {
		e := new(Expr)
		for _, x := range v {
			e.Add(coefficient.Draw(t, "coefficient"), x)
		}
		var when []Literal
		for _, x := range v[:2] {
			if rapid.Bool().Draw(t, "occurs") {
				when = append(when, Literal{x, rapid.Bool().Draw(t, "not")})
			}
		}
		side := rapid.Float64Range(-4, 4).Draw(t, "side")
		if rapid.Bool().Draw(t, "at least") {
			g.When(when...).AtLeast(e, side)
		} else {
			g.When(when...).AtMost(e, side)
		}
	}
	m.Minimize(new(Expr).Add(1, v[3]))
	return m
}

// grid yields the integer points of m with some values of the last column.
func grid(m *Model) func(func([]float64) bool) {
	return func(yield func([]float64) bool) {
		for i := range 4 * 5 * 11 {
			x := []float64{float64(i % 2), float64(i / 2 % 2), float64(i/4%5 - 2), -1 + 0.25*float64(i/20)}
			if !yield(x) {
				return
			}
		}
	}
}

// The constants are the least, by hand.
func TestPlainConstants(t *testing.T) {
	m := New("constants")
	y, z := m.Var("y", Binary, 0, 1), m.Var("z", Binary, 0, 1)
	s, u := m.Var("s", Continuous, 0, 10), m.Var("u", Continuous, 2, 7)
	g := m.Group("order", "")
	row := g.When(Is(y)).AtMost(new(Expr).Add(1, s).Add(-1, u), -3)           // at most 8: M = 11
	g.When(IsNot(y)).AtLeast(new(Expr).Add(1, s).Add(-1, u), 4)               // at least −7: M = 11
	g.When(Is(y), IsNot(z)).AtMost(new(Expr).Add(1, s).Add(2, y), 4)          // at most 12, its own column counted: M = 8
	g.When(Is(y)).AtMost(new(Expr).Add(1, s), 12)                             // always so
	g.When(Is(y)).AtMost(new(Expr).Add(math.Nextafter(1, 2), s).Add(1, u), 3) // not exact: weaker
	want := []string{
		"order[0]: s - u + 11 y ≤ 8", "order[1]: s - u + 11 y ≥ 4", "order[2]: s + 10 y - 8 z ≤ 12", "order[3]: s ≤ 12",
	}
	for i, w := range want {
		if have := m.Plain().Row(i).String(); have != w {
			t.Errorf("%s, want %s", have, w)
		}
	}
	if have, want := m.Row(2).String(), "order[2]: if y = 1 and z = 0: s + 2 y ≤ 4"; have != want {
		t.Errorf("%s, want %s", have, want)
	}
	// The condition goes where the row goes, and the bounds and sides are those of the end.
	m.SetBounds(u, 1, 7)
	m.SetSides(row, -inf, -4)
	for _, c := range []*Model{m, m.Clone(), m.Filter(func(i int) bool { return i == 0 })} {
		if have, want := c.Plain().Row(0).String(), "order[0]: s - u + 13 y ≤ 9"; have != want {
			t.Errorf("%s, want %s", have, want)
		}
	}
	if less, err := m.Without("order"); err != nil || less.Plain() != less {
		t.Error("a row left out has a condition")
	}
}

func TestConditionalMistakes(t *testing.T) {
	other := New("other")
	foreign := other.Var("y", Binary, 0, 1)
	for _, x := range []struct {
		build func(m *Model, y, n, free Var) Literal
		want  error
		says  string
	}{
		{func(_ *Model, _, _, _ Var) Literal { return Is(foreign) }, ErrForeignVar, "rows[0]: its condition"},
		{func(_ *Model, _, n, _ Var) Literal { return Is(n) }, ErrNotBinary, "rows[0]: its condition on n, which is integer"},
		{func(m *Model, y, _, free Var) Literal {
			m.SetBounds(free, 0, inf)
			return Is(y)
		}, ErrUnlimited, "rows[0] binds if y = 1 only"},
		{func(m *Model, y, _, free Var) Literal {
			m.Group("rows", "").When(Is(y)).AtMost(new(Expr), 3)
			m.SetSides(Constr{0, m.tag}, 0, 1)
			return Is(y)
		}, ErrShape, "rows[0]: sides [0, 1]"},
	} {
		m := New("mistakes")
		y, n, free := m.Var("y", Binary, 0, 1), m.Var("n", Integer, 0, 1), m.Var("free", Continuous, 0, 4)
		l := x.build(m, y, n, free)
		m.Group("rows", "").When(l).AtMost(new(Expr).Add(1, free), 3)
		if err := m.Err(); !errors.Is(err, x.want) || !strings.Contains(fmt.Sprint(err), x.says) {
			t.Errorf("%v, want %v: %s", err, x.want, x.says)
		}
	}
}

func TestSemi(t *testing.T) {
	for _, x := range []struct{ least, lo, up float64 }{{0, 2, 3}, {0, 0, 3}, {-4, -4, -1}, {-4, -2, 3}} {
		m := New("semi")
		v, on := m.Var("x", Continuous, x.least, 3), m.Var("on", Binary, 0, 1)
		m.Group("semi", "").Semi(v, on, x.lo, x.up)
		for at := x.least; at <= 3; at += 0.5 {
			for _, y := range []float64{0, 1} {
				want := y == 0 && at == 0 || y == 1 && x.lo <= at && at <= x.up
				if have := len(m.Violations([]float64{at, y}, 1e-9)) == 0; have != want {
					t.Errorf("%+v: x = %g, on = %g: %t", x, at, y, have)
				}
			}
		}
	}
}

func text(m *Model) string {
	var b strings.Builder
	_ = m.Print(&b) // a Builder takes anything
	_ = m.Plain().Print(&b)
	return b.String()
}
