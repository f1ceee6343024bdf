package milp

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/testfile"
)

// boxed draws a small model of integer columns, so that it can be enumerated.
func boxed(t *rapid.T) *Model {
	m := New("boxed")
	x := m.List("x", rapid.IntRange(1, 4).Draw(t, "columns"), Integer, 0, 0)
	for j := range x.Len() {
		lo := rapid.IntRange(-3, 3).Draw(t, "lower")
		m.SetBounds(x.At(j), float64(lo), float64(lo+rapid.IntRange(0, 3).Draw(t, "width")))
	}
	g := m.Group("row", "")
	var e Expr
	for range rapid.IntRange(1, 5).Draw(t, "rows") {
		e.Reset()
		for range rapid.IntRange(1, 3).Draw(t, "terms") {
			e.Add(coefficient(t, "coefficient"), x.At(rapid.IntRange(0, x.Len()-1).Draw(t, "column")))
		}
		lo, up := bounds(t)
		g.Between(lo, &e, up)
	}
	m.Minimize(e.Reset().Add(1, x.At(0)))
	return m
}

// points calls visit with every integer point of the bounds lo, up.
func points(lo, up []float64, visit func(x []float64)) {
	x := slices.Clone(lo)
	for {
		visit(x)
		j := 0
		for ; j < len(x) && x[j] >= up[j]; j++ {
			x[j] = lo[j]
		}
		if j == len(x) {
			return
		}
		x[j]++
	}
}

// only returns m with nothing but the limits of c: other sides and bounds are
// widened to far beyond where they matter.
func only(m *Model, c *Conflict) *Model {
	k := m.Filter(func(i int) bool {
		return slices.ContainsFunc(c.Rows, func(l Limit) bool { return l.Index == i })
	})
	for i := range k.rowLower {
		row := slices.IndexFunc(c.Rows, func(l Limit) bool { return k.rowName(i) == m.rowName(l.Index) })
		if !slices.Contains(c.Rows, Limit{c.Rows[row].Index, Below}) {
			k.rowLower[i] = -inf
		}
		if !slices.Contains(c.Rows, Limit{c.Rows[row].Index, Above}) {
			k.rowUpper[i] = inf
		}
	}
	for j := range k.lower {
		if !slices.Contains(c.Bounds, Limit{j, Below}) {
			k.lower[j] = -9
		}
		if !slices.Contains(c.Bounds, Limit{j, Above}) {
			k.upper[j] = 9
		}
	}
	return k
}

func feasible(m *Model) bool {
	found := false
	points(m.lower, m.upper, func(x []float64) { found = found || m.Violations(x, 1e-9) == nil })
	return found
}

func TestPropagateIsSound(t *testing.T) {
	conflicts, tightened := 0, 0
	testfile.Property(t, func(t *rapid.T) {
		m := boxed(t)
		lower, upper, c := m.Propagate(rapid.IntRange(0, 10).Draw(t, "rounds"))
		if c != nil {
			conflicts++
			if feasible(m) {
				t.Fatalf("a feasible model is said to conflict:\n%s", c.Text(m))
			}
			// The conflict alone, without the rest of the model.
			if len(m.lower) < 4 && feasible(only(m, c)) {
				t.Fatalf("what is named does not conflict:\n%s", c.Text(m))
			}
			return
		}
		if !slices.Equal(lower, m.lower) || !slices.Equal(upper, m.upper) {
			tightened++
		}
		points(m.lower, m.upper, func(x []float64) {
			if m.Violations(x, 1e-9) != nil {
				return
			}
			for j, v := range x {
				if v < lower[j] || v > upper[j] {
					t.Fatalf("solution %v is outside [%v, %v]", x, lower, upper)
				}
			}
		})
	})
	if conflicts == 0 || tightened == 0 {
		t.Errorf("%d conflicts and %d tightenings: the models are too tame", conflicts, tightened)
	}
}

func TestPropagateExplains(t *testing.T) {
	for _, c := range []struct {
		name   string
		rounds int
		build  func(m *Model)
		want   string
	}{
		{"crossing bounds", 0, func(m *Model) { m.Var("y", Continuous, 3, 2) }, `these cannot hold together:
  bounds
    y ≥ 3
    y ≤ 2
`},
		{"binary outside", 0, func(m *Model) { m.Var("y", Binary, 2, 3) }, `these cannot hold together:
  bounds
    y ≥ 2 (binary)
    y ≤ 1 (binary)
`},
		{"no integer between", 0, func(m *Model) { m.Var("y", Integer, 0.25, 0.75) }, `these cannot hold together:
  bounds
    y ≥ 0.25 (integer)
    y ≤ 0.75 (integer)
`},
		{"empty row", 0, func(m *Model) { m.Group("empty", "[001] (9)").AtLeast(new(Expr), 1) }, `these cannot hold together:
  empty, from [001] (9)
    empty[0]: 0 ≥ 1
`},
		{"crossing sides", 0, func(m *Model) {
			m.Group("side", "").Between(3, new(Expr).Add(1, m.Var("y", Continuous, 0, 9)), 2)
		}, `these cannot hold together:
  side
    side[0]: y ≥ 3
    side[0]: y ≤ 2
`},
		{"one row", 1, func(m *Model) {
			y := m.List("y", 3, Binary, 0, 1)
			m.Group("pack", "").AtLeast(new(Expr).Add(1, y.At(0)).Add(2, y.At(1)).Add(-1, y.At(2)), 4)
		}, `these cannot hold together:
  pack
    pack[0]: y[0] + 2 y[1] - y[2] ≥ 4
  bounds
    y[0] ≤ 1 (binary)
    y[1] ≤ 1 (binary)
    y[2] ≥ 0 (binary)
`},
		{"a chain, and nothing beside it", 9, func(m *Model) {
			y := m.List("y", 4, Continuous, 0, 10)
			m.SetBounds(y.At(0), 3, 10)
			var e Expr
			m.Group("idle", "").AtMost(e.Reset().Add(1, y.At(3)).Add(1, y.At(0)), 12)
			order := m.Group("order", "[001] (2)")
			order.AtLeast(e.Reset().Add(1, y.At(1)).Add(-1, y.At(0)), 2)
			order.AtLeast(e.Reset().Add(1, y.At(2)).Add(-2, y.At(1)), 0)
			m.Group("end", "[001] (3)").AtMost(e.Reset().Add(1, y.At(2)), 8)
		}, `these cannot hold together:
  order, from [001] (2)
    order[0]: y[1] - y[0] ≥ 2
    order[1]: y[2] - 2 y[1] ≥ 0
  end, from [001] (3)
    end[0]: y[2] ≤ 8
  bounds
    y[0] ≥ 3
`},
		{"an infinite bound", 9, func(m *Model) {
			y := m.List("y", 2, Continuous, -inf, inf)
			m.Group("up", "").AtLeast(new(Expr).Add(1, y.At(0)), 5)
			m.Group("down", "").AtMost(new(Expr).Add(1, y.At(0)).Add(-2, y.At(1)), -5)
			m.Group("cap", "").AtMost(new(Expr).Add(1, y.At(1)), 4)
		}, `these cannot hold together:
  up
    up[0]: y[0] ≥ 5
  down
    down[0]: y[0] - 2 y[1] ≤ -5
  cap
    cap[0]: y[1] ≤ 4
`},
		{"a bound tightened after it was used", 9, func(m *Model) {
			x, y := m.Var("x", Continuous, 0, 10), m.Var("y", Continuous, 1, 10)
			g := m.Group("g", "")
			g.AtLeast(new(Expr).Add(1, x).Add(-1, y), 1)
			g.AtLeast(new(Expr).Add(1, y).Add(-1, x), 1)
			g.AtMost(new(Expr).Add(1, x).Add(1, y), 4)
		}, `these cannot hold together:
  g
    g[0]: x - y ≥ 1
    g[1]: y - x ≥ 1
    g[2]: x + y ≤ 4
  bounds
    y ≥ 1
`},
		{"within tolerance", 9, func(m *Model) {
			m.Group("tight", "").AtLeast(new(Expr).Add(1, m.Var("y", Continuous, 0, 1)), 1+1e-7)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New("typo")
			c.build(m)
			if err := m.Err(); err != nil {
				t.Fatal(err)
			}
			got := ""
			if _, _, conflict := m.Propagate(c.rounds); conflict != nil {
				got = conflict.Text(m)
				for _, g := range conflict.Groups(m) {
					if m.Groups()[g].Name == "idle" {
						t.Error("an idle group takes part")
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of a row with two infinite terms nothing follows, of one with one something
// about that one.
func TestPropagateInfiniteTerms(t *testing.T) {
	m := New("infinite")
	x := m.List("x", 3, Continuous, -inf, inf)
	m.SetBounds(x.At(2), 1, 2)
	var e Expr
	g := m.Group("g", "")
	g.AtMost(e.Add(1, x.At(0)).Add(1, x.At(1)).Add(1, x.At(2)), -5)
	_, upper, c := m.Propagate(3)
	if diff := cmp.Diff([]float64{inf, inf, 2}, upper); diff != "" || c != nil {
		t.Errorf("two infinite: %s, %v", diff, c)
	}
	m.SetBounds(x.At(1), 3, inf)
	_, upper, c = m.Propagate(3)
	if c != nil || math.Abs(upper[0]+9) > 1e-6 || upper[1] != inf {
		t.Errorf("one infinite: %v, %v", upper, c)
	}
}

// Propagation of x ≥ y+1, y ≥ x+1 climbs for ever without a bound; rounds end
// it.
func TestPropagateEnds(t *testing.T) {
	m := New("race")
	x, y := m.Var("x", Continuous, 0, inf), m.Var("y", Continuous, 0, inf)
	g := m.Group("race", "")
	g.AtLeast(new(Expr).Add(1, x).Add(-1, y), 1)
	g.AtLeast(new(Expr).Add(1, y).Add(-1, x), 1)
	lower, _, c := m.Propagate(100)
	if c != nil || lower[0] < 150 || lower[0] > 250 {
		t.Errorf("lower %v, conflict %v", lower, c)
	}
	if lo, _ := m.Bounds(x); lo != 0 {
		t.Errorf("the model itself was changed: %v", lo)
	}
}

// The optimum of an elastic model is the least weighted violation of a point,
// which enumeration computes directly.
func TestElastic(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		m := boxed(t)
		weights := make([]float64, m.NumRows())
		for i := range weights {
			weights[i] = rapid.SampledFrom([]float64{0, -1, math.NaN(), inf, 1, 2.5}).Draw(t, "weight")
		}
		soft := func(i int) bool { return weights[i] == 1 || weights[i] == 2.5 }
		em, slacks := m.Elastic(func(i int) float64 { return weights[i] })
		if err := em.Err(); err != nil {
			t.Fatal(err)
		}
		for i := range weights {
			for _, s := range []Side{Below, Above} {
				limit := m.Row(i).Lower
				if s == Above {
					limit = m.Row(i).Upper
				}
				has := slices.ContainsFunc(slacks, func(k Slack) bool { return k.Row == Limit{i, s} })
				if has != (soft(i) && !math.IsInf(limit, 0)) {
					t.Fatalf("row %v of weight %v: slack for its %v side is %v", m.Row(i), weights[i], s, has)
				}
			}
		}
		if diff := cmp.Diff(m.RowNames(), em.RowNames()); diff != "" {
			t.Fatal(diff)
		}
		points(m.lower, m.upper, func(x []float64) {
			price, hard := 0., false
			full := append(slices.Clone(x), make([]float64, len(slacks))...)
			for _, v := range m.Violations(x, 1e-9) {
				k := slices.IndexFunc(slacks, func(k Slack) bool { return k.Row == Limit{v.Index, v.Side} })
				if k < 0 {
					hard = true
					continue
				}
				price += weights[v.Index] * v.Amount
				full[slacks[k].Var.Index()] = v.Amount
			}
			broken := em.Violations(full, 1e-9)
			if (broken != nil) != hard {
				t.Fatalf("point %v: hard rows broken %v, elastic model says %v", x, hard, broken)
			}
			if math.Abs(em.Objective(full)-price) > 1e-9 {
				t.Fatalf("point %v costs %v, want %v", x, em.Objective(full), price)
			}
		})
	})
}
