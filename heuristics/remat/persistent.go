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

// Persistent returns the fastest memory-persistent plan: what a plan stores it keeps until the
// backward that needs it ([004] R.1, Theorem 6, Algorithms 3 and 4). Sizes are not rounded to
// slots. Of equally fast plans it is one with the minimum peak. An error wraps plan.ErrNoPlan if no
// persistent plan fits, which proves nothing about others, if the context ends, or as a
// *TooLargeError. Complexity as of [PersistentCurve].
//
// Only what plans of little recomputation need is computed (see budget), so it takes less time than
// a curve.
func Persistent(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return solveExact(ctx, "persistent", c, p, 0)
}

// PersistentCurve returns the trade-off between memory and makespan of persistent plans up to most
// bytes.
//
// The cost C_MP(s,t,·) of [004] (2.9)–(2.10) is a nonincreasing step function of memory; it is
// computed as a list of breakpoints, exactly. O(N³) sums of two such functions; they may have
// O(2^N) breakpoints, but have hundreds to thousands on networks. 16 bytes a breakpoint; beyond 4
// GiB it returns a *TooLargeError.
func PersistentCurve(ctx context.Context, c *chain.Chain, most float64) (*Curve, error) {
	return newCurve(ctx, "persistent", c, most, 0)
}

// splits is the dynamic program of [004] Theorem 6. f(s,t) is C_MP(s,t,·) less Σ_{s..t} (uF + uB):
// the recomputation time.
type splits struct {
	v      *model.View // times rounded down
	method string
	// forwardsKeep says that F_all may be used before B_t runs, not only just
	// before its own B: Persistent, not Revolve.
	forwardsKeep bool
	until        []float64      // until[ℓ] = Σ uF_1..ℓ
	f            []stepFunction // by s and t
}

func (d *splits) cost(s, t int) *stepFunction { return &d.f[s*(d.v.N+1)+t] }

// fill computes all functions up to the memory that is left of most bytes.
// [004] Algorithm 3; ordered by t, then by decreasing s.
func (d *splits) fill(ctx context.Context, most float64, b *budget) error {
	v, w := d.v, d.v.N+1
	need := 0.0 // for breakpoints
	d.f = make([]stepFunction, w*w)
	d.until = make([]float64, w)
	var space floats
	var e envelope
	for t := 1; t <= v.N; t++ {
		d.until[t] = d.until[t-1] + v.UF[t]
		run := 0.0 // max of a_{h-1} + a_h + oF_h over s < h ≤ t
		for s := t; s >= 1; s-- {
			if ctx.Err() != nil {
				return fmt.Errorf("remat: %s: %w: %w", d.method, context.Cause(ctx), plan.ErrNoPlan)
			}
			left := most - v.A[0]
			if s > 1 {
				left -= v.A[s-1]
			}
			none := v.Delta[t] + max(run, v.A[s]+v.OC[s]) // m_∅^{s,t}
			run = max(run, v.A[s-1]+v.A[s]+v.OC[s])
			e.reset()
			if need := needAll(v, s, t); s == t && need <= left {
				e.push(need, 0) // (2.9)
			} else if s < t && d.forwardsKeep {
				e.shifted(d.cost(s+1, t), v.Abar[s], need, left) // C_1
			}
			for k := s; k < t; k++ { // C_2
				e.lower(d.until[k]-d.until[s-1], d.cost(s, k), d.cost(k+1, t), v.A[k], none, left)
			}
			if b != nil {
				b.prune(&e.stepFunction, s, t, s)
			}
			if need += 16 * float64(len(e.m)); need > tableLimit {
				return exactTooLarge(d.method, v.N, need)
			}
			*d.cost(s, t) = space.keep(&e.stepFunction)
		}
	}
	return nil
}

func (d *splits) whole() *stepFunction { return d.cost(1, d.v.N) }

func (d *splits) append(q *model.Sequence, m float64) { d.build(q, 1, d.v.N, m, false) }

// build appends the sequence for (s,t) in m bytes, enough for one, to q. abar
// says that ā_{s-1} is stored, not a_{s-1}. [004] Algorithm 4; of choices that
// are as good F_all, then the first split. O(N log(breakpoints)) for a choice.
func (d *splits) build(q *model.Sequence, s, t int, m float64, abar bool) {
	v := d.v
	all := s == t
	best, split := math.Inf(1), s
	if s < t && d.forwardsKeep && m >= needAll(v, s, t) {
		best, all = d.cost(s+1, t).value(m-v.Abar[s]), true
	}
	none := 0.0
	for h := s; h <= t; h++ {
		input := 0.0
		if h > s {
			input = v.A[h-1]
		}
		none = max(none, v.Delta[t]+input+v.A[h]+v.OC[h])
	}
	for k := s; k < t && m >= none; k++ {
		if x := d.until[k] - d.until[s-1] + d.cost(s, k).value(m) + d.cost(k+1, t).value(m-v.A[k]); x < best {
			best, split, all = x, k, false
		}
	}
	if !all {
		q.Advance(s, split)
		d.build(q, split+1, t, m-v.A[split], false)
		d.build(q, s, split, m, abar)
		return
	}
	q.All(s)
	if s < t {
		d.build(q, s+1, t, m-v.Abar[s], true)
	}
	q.Backward(s)
}
