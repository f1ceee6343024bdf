package remat

import (
	"context"
	"math"

	"workbench/heuristics/internal/minplus"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
)

// FloatingSlots is the fastest plan with floating persistence when sizes are
// rounded up to slots, of which the memory has so many ([004] Alg. 1 and 2): the
// last stored activation may be replaced by a later and larger one. The thesis
// calls it optimal, which it is not, and its recurrence finds sequences that do
// not fit; here moves of the stored activation are checked, too. An error wraps
// plan.ErrNoPlan when none fits, which proves nothing, when the context ends, or
// as a *TooLargeError. O(N⁴ S) time, O(N³ S) space.
func FloatingSlots(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	k, err := FloatingSlotsCurve(ctx, c, p.Memory, slots)
	if err != nil {
		return nil, err
	}
	return k.plan(p)
}

// FloatingSlotsCurve is the trade-off for 0, 1, .. slots of memory/slots bytes.
// It costs what FloatingSlots does, and fails as that does except that a curve
// may have no points.
func FloatingSlotsCurve(ctx context.Context, c *chain.Chain, memory float64, slots int) (*SlotsCurve, error) {
	return floatingSlotsCurve(ctx, "floating-slots", c, memory, slots, false)
}

func floatingSlotsCurve(ctx context.Context, method string, c *chain.Chain, memory float64, slots int, printed bool) (*SlotsCurve, error) {
	z, err := slotInstance(method, c, memory, slots, floatingSlotsBytes(c.Len(), slots))
	if err != nil {
		return nil, err
	}
	f := newFloatingSlots(z, printed)
	if !f.fill(ctx) {
		return nil, slotCancelled(ctx, method)
	}
	return newSlotsCurve(method, c, z, f), nil
}

// A floatingSlots is the table of [004] Theorem 5, of what recomputation costs:
// O(s,t,ℓ,m) = C_FL(s,t,ℓ,m) - Σ_{s≤h≤t} uF_h - Σ_{ℓ≤h≤t} uB_h. The minimum of
// (2.6) over s', r and t' is taken in three steps, as s' and ℓ occur together in
// no term of (2.7), and s occurs only with r:
//
//	Q(r,t,t',m) = min_{r≤s'<t'} O(s'+1,t,t',m-a_{s'})
//	H(r,t,ℓ,m)  = min_{ℓ<t'≤t} Σ_{r≤h<t'} uF_h + Q(r,t,t',m) + O(r,t'-1,ℓ,m)
//	C_2(s,t,ℓ,m): min over s≤r≤ℓ, a_{r-1} ≥ a_{s-1}, of H(r,t,ℓ,m-a_{r-1}+a_{s-1})
//
// Q itself follows from Q(r+1,t,t'), so that all costs O(N⁴ S) and not O(N⁶ S)
// as in the thesis.
//
// In Q only those s' count for which F_r .. F_{s'} fit while a_{r-1} is stored,
//
//	max_{r≤h≤s'} M(F_h) ≤ m
//
// which (2.6) as printed does not ask for when r > s, as it looks at m before
// a_{s-1} gives way to the larger a_{r-1}. For h = r it follows from what is asked
// for.
//
// A row is the entries of one (s,t,ℓ) for all m; it never rises with m.
type floatingSlots struct {
	*slotChain
	printed bool
	size    int       // entries m = 0..size-1 are in use; a_0 is never among the m
	first   []int     // row (s,t,ℓ) has number first[s*(n+1)+ℓ]+t
	none    []int     // none[s*(n+1)+t] is m_∅^{s,t}
	table   []float64 // [row][m]
	// For each t of the tile at hand: H(r,t,ℓ,·) for all r ≤ ℓ < t, and
	// Q(r,t,t',·) for the r at hand.
	moved, stored [][]float64
}

// floatingTile is how many t are worked on together: rows O(s,·,ℓ,·) are read
// from memory once for all of them.
const floatingTile = 4

// floatingSlotsBytes is the size of the tables.
func floatingSlotsBytes(n, slots int) float64 {
	x := float64(n)
	rows := x*(x+1)*(x+2)/6 + floatingTile*(x+1)*(x+2)
	return 8 * (rows*(float64(slots)+1) + (x+1)*(x+2))
}

func newFloatingSlots(z *slotChain, printed bool) *floatingSlots {
	w := z.N + 1
	f := &floatingSlots{slotChain: z, printed: printed, size: max(0, z.slots-z.a[0]+1), first: make([]int, (w+1)*w)}
	rows := 0
	for s := 1; s <= z.N; s++ {
		for l := s; l <= z.N; l++ {
			f.first[s*w+l] = rows - l
			rows += z.N - l + 1
		}
	}
	f.none = make([]int, (w+1)*w)
	for s := 1; s <= z.N; s++ {
		need := 0 // without δ_t
		for t := s; t <= z.N; t++ {
			need = max(need, f.needForward(s, t, t)-f.delta[t])
			f.none[s*w+t] = f.delta[t] + need
		}
	}
	f.table = make([]float64, rows*f.size)
	for range min(floatingTile, w) {
		f.moved = append(f.moved, make([]float64, w*w*f.size))
		f.stored = append(f.stored, make([]float64, w*f.size))
	}
	return f
}

// row is O(s,t,ℓ,·).
func (f *floatingSlots) row(s, t, l int) []float64 {
	k := f.first[s*(f.N+1)+l] + t
	return f.table[k*f.size : (k+1)*f.size]
}

// movedRow is H(r,t,ℓ,·) for a t of the tile at hand.
func (f *floatingSlots) movedRow(r, t, l int) []float64 {
	k := r*(f.N+1) + l
	return f.moved[t%floatingTile][k*f.size : (k+1)*f.size]
}

// storedRow is Q(r,t,t',·) for a t of the tile and the r at hand.
func (f *floatingSlots) storedRow(t, last int) []float64 {
	return f.stored[t%floatingTile][last*f.size : (last+1)*f.size]
}

// at is O(s,t,ℓ,m).
func (f *floatingSlots) value(s, t, l, m int) float64 {
	if m < 0 {
		return math.Inf(1)
	}
	return f.row(s, t, l)[m]
}

// needForward is M(F_h) of [004] while δ_t and a_{s-1}, which is not counted, are
// stored.
func (f *floatingSlots) needForward(s, t, h int) int {
	need := f.delta[t] + f.a[h] + f.oC[h]
	if h > s {
		need += f.a[h-1]
	}
	return need
}

// fill fills the table; false if the context ended first.
func (f *floatingSlots) fill(ctx context.Context) bool {
	if f.size == 0 {
		return true
	}
	for t0 := 0; t0 <= f.N; t0 += floatingTile {
		t1 := min(t0+floatingTile-1, f.N)
		for s := t1; s >= 1; s-- {
			first := max(s, t0)
			for t := first; t <= t1; t++ {
				if ctx.Err() != nil {
					return false
				}
				f.store(s, t)
			}
			for l := s; l <= t1; l++ {
				for t := max(l, first); t <= t1; t++ {
					if ctx.Err() != nil {
						return false
					}
					if l < t {
						f.split(s, t, l)
					}
					f.cell(s, t, l)
				}
			}
		}
	}
	return true
}

// store turns Q(r+1,t,t',·) into Q(r,t,t',·) for all t' > r.
func (f *floatingSlots) store(r, t int) {
	for last := r + 1; last <= t; last++ {
		q := f.storedRow(t, last)
		from := 0 // below, s' = r+1, .. do not fit
		switch {
		case last == r+1:
			from = f.size // there are none
		case !f.printed:
			from = min(f.size, f.needForward(r, t, r+1))
		}
		slotFill(q[:from], math.Inf(1))
		if a := f.a[r]; a < f.size { // s' = r
			minplus.Min(q[a:], f.row(r+1, t, last)[:f.size-a])
		}
	}
}

// split computes H(r,t,ℓ,·) for ℓ < t. Candidates t' cost at least the forwards
// F_r .. F_{t'-1}, the more the larger t' is, and so can only improve the
// entries before some m.
func (f *floatingSlots) split(r, t, l int) {
	h := f.movedRow(r, t, l)
	slotFill(h, math.Inf(1))
	to := f.size
	for last := l + 1; last <= t; last++ {
		again := f.until[last-1] - f.until[r-1]
		for to > 0 && h[to-1] <= again {
			to--
		}
		if to == 0 {
			return
		}
		minplus.Add(h[:to], f.storedRow(t, last)[:to], f.row(r, last-1, l)[:to], again)
	}
}

// cell computes O(s,t,ℓ,·).
func (f *floatingSlots) cell(s, t, l int) {
	out := f.row(s, t, l)
	slotFill(out, math.Inf(1))
	if from := f.needAll(s, t); s == l && from < f.size { // F_all s first: C_1
		if s == t {
			slotFill(out[from:], 0)
		} else {
			// needAll counts ā_s
			copy(out[from:], f.row(s+1, t, s+1)[from-f.abar[s]:])
		}
	}
	if l == t {
		return
	}
	to := f.size
	for r := s; r <= l; r++ { // F_none s .. F_none r-1, F_ck r first: C_2
		shift := f.a[r-1] - f.a[s-1]
		if shift < 0 {
			continue
		}
		for to > 0 && out[to-1] == 0 {
			to--
		}
		if from := max(f.none[s*(f.N+1)+t], shift); from < to {
			minplus.Min(out[from:to], f.movedRow(r, t, l)[from-shift:to-shift])
		}
	}
}

func (f *floatingSlots) overhead(m int) float64 {
	if m -= f.a[0]; m < 0 {
		return math.Inf(1)
	}
	return f.value(1, f.N, 1, m)
}

func (f *floatingSlots) append(s *model.Sequence, m int) {
	f.sequence(s, 1, f.N, 1, m-f.a[0], false)
}

// sequence appends OptRecFL(s, t, ℓ, m) ([004] Alg. 2). The choice made is found
// again by its value; of equals F_all s comes first, then the smallest r, t', s'.
// baseIsAbar says whether the base is ā_{s-1} or a_{s-1}; if it is ā_{s-1} then
// s = ℓ, so that it does not move.
func (f *floatingSlots) sequence(q *model.Sequence, s, t, l, m int, baseIsAbar bool) {
	for {
		if s == l && m >= f.needAll(s, t) && (s == t || f.value(s+1, t, s+1, m-f.abar[s]) == f.value(s, t, l, m)) {
			q.All(s)
			if s < t {
				f.sequence(q, s+1, t, s+1, m-f.abar[s], true)
			}
			q.Backward(s)
			return
		}
		r, split, last := f.choice(s, t, l, m)
		for h := s; h < r; h++ {
			q.None(h)
		}
		q.Advance(r, split)
		m -= f.a[r-1] - f.a[s-1]
		f.sequence(q, split+1, t, last, m-f.a[split], false)
		s, t = r, last-1
	}
}

// choice is r, s' and t' of the candidate that is O(s,t,ℓ,m), computed as in
// cell.
func (f *floatingSlots) choice(s, t, l, m int) (r, split, last int) {
	least := f.value(s, t, l, m)
	for r := s; r <= l; r++ {
		m := m - f.a[r-1] + f.a[s-1]
		if f.a[r-1] < f.a[s-1] || m < 0 {
			continue
		}
		for last := l + 1; last <= t; last++ {
			again := f.until[last-1] - f.until[r-1]
			if again > least {
				break
			}
			for split := r; split < last; split++ {
				if !f.printed && m < f.needForward(r, t, split) {
					break
				}
				if f.value(split+1, t, last, m-f.a[split])+f.value(r, last-1, l, m)+again == least {
					return r, split, last
				}
			}
		}
	}
	panic("remat: a table of floating-slots does not follow from itself")
}
