package certify

import (
	"context"
	"math"
	"slices"

	"workbench/model/certificate"
)

// sweeps limits the sweeps of the ascent over all rows. It stops earlier if a sweep raises the bound by less than
// ascentGain of itself.
const (
	sweeps     = 20
	ascentGain = 1e-4
)

// ascend sets the multipliers of the root without a linear program, by dual coordinate ascent. A certificate then
// never proves less than a single row does. It evaluates no multipliers, then the best single row, since the
// ascent may stall at a worse one. Then it optimises the multiplier of one row after the other with all others
// fixed. O(entries·log entries) a sweep.
func (s *search) ascend(ctx context.Context) {
	root := s.root
	root.bound = s.model.Bound(nil, true)
	if math.IsInf(root.bound, 0) || s.model.Crossed() {
		return // all rows must bound the column jointly, which the ascent does not attempt
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

// ascent holds multipliers and their reduced costs, in floating point; the model computes what they prove.
type ascent struct {
	s          *search
	reduced, y []float64
	steps      []step // scratch
}

// step is a breakpoint of the bound as a function of one multiplier: the slope falls by bend at the value at.
type step struct{ at, bend float64 }

// best returns the row that alone raises the bound most, or −1 if none does.
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

// row sets the multiplier of row i that raises the bound most and returns the approximate gain. The bound is
// concave in the multiplier, with breakpoints where a reduced cost is 0.
func (a *ascent) row(i int32) (gain float64) {
	d, m := a.s.d, a.s.model
	from, to := d.Start[i], d.Start[i+1]
	lower, upper := d.RowLower[i], d.RowUpper[i]
	// The slopes at 0. Upwards the multiplier applies to the lower side, downwards to the upper one. Columns are
	// at the bound that their reduced cost prefers.
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
		if c := a.reduced[j]; c*v > 0 { // falls to 0 at c/v, then changes sign
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
