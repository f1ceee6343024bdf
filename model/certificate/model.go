package certificate

import (
	"math"
	"math/big"

	"workbench/model/milp"
)

// Model is a program with a box, in which multipliers yield bounds.
//
// The box starts as the columns' bounds, those of integer columns rounded inwards. Infinite ones are replaced by
// what the rows and the objective imply from the other bounds: a proof that the objective is at least B may assume
// that it is at most B. Users of a Model may tighten Lower and Upper as a tree branches, and restore them.
type Model struct {
	Lower, Upper []float64

	// implied lists the replaced infinite bounds, in the order of replacement.
	implied []implication

	d      *milp.Data
	growth float64 // relative error of one reduced cost, see Bound

	// Scratch of Bound: reduced costs and sums of magnitudes.
	reduced, magnitude []float64
	exactly            []big.Float
}

// NewModel returns d with its box, assuming that its objective is at most cutoff; +Inf assumes nothing. d is of a
// valid [milp.Model] to be minimised, and is not changed. O(passes · entries).
func NewModel(d *milp.Data, cutoff float64) *Model {
	n := len(d.Cost)
	m := &Model{
		d: d, Lower: append([]float64(nil), d.Lower...), Upper: append([]float64(nil), d.Upper...),
		reduced: make([]float64, n), magnitude: make([]float64, n),
	}
	entries, most := make([]int, n), 0
	for _, j := range d.Col {
		entries[j]++
		most = max(most, entries[j])
	}
	m.growth = float64(most+4) * 0x1p-52
	for j, integer := range d.Integer {
		if integer {
			m.Lower[j], m.Upper[j] = math.Ceil(m.Lower[j]), math.Floor(m.Upper[j])
		}
	}
	m.boundColumns(cutoff)
	return m
}

// implication is a bound of a column that a row implies from other bounds.
type implication struct {
	row    int32 // −1: the objective
	side   float64
	column int32
	upper  bool
}

// passes limits the passes of boundColumns over the rows, and so the length of a chain of columns each of which
// bounds the next.
const passes = 50

// boundColumns replaces infinite bounds until no row implies a further one.
func (m *Model) boundColumns(cutoff float64) {
	d := m.d
	columns := make([]int32, len(d.Cost))
	for j := range columns {
		columns[j] = int32(j)
	}
	objective := milp.Up.Add(cutoff, -d.Offset)
	for range passes {
		changed := m.imply(-1, columns, d.Cost, 1, objective)
		for i := range d.RowLower {
			col, val := m.row(int32(i))
			up := m.imply(int32(i), col, val, 1, d.RowUpper[i])
			low := m.imply(int32(i), col, val, -1, -d.RowLower[i])
			changed = changed || up || low
		}
		if !changed {
			return
		}
	}
}

// row returns the entries of row i.
func (m *Model) row(i int32) (col []int32, val []float64) {
	from, to := m.d.Start[i], m.d.Start[i+1]
	return m.d.Col[from:to], m.d.Val[from:to]
}

// implies reports whether imply can have an effect: an infinite bound, and no two others that it would need. Most
// rows have none.
func (m *Model) implies(col []int32, val []float64, sign float64) bool {
	unbounded, open := 0, false
	for k, j := range col {
		a := sign * val[k]
		if a == 0 {
			continue
		}
		if math.IsInf(m.least(a, j), 0) {
			if unbounded++; unbounded > 1 {
				return false
			}
		}
		open = open || math.IsInf(m.least(-a, j), 0)
	}
	return open
}

// imply replaces infinite bounds by finite ones from Σ sign·val·x ≤ side, where each column is bounded by the
// minimum of the others. Rounding is towards the weaker side. It reports whether a bound changed.
func (m *Model) imply(row int32, col []int32, val []float64, sign, side float64) (changed bool) {
	if math.IsInf(side, 0) || !m.implies(col, val, sign) {
		return false
	}
	least, unbounded := 0., 0 // the minimum sum of the bounded columns
	for k, j := range col {
		if a := sign * val[k]; a != 0 {
			if x := m.least(a, j); math.IsInf(x, 0) {
				unbounded++
			} else {
				least = milp.Down.Add(least, milp.Down.Mul(a, x))
			}
		}
	}
	for k, j := range col {
		a := sign * val[k]
		if a == 0 || !math.IsInf(m.least(-a, j), 0) {
			continue
		}
		others, x := least, m.least(a, j)
		switch {
		case !math.IsInf(x, 0) && unbounded == 0:
			others = milp.Down.Add(least, -milp.Up.Mul(a, x))
		case math.IsInf(x, 0) && unbounded == 1:
		default:
			continue
		}
		bound := m.limit(a, j, milp.Up.Add(side, -others))
		if !math.IsInf(bound, 0) {
			changed = true
			m.implied = append(m.implied, implication{row, sign, j, a > 0})
		}
	}
	return changed
}

// least returns the value of x_j in the box that minimises a·x_j.
func (m *Model) least(a float64, j int32) float64 {
	if a > 0 {
		return m.Lower[j]
	}
	return m.Upper[j]
}

// limit bounds column j by a·x_j ≤ room.
func (m *Model) limit(a float64, j int32, room float64) (bound float64) {
	whole := m.d.Integer[j]
	if a > 0 {
		if bound = milp.Up.Quo(room, a); whole {
			bound = math.Floor(bound)
		}
		m.Upper[j] = bound
		return bound
	}
	if bound = milp.Down.Quo(room, a); whole {
		bound = math.Ceil(bound)
	}
	m.Lower[j] = bound
	return bound
}

// Crossed reports whether the box of some column is empty, so that nothing needs to be proved. O(columns).
func (m *Model) Crossed() bool {
	for j, lower := range m.Lower {
		if lower > m.Upper[j] {
			return true
		}
	}
	return false
}

// underflow bounds the loss where products are too small for float64, with a large margin.
const underflow = 0x1p-1000

// side returns the side of row i to which a multiplier applies.
func (m *Model) side(y Multiplier) float64 {
	if y.Value > 0 {
		return m.d.RowLower[y.Row]
	}
	return m.d.RowUpper[y.Row]
}

// Bound returns a lower bound on the objective in the box by the multipliers y: their exact bound, minus the
// possible rounding error; −Inf if there is none. Without costs it is that of the objective 0. It is valid for any
// y and box, if the rows of y exist. O(columns + entries of those rows).
//
// With u = 2⁻⁵³: a reduced cost of k products is off by at most (k + 2)·u times the sum of its magnitudes. growth,
// with 2u, exceeds this even though that sum is rounded itself. The terms are summed with their errors (Neumaier
// 1974), so that the remaining error is the u of every product and of the last addition, and terms in u², below u
// for 2²⁵ terms.
func (m *Model) Bound(y []Multiplier, costs bool) float64 {
	var s sum
	clear(m.reduced)
	clear(m.magnitude)
	if costs {
		copy(m.reduced, m.d.Cost)
		for j, c := range m.d.Cost {
			m.magnitude[j] = math.Abs(c)
		}
		if m.d.Offset != 0 {
			s.add(m.d.Offset)
		}
	}
	for _, t := range y {
		if t.Value == 0 {
			continue
		}
		s.add(t.Value * m.side(t))
		col, val := m.row(t.Row)
		for k, j := range col {
			p := t.Value * val[k]
			m.reduced[j] -= p
			m.magnitude[j] += math.Abs(p) + underflow
		}
	}
	for j, d := range m.reduced {
		if m.magnitude[j] == 0 {
			continue
		}
		lower, upper := m.Lower[j], m.Upper[j]
		within := m.growth * m.magnitude[j] // of d
		at, reach := lower, math.Abs(lower)
		switch {
		case d > within:
		case d < -within:
			at, reach = upper, math.Abs(upper)
		default: // unknown sign: infinite bounds stay infinite
			if reach = math.Max(reach, math.Abs(upper)); d < 0 {
				at = upper
			}
		}
		if d != 0 {
			s.add(d * at)
		}
		s.slack += within * reach
	}
	if terms := len(m.reduced) + len(y); terms > 1<<25 {
		return math.Inf(-1)
	}
	return s.least()
}

// sum adds up numbers and bounds the error.
type sum struct{ total, lost, magnitude, slack float64 }

func (s *sum) add(t float64) {
	total := s.total + t
	if math.Abs(s.total) >= math.Abs(t) {
		s.lost += (s.total - total) + t
	} else {
		s.lost += (t - total) + s.total
	}
	s.total = total
	s.magnitude += math.Abs(t) + underflow
}

// least returns a lower bound on the exact sum; −Inf if any term was infinite.
func (s *sum) least() float64 {
	total := s.total + s.lost
	off := 1.001*s.slack + 0x1p-50*s.magnitude
	if off == 0 {
		return total // no terms
	}
	v := total - off
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.Inf(-1)
	}
	return math.Nextafter(v, math.Inf(-1))
}

// exactBits suffices for any sum of up to 2⁴⁰ products of three float64s: their digits lie between 2⁻³²²² and
// 2³⁰⁷².
const exactBits = 1 << 13

// Exact returns the exact bound that y proves in the box, or nil if there is none. It takes a hundred times as
// long as [Model.Bound].
func (m *Model) Exact(y []Multiplier, costs bool) *big.Float {
	if m.exactly == nil {
		m.exactly = make([]big.Float, len(m.d.Cost))
	}
	var a, b, p big.Float
	p.SetPrec(exactBits)
	product := func(x, y float64) *big.Float { return p.Mul(a.SetFloat64(x), b.SetFloat64(y)) }
	total := new(big.Float).SetPrec(exactBits)
	for j := range m.exactly {
		m.exactly[j].SetPrec(exactBits).SetInt64(0)
		if costs {
			m.exactly[j].SetFloat64(m.d.Cost[j])
		}
	}
	if costs {
		total.SetFloat64(m.d.Offset)
	}
	for _, t := range y {
		if t.Value == 0 {
			continue
		}
		side := m.side(t)
		if math.IsInf(side, 0) {
			return nil
		}
		total.Add(total, product(t.Value, side))
		col, val := m.row(t.Row)
		for k, j := range col {
			m.exactly[j].Sub(&m.exactly[j], product(t.Value, val[k]))
		}
	}
	for j := range m.exactly {
		d := &m.exactly[j]
		if d.Sign() == 0 {
			continue
		}
		at := m.least(float64(d.Sign()), int32(j))
		if math.IsInf(at, 0) {
			return nil
		}
		total.Add(total, p.Mul(d, b.SetFloat64(at)))
	}
	return total
}
