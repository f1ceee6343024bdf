package weights

import (
	"math"

	"workbench/model/plan"
)

// read turns a plan of this problem into a schedule, which may be approximate:
// of several prefetches of a gap it takes the last, of several uploads the
// first that ends before a deletion; false if a computation is missing or the
// plan has no period. O(operations).
func (in *instance) read(p *plan.Plan) (*schedule, bool) {
	if p.Problem != Problem || p.Period == nil || !(*p.Period > 0) {
		return nil, false
	}
	s := newSchedule(in)
	s.T = *p.Period
	for j := range s.op {
		s.op[j] = math.NaN()
	}
	for k := range s.up {
		s.up[k] = math.Inf(1)
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		k := o.Layer - 1
		switch {
		case k < 0 || k >= in.L || math.IsNaN(o.Start) || math.IsInf(o.Start, 0):
			return nil, false
		case o.Op == plan.OpB:
			s.op[in.B(k)] = o.Start
		case o.Op == plan.OpF:
			s.op[in.F(k)] = o.Start
		}
	}
	// Unwrap: each operation follows the one before.
	for j := range s.op {
		if math.IsNaN(s.op[j]) {
			return nil, false
		}
		if j > 0 {
			s.op[j] = after(s.op[j], s.op[j-1]+in.U[j-1], s.T)
		}
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		k := o.Layer - 1
		if in.W[k] == 0 {
			continue
		}
		b, f := s.op[in.B(k)]+in.U[in.B(k)], s.op[in.F(k)]+in.U[in.F(k)]
		switch o.Op {
		case plan.OpO:
			s.up[k] = min(s.up[k], after(o.Start, b, s.T))
		case plan.OpP:
			g := 2*k + 1
			t := after(o.Start, b, s.T)
			if t+in.move[k] <= s.op[in.F(k)]+1e-9*s.T {
				g = 2 * k
			} else {
				t = after(o.Start, f, s.T)
			}
			if !s.away[g] || t > s.pre[g] {
				s.away[g], s.pre[g] = true, t
			}
		}
	}
	for k := range s.up {
		if s.uploads(k) && math.IsInf(s.up[k], 1) {
			return nil, false
		}
	}
	s.shift(-s.op[0])
	return s, true
}

// after returns the first time not before from that equals t modulo T, up to
// rounding.
func after(t, from, T float64) float64 {
	return t + T*math.Ceil((from-t)/T-1e-9)
}
