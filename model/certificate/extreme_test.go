package certificate

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
)

// extreme draws numbers of which sums and products overflow, underflow or cancel.
var extreme = rapid.SampledFrom([]float64{
	0, math.Copysign(0, -1), 1, -1, 3, -0.1, 0x1p-53, 1 + 0x1p-52, -1 - 0x1p-52, 1e300, -1e300, 3e150, -7e-160, 1e-300, 5e-324, -5e-324,
	math.MaxFloat64, -math.MaxFloat64, 0x1p-1022, 0x1p53 + 2, -0x1p53,
})

// extremes draws programs of such numbers, of up to three columns.
func extremes(t *rapid.T) *milp.Data {
	n := rapid.IntRange(1, 3).Draw(t, "columns")
	cost, lower, upper := make([]float64, n), make([]float64, n), make([]float64, n)
	side := func(label string, infinite float64) float64 {
		return rapid.OneOf(extreme, rapid.Just(infinite)).Draw(t, label)
	}
	for j := range n {
		cost[j] = extreme.Draw(t, "cost")
		lower[j], upper[j] = side("lower", -inf), side("upper", inf)
		if lower[j] > upper[j] && !math.IsInf(lower[j]-upper[j], 0) {
			lower[j], upper[j] = upper[j], lower[j]
		}
	}
	var rows [][]float64
	for range rapid.IntRange(1, 3).Draw(t, "rows") {
		row := make([]float64, n+2)
		for j := range n {
			row[j+1] = extreme.Draw(t, "entry")
		}
		row[0], row[n+1] = side("low", -inf), side("high", inf)
		if rapid.Bool().Draw(t, "equality") {
			row[n+1] = row[0]
		}
		rows = append(rows, row)
	}
	d := program(cost, lower, upper, rows...)
	d.Offset = extreme.Draw(t, "offset")
	for j := range d.Integer {
		d.Integer[j] = rapid.Bool().Draw(t, "whole")
	}
	return d
}

// lagrangian is what multipliers prove in a box, by fractions alone; nil: nothing.
func lagrangian(d *milp.Data, lower, upper []float64, y []Multiplier, costs bool) *big.Rat {
	reduced, total := make([]*big.Rat, len(d.Cost)), new(big.Rat)
	for j := range reduced {
		if reduced[j] = new(big.Rat); costs {
			reduced[j] = rat(d.Cost[j])
		}
	}
	if costs {
		total = rat(d.Offset)
	}
	add := func(factor *big.Rat, at float64) bool {
		if factor.Sign() == 0 {
			return true
		}
		if math.IsInf(at, 0) {
			return false
		}
		total.Add(total, new(big.Rat).Mul(factor, rat(at)))
		return true
	}
	for _, t := range y {
		side := d.RowUpper[t.Row]
		if t.Value > 0 {
			side = d.RowLower[t.Row]
		}
		if !add(rat(t.Value), side) {
			return nil
		}
		for k := d.Start[t.Row]; k < d.Start[t.Row+1]; k++ {
			reduced[d.Col[k]].Sub(reduced[d.Col[k]], new(big.Rat).Mul(rat(t.Value), rat(d.Val[k])))
		}
	}
	for j, r := range reduced {
		at := upper[j]
		if r.Sign() > 0 {
			at = lower[j]
		}
		if !add(r, at) {
			return nil
		}
	}
	return total
}

// TestExtremes: where numbers overflow, vanish or cancel, the sum in floating point
// is still at most the exact one, and that is what fractions make of it.
func TestExtremes(t *testing.T) {
	finite := 0
	testfile.Property(t, func(t *rapid.T) {
		d := extremes(t)
		m := NewModel(d, rapid.OneOf(rapid.Just(inf), extreme).Draw(t, "cutoff"))
		var y []Multiplier
		for i := range d.RowLower {
			y = append(y, Multiplier{int32(i), extreme.Draw(t, "multiplier")})
		}
		for _, costs := range []bool{true, false} {
			low, exact, want := m.Bound(y, costs), m.Exact(y, costs), lagrangian(d, m.Lower, m.Upper, y, costs)
			if (exact == nil) != (want == nil) {
				t.Fatalf("exactly %v, want %v", exact, want)
			}
			if want == nil {
				if low != -inf {
					t.Fatalf("bound %v, exactly none", low)
				}
				continue
			}
			if v, _ := exact.Rat(nil); v.Cmp(want) != 0 {
				t.Fatalf("exactly %v, want %v", v, want)
			}
			if math.IsInf(low, -1) {
				continue
			}
			finite++
			if rat(low).Cmp(want) > 0 {
				t.Fatalf("bound %v above the exact one, %v", low, exact)
			}
		}
	})
	if finite == 0 {
		t.Error("no bound at all")
	}
}

// TestBoxKeepsPoints: no point that fulfils the rows and costs at most the cutoff
// is outside the box, however large its numbers are.
func TestBoxKeepsPoints(t *testing.T) {
	inside := 0
	testfile.Property(t, func(t *rapid.T) {
		d := extremes(t)
		x := make([]float64, len(d.Cost))
		for j := range x {
			x[j] = math.Trunc(extreme.Draw(t, "x"))
			// The point fulfils its own bounds and most rows are made to fit it.
			if x[j] < d.Lower[j] {
				d.Lower[j] = x[j]
			}
			if x[j] > d.Upper[j] {
				d.Upper[j] = x[j]
			}
		}
		for i := range d.RowLower {
			from, to := d.Start[i], d.Start[i+1]
			sum := value(d.Val[from:to], d.Col[from:to], x, 0)
			d.RowLower[i] = math.Min(d.RowLower[i], milp.Down.Rat(sum))
			d.RowUpper[i] = math.Max(d.RowUpper[i], milp.Up.Rat(sum))
		}
		cutoff := milp.Up.Rat(value(d.Cost, nil, x, d.Offset))
		m := NewModel(d, cutoff)
		for j := range x {
			if x[j] < m.Lower[j] || x[j] > m.Upper[j] {
				t.Fatalf("x[%d] = %v outside [%v, %v]", j, x[j], m.Lower[j], m.Upper[j])
			}
			if math.IsInf(d.Upper[j], 1) && !math.IsInf(m.Upper[j], 1) {
				inside++
			}
		}
	})
	if inside == 0 {
		t.Error("no bound is implied")
	}
}

// TestAnyTree: of random trees, with infinite bounds, granularities and claims from
// far above to far below, none that passes says more than a point has.
func TestAnyTree(t *testing.T) {
	passed, byGrain, empty := 0, 0, 0
	testfile.Property(t, func(t *rapid.T) {
		d := programs().Draw(t, "program")
		whole := rapid.Bool().Draw(t, "all whole")
		for j := range d.Integer {
			d.Integer[j] = d.Integer[j] || whole
			if whole {
				d.Cost[j] = math.Round(d.Cost[j])
			}
		}
		if whole {
			d.Offset = math.Round(d.Offset)
		}
		c := &Certificate{Instance: digest, Model: Digest(d), Tree: anyTree(t, d, 2)}
		accepted := func() bool { return c.Check(d) == nil }
		if c.Infeasible = true; accepted() {
			empty++
			points(d, func(x []float64, _ *big.Rat) { t.Fatalf("proved empty, but %v is there", x) })
			return
		}
		c.Infeasible, c.Scale = false, 0.5
		c.Granularity = rapid.SampledFrom([]float64{0, 0, 1, 0.1, 2, 1e-9}).Draw(t, "granularity")
		for _, k := range []float64{1e12, 50, 20, 12, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3, -5, -8, -20, -1e3, -1e12} {
			if c.Bound = new(big.Rat).Add(rat(d.Offset/2), rat(k/2)); !accepted() {
				continue
			}
			passed++
			if c.Granularity > 0 {
				byGrain++
			}
			points(d, func(x []float64, objective *big.Rat) {
				if new(big.Rat).Mul(c.Bound, rat(2)).Cmp(objective) > 0 {
					t.Fatalf("%v times 2 passes, but %v has %v", c.Bound, x, objective)
				}
			})
			return
		}
	})
	t.Logf("%d bounds, %d of them with a granularity, %d proofs that nothing is there", passed, byGrain, empty)
	if passed == 0 || byGrain == 0 {
		t.Error("too little passes")
	}
}

// anyTree draws a tree of so many levels at most.
func anyTree(t *rapid.T, d *milp.Data, levels int) *Node {
	if levels == 0 || rapid.Bool().Draw(t, "leaf") {
		n := &Node{Empty: rapid.IntRange(0, 3).Draw(t, "empty") == 0}
		for i := range d.RowLower {
			if rapid.Bool().Draw(t, "row") {
				y := multiplier(t, i)
				if side := [2]float64{d.RowUpper[i], d.RowLower[i]}; math.IsInf(side[0], 0) {
					y.Value = math.Abs(y.Value)
				} else if math.IsInf(side[1], 0) {
					y.Value = -math.Abs(y.Value)
				}
				n.Multipliers = append(n.Multipliers, y)
			}
		}
		return n
	}
	return &Node{
		Column: rapid.IntRange(0, len(d.Cost)-1).Draw(t, "column"), At: float64(rapid.IntRange(-1, 2).Draw(t, "at")),
		Down: anyTree(t, d, levels-1), Up: anyTree(t, d, levels-1),
	}
}
