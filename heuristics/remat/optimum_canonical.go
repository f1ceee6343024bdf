package remat

import (
	"context"
	"math"
	"slices"

	model "workbench/model/problem/remat"
)

// canonical is a dynamic program over canonical plans, a class that contains the persistent ([004]
// Theorem 6) and floating ones (Theorem 5, repaired) and the move that these miss: keep ā_ℓ, drop
// its input, recompute that input just before B_ℓ.
//
// # Canonical plans
//
// Phase t lasts from the end of B_{t+1} to the end of B_t. What is stored at its start, below layer
// t, is a stack: items a_i or ā_i by increasing i. In a canonical plan each phase has at most one
// sweep, F of consecutive layers, from the top of the stack below t up to layer t, or up to t−1 if
// ā_t is stored. The sweep puts new items on top of the stack, and only the item it starts from may
// be dropped for it. An ā is kept until its B.
//
// # Recurrence
//
// m is the memory not occupied by the items below and by the base a_{s-1} or ā_{s-1} itself. Bit
// "has" is set if ā_t is stored when phase t starts (and counted in m), bit "leaves" if ā_{ℓ-1} is
// stored when phase ℓ is over.
//
//	serve(has, leaves, s, t, ℓ, m)  phases t..ℓ, all from the base s−1, which is
//	                                dropped in the end
//	push(has, leaves, s, t, ℓ, m)   the same, from an item that the sweep of
//	                                phase t puts above the base; the base is kept
//	replace(…)                      as push, but the base is dropped in the sweep
//
//	serve(has, ·, t, t, t, m) = uF_t (unless has) + uB_t   if F_all_t and B_t fit
//	serve(has, leaves, s, t, ℓ, m) = min of
//	    replace(has, leaves, s, t, ℓ, m)
//	    push(has, x, s, t, t', m) + serve(x, leaves, s, t'−1, ℓ, m),  ℓ < t' ≤ t, x ∈ {no, yes}
//	push(has, leaves, s, t, ℓ, m) = min of, each if the sweep s..s' fits,
//	    Σ uF_{s..s'} + serve(has, leaves, s'+1, t, ℓ, m − a_{s'}),    s ≤ s' < ℓ
//	    Σ uF_{s..ℓ-1} + serve(has, no, ℓ, t, ℓ, m − ā_{ℓ-1})          if leaves
//
// and replace is push with m + a_{s-1} after the sweep. The best canonical plan has value serve(no,
// no, 1, N, 1, M − a_0). Without "has" and "leaves" this is [004] (2.5)–(2.8) with (2.6) repaired.
// O(N³) functions of m, O(N) terms each.
//
// # Lower bound
//
// If the memory of forwards is not checked (forwards is false), the value is a lower bound on the
// makespan of any plan. Proof: relax the problem so that memory is limited during backwards only.
// The cost of a phase then depends only on the sets S_t stored at B_t: every item of S_t that was
// not stored when the phase started needs its layer, and all layers down to the next stored item,
// once. Take a plan of minimum time for the relaxed problem.
//
//  1. It needs no sweep but that to ā_t and a_{t-1}. Consider the first phase t
//     with another, from item i to items j_1 < j_2 < … of S_t, all below the
//     item where the main sweep starts. If i is still in S_t, do the sweep in
//     the next phase: B_t then needs less memory. If i is dropped and no larger
//     than the new items together, keep i in their place and do the sweep in
//     the next phase. If i is larger, it was itself stored by a main sweep of an
//     earlier phase, or is a_0 at the start of the first one; that sweep passed
//     j_1, j_2, …, so keep these and not i from there on. Until phase t, sweeps
//     from i were to targets above the j: they become shorter.
//  2. An ā_i that is dropped before B_i can be replaced by a_i.
//  3. So new items come on top of the stack only, and an item that is dropped
//     without B was last used as the start of a sweep, while on top, and may be
//     dropped with that sweep. This is a canonical plan. ∎
//
// If both values are equal, or the plan of the bound fits in memory, it is the true optimum.
type canonical struct {
	v        *model.View
	forwards bool      // check the memory of forwards, too
	sum      []float64 // sum[i] = Σ uF_1..i
	back     []float64 // back[i] = Σ uB_1..i

	page, row []int     // of index
	memo      [][]level // by function
	least     []float64 // by function: the memory from which on it is finite
	ample     []float64 // by function: the memory from which on nothing is computed twice

	// grain > 0, an integer, is the memory resolution: memory is rounded to its multiples, up if
	// forwards is false, else down. The value remains a bound or a plan, and functions have fewer
	// steps.
	grain float64

	steps, limit int64           // levels kept, and how many may be
	calls        int64           // of compute
	ctx          context.Context // asked now and then
	stopped      bool            // by either; values are meaningless from then on
}

// canonicalBytes returns the bytes that newCanonical allocates for n layers.
func canonicalBytes(n int) float64 {
	return 40 * 4 * kinds * float64(n) * float64(n+1) * float64(n+2) / 6
}

// level says that a function of memory is value in [from, to), or, if over, that
// it is value or more.
type level struct {
	from, to, value float64
	over            bool
}

// Kinds of functions.
const (
	serve = iota
	push
	replace
	kinds
)

// phases identifies a function of memory.
type phases struct {
	kind, has, leaves int // has, leaves: 0 or 1
	s, t, l           int
}

func newCanonical(ctx context.Context, v *model.View, forwards bool) *canonical {
	d := &canonical{v: v, forwards: forwards, ctx: ctx, limit: 1 << 25}
	d.sum, d.back = make([]float64, v.N+1), make([]float64, v.N+1)
	for i := 1; i <= v.N; i++ {
		d.sum[i], d.back[i] = d.sum[i-1]+v.UF[i], d.back[i-1]+v.UB[i]
	}
	d.page, d.row = make([]int, v.N+1), make([]int, v.N+1)
	for i := 1; i <= v.N; i++ {
		d.page[i], d.row[i] = triples(i-1)*4*kinds, (i*(i-1)/2-1)*4*kinds
	}
	size := kinds * 4 * triples(v.N)
	d.memo = make([][]level, size)
	d.least, d.ample = make([]float64, size), make([]float64, size)
	d.thresholds()
	return d
}

// triples returns the number of triples 1 ≤ s ≤ ℓ ≤ t ≤ n.
func triples(n int) int { return n * (n + 1) * (n + 2) / 6 }

func (d *canonical) index(c phases) int {
	return d.page[c.t] + d.row[c.l] + c.s*4*kinds + c.kind*4 + c.has*2 + c.leaves
}

// exists reports whether the function is defined: an ā that remains lies above the base.
func (c phases) exists() bool {
	if c.s > c.l || c.l > c.t || c.s < 1 {
		return false
	}
	if c.kind == serve {
		return c.leaves == 0 || c.l > c.s
	}
	return c.l > c.s
}

// floor returns the time with unlimited memory, a lower bound on the function.
func (d *canonical) floor(c phases) float64 {
	return d.sum[c.t-c.has] - d.sum[c.s-1] + d.back[c.t] - d.back[c.l-1]
}

// term is one term of a minimum: cost + first(m + shift) + second(m), if m ≥ need.
type term struct {
	need, cost, shift float64
	first, second     phases // second: kind < 0 if there is none
	item              int    // s' of push and replace
	abar              bool   // the item is an ā
}

// terms calls f with each term of the minimum that defines c, until f returns
// false. Not for serve with s = t.
func (d *canonical) terms(c phases, f func(o *term) bool) {
	var o term
	v := d.v
	if c.kind == serve {
		o.second.kind = -1
		if c.l > c.s {
			o.first = phases{replace, c.has, c.leaves, c.s, c.t, c.l}
			if !f(&o) {
				return
			}
		}
		for t := c.l + 1; t <= c.t; t++ {
			for x := 1; x >= 0; x-- {
				o.first = phases{push, c.has, x, c.s, c.t, t}
				o.second = phases{serve, x, c.leaves, c.s, t - 1, c.l}
				if !f(&o) {
					return
				}
			}
		}
		return
	}
	o.second.kind = -1
	base := 0.0 // what the sweep frees
	if c.kind == replace {
		base = v.A[c.s-1]
	}
	// held is what the sweep finds in addition to the base: the gradient and ā_t.
	held := v.Delta[c.t]
	if c.has == 1 {
		held += v.Abar[c.t]
	}
	need := math.Inf(-1) // of the sweep without its last layer
	for i := c.s; i < c.l; i++ {
		before := 0.0 // a_{i-1} in addition to the base
		if i > c.s {
			before = v.A[i-1] - base
		}
		o.item, o.cost = i, d.sum[i]-d.sum[c.s-1]
		if i < c.l-1 || c.leaves == 0 {
			o.first = phases{serve, c.has, c.leaves, i + 1, c.t, c.l}
			o.shift, o.abar = base-v.A[i], false
			o.need = max(need, held+before+v.A[i]+v.OC[i])
			if !d.forwards {
				o.need = 0
			}
			if !f(&o) {
				return
			}
		}
		if i == c.l-1 && c.leaves == 1 {
			o.first = phases{serve, c.has, 0, c.l, c.t, c.l}
			o.shift, o.abar = base-v.Abar[i], true
			o.need = max(need, held+before+v.Abar[i]+v.OF[i])
			if !d.forwards {
				o.need = 0
			}
			if !f(&o) {
				return
			}
		}
		need = max(need, held+before+v.A[i]+v.OC[i])
	}
}

// single returns the time of serve with s = t and the memory it needs.
func (d *canonical) single(c phases) (time, need float64) {
	v, t := d.v, c.t
	time, need = v.UB[t], v.Abar[t]+v.Delta[t]+v.Delta[t-1]+v.OB[t]
	if c.has == 0 {
		time += v.UF[t]
		if d.forwards {
			need = max(need, v.Delta[t]+v.Abar[t]+v.OF[t])
		}
	}
	return time, need
}

// thresholds computes least and ample of all functions. O(N⁴).
func (d *canonical) thresholds() {
	for width := 0; width < d.v.N; width++ {
		if d.ctx.Err() != nil {
			d.stopped = true
			return
		}
		for s := 1; s+width <= d.v.N; s++ {
			t := s + width
			// push and replace use narrower functions only, and serve these and
			// narrower ones.
			for _, kind := range [...]int{push, replace, serve} {
				for l := s; l <= t; l++ {
					for bits := range 4 {
						c := phases{kind, bits >> 1, bits & 1, s, t, l}
						if c.exists() {
							d.threshold(c)
						}
					}
				}
			}
		}
	}
}

func (d *canonical) threshold(c phases) {
	at := d.index(c)
	if c.kind == serve && c.s == c.t {
		_, need := d.single(c)
		d.least[at], d.ample[at] = need, need
		return
	}
	least, ample := math.Inf(1), math.Inf(1)
	floor := d.floor(c)
	d.terms(c, func(o *term) bool {
		first := d.index(o.first)
		l, a, time := max(o.need, d.least[first]-o.shift), max(o.need, d.ample[first]-o.shift), o.cost+d.floor(o.first)
		if o.second.kind >= 0 {
			second := d.index(o.second)
			l, a, time = max(l, d.least[second]), max(a, d.ample[second]), time+d.floor(o.second)
		}
		least = min(least, l)
		if time == floor {
			ample = min(ample, a)
		}
		return true
	})
	d.least[at], d.ample[at] = least, ample
}

// value returns the value of c for memory m, as a level that holds m. If it is more
// than budget, the level may be over.
func (d *canonical) value(c phases, m, budget float64) level {
	if d.grain == 0 {
		return d.exactly(c, m, budget)
	}
	s := d.exactly(c, d.grained(m), budget)
	// Which m are rounded into the interval?
	s.from, s.to = math.Ceil(s.from/d.grain)*d.grain, math.Ceil(s.to/d.grain)*d.grain
	if !d.forwards {
		s.from, s.to = s.from-d.grain+1, s.to-d.grain+1
	}
	return s
}

// grained rounds m.
func (d *canonical) grained(m float64) float64 {
	if d.forwards {
		return math.Floor(m/d.grain) * d.grain
	}
	return math.Ceil(m/d.grain) * d.grain
}

func (d *canonical) exactly(c phases, m, budget float64) level {
	at := d.index(c)
	if m < d.least[at] {
		return level{from: math.Inf(-1), to: d.least[at], value: math.Inf(1)}
	}
	if m >= d.ample[at] {
		return level{from: d.ample[at], to: math.Inf(1), value: d.floor(c)}
	}
	list := d.memo[at]
	k, found := find(list, m)
	switch {
	case found && (!list[k].over || list[k].value > budget):
		return list[k]
	case !found && k < len(list) && list[k].value > budget:
		// The more memory, the less time.
		return level{from: math.Inf(-1), to: list[k].to, value: list[k].value, over: true}
	case !found && 0 < k && k < len(list) && !list[k-1].over && !list[k].over && list[k-1].value == list[k].value:
		return level{from: list[k-1].from, to: list[k].to, value: list[k].value}
	}
	s, _ := d.compute(c, m, budget)
	if d.stopped {
		return s
	}
	// It may extend into its neighbours, whose number may have grown.
	list = d.memo[at]
	if k, found = find(list, m); found {
		list = slices.Delete(list, k, k+1)
		d.steps--
	}
	if k > 0 {
		s.from = max(s.from, list[k-1].to)
	}
	if k < len(list) {
		s.to = min(s.to, list[k].from)
	}
	d.memo[at] = slices.Insert(list, k, s)
	if d.steps++; d.steps >= d.limit {
		d.stopped = true
	}
	return s
}

// find returns the position of the level that holds m, or where it would be.
func find(list []level, m float64) (k int, found bool) {
	return slices.BinarySearchFunc(list, m, func(s level, m float64) int {
		switch {
		case s.to <= m:
			return -1
		case s.from > m:
			return 1
		}
		return 0
	})
}

// compute takes the minimum over the terms of c, and returns the best of them.
// Terms that take more than budget are not followed to their end.
func (d *canonical) compute(c phases, m, budget float64) (level, term) {
	best := level{from: math.Inf(-1), to: math.Inf(1), value: math.Inf(1)}
	var chosen term
	if c.kind == serve && c.s == c.t {
		best.value, best.from = d.single(c)
		return best, chosen
	}
	if d.calls++; d.calls%1024 == 0 && d.ctx.Err() != nil {
		d.stopped = true
	}
	over := math.Inf(1) // what all terms over the budget take at least
	d.terms(c, func(o *term) bool {
		limit := min(budget, best.value)
		floor, second := o.cost+d.floor(o.first), 0.0
		least := max(o.need, d.least[d.index(o.first)]-o.shift)
		if o.second.kind >= 0 {
			second = d.floor(o.second)
			floor += second
			least = max(least, d.least[d.index(o.second)])
		}
		if floor > limit || floor >= best.value {
			over = min(over, floor)
			return c.kind != serve // whose terms come by floor
		}
		if m < least {
			best.to = min(best.to, least)
			return true
		}
		x := d.value(o.first, m+o.shift, limit-o.cost-second)
		value, from, to := x.value+o.cost, max(x.from-o.shift, o.need), x.to-o.shift
		if !x.over && o.second.kind >= 0 && value+second <= limit {
			y := d.value(o.second, m, limit-value)
			value, from, to, x.over, second = value+y.value, max(from, y.from), min(to, y.to), y.over, 0
		}
		best.to = min(best.to, to)
		if value += second; x.over || value > budget {
			over = min(over, value)
		} else if value < best.value {
			best.value, best.from, chosen = value, from, *o
		}
		return !d.stopped
	})
	if math.IsInf(best.value, 1) && !math.IsInf(over, 1) {
		best.value, best.over, best.from = over, true, math.Inf(-1)
	}
	return best, chosen
}

// build appends the operations of the best plan of c at memory m, which takes no
// more than budget. If d.stopped then, it came to an early end.
func (d *canonical) build(q *model.Sequence, c phases, m, budget float64) {
	if c.kind == serve && c.s == c.t {
		d.end(q, c)
		return
	}
	if d.grain > 0 {
		m = d.grained(m)
	}
	s, best := d.compute(c, m, budget)
	if d.stopped || s.over || math.IsInf(s.value, 1) {
		d.stopped = true
		return
	}
	if c.kind != serve {
		d.sweep(q, c, best.item, best.abar)
	}
	first := d.value(best.first, m+best.shift, budget)
	d.build(q, best.first, m+best.shift, first.value)
	if best.second.kind >= 0 {
		d.build(q, best.second, m, budget-first.value)
	}
}

// buildAny appends the operations of any plan of c at memory m, which must exist: it takes the
// first terms that fit.
func (d *canonical) buildAny(q *model.Sequence, c phases, m float64) {
	if c.kind == serve && c.s == c.t {
		d.end(q, c)
		return
	}
	var chosen term
	d.terms(c, func(o *term) bool {
		fits := m >= o.need && m+o.shift >= d.least[d.index(o.first)] &&
			(o.second.kind < 0 || m >= d.least[d.index(o.second)])
		if fits {
			chosen = *o
		}
		return !fits
	})
	if c.kind != serve {
		d.sweep(q, c, chosen.item, chosen.abar)
	}
	d.buildAny(q, chosen.first, m+chosen.shift)
	if chosen.second.kind >= 0 {
		d.buildAny(q, chosen.second, m)
	}
}

// end appends the operations of serve with s = t.
func (d *canonical) end(q *model.Sequence, c phases) {
	if c.has == 0 {
		q.All(c.t)
	}
	q.Backward(c.t)
}

// sweep appends the forwards s..item of push or replace.
func (d *canonical) sweep(q *model.Sequence, c phases, item int, abar bool) {
	for i := c.s; i <= item; i++ {
		kept := i == c.s && c.kind == push // the base is kept
		switch {
		case i == item && abar:
			q.All(i)
			if !kept {
				q.Discard(i - 1)
			}
		case kept:
			q.Checkpoint(i)
		default:
			q.None(i)
		}
	}
}

// root returns the function of the complete chain.
func (d *canonical) root() phases { return phases{serve, 0, 0, 1, d.v.N, 1} }

// reset forgets all levels.
func (d *canonical) reset() {
	clear(d.memo)
	d.steps, d.grain = 0, 0
	d.stopped = d.ctx.Err() != nil
}
