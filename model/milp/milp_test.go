package milp

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"workbench/model/testfile"
)

// zoo is a small model with one of everything: all kinds and bounds, every
// form of row, names that no file takes, a constant to maximise.
func zoo() *Model {
	m := New("zoo: one of everything")
	x := m.Grid("x", 2, 2, Binary, 0, 1)
	n := m.List("n", 3, Integer, 0, inf)
	m.SetBounds(n.At(1), -7, 12)
	m.SetBounds(n.At(2), -inf, -2)
	free := m.Var("free", Continuous, -inf, inf)
	neg := m.Var("negative", Continuous, -inf, -1.5)
	fixed := m.Var("end", Continuous, 2.25, 2.25)
	at := Vars(m, "at", []string{"conv 1", "e2", "é"}, Continuous, 0, 1e30)
	conv, _ := at.At("conv 1")
	e2, _ := at.At("e2")
	m.Var("unused", Continuous, 0, 1)
	m.Var("unused", Integer, 0, inf)

	var e Expr
	memory := m.Group("memory", "[001] (4)").Label(func(i int) string { return "gpu " + string(rune('0'+i)) })
	memory.AtMost(e.Reset().Add(3, x.At(0, 0)).Add(2.5, x.At(0, 1)).Add(1, n.At(0)).AddConst(1), 11)
	memory.AtMost(e.Reset().Add(1e6, x.At(1, 0)).Add(-1, conv), 0)
	once := m.Group("once", "")
	once.Equal(e.Reset().Add(1, x.At(1, 0)).Add(1, x.At(1, 1)), 1)
	once.Between(-2, e.Reset().Add(1, n.At(1)).Add(0.1, neg), 4.75)
	odd := m.Group("odd", "nowhere")
	odd.AtLeast(e.Reset().Add(1, free).Add(1, neg), -30)
	odd.Between(-inf, e.Reset().Add(1, free), inf)
	odd.AtMost(e.Reset().Add(1, free).Add(-1, free), 3)
	odd.AtLeast(e.Reset().Add(-1, conv).Add(-1, e2).Add(1, fixed), -20)
	m.Maximize(e.Reset().Add(2, x.At(0, 0)).Add(1, x.At(0, 1)).Add(-4, x.At(1, 1)).Add(1.5, n.At(0)).
		Add(-0.25, n.At(1)).Add(1, n.At(2)).Add(-1, free).Add(1, neg).Add(1, fixed).Add(0.5, conv).Add(0.1, e2).AddConst(-7.5))
	return m
}

func TestGolden(t *testing.T) {
	m := zoo()
	if err := m.Err(); err != nil {
		t.Fatal(err)
	}
	var print, lp, free, fixed strings.Builder
	if err := m.Print(&print); err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, "zoo.txt", print.String())
	testfile.Golden(t, "zoo.stats", m.Stats().String())
	if _, err := m.WriteLP(&lp); err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, "zoo.lp", lp.String())
	if _, err := m.WriteMPS(&free, FreeMPS); err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, "zoo.mps", free.String())
	if _, err := m.WriteMPS(&fixed, FixedMPS); err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, "zoo_fixed.mps", fixed.String())
}

// dense is a model as a matrix, the plain way.
type dense struct {
	a          [][]float64
	lo, up     []float64
	cost       []float64
	lower, upp []float64
	kind       []Kind
	offset     float64
	group      []int
}

// coefficients are small and dyadic, so that sums are exact in any order.
func coefficient(t *rapid.T, label string) float64 {
	return float64(rapid.IntRange(-12, 12).Draw(t, label)) / 4
}

func bounds(t *rapid.T) (lo, up float64) {
	lo = coefficient(t, "lower")
	up = lo + float64(rapid.IntRange(0, 12).Draw(t, "width"))/4
	switch rapid.IntRange(0, 7).Draw(t, "open") {
	case 0:
		lo = -inf
	case 1:
		up = inf
	case 2:
		lo, up = -inf, inf
	case 3:
		up = lo
	case 4:
		lo, up = 0, inf
	case 5:
		lo, up = 0, 1
	}
	return lo, up
}

// anyModel draws a model with repeated, cancelling and zero terms, and the same
// model dense.
func anyModel(t *rapid.T) (*Model, *dense) {
	m, d := New(rapid.String().Draw(t, "name")), &dense{}
	var vars []Var
	for range rapid.IntRange(0, 4).Draw(t, "families") {
		n := rapid.IntRange(0, 3).Draw(t, "size")
		k := rapid.SampledFrom([]Kind{Continuous, Integer, Binary}).Draw(t, "kind")
		lo, up := bounds(t)
		if k == Binary {
			lo, up = math.Min(lo, 1), math.Max(up, 0) // or they cross within [0, 1]
		}
		l := m.List(rapid.StringN(0, 6, -1).Draw(t, "family"), n, k, lo, up)
		if k == Binary {
			lo, up = math.Max(lo, 0), math.Min(up, 1)
		}
		for i := range n {
			vars = append(vars, l.At(i))
			d.lower, d.upp, d.kind = append(d.lower, lo), append(d.upp, up), append(d.kind, k)
		}
	}
	groups := make([]Group, rapid.IntRange(1, 3).Draw(t, "groups"))
	for g := range groups {
		groups[g] = m.Group(string(rune('a'+g)), "")
	}
	expr := func() (Expr, []float64) {
		var e Expr
		row := make([]float64, len(vars))
		if len(vars) > 0 {
			for range rapid.IntRange(0, 8).Draw(t, "terms") {
				j, c := rapid.IntRange(0, len(vars)-1).Draw(t, "column"), coefficient(t, "coefficient")
				e.Add(c, vars[j])
				row[j] += c
			}
		}
		e.AddConst(coefficient(t, "constant"))
		return e, row
	}
	for range rapid.IntRange(0, 6).Draw(t, "rows") {
		e, row := expr()
		lo, up := bounds(t)
		g := rapid.IntRange(0, len(groups)-1).Draw(t, "group")
		groups[g].Between(lo, &e, up)
		d.a, d.lo, d.up, d.group = append(d.a, row), append(d.lo, lo-e.Const), append(d.up, up-e.Const), append(d.group, g)
	}
	e, row := expr()
	d.cost, d.offset = row, e.Const
	if rapid.Bool().Draw(t, "maximize") {
		m.Maximize(&e)
	} else {
		m.Minimize(&e)
	}
	return m, d
}

func matrix(m *Model) [][]float64 {
	a := make([][]float64, 0, m.NumRows())
	for r := range m.Rows() {
		row := make([]float64, m.NumCols())
		for k, j := range r.Col {
			row[j] += r.Val[k]
		}
		a = append(a, row)
	}
	return a
}

func TestMergeIsDenseArithmetic(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m, d := anyModel(t)
		if err := m.Err(); err != nil {
			t.Fatal(err)
		}
		for r := range m.Rows() {
			seen := map[int32]bool{}
			for k, j := range r.Col {
				if seen[j] || r.Val[k] == 0 {
					t.Fatalf("%v: column %d twice, or a zero", r, j)
				}
				seen[j] = true
			}
		}
		data := m.Data()
		got := dense{matrix(m), data.RowLower, data.RowUpper, data.Cost, data.Lower, data.Upper, m.kind, data.Offset, nil}
		want := *d
		want.group = nil
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(dense{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestViolationsNaive(t *testing.T) {
	const tol = 1e-6
	testfile.Property(t, func(t *rapid.T) {
		m, d := anyModel(t)
		x := make([]float64, len(d.lower))
		for j := range x {
			x[j] = coefficient(t, "x")
		}
		type broken struct {
			Rule   Rule
			Index  int
			Side   Side
			Amount float64
		}
		var want []broken
		sides := func(r Rule, i int, lo, v, up float64) {
			if v < lo {
				want = append(want, broken{r, i, Below, lo - v})
			}
			if v > up {
				want = append(want, broken{r, i, Above, v - up})
			}
		}
		for j, v := range x {
			sides(BoundRule, j, d.lower[j], v, d.upp[j])
			if r := math.Round(v); d.kind[j] != Continuous && v != r {
				want = append(want, broken{IntegerRule, j, Below, math.Abs(v - r)})
			}
		}
		objective := d.offset
		for j := range x {
			objective += d.cost[j] * x[j]
		}
		var activity []float64
		for i, row := range d.a {
			sum := 0.
			for j, a := range row {
				sum += a * x[j]
			}
			activity = append(activity, sum)
			sides(RowRule, i, d.lo[i], sum, d.up[i])
		}
		var got []broken
		for _, v := range m.Violations(x, tol) {
			got = append(got, broken{v.Rule, v.Index, v.Side, v.Amount})
			if v.Name() == "?" || v.String() == "" {
				t.Fatalf("no text for %+v", v)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if got := m.Objective(x); got != objective {
			t.Fatalf("objective %v, want %v", got, objective)
		}
		if diff := cmp.Diff(activity, m.Activity(x), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestViolationTolerance(t *testing.T) {
	m := New("tolerance")
	x, y := m.Var("x", Integer, 0, 1e6), m.Var("y", Continuous, -inf, inf)
	g := m.Group("row", "")
	var e Expr
	g.AtMost(e.Reset().Add(1, y), 0)             // absolute
	g.AtMost(e.Reset().Add(1, y).Add(1, x), 1e6) // relative to the side
	g.AtMost(e.Reset().Add(1e7, x).Add(-1, y), 0)
	if err := m.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x, y float64
		want []string
	}{
		{0, 0, nil},
		{0, 1e-7, nil},
		{0, 1e-5, []string{"row[0] is 1e-05, above 0 by 1e-05"}},
		{1e6 + 0.5, -1e13, []string{"x is 1.0000005e+06, not an integer", "row[2] is 20000005000000, above 0 by 20000005000000"}},
		// The largest term of row[2] excuses 0.01, not 0.02.
		{1, 1e7 - 0.01, []string{
			"row[0] is 9.99999999e+06, above 0 by 9.99999999e+06",
			"row[1] is 1.000000099e+07, above 1000000 by 9.00000099e+06",
		}},
		{1, 1e7 - 0.0625, []string{
			"row[0] is 9.9999999375e+06, above 0 by 9.9999999375e+06",
			"row[1] is 1.00000009375e+07, above 1000000 by 9.0000009375e+06", "row[2] is 0.0625, above 0 by 0.0625",
		}},
		// A switch that is almost off must not excuse its row.
		{1e-6, -0.5, []string{"row[2] is 10.5, above 0 by 10.5"}},
		{math.NaN(), -1, []string{"x is NaN"}},
		{2, -inf, []string{"y is -∞"}},
	} {
		var got []string
		for _, v := range m.Violations([]float64{c.x, c.y}, 1e-6) {
			got = append(got, v.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("x = %v, y = %v: %s", c.x, c.y, diff)
		}
	}
	if v := m.Violations([]float64{1}, 1e-6); len(v) != 1 || v[0].String() != "1 values for 2 columns" {
		t.Errorf("short point: %v", v)
	}
	if !math.IsNaN(m.Objective(nil)) || m.Activity(nil) != nil {
		t.Error("a point of the wrong length was evaluated")
	}
}

// same compares two models as data, names included.
func same(t interface{ Fatal(...any) }, want, got *Model, opts ...cmp.Option) {
	d := func(m *Model) Data {
		data := m.Data()
		data.ColNames, data.RowNames = m.ColNames(), m.RowNames()
		return data
	}
	if diff := cmp.Diff(d(want), d(got), append(opts, cmpopts.EquateEmpty())...); diff != "" {
		t.Fatal(diff)
	}
}

func TestWithoutIsRebuilt(t *testing.T) {
	build := func(without ...string) *Model {
		m := New("ablation")
		x := m.List("x", 4, Integer, 0, 9)
		var e Expr
		// Interleaved on purpose: rows of a group need not be contiguous.
		for i := range 12 {
			name := []string{"memory", "order", "time"}[i*7%3]
			if slices.Contains(without, name) {
				continue
			}
			m.Group(name, "[001] ("+name+")").AtMost(e.Reset().Add(float64(i), x.At(i%4)).Add(1, x.At((i+1)%4)), 7)
		}
		m.Minimize(e.Reset().Add(1, x.At(0)))
		return m
	}
	m := build()
	for _, without := range [][]string{nil, {"memory"}, {"time", "memory"}, {"order", "order"}, {"memory", "order", "time"}} {
		got, err := m.Without(without...)
		if err != nil {
			t.Fatal(err)
		}
		same(t, build(without...), got)
	}
	same(t, build(), m)

	_, err := m.Without("memroy")
	if !errors.Is(err, ErrNoGroup) || !strings.Contains(err.Error(), `"memroy"`) || !strings.HasSuffix(err.Error(), "did you mean memory?") {
		t.Errorf("unknown group: %v", err)
	}
	if _, err = New("empty").Without("a"); !errors.Is(err, ErrNoGroup) {
		t.Errorf("no groups: %v", err)
	}
}

func TestFilterKeepsNames(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m, d := anyModel(t)
		keep := make([]bool, len(d.a))
		var want [][]float64
		var names []string
		for i := range keep {
			if keep[i] = rapid.Bool().Draw(t, "keep"); keep[i] {
				want = append(want, d.a[i])
				names = append(names, m.Row(i).Name())
			}
		}
		f := m.Filter(func(i int) bool { return keep[i] })
		if diff := cmp.Diff(want, matrix(f), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(names, f.RowNames(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		rows := 0
		for _, g := range f.Groups() {
			rows += g.Rows
		}
		if rows != len(names) {
			t.Fatalf("groups have %d rows, want %d", rows, len(names))
		}
	})
}

func TestCloneIsIndependent(t *testing.T) {
	m := zoo()
	before := zoo()
	m.Grow(10, 10, 100) // so that appending to either side would not move it
	c := m.Clone()
	x := m.Col(0).Var()
	r := Constr{2, m.tag}
	if c.VarName(x) != "x[0,0]" || c.RowName(r) != m.RowName(r) {
		t.Fatalf("handles of the original read as %s and %s in the copy", c.VarName(x), c.RowName(r))
	}

	// Changing the copy leaves the original, and the other way round.
	y := c.Var("y", Continuous, 0, 1)
	c.SetBounds(x, 1, 1)
	var e Expr
	c.Group("memory", "").AtMost(e.Reset().Add(1, x).Add(1, y), 3)
	c.Group("new", "").AtMost(e.Reset().Add(1, y), 3)
	c.Minimize(&e)
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	same(t, before, m)
	copied := matrix(c)
	z := m.Var("z", Continuous, 0, 1)
	m.Group("late", "").AtMost(e.Reset().Add(5, z), 3)
	if diff := cmp.Diff(copied, matrix(c)); diff != "" {
		t.Fatalf("adding to the original changed the copy: %s", diff)
	}

	// Variables made after copying are foreign to the other side.
	m.SetBounds(y, 0, 0)
	c.SetBounds(z, 0, 0)
	for _, model := range []*Model{m, c} {
		if !errors.Is(model.Err(), ErrForeignVar) {
			t.Errorf("%v accepted a variable of its copy", model)
		}
	}
	f := c.Filter(func(int) bool { return true })
	if got := f.RowName(r); got != "?" {
		t.Errorf("a row of another numbering reads as %s", got)
	}
	if got := f.VarName(x); got != "x[0,0]" {
		t.Errorf("variable of the grandparent reads as %s", got)
	}
}

func TestMistakes(t *testing.T) {
	nan := math.NaN()
	other := New("other").Var("foreign", Continuous, 0, 1)
	for _, c := range []struct {
		name  string
		build func(m *Model, x List, g Group)
		is    error
		text  string // part of the message
	}{
		{
			"foreign in row", func(_ *Model, x List, g Group) { g.AtMost(new(Expr).Add(1, x.At(0)).Add(2, other), 1) }, ErrForeignVar,
			"memory[0]: term 2 of 2, coefficient 2",
		},
		{"terms of a row before", func(_ *Model, x List, g Group) {
			e := new(Expr).Add(1, x.At(0))
			g.AtMost(e, 1)
			g.AtMost(e, 2) // the same again is no mistake
			g.AtMost(e.Add(1, x.At(1)), 1)
		}, ErrNotReset, "memory[2]: 1 of 2 terms are of a row before"},
		{
			"zero Var in row", func(_ *Model, _ List, g Group) { g.AtMost(new(Expr).Add(3, Var{}), 1) }, ErrForeignVar,
			"memory[0]: term 1 of 1, coefficient 3",
		},
		{
			"foreign in objective", func(m *Model, _ List, _ Group) { m.Minimize(new(Expr).Add(1, other)) }, ErrForeignVar,
			"objective: term 1 of 1",
		},
		{"foreign bounds", func(m *Model, _ List, _ Group) { m.Fix(other, 1) }, ErrForeignVar, "bounds [1, 1]"},
		{
			"NaN coefficient", func(_ *Model, x List, g Group) { g.AtMost(new(Expr).Add(nan, x.At(2)), 1) }, ErrNotFinite,
			"memory[0]: coefficient of x[2] is NaN",
		},
		{
			"infinite sum", func(_ *Model, x List, g Group) { g.AtMost(new(Expr).Add(1e308, x.At(1)).Add(1e308, x.At(1)), 1) }, ErrNotFinite,
			"memory[0]: coefficient of x[1] is +Inf",
		},
		{"NaN constant", func(_ *Model, x List, g Group) { g.AtMost(new(Expr).AddConst(nan), 1) }, ErrNotFinite, "constant NaN"},
		{"infinite constant", func(_ *Model, x List, g Group) { g.AtMost(new(Expr).AddConst(-inf), 1) }, ErrNotFinite, "constant -Inf"},
		{"huge constant", func(_ *Model, x List, g Group) { g.AtMost(new(Expr).AddConst(-1e30), 1) }, ErrNotFinite, "constant -1e+30"},
		{
			"row above infinity", func(_ *Model, x List, g Group) { g.AtLeast(new(Expr).Add(1, x.At(0)), 1e20) }, ErrNotFinite,
			"sides [1e+20, +Inf]",
		},
		{"row NaN", func(_ *Model, x List, g Group) { g.Equal(new(Expr).Add(1, x.At(0)), nan) }, ErrNotFinite, "sides [NaN, NaN]"},
		{
			"NaN cost", func(m *Model, x List, _ Group) { m.Maximize(new(Expr).Add(nan, x.At(1))) }, ErrNotFinite,
			"objective: coefficient of x[1] is NaN",
		},
		{"infinite offset", func(m *Model, _ List, _ Group) { m.Maximize(new(Expr).AddConst(inf)) }, ErrNotFinite, "objective: constant +Inf"},
		{"NaN bound", func(m *Model, x List, _ Group) { m.SetBounds(x.At(1), 0, nan) }, ErrNotFinite, "variable x[1]: bounds [0, NaN]"},
		{"bounds at infinity", func(m *Model, _ List, _ Group) { m.Var("y", Binary, inf, inf) }, ErrNotFinite, "variable y: bounds [+Inf, +Inf]"},
		{
			"repeated key", func(m *Model, _ List, _ Group) { Vars(m, "k", []int{4, 5, 4}, Binary, 0, 1) }, ErrDuplicate,
			"variables k: key 4 at 0 and 2",
		},
		{"two sources", func(m *Model, _ List, _ Group) { m.Group("memory", "[002] (1)") }, ErrDuplicate, `first with source "[001] (4)"`},
		{"negative family", func(m *Model, _ List, _ Group) { m.List("n", -1, Binary, 0, 1) }, ErrShape, "variables n: number -1"},
		{"negative grid", func(m *Model, _ List, _ Group) { m.Grid("n", -2, -3, Binary, 0, 1) }, ErrShape, "variables n"},
		{"grid beyond int", func(m *Model, _ List, _ Group) { m.Grid("n", math.MaxInt/2, 3, Binary, 0, 1) }, ErrTooLarge, "variables n"},
		{"too many columns", func(m *Model, _ List, g Group) {
			m.limit = 4
			g.AtMost(new(Expr).Add(1, m.List("n", 2, Binary, 0, 1).At(1)), 1)
		}, ErrTooLarge, "variables n: 2 more than 3"},
		{"too many nonzeros", func(m *Model, x List, g Group) {
			m.limit = 3
			e := new(Expr).Add(1, x.At(0)).Add(1, x.At(1))
			g.AtMost(e, 1)
			if c := g.AtMost(e, 1); m.RowName(c) != "?" {
				panic("a refused row has a name")
			}
		}, ErrTooLarge, "memory[1]: 2 terms after 1 row and 2 nonzeros"},
		{"too many rows", func(m *Model, _ List, g Group) {
			m.limit = 3
			for range 4 {
				g.AtMost(new(Expr), 1)
			}
		}, ErrTooLarge, "memory[3]: 0 terms after 3 rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New("mistaken")
			x := m.List("x", 3, Integer, 0, 5)
			g := m.Group("memory", "[001] (4)")
			if err := m.Err(); err != nil {
				t.Fatal(err)
			}
			c.build(m, x, g)
			err := m.Err()
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) || !strings.HasPrefix(err.Error(), "model mistaken: ") {
				t.Errorf("got %v, want %v with %q", err, c.is, c.text)
			}
			for _, a := range m.val {
				if !finite(a) {
					t.Errorf("the matrix holds %v", a)
				}
			}
			if _, err := m.WriteMPS(new(strings.Builder), FreeMPS); !errors.Is(err, c.is) {
				t.Errorf("written in spite of its mistakes: %v", err)
			}
			if _, err := m.WriteLP(new(strings.Builder)); !errors.Is(err, c.is) {
				t.Errorf("written in spite of its mistakes: %v", err)
			}
		})
	}
}

func TestMistakesAreCounted(t *testing.T) {
	m := New("many")
	g := m.Group("g", "")
	for range 25 {
		g.AtMost(new(Expr).Add(1, Var{}), 0)
	}
	err := m.Err().Error()
	if n := strings.Count(err, ErrForeignVar.Error()); n != 20 || !strings.HasSuffix(err, "and 5 more") {
		t.Errorf("%d mistakes in: %s", n, err)
	}
	if m.Err().Error() != err {
		t.Error("asking twice gives two answers")
	}
}

func TestCrossingIsNoMistake(t *testing.T) {
	m := New("crossing")
	m.Var("x", Continuous, 3, 2)
	m.Var("b", Binary, 2, 5)
	m.Group("g", "").Between(5, new(Expr), 4)
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}

func TestInfiniteMagnitudes(t *testing.T) {
	m := New("infinite")
	x := m.Var("x", Continuous, -1e20, 1e25)
	m.Group("g", "").Between(-1e30, new(Expr).Add(1, x), 9e19)
	if lo, up := m.Bounds(x); lo != -inf || up != inf {
		t.Errorf("bounds [%v, %v]", lo, up)
	}
	if r := m.Row(0); r.Lower != -inf || r.Upper != 9e19 {
		t.Errorf("sides [%v, %v]", r.Lower, r.Upper)
	}
	if lo, up := m.Bounds(Var{}); !math.IsNaN(lo) || !math.IsNaN(up) {
		t.Errorf("bounds of no variable: [%v, %v]", lo, up)
	}
}

func TestNames(t *testing.T) {
	m := New("names")
	m.List("none", 0, Binary, 0, 1)
	m.Var("a", Binary, 0, 1)
	m.Grid("none", 3, 0, Binary, 0, 1)
	m.Grid("g", 2, 3, Binary, 0, 1)
	Vars(m, "k", [][2]int{{3, 4}}, Binary, 0, 1)
	m.List("none", 0, Binary, 0, 1)
	want := []string{"a", "g[0,0]", "g[0,1]", "g[0,2]", "g[1,0]", "g[1,1]", "g[1,2]", "k[[3 4]]"}
	if diff := cmp.Diff(want, m.ColNames()); diff != "" {
		t.Error(diff)
	}
	for j, name := range want {
		if got := m.Col(j).Name(); got != name {
			t.Errorf("column %d is %s, want %s", j, got, name)
		}
	}
}

func TestFromData(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m, _ := anyModel(t)
		d := m.Data()
		if rapid.Bool().Draw(t, "names") {
			d.ColNames, d.RowNames = m.ColNames(), m.RowNames()
			got := FromData(d)
			if err := got.Err(); err != nil {
				t.Fatal(err)
			}
			same(t, m, got)
			return
		}
		if diff := cmp.Diff(d, FromData(d).Data(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestFromDataTrustsNothing(t *testing.T) {
	good := func() Data {
		return Data{
			Name: "d", Sense: Minimize, Cost: []float64{1, 2}, Lower: []float64{0, 0}, Upper: []float64{1, 1},
			Integer: []bool{true, false}, RowLower: []float64{0}, RowUpper: []float64{1},
			Start: []int32{0, 2}, Col: []int32{0, 1}, Val: []float64{1, 1},
		}
	}
	if d := good(); FromData(d).Err() != nil || FromData(d).Row(0).String() != "row[0]: 0 ≤ x[0] + x[1] ≤ 1" {
		t.Fatalf("good data gives %v, %v", FromData(d).Err(), FromData(d).Row(0))
	}
	for name, c := range map[string]struct {
		spoil func(d *Data)
		is    error
	}{
		"lower":          {func(d *Data) { d.Lower = d.Lower[:1] }, ErrShape},
		"upper":          {func(d *Data) { d.Upper = nil }, ErrShape},
		"integer":        {func(d *Data) { d.Integer = nil }, ErrShape},
		"sides":          {func(d *Data) { d.RowUpper = nil }, ErrShape},
		"no start":       {func(d *Data) { d.Start = nil }, ErrShape},
		"first start":    {func(d *Data) { d.Start[0] = 1 }, ErrShape},
		"last start":     {func(d *Data) { d.Start[1] = 1 }, ErrShape},
		"start too far":  {func(d *Data) { d.Start[1] = 9 }, ErrShape},
		"start falls":    {func(d *Data) { d.Start[0], d.Start[1] = 2, 0 }, ErrShape},
		"values":         {func(d *Data) { d.Val = d.Val[:1] }, ErrShape},
		"names":          {func(d *Data) { d.ColNames = []string{"a"} }, ErrShape},
		"row names":      {func(d *Data) { d.RowNames = []string{} }, ErrShape},
		"row groups":     {func(d *Data) { d.RowGroup = []int32{0} }, ErrShape},
		"repeated group": {func(d *Data) { d.Groups = []GroupInfo{{Name: "a"}, {Name: "a"}} }, ErrDuplicate},
		"sense":          {func(d *Data) { d.Sense = 0 }, ErrShape},
		"column":         {func(d *Data) { d.Col[1] = 2 }, ErrForeignVar},
		"negative":       {func(d *Data) { d.Col[1] = -1 }, ErrForeignVar},
		"NaN":            {func(d *Data) { d.Val[1] = math.NaN() }, ErrNotFinite},
		"NaN cost":       {func(d *Data) { d.Cost[1] = math.NaN() }, ErrNotFinite},
	} {
		d := good()
		c.spoil(&d)
		if err := FromData(d).Err(); !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want %v", name, err, c.is)
		}
	}
	d := good()
	d.Col[1] = 0 // a repeated column is merged, like a repeated term
	if got := FromData(d).Row(0).String(); got != "row[0]: 0 ≤ 2 x[0] ≤ 1" {
		t.Error(got)
	}
}
