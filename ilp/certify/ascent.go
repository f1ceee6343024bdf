package certify

import (
	"context"
	"math"
	"slices"

	"workbench/model/certificate"
)

// sweeps is how often the ascent goes over all rows at most; it ends before if a
// sweep raises the bound by less than ascentGain of itself.
const (
	sweeps     = 20
	ascentGain = 1e-4
)

// ascend gives the root what can be had without a linear program, so that a
// certificate never proves less than a row alone does: no multipliers at all, then
// those of the best row alone, for the ascent may get stuck on another, and then of
// one row after the other, each the best beside those there are (dual coordinate
// ascent). O(entries·log entries) a sweep.
func (s *search) ascend(ctx context.Context) {
	root := s.root
	root.bound = s.model.Bound(nil, true)
	if math.IsInf(root.bound, 0) || s.model.Crossed() {
		return // a column without bounds has to be dealt with by all its rows at once
	}
	a := &ascent{s: s, reduced: slices.Clone(s.d.Cost), y: make([]float64, len(s.d.RowLower))}
	if i := a.best(); i >= 0 {
		a.row(i)
	}
	for range sweeps {
		for i := range a.y {
			if i%1024 == 0 && ctx.Err() != nil {
				break
			}
			a.row(int32(i))
		}
		var y []certificate.Multiplier
		for i, v := range a.y {
			if v != 0 {
				y = append(y, certificate.Multiplier{Row: int32(i), Value: v})
			}
		}
		before := root.bound
		if b := s.model.Bound(y, true); b > before {
			root.bound, root.y = b, s.keep(y)
		}
		if root.bound >= s.target || root.bound-before <= ascentGain*math.Abs(root.bound) || ctx.Err() != nil {
			return
		}
	}
}

// ascent is multipliers and the reduced costs that they leave, in floating point:
// what they prove is for the model to say.
type ascent struct {
	s          *search
	reduced, y []float64
	steps      []step // scratch
}

// step is where the bound, as a function of one multiplier, bends: its slope
// falls by so much.
type step struct{ at, bend float64 }

// best is the row that raises the bound most, alone; −1: none does.
func (a *ascent) best() int32 {
	best, most := int32(-1), 0.0
	for i := range int32(len(a.y)) {
		if gain := a.row(i); gain > most {
			best, most = i, gain
		}
		a.y[i] = 0
		for _, j := range a.s.d.Col[a.s.d.Start[i]:a.s.d.Start[i+1]] {
			a.reduced[j] = a.s.d.Cost[j]
		}
	}
	return best
}

// row gives row i the multiplier that raises the bound most, and returns by how
// much about. The bound is concave in it and bends where a reduced cost is 0.
func (a *ascent) row(i int32) (gain float64) {
	d, m := a.s.d, a.s.model
	from, to := d.Start[i], d.Start[i+1]
	lower, upper := d.RowLower[i], d.RowUpper[i]
	// The slopes at 0: upwards the multiplier counts the lower side, downwards the
	// upper one, and columns at the bound that their reduced cost prefers.
	up, down := lower, upper
	for k := from; k < to; k++ {
		j, v := d.Col[k], d.Val[k]
		switch c := a.reduced[j]; {
		case v == 0:
		case c > 0:
			up, down = up-v*m.Lower[j], down-v*m.Lower[j]
		case c < 0:
			up, down = up-v*m.Upper[j], down-v*m.Upper[j]
		default:
			up -= math.Max(v*m.Lower[j], v*m.Upper[j])
			down -= math.Min(v*m.Lower[j], v*m.Upper[j])
		}
	}
	sign, slope := 1.0, up
	switch {
	case up > 0 && (a.y[i] >= 0 || lower == upper):
	case down < 0 && (a.y[i] <= 0 || lower == upper):
		sign, slope = -1, -down
	default:
		return 0
	}
	if math.IsInf(slope, 0) || math.IsNaN(slope) {
		return 0
	}
	a.steps = a.steps[:0]
	for k := from; k < to; k++ {
		j, v := d.Col[k], sign*d.Val[k]
		if c := a.reduced[j]; c*v > 0 { // falls to 0 at c/v, and changes sides
			a.steps = append(a.steps, step{c / v, math.Abs(v) * (m.Upper[j] - m.Lower[j])})
		}
	}
	slices.SortFunc(a.steps, func(x, y step) int {
		switch {
		case x.at < y.at:
			return -1
		case x.at > y.at:
			return 1
		}
		return 0
	})
	at := 0.0
	for _, x := range a.steps {
		if slope <= 0 {
			break
		}
		gain += slope * (x.at - at)
		at, slope = x.at, slope-x.bend
	}
	if at == 0 {
		return 0
	}
	a.y[i] += sign * at
	for k := from; k < to; k++ {
		j := d.Col[k]
		if a.reduced[j] -= sign * at * d.Val[k]; math.Abs(a.reduced[j]) <= 1e-12*math.Abs(at*d.Val[k]) {
			a.reduced[j] = 0
		}
	}
	return gain
}
