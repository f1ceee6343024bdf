//go:build cgo && unix

package lpsolve

import (
	"math"
	"slices"

	"workbench/model/milp"
	"workbench/solvers"
)

// Types of rows.
const (
	atMost  = 1
	atLeast = 2
	equal   = 3
)

// tableau is a model in the form that lp_solve takes: minimised, without offset, by columns, rows counted from 1,
// row 0 being the objective. Rows that limit nothing are left out.
//
// All columns are nonnegative. lp_solve accepts others, but converts them itself, and reports incumbents of a
// running search in the converted columns.
type tableau struct {
	number       []int32   // of each row of the model, 0 for those that are left out
	kind         []int32   // by row: atMost, atLeast or equal
	side, width  []float64 // by row: its side; ≥ 0 if it is also at least side − width
	lower, upper []float64 // by column
	integer      []uint8   // by column
	start        []int64   // entries of column j are [start[j], start[j+1])
	row          []int32
	value        []float64

	substitutes   []substitute // of the columns of the model
	sense, offset float64      // the model's objective is sense·z + offset
}

// substitute represents a column of the model as shift + sign·y, less the column number minus of the tableau if
// that is positive. y has the model's number.
type substitute struct {
	shift, sign float64
	minus       int
}

// farthest limits the shift of a column. A larger shift would cost digits in the sides of rows.
const farthest = 1e6

// newTableau converts d in O(columns + rows + nonzeros).
func newTableau(d *milp.Data) *tableau {
	t := &tableau{sense: float64(d.Sense), offset: d.Offset}
	t.addColumns(d)
	for j, c := range d.Cost {
		t.offset += c * t.substitutes[j].shift
	}
	t.addRows(d)
	t.transpose(d)
	return t
}

// addColumns replaces the columns of d by nonnegative ones.
func (t *tableau) addColumns(d *milp.Data) {
	n := len(d.Cost)
	t.substitutes = make([]substitute, n)
	t.lower, t.upper, t.integer = make([]float64, n), make([]float64, n), make([]uint8, n)
	for j := range n {
		lo, up := d.Lower[j], d.Upper[j]
		s := substitute{sign: 1}
		switch {
		case lo >= 0:
		case up <= 0:
			s.sign = -1
			lo, up = -up, -lo
		case lo >= -farthest:
			s.shift = lo
			lo, up = 0, up-lo
		default:
			s.minus = len(t.lower)
			t.lower, t.upper, t.integer = append(t.lower, 0), append(t.upper, clamp(-lo)), append(t.integer, flag(d.Integer[j]))
			lo = 0
		}
		t.lower[j], t.upper[j], t.integer[j] = lo+0, clamp(up), flag(d.Integer[j]) // no −0
		t.substitutes[j] = s
	}
}

// clamp converts an infinite x to lp_solve's infinity.
func clamp(x float64) float64 { return math.Min(x, infinite) }

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// addRows adds the rows that limit anything.
func (t *tableau) addRows(d *milp.Data) {
	t.number = make([]int32, len(d.RowLower))
	for i, lo := range d.RowLower {
		up, width := d.RowUpper[i], -1.
		kind, side := int32(atMost), up
		switch {
		case d.Start[i] == d.Start[i+1] || math.IsInf(lo, -1) && math.IsInf(up, 1):
			continue
		case lo == up:
			kind = equal
		case math.IsInf(up, 1):
			kind, side = atLeast, lo
		case !math.IsInf(lo, -1):
			width = up - lo
		}
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			side -= d.Val[k] * t.substitutes[d.Col[k]].shift
		}
		t.kind, t.side, t.width = append(t.kind, kind), append(t.side, side), append(t.width, width)
		t.number[i] = int32(len(t.kind))
	}
}

// transpose sets the entries by column, the cost first.
func (t *tableau) transpose(d *milp.Data) {
	// each calls f for every entry of the tableau, in the order of rows.
	each := func(f func(j int, row int32, v float64)) {
		entry := func(j, row int32, v float64) {
			s := t.substitutes[j]
			f(int(j), row, s.sign*v)
			if s.minus > 0 {
				f(s.minus, row, -v)
			}
		}
		for j, c := range d.Cost {
			if c != 0 {
				entry(int32(j), 0, c*t.sense)
			}
		}
		for i, row := range t.number {
			if row != 0 {
				for k := d.Start[i]; k < d.Start[i+1]; k++ {
					entry(d.Col[k], row, d.Val[k])
				}
			}
		}
	}
	t.start = make([]int64, len(t.lower)+1)
	next := t.start[1:] // first the counts, at the end the end positions of the columns
	each(func(j int, _ int32, _ float64) { next[j]++ })
	var total int64
	for j, count := range next {
		next[j] = total
		total += count
	}
	t.row, t.value = make([]int32, total), make([]float64, total)
	each(func(j int, row int32, v float64) {
		t.row[next[j]], t.value[next[j]] = row, v
		next[j]++
	})
}

// restore converts column values of the tableau to those of the model.
func (t *tableau) restore(y []float64) []float64 {
	x := make([]float64, len(t.substitutes))
	for j, s := range t.substitutes {
		x[j] = s.shift + s.sign*y[j]
		if s.minus > 0 {
			x[j] -= y[s.minus]
		}
	}
	return x
}

// restoreDuals converts the row duals of the tableau, which minimises, to those of d; nil for nil. Reduced costs
// follow from them.
func (t *tableau) restoreDuals(d *milp.Data, row []float64) *solvers.Duals {
	if row == nil {
		return nil
	}
	y := &solvers.Duals{Row: make([]float64, len(t.number)), Reduced: slices.Clone(d.Cost)}
	for i, n := range t.number {
		if n > 0 {
			y.Row[i] = t.sense*row[n-1] + 0 // no −0
		}
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			y.Reduced[d.Col[k]] -= d.Val[k] * y.Row[i]
		}
	}
	return y
}

// objective converts an objective of the tableau to the model's.
func (t *tableau) objective(z float64) float64 { return t.sense*z + t.offset }

// granularity returns g > 0 if the objective of d, without its offset, is a multiple of g at every solution, else
// 0.
func granularity(d *milp.Data) float64 {
	const exact = 1 << 53
	g := 0.
	for j, c := range d.Cost {
		if c == 0 {
			continue
		}
		if !d.Integer[j] || c != math.Trunc(c) || math.Abs(c) > exact {
			return 0
		}
		for a := math.Abs(c); a != 0; {
			g, a = a, math.Mod(g, a)
		}
	}
	return g
}

// roundUp returns the minimum multiple of g that an objective bounded from below by b can have, b itself if g is
// 0. b may be off by a millionth.
func roundUp(b, g float64) float64 {
	if g == 0 {
		return b
	}
	return math.Max(b, g*math.Ceil((b-1e-6*math.Max(1, math.Abs(b)))/g))
}
