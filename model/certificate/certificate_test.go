package certificate

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
)

var inf = math.Inf(1)

// program is a small program to be minimised; rows are dense.
func program(cost, lower, upper []float64, rows ...[]float64) *milp.Data {
	n := len(cost)
	d := &milp.Data{Sense: milp.Minimize, Cost: cost, Lower: lower, Upper: upper, Integer: make([]bool, n), Start: []int32{0}}
	for j := range d.Integer {
		d.Integer[j] = true
	}
	for _, row := range rows {
		d.RowLower, d.RowUpper = append(d.RowLower, row[0]), append(d.RowUpper, row[n+1])
		for j, a := range row[1 : n+1] {
			if a != 0 {
				d.Col, d.Val = append(d.Col, int32(j)), append(d.Val, a)
			}
		}
		d.Start = append(d.Start, int32(len(d.Col)))
	}
	return d
}

// covering is min 3x + 2y, 2x + 2y ≥ 3, x and y binary, whose optimum is 4 and
// whose relaxation is 3.5: at x = 1/2, y = 1.
func covering() *milp.Data {
	return program([]float64{3, 2}, []float64{0, 0}, []float64{1, 1}, []float64{3, 2, 2, inf})
}

var digest = strings.Repeat("5a", 32)

// covered proves that the optimum of covering is 5: with x = 0 there is nothing,
// since 2y ≥ 3; with x = 1, 2y ≥ 1 has the bound 3 + 2·½, and so y has to be 1.
func covered() *Certificate {
	d := covering()
	return &Certificate{
		Name: "toy", Instance: digest, Problem: "remat", Formulation: "covering", Backend: "by hand",
		Model: Digest(d), Bound: big.NewRat(5, 4), Scale: 0.25,
		Tree: &Node{
			Column: 0, At: 0,
			Down: &Node{Empty: true, Multipliers: []Multiplier{{0, 1}}},
			Up: &Node{
				Column: 1, At: 0,
				Down: &Node{Empty: true, Multipliers: []Multiplier{{0, 0.5}}},
				Up:   &Node{Multipliers: []Multiplier{}},
			},
		},
	}
}

// TestMutants: whatever is spoiled is found and named.
func TestMutants(t *testing.T) {
	if err := covered().Check(covering()); err != nil {
		t.Fatal(err)
	}
	granular := func(c *Certificate) {
		c.Granularity = 1
		c.Tree.Up = &Node{Multipliers: []Multiplier{{0, 1}}} // 3 + 2·½ = 4 > 5 − 1 is needed: one short
	}
	for want, mutate := range map[string]func(*Certificate, *milp.Data){
		"tree.down: the multipliers do not prove that nothing is here: their sum is -5": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Down.Multipliers[0].Value = -1
		},
		"tree.down.empty[0]: the multiplier -1 of row 0 is of a side that is infinite": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Down.Multipliers[0].Value = -1
		},
		"tree.down: the multipliers do not prove that nothing is here: their sum is 0": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Down.Multipliers = nil
		},
		"tree.up.down: the multipliers prove no more than 3, the claim needs 5": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Up.Down = &Node{}
		},
		"tree.up.up: the multipliers prove no more than 3.9375, the claim needs 5": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Up.Up.Multipliers = []Multiplier{{0, 1.0625}}
		},
		"tree.up.up.multipliers[0]: there is no row 1": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Up.Up.Multipliers = []Multiplier{{1, 1}}
		},
		"tree.up.up.multipliers[1]: row 0 after row 0: they have to increase": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Up.Up.Multipliers = []Multiplier{{0, 1}, {0, 1}}
		},
		"tree.up.up.multipliers[0]: NaN is not finite": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Up.Up.Multipliers = []Multiplier{{0, math.NaN()}}
		},
		"tree.up: a branch is missing": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Up.Up = nil
		},
		"tree: column 0 is split at 1, but is between 0 and 1 here": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.At = 1
		},
		"tree: column 0 is split at -1, but is between 0 and 1 here": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.At = -1
		},
		"tree: column 0 is split at 0.5, which is not an integer up to 2^52": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.At = 0.5
		},
		"tree: column 0 need not be whole, so that values between 0 and 1 are lost": func(c *Certificate,
			d *milp.Data,
		) {
			d.Integer[0] = false
			c.Model = Digest(d)
		},
		"tree: there is no column 2": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Column = 2
		},
		"tree.up: column 0 is split at 0, but is between 1 and 1 here": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Tree.Up.Column = 0
		},
		"tree.up.up: the multipliers prove no more than 5, the claim needs 5.0000000000000008": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Bound.SetFloat64(1.2500000000000002)
		},
		"tree.up.up: the multipliers prove no more than 5, the claim needs 10": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Scale = 0.125
		},
		"model: the certificate is about the program " + Digest(covering())[:12]: func(_ *Certificate,
			d *milp.Data,
		) {
			d.Val[1] = 1.5
		},
		"model: the program is to be maximised": func(_ *Certificate,
			d *milp.Data,
		) {
			d.Sense = milp.Maximize
		},
		"tree.up.up: a bound, where it has to be proved that there is no solution": func(c *Certificate, _ *milp.Data) {
			c.Infeasible,
				c.Bound, c.Scale = true, nil, 0
		},
		"tree.up: the multipliers prove no more than 4, the claim needs more than 4": func(c *Certificate,
			_ *milp.Data,
		) {
			granular(c)
		},
		"granularity: the objective is not of multiples of 2: column 0 costs 3": func(c *Certificate,
			_ *milp.Data,
		) {
			granular(c)
			c.Granularity = 2
		},
		"granularity: the objective is not of multiples of 1: column 1 costs 2": func(c *Certificate,
			d *milp.Data,
		) {
			granular(c)
			d.Integer[1] = false
			c.Model = Digest(d)
		},
		"granularity: the bound is not a multiple of 1 above": func(c *Certificate,
			_ *milp.Data,
		) {
			granular(c)
			c.Bound = big.NewRat(9, 8)
		},
		"granularity: -1 is not above zero": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Granularity = -1
		},
		"scale: 0.3 is not a power of two": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Scale = 0.3
		},
		"scale: there is neither scale nor granularity without a bound": func(c *Certificate, _ *milp.Data) {
			c.Infeasible,
				c.Bound = true, nil
		},
		"bound: there is none of a program without solution": func(c *Certificate,
			_ *milp.Data,
		) {
			c.Infeasible = true
		},
		"bound: missing": func(c *Certificate, _ *milp.Data) { c.Bound = nil },
		"tree: missing":  func(c *Certificate, _ *milp.Data) { c.Tree = nil },
		`instance: "" is not a SHA-256 in hexadecimal`: func(c *Certificate, _ *milp.Data) { c.Instance = "" },
	} {
		c, d := covered(), covering()
		if strings.HasSuffix(want, "sum is -5") {
			d.RowUpper[0] = 4 // so that there is an upper side to be of
			c.Model = Digest(d)
			want = "tree.down: the multipliers do not prove that nothing is here: their sum is -4"
		}
		mutate(c, d)
		if err := c.Check(d); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v\nwant  %s…", err, want)
		}
	}
}

// TestGranularity: the objective is whole, so 4.5 is enough for 5.
func TestGranularity(t *testing.T) {
	c, d := covered(), covering()
	c.Granularity = 1
	c.Tree.Up = &Node{Multipliers: []Multiplier{{0, 0.75}}} // 3 + 0.5 · 0 + 0.75 · 1
	d.RowLower[0] = 4
	c.Model = Digest(d)
	c.Tree.Down.Multipliers[0].Value = 1
	if err := c.Check(d); err != nil {
		t.Error(err)
	}
}

// TestInfeasible: 2x + 2y = 3 has no whole solution.
func TestInfeasible(t *testing.T) {
	d := program([]float64{0, 0}, []float64{0, 0}, []float64{1, 1}, []float64{3, 2, 2, 3})
	empty := func(value float64) *Node { return &Node{Empty: true, Multipliers: []Multiplier{{0, value}}} }
	c := &Certificate{
		Instance: digest, Model: Digest(d), Infeasible: true,
		Tree: &Node{
			Column: 0, At: 0,
			Down: empty(1),
			Up:   &Node{Column: 1, At: 0, Down: empty(1), Up: empty(-1)},
		},
	}
	if err := c.Check(d); err != nil {
		t.Error(err)
	}
}

// TestCrossedBounds: no whole number lies between 0.2 and 0.8.
func TestCrossedBounds(t *testing.T) {
	d := program([]float64{1}, []float64{0.2}, []float64{0.8}, []float64{0, 1, 1})
	c := &Certificate{Instance: digest, Model: Digest(d), Infeasible: true, Tree: &Node{Empty: true}}
	if err := c.Check(d); err != nil {
		t.Error(err)
	}
}

// TestInfiniteBounds: x ≥ 0 and y are bounded by rows and objective, so that a
// reduced cost of the wrong sign by a little costs a little. z stays free.
func TestInfiniteBounds(t *testing.T) {
	d := program([]float64{1, 0, 0}, []float64{0, -inf, -inf}, []float64{inf, inf, inf},
		[]float64{7, 1, 1, 0, inf}, []float64{-inf, 0, 1, 0, 3})
	d.Integer = make([]bool, 3)
	m := NewModel(d, 10)
	for j, want := range [][2]float64{{4, 10}, {-3, 3}, {-inf, inf}} {
		if j == 0 {
			want[0] = 0 // bounds that are finite already stay
		}
		if m.Lower[j] != want[0] || m.Upper[j] != want[1] {
			t.Errorf("column %d is in [%v, %v], want %v", j, m.Lower[j], m.Upper[j], want)
		}
	}
	y := []Multiplier{{0, 1 + 0x1p-40}, {1, -1}}
	if v := m.Bound(y, true); v > 4 || v < 4-1e-9 {
		t.Errorf("bound %v, want a little less than 4", v)
	}
	if m := NewModel(d, inf); !math.IsInf(m.Upper[0], 1) || m.Bound(y, true) != -inf || m.Exact(y, true) != nil {
		t.Error("a bound without a bound of x")
	}
}

// rat is a float64, exactly.
func rat(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

// points calls f with all points of the box in which infinite bounds are 3 away,
// and their objectives.
func points(d *milp.Data, f func(x []float64, objective *big.Rat)) {
	n := len(d.Cost)
	x := make([]float64, n)
	var descend func(j int)
	descend = func(j int) {
		if j == n {
			if satisfied(d, x) {
				f(x, value(d.Cost, nil, x, d.Offset))
			}
			return
		}
		lower, upper := d.Lower[j], d.Upper[j]
		if math.IsInf(lower, -1) {
			lower = math.Min(upper, 3) - 3
		}
		if math.IsInf(upper, 1) {
			upper = lower + 3
		}
		for v := math.Ceil(lower); v <= upper; v++ {
			x[j] = v
			descend(j + 1)
		}
	}
	descend(0)
}

// value is the exact sum of coefficients times x; col nil: of all columns.
func value(val []float64, col []int32, x []float64, offset float64) *big.Rat {
	sum := rat(offset)
	for k, a := range val {
		j := k
		if col != nil {
			j = int(col[k])
		}
		sum.Add(sum, new(big.Rat).Mul(rat(a), rat(x[j])))
	}
	return sum
}

func satisfied(d *milp.Data, x []float64) bool {
	for i := range d.RowLower {
		from, to := d.Start[i], d.Start[i+1]
		sum := value(d.Val[from:to], d.Col[from:to], x, 0)
		if !math.IsInf(d.RowLower[i], 0) && sum.Cmp(rat(d.RowLower[i])) < 0 ||
			!math.IsInf(d.RowUpper[i], 0) && sum.Cmp(rat(d.RowUpper[i])) > 0 {
			return false
		}
	}
	return true
}

// programs draws small programs, with infinite bounds and numbers of mixed
// magnitude.
func programs() *rapid.Generator[*milp.Data] {
	return rapid.Custom(func(t *rapid.T) *milp.Data {
		n := rapid.IntRange(1, 4).Draw(t, "columns")
		number := rapid.SampledFrom([]float64{0, 1, -1, 2, 3, -4, 0.1, -0.3, 1e-9, 1e9, 7.25})
		lower, upper, cost := make([]float64, n), make([]float64, n), make([]float64, n)
		for j := range n {
			lower[j] = rapid.SampledFrom([]float64{0, 0, -1, -2.5, -inf}).Draw(t, "lower")
			upper[j] = math.Max(lower[j], 0) + rapid.SampledFrom([]float64{1, 1, 2, 2.5, inf}).Draw(t, "upper")
			cost[j] = number.Draw(t, "cost")
		}
		var rows [][]float64
		for range rapid.IntRange(1, 4).Draw(t, "rows") {
			row := make([]float64, n+2)
			for j := range n {
				row[j+1] = number.Draw(t, "entry")
			}
			side := rapid.IntRange(-4, 4)
			row[0], row[n+1] = float64(side.Draw(t, "side")), inf
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				row[0], row[n+1] = -inf, row[0]
			case 1:
				row[n+1] = row[0] + float64(rapid.IntRange(0, 3).Draw(t, "range"))
			}
			rows = append(rows, row)
		}
		d := program(cost, lower, upper, rows...)
		d.Offset = number.Draw(t, "offset")
		for j := range d.Integer {
			d.Integer[j] = rapid.Bool().Draw(t, "whole")
		}
		return d
	})
}

func multiplier(t *rapid.T, i int) Multiplier {
	v := rapid.OneOf(rapid.Float64Range(-4, 4), rapid.SampledFrom([]float64{0, 1, -1, 0.5, -1e9, 1e-9})).Draw(t, "multiplier")
	return Multiplier{int32(i), v}
}

// TestBounds: of random programs and multipliers, the bound in floating point is
// at most the exact one, which no point that counts goes below; and it is close.
func TestBounds(t *testing.T) {
	finite := 0
	testfile.Property(t, func(t *rapid.T) {
		d := programs().Draw(t, "program")
		cutoff := rapid.SampledFrom([]float64{inf, 10, 0, -3}).Draw(t, "cutoff")
		m := NewModel(d, cutoff)
		var y []Multiplier
		for i := range d.RowLower {
			y = append(y, multiplier(t, i))
		}
		for _, costs := range []bool{true, false} {
			low, exact := m.Bound(y, costs), m.Exact(y, costs)
			if exact == nil {
				if low != -inf {
					t.Fatalf("bound %v, exactly none", low)
				}
				continue
			}
			finite++
			v, _ := exact.Rat(nil)
			if !math.IsInf(low, -1) && rat(low).Cmp(v) > 0 {
				t.Fatalf("bound %v above the exact one, %v", low, exact)
			}
			points(d, func(x []float64, objective *big.Rat) {
				switch {
				case cutoff < inf && objective.Cmp(rat(cutoff)) > 0:
				case costs && v.Cmp(objective) > 0:
					t.Fatalf("bound %v, but %v has %v", exact, x, objective)
				case !costs && v.Sign() > 0:
					t.Fatalf("proved empty by %v, but %v is there", exact, x)
				}
			})
		}
	})
	if finite == 0 {
		t.Error("no bound at all")
	}
}

// TestBoundIsClose: of a program of 10⁴ entries the bound in floating point loses
// nothing that matters.
func TestBoundIsClose(t *testing.T) {
	d, c := large(1, 1)
	exact, _ := c.Bound.Float64()
	if v := NewModel(d, inf).Bound(c.Tree.Multipliers, true); v > exact || v < exact*(1-1e-12) {
		t.Errorf("bound %v, exactly %v", v, exact)
	}
}

// grow makes a tree that proves as much as there is to be proved of a program of
// whole columns in finite boxes, by going through all its points.
func grow(d *milp.Data, m *Model, j int) *Node {
	if j == len(d.Cost) {
		for i := range d.RowLower {
			for _, v := range []float64{1, -1} {
				y := []Multiplier{{int32(i), v}}
				if e := m.Exact(y, false); e != nil && e.Sign() > 0 {
					return &Node{Empty: true, Multipliers: y}
				}
			}
		}
		return &Node{}
	}
	lower, upper := m.Lower[j], m.Upper[j]
	if lower == upper {
		return grow(d, m, j+1)
	}
	n := &Node{Column: j, At: lower}
	m.Upper[j] = lower
	n.Down = grow(d, m, j+1)
	m.Lower[j], m.Upper[j] = lower+1, upper
	n.Up = grow(d, m, j)
	m.Lower[j] = lower
	return n
}

// nodes lists a tree's nodes.
func nodes(n *Node) []*Node {
	if n == nil {
		return nil
	}
	return append(append([]*Node{n}, nodes(n.Down)...), nodes(n.Up)...)
}

// TestTrees: a whole tree proves the optimum found by enumeration, and no more;
// and however a certificate is mutated, what passes is true.
func TestTrees(t *testing.T) {
	mutants, refused := 0, 0
	testfile.Property(t, func(t *rapid.T) {
		d := programs().Filter(func(d *milp.Data) bool {
			for j := range d.Cost {
				d.Integer[j] = true
				if math.IsInf(d.Upper[j]-d.Lower[j], 0) || math.Ceil(d.Lower[j]) > math.Floor(d.Upper[j]) {
					return false
				}
			}
			return true
		}).Draw(t, "program")
		c := &Certificate{Instance: digest, Model: Digest(d), Tree: grow(d, NewModel(d, inf), 0)}
		var best *big.Rat
		points(d, func(_ []float64, objective *big.Rat) {
			if best == nil || objective.Cmp(best) < 0 {
				best = objective
			}
		})
		if c.Infeasible = best == nil; !c.Infeasible {
			c.Scale = 8
			c.Bound = new(big.Rat).Mul(best, rat(8))
		}
		if err := c.Check(d); err != nil {
			t.Fatalf("optimum %v: %v", best, err)
		}
		for range rapid.IntRange(1, 3).Draw(t, "mutations") {
			mutate(t, c, d)
		}
		mutants++
		if err := c.Check(d); err != nil {
			refused++
			return
		}
		if best != nil && (c.Infeasible || new(big.Rat).Quo(c.Bound, rat(c.Scale)).Cmp(best) > 0) {
			t.Fatalf("optimum %v, but the bound %v / %v passes, infeasible %v", best, c.Bound, c.Scale, c.Infeasible)
		}
	})
	if refused < mutants/4 {
		t.Errorf("%d of %d mutants refused", refused, mutants)
	}
}

// mutate changes something of c.
func mutate(t *rapid.T, c *Certificate, d *milp.Data) {
	all := nodes(c.Tree)
	n := all[rapid.IntRange(0, len(all)-1).Draw(t, "node")]
	switch rapid.IntRange(0, 6).Draw(t, "mutation") {
	case 0:
		if c.Bound != nil {
			c.Bound.Add(c.Bound, rat(rapid.Float64Range(0, 1).Draw(t, "better")))
		}
	case 1:
		n.Multipliers = []Multiplier{multiplier(t, rapid.IntRange(0, len(d.RowLower)-1).Draw(t, "row"))}
	case 2:
		n.Empty = !n.Empty
	case 3:
		n.At += float64(rapid.IntRange(-1, 1).Draw(t, "at"))
	case 4:
		n.Down = n.Up
	case 5:
		n.Down, n.Up = nil, nil
	case 6:
		c.Granularity = rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(t, "granularity")
	}
}
