package remat

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
)

// Floating returns the fastest plan with floating memory persistence ([004] R.1', Theorem 5,
// Algorithms 1 and 2): the last stored activation may be replaced by a later and larger one. The
// thesis calls it optimal, but it misses plans that keep ā_ℓ and recompute its input. Moreover
// (2.6) as printed accepts sequences that do not fit, so here moves of the stored activation are
// checked, too. Sizes are not rounded to slots. An error wraps plan.ErrNoPlan if no such plan fits,
// which proves nothing, if the context ends, or as a *TooLargeError. Complexity as of
// [FloatingCurve].
func Floating(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return solveExact(ctx, "floating", c, p, 0)
}

// FloatingPrinted is [Floating] by [004] (2.6) as printed. The plan may need more
// memory than there is, and its makespan bounds nothing.
func FloatingPrinted(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return solveExact(ctx, "floating-printed", c, p, 0)
}

// FloatingCurve returns the trade-off between memory and makespan of [Floating] up to most bytes.
// O(N⁴) sums of two step functions of memory, O(N³) of which are stored, 16 bytes a breakpoint: see
// [PersistentCurve].
func FloatingCurve(ctx context.Context, c *chain.Chain, most float64) (*Curve, error) {
	return newCurve(ctx, "floating", c, most, 0)
}

// moves is the dynamic program of [004] Theorem 5. O(s,t,ℓ) is C_FL(s,t,ℓ,·) less Σ_{s..t} uF +
// Σ_{ℓ..t} uB: the recomputation time. The minimum of (2.6) over s', r and t' is taken in three
// steps, as s' and ℓ occur together in no term of (2.7), and s occurs only with r:
//
//	Q(r,t,t',m) = min_{r≤s'<t'} O(s'+1,t,t',m-a_{s'})
//	H(r,t,ℓ,m)  = min_{ℓ<t'≤t} Σ_{r≤h<t'} uF_h + Q(r,t,t',m) + O(r,t'-1,ℓ,m)
//	C_2(s,t,ℓ,m): min over s≤r≤ℓ, a_{r-1} ≥ a_{s-1}, of H(r,t,ℓ,m-a_{r-1}+a_{s-1})
//
// The sequence runs F_r .. F_{s'} with a_{r-1} stored. (2.6) uses m before a_{s-1} is replaced by
// the larger a_{r-1}; unless printed is set, Q requires
//
//	m ≥ M(F_h) for r ≤ h ≤ s', with a_{r-1} not counted.
type moves struct {
	v       *model.View // times rounded down
	method  string
	printed bool
	until   []float64 // until[ℓ] = Σ uF_1..ℓ
	o       []stepFunction
	first   []int // O(s,t,ℓ) is o[first[s*(n+1)+ℓ]+t]
}

func (d *moves) cost(s, t, l int) *stepFunction { return &d.o[d.first[s*(d.v.N+1)+l]+t] }

// forward is M(F_h) while δ_t and a_{s-1}, which is not counted, are stored.
func (d *moves) forward(s, t, h int) float64 {
	need := d.v.Delta[t] + d.v.A[h] + d.v.OC[h]
	if h > s {
		need += d.v.A[h-1]
	}
	return need
}

// nothing is the step function 0.
var nothing = stepFunction{m: []float64{math.Inf(-1)}, c: []float64{0}}

// allot makes room for the functions O(s,t,ℓ), s ≤ ℓ ≤ t.
func (d *moves) allot() {
	n, w := d.v.N, d.v.N+1
	d.first = make([]int, w*w)
	rows := 0
	for s := 1; s <= n; s++ {
		for l := s; l <= n; l++ {
			d.first[s*w+l] = rows - l
			rows += n - l + 1
		}
	}
	d.o = make([]stepFunction, rows)
}

// fill computes all functions up to the memory that is left of most bytes.
// [004] Algorithm 1; ordered by t, then by decreasing s.
func (d *moves) fill(ctx context.Context, most float64, b *budget) error {
	v, w := d.v, d.v.N+1
	need := 0.0 // for breakpoints
	d.allot()
	d.until = make([]float64, w)
	q := make([]stepFunction, w)   // Q(r,t,t') by t', for the r and t at hand
	h := make([]stepFunction, w*w) // H(r,t,ℓ) by r and ℓ, for the t at hand
	var space, forT floats
	var e envelope
	for t := 1; t <= v.N; t++ {
		d.until[t] = d.until[t-1] + v.UF[t]
		forT.reset()
		none := 0.0 // m_∅^{s,t} for h > s
		for s := t; s >= 1; s-- {
			if ctx.Err() != nil {
				return fmt.Errorf("remat: %s: %w: %w", d.method, context.Cause(ctx), plan.ErrNoPlan)
			}
			room := most - v.A[0]
			left := room
			if s > 1 {
				left -= v.A[s-1]
			}
			// Q and H of r = s.
			first, later := d.forward(s, t, s), 0.0
			if s < t {
				later = d.forward(s, t, s+1)
				none = max(none, later)
			}
			later = max(later, first)
			if d.printed {
				first, later = 0, 0
			}
			for last := s + 1; last <= t; last++ {
				// It is part of those of smaller r, which may have more memory left.
				e.shifted(d.cost(s+1, t, last), v.A[s], first, room)
				if last > s+1 {
					e.lower(0, &nothing, &q[last], 0, later, room)
				}
				q[last] = forT.keep(&e.stepFunction)
			}
			for l := s; l < t; l++ {
				e.reset()
				for last := l + 1; last <= t; last++ {
					e.lower(d.until[last-1]-d.until[s-1], &q[last], d.cost(s, last-1, l), 0, 0, left)
				}
				if b != nil {
					b.prune(&e.stepFunction, s, t, l)
				}
				h[s*w+l] = forT.keep(&e.stepFunction)
			}
			// O.
			for l := s; l <= t; l++ {
				e.reset()
				if least := needAll(v, s, t); s == t && least <= left {
					e.push(least, 0) // (2.4)
				} else if s == l && s < t {
					e.shifted(d.cost(s+1, t, s+1), v.Abar[s], least, left) // C_1
				}
				for r := s; r <= l && l < t; r++ { // C_2
					if by := v.A[r-1] - v.A[s-1]; by >= 0 {
						e.lower(0, &nothing, &h[r*w+l], by, max(none, d.forward(s, t, s)), left)
					}
				}
				if b != nil {
					b.prune(&e.stepFunction, s, t, l)
				}
				if need += 16 * float64(len(e.m)); need > tableLimit {
					return exactTooLarge(d.method, v.N, need)
				}
				*d.cost(s, t, l) = space.keep(&e.stepFunction)
			}
		}
	}
	return nil
}

func (d *moves) whole() *stepFunction { return d.cost(1, d.v.N, 1) }

func (d *moves) append(q *model.Sequence, m float64) { d.build(q, 1, d.v.N, 1, m, false) }

// build appends the sequence for (s,t,ℓ) in m bytes, enough for one, to q. abar
// says that ā_{s-1} is stored, not a_{s-1}: then s = ℓ, and it does not move.
// [004] Algorithm 2; of choices that are as good F_all, then the first r, t', s'.
// O(N³ log(breakpoints)) for a choice.
func (d *moves) build(q *model.Sequence, s, t, l int, m float64, abar bool) {
	v := d.v
	for {
		all := s == t
		best := math.Inf(1)
		if s == l && s < t && m >= needAll(v, s, t) {
			best, all = d.cost(s+1, t, s+1).value(m-v.Abar[s]), true
		}
		none := 0.0
		for h := s; h <= t; h++ {
			none = max(none, d.forward(s, t, h))
		}
		base, split, end := s, s, t
		for r := s; r <= l && l < t && m >= none; r++ {
			m := m - v.A[r-1] + v.A[s-1]
			if v.A[r-1] < v.A[s-1] {
				continue
			}
			for last := l + 1; last <= t; last++ {
				again := d.until[last-1] - d.until[r-1]
				if again >= best {
					break
				}
				again += d.cost(r, last-1, l).value(m)
				for k := r; k < last && again < best; k++ {
					if !d.printed && m < d.forward(r, t, k) {
						break
					}
					if x := again + d.cost(k+1, t, last).value(m-v.A[k]); x < best {
						best, all, base, split, end = x, false, r, k, last
					}
				}
			}
		}
		if all {
			q.All(s)
			if s < t {
				d.build(q, s+1, t, s+1, m-v.Abar[s], true)
			}
			q.Backward(s)
			return
		}
		for h := s; h < base; h++ {
			q.None(h)
		}
		q.Advance(base, split)
		m -= v.A[base-1] - v.A[s-1]
		d.build(q, split+1, t, end, m-v.A[split], false)
		s, t = base, end-1
	}
}
