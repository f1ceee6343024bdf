package milp

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"workbench/model/testfile"
)

func TestExpr(t *testing.T) {
	m := New("expr")
	x, y := m.Var("x", Continuous, 0, 1), m.Var("y", Continuous, 0, 1)
	var e Expr
	e.Add(2, x).AddConst(3)
	e.AddExpr(2, &e).AddExpr(-1, new(Expr).Add(4, y).AddConst(1))
	want := Expr{Terms: []Term{{2, x}, {4, x}, {-4, y}}, Const: 8}
	if diff := cmp.Diff(want, e, cmp.AllowUnexported(Var{}), cmpopts.IgnoreUnexported(Expr{})); diff != "" {
		t.Error(diff)
	}
	if e.Reset(); len(e.Terms) != 0 || e.Const != 0 || cap(e.Terms) == 0 {
		t.Errorf("after Reset: %v", e)
	}
}

func TestFamilies(t *testing.T) {
	m := New("families")
	g := m.Grid("g", 2, 3, Binary, -4, 4)
	n0, n1 := g.Dims()
	if n0 != 2 || n1 != 3 || g.At(1, 2).Index() != 5 {
		t.Errorf("grid %d×%d ends at %d", n0, n1, g.At(1, 2).Index())
	}
	if lo, up := m.Bounds(g.At(0, 0)); lo != 0 || up != 1 {
		t.Errorf("binary in [%v, %v]", lo, up)
	}
	m.SetBounds(g.At(0, 0), -1, 0.5)
	m.Fix(g.At(0, 1), 1)
	if lo, up := m.Bounds(g.At(0, 0)); lo != 0 || up != 0.5 {
		t.Errorf("binary in [%v, %v]", lo, up)
	}
	keys := []string{"c", "a", "b"}
	f := Vars(m, "f", keys, Integer, 0, 1)
	keys[0] = "changed" // the family has its own copy
	var seen []string
	for key, v := range f.All() {
		seen = append(seen, m.VarName(v))
		if at, ok := f.At(key); !ok || at != v {
			t.Errorf("At(%s) is %v", key, at)
		}
		if key == "a" {
			break
		}
	}
	if diff := cmp.Diff([]string{"f[c]", "f[a]"}, seen); diff != "" {
		t.Error(diff)
	}
	if v, ok := f.At("d"); ok || m.VarName(v) != "?" {
		t.Errorf("a variable without a key: %v", v)
	}
	if m.NumCols() != 9 || m.NumIntegers() != 9 || m.NumRows() != 0 || m.NumNonzeros() != 0 {
		t.Errorf("size of %v", m)
	}
	if c := m.Col(7); c.Name() != "f[a]" || c.Var().Index() != 7 || c.Kind != Integer || c.Upper != 1 {
		t.Errorf("column 7 is %+v", c)
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
	for _, outside := range []func(){
		func() { g.At(2, 0) }, func() { g.At(0, 3) }, func() { g.At(-1, 0) }, func() { m.List("l", 2, Binary, 0, 1).At(2) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("an index out of range is accepted")
				}
			}()
			outside()
		}()
	}
}

func TestRowText(t *testing.T) {
	m := New("rows")
	x, y := m.Var("x", Continuous, 0, 1), m.Var("y", Continuous, 0, 1)
	g := m.Group("g", "")
	e := func(a, b float64) *Expr { return new(Expr).Add(a, x).Add(b, y) }
	g.AtMost(e(-1, 1), 2.5)
	g.AtLeast(e(1, -1e-7), -3)
	g.Equal(e(2, 1e16), 0)
	g.Between(1, e(0, -0.1), 2)
	g.Between(math.Inf(-1), e(1, 1), math.Inf(1))
	g.Equal(e(0, 0), 0)
	var got []string
	for r := range m.Rows() {
		got = append(got, r.String())
		if r.Group() != 0 || m.GroupOf(r.Index) != 0 {
			t.Errorf("%v in group %d", r, r.Group())
		}
	}
	want := []string{
		"g[0]: -x + y ≤ 2.5", "g[1]: x - 1e-07 y ≥ -3", "g[2]: 2 x + 1e+16 y = 0",
		"g[3]: 1 ≤ -0.1 y ≤ 2", "g[4]: -∞ ≤ x + y ≤ ∞", "g[5]: 0 = 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for range m.Rows() {
		break // must not be called again
	}
}

// Whatever way rows and columns are divided, the parts add up to the model.
func TestStatsAddUp(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m, d := anyModel(t)
		s := m.Stats()
		rows, nonzeros, inFamilies := 0, 0, 0
		var kinds Kinds
		for g, gs := range s.Groups {
			rows += gs.Rows
			nonzeros += gs.Nonzeros
			used := map[int]bool{}
			var coef Range
			for i, row := range d.a {
				for j, a := range row {
					if d.group[i] == g && a != 0 {
						used[j] = true
						coef.add(a)
					}
				}
			}
			if gs.Columns.Cols() != len(used) || gs.Coef != coef {
				t.Fatalf("group %s has %d columns of coefficients %v, want %d of %v", gs.Name, gs.Columns.Cols(), gs.Coef, len(used), coef)
			}
		}
		for _, fs := range s.Families {
			inFamilies += fs.Nonzeros
			kinds.Continuous += fs.Columns.Continuous
			kinds.Integer += fs.Columns.Integer
			kinds.Binary += fs.Columns.Binary
		}
		if rows != m.NumRows() || nonzeros != m.NumNonzeros() || inFamilies != nonzeros || kinds != s.Columns ||
			s.Rows != rows || s.Nonzeros != nonzeros || kinds.Cols() != m.NumCols() || kinds.Integer+kinds.Binary != m.NumIntegers() {
			t.Fatalf("statistics do not add up:\n%v", s)
		}
	})
}
