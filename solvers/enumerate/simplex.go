package enumerate

import "math"

// tolerance applies to reduced costs, pivots and infeasibilities of the tableau, whose numbers are of moderate
// size: see Engine's limits.
const tolerance = 1e-9

// verdict of a linear program.
type verdict uint8

const (
	infeasible verdict = iota
	optimal
	unbounded
	interrupted
)

// linear is a linear program min cost·x, rowLower ≤ A x ≤ rowUpper,
// lower ≤ x ≤ upper with a dense matrix, row after row.
type linear struct {
	cost, lower, upper []float64
	rowLower, rowUpper []float64
	a                  []float64 // len(rowLower) × len(cost)
}

// tableau is linear in the form min c·s, T s = b, s ≥ 0, b ≥ 0: columns are shifted to a finite bound or split,
// sides become rows with slacks, and every row has an artificial column. The artificial columns remain, barred
// from the basis, because their reduced costs are the duals.
type tableau struct {
	rows, cols int // cols counts shifted, slack and artificial columns
	structural int // shifted columns and slacks
	t          []float64
	basis      []int
	reduced    []float64 // reduced costs and, last, minus the objective
	// The mapping to the original program:
	column []int     // of a shifted column: the original
	sign   []float64 // of a shifted column: x = shift + sign·s + …
	shift  []float64 // by original column
	owner  []int     // of a row: the original row, −1 for a bound
	flip   []float64 // of a row: −1 if negated to make b ≥ 0
}

// solve minimises by the two-phase simplex method with Bland's rule, which
// cannot cycle. x has one value a column, dual one a row. Exponential at worst,
// O(rows·columns) a pivot. stop is polled at every pivot.
func (l *linear) solve(stop func() bool) (v verdict, x, dual []float64) {
	t := newTableau(l)
	phase1 := make([]float64, t.cols)
	for j := t.structural; j < t.cols; j++ {
		phase1[j] = 1
	}
	t.price(phase1)
	if v := t.minimise(t.cols, stop); v != optimal {
		return interrupted, nil, nil // phase 1 is bounded
	}
	scale := 1.0
	for i := range t.rows {
		scale = math.Max(scale, math.Abs(t.entry(i, t.cols)))
	}
	if -t.reduced[t.cols] > tolerance*scale {
		return infeasible, nil, nil
	}
	t.expelArtificials()
	phase2 := make([]float64, t.cols)
	for s, j := range t.column {
		phase2[s] = t.sign[s] * l.cost[j]
	}
	t.price(phase2)
	if v := t.minimise(t.structural, stop); v != optimal {
		return v, nil, nil
	}
	return optimal, t.primal(), t.duals(len(l.rowLower))
}

func newTableau(l *linear) *tableau {
	n := len(l.cost)
	t := &tableau{shift: make([]float64, n)}
	for j := range n {
		switch lo, up := l.lower[j], l.upper[j]; {
		case !math.IsInf(lo, -1):
			t.shift[j] = lo
			t.addColumn(j, 1)
		case !math.IsInf(up, 1):
			t.shift[j] = up
			t.addColumn(j, -1)
		default:
			t.addColumn(j, 1)
			t.addColumn(j, -1)
		}
	}
	var sides []side
	for i := range l.rowLower {
		at := 0.
		for j := range n {
			at += l.a[i*n+j] * t.shift[j]
		}
		sides = appendSides(sides, i, -1, l.rowLower[i]-at, l.rowUpper[i]-at)
	}
	for j := range n {
		if !math.IsInf(l.lower[j], -1) && !math.IsInf(l.upper[j], 1) {
			sides = append(sides, side{-1, j, 1, l.upper[j] - l.lower[j]})
		}
	}
	slacks := 0
	for _, s := range sides {
		if s.slack != 0 {
			slacks++
		}
	}
	t.rows, t.structural = len(sides), len(t.column)+slacks
	t.cols = t.structural + t.rows
	t.t = make([]float64, t.rows*(t.cols+1))
	slack := len(t.column)
	for i, s := range sides {
		row := t.row(i)
		for k, j := range t.column {
			switch {
			case s.row >= 0:
				row[k] = t.sign[k] * l.a[s.row*n+j]
			case s.column == j:
				row[k] = 1
			}
		}
		if s.slack != 0 {
			row[slack] = s.slack
			slack++
		}
		row[t.cols] = s.rhs
		t.owner, t.flip = append(t.owner, s.row), append(t.flip, 1)
		if s.rhs < 0 {
			t.flip[i] = -1
			for k := range row {
				row[k] = -row[k]
			}
		}
		row[t.structural+i] = 1
		t.basis = append(t.basis, t.structural+i)
	}
	return t
}

// side is one row of a tableau: an original row, or else the width of an
// original column, with slack coefficient 1 (≤), −1 (≥) or 0 (=).
type side struct {
	row, column int
	slack, rhs  float64
}

func appendSides(s []side, row, column int, lo, up float64) []side {
	if lo == up {
		return append(s, side{row, column, 0, lo})
	}
	if !math.IsInf(up, 1) {
		s = append(s, side{row, column, 1, up})
	}
	if !math.IsInf(lo, -1) {
		s = append(s, side{row, column, -1, lo})
	}
	return s
}

func (t *tableau) addColumn(j int, sign float64) {
	t.column, t.sign = append(t.column, j), append(t.sign, sign)
}

func (t *tableau) row(i int) []float64    { return t.t[i*(t.cols+1) : (i+1)*(t.cols+1)] }
func (t *tableau) entry(i, j int) float64 { return t.t[i*(t.cols+1)+j] }
func (t *tableau) artificial(j int) bool  { return j >= t.structural }

// price computes the reduced costs of cost for the current basis.
func (t *tableau) price(cost []float64) {
	t.reduced = append(append([]float64(nil), cost...), 0)
	for i, b := range t.basis {
		if c := cost[b]; c != 0 {
			for j, a := range t.row(i) {
				t.reduced[j] -= c * a
			}
		}
	}
}

// minimise pivots until no column below limit improves.
func (t *tableau) minimise(limit int, stop func() bool) verdict {
	for {
		enter := -1
		for j := range limit {
			if t.reduced[j] < -tolerance {
				enter = j
				break
			}
		}
		if enter < 0 {
			return optimal
		}
		if stop() {
			return interrupted
		}
		leave, best := -1, math.Inf(1)
		for i := range t.rows {
			a := t.entry(i, enter)
			if a <= tolerance {
				continue
			}
			ratio := t.entry(i, t.cols) / a
			if ratio < best || ratio == best && t.basis[i] < t.basis[leave] {
				leave, best = i, ratio
			}
		}
		if leave < 0 {
			return unbounded
		}
		t.pivot(leave, enter)
	}
}

func (t *tableau) pivot(leave, enter int) {
	p := t.row(leave)
	scale := 1 / p[enter]
	for j := range p {
		p[j] *= scale
	}
	eliminate := func(row []float64) {
		if f := row[enter]; f != 0 {
			for j, a := range p {
				row[j] -= f * a
			}
			row[enter] = 0
		}
	}
	for i := range t.rows {
		if i != leave {
			eliminate(t.row(i))
		}
	}
	eliminate(t.reduced)
	t.basis[leave] = enter
}

// expelArtificials pivots the artificial columns out of the basis. An artificial that remains basic marks a
// redundant row, whose structural entries are all zero, so that it remains zero.
func (t *tableau) expelArtificials() {
	for i, b := range t.basis {
		if !t.artificial(b) {
			continue
		}
		for j := range t.structural {
			if math.Abs(t.entry(i, j)) > tolerance {
				t.pivot(i, j)
				break
			}
		}
	}
}

func (t *tableau) primal() []float64 {
	x := append([]float64(nil), t.shift...)
	for i, b := range t.basis {
		if b < len(t.column) {
			x[t.column[b]] += t.sign[b] * t.entry(i, t.cols)
		}
	}
	return x
}

// duals returns the dual of each row, taken from its artificial column, whose cost is 0.
func (t *tableau) duals(rows int) []float64 {
	y := make([]float64, rows)
	for i, o := range t.owner {
		if o >= 0 {
			y[o] -= t.flip[i] * t.reduced[t.structural+i]
		}
	}
	return y
}
