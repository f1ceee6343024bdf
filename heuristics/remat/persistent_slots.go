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

// PersistentSlots is the fastest persistent plan when sizes are rounded up to
// slots, of which the memory has so many ([004] Alg. 3 and 4): once stored, an
// activation stays until its backward. An error wraps plan.ErrNoPlan when none
// fits, which proves nothing, when the context ends, or as a *TooLargeError.
// O(N³ S) time, O(N² S) space.
func PersistentSlots(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	k, err := PersistentSlotsCurve(ctx, c, p.Memory, slots)
	if err != nil {
		return nil, err
	}
	return k.plan(p)
}

// PersistentSlotsCurve is the trade-off for 0, 1, .. slots of memory/slots
// bytes. It costs what PersistentSlots does, and fails as that does except that
// a curve may have no points.
func PersistentSlotsCurve(ctx context.Context, c *chain.Chain, memory float64, slots int) (*SlotsCurve, error) {
	const method = "persistent-slots"
	z, err := slotInstance(method, c, memory, slots, persistentSlotsBytes(c.Len(), slots))
	if err != nil {
		return nil, err
	}
	p := newPersistentSlots(z)
	if !p.fill(ctx) {
		return nil, slotCancelled(ctx, method)
	}
	return newSlotsCurve(method, c, z, p), nil
}

// A persistentSlots is the table of [004] Theorem 6, of what recomputation
// costs: O(s,t,m) = C_MP(s,t,m) - Σ_{s≤ℓ≤t} (uF_ℓ + uB_ℓ), so that
//
//	O(s,t,m) = min(O(s+1,t,m-ā_s),                                   F_all s first
//	               min_{s≤k<t} Σ_{s≤ℓ≤k} uF_ℓ + O(k+1,t,m-a_k) + O(s,k,m))   F_ck s first
//
// with the thesis's conditions on m, which does not count the base a_{s-1}. With
// W_t(s,m) = Σ_{ℓ<s} uF_ℓ + O(s,t,m-a_{s-1}) the second line is
// min_k W_t(k+1,m) + O(s,k,m), less Σ_{ℓ<s} uF_ℓ: rows of two tables, aligned
// and in order of k, which is what minplus.Fold takes.
//
// O(s,t,m) needs only entries of at most m slots. So blocks of m are outermost,
// and within one of them tiles of t: the columns W_t of a tile stay in the cache
// while s runs down and each row O(s,·,m) is read from memory once.
//
// All of O(s,t,·), of O(s+1,t,·) and of each candidate falls with m. Therefore
// (a) below what one operation of every persistent plan needs O is infinite,
// (b) where F_all s .. F_all t fit it is 0, and (c) a candidate k cannot improve
// a block if Σ_{s≤ℓ≤k} uF_ℓ alone is no less than the block's largest entry, nor
// can those after k. None of these is computed.
type persistentSlots struct {
	*slotChain
	size  int       // entries m = 0..size-1 are in use; a_0 is never among the m
	cells int       // number of pairs s ≤ t
	row   []int     // (s,t) is cell row[s]+t
	table []float64 // [m / Block][cell][m % Block]
	// For each cell, the bounds on m of (a) and (b).
	least, full []int32
	// column[t-t0] is W_t for the block at hand, [s][m % Block], for s ≥ 2.
	column [][]float64
}

const (
	slotBlock = minplus.Block
	// slotTile columns of 340 blocks take 1.4 MB, which a second-level cache holds.
	slotTile = 16
	// slotStep is how many candidates are folded in before bound (c) is tried
	// again.
	slotStep = 16
)

// persistentSlotsBytes is an upper bound on the size of the tables.
func persistentSlotsBytes(n, slots int) float64 {
	cells := float64(n) * (float64(n) + 1) / 2
	entries := math.Ceil((float64(slots)+1)/slotBlock) * slotBlock
	return 8*cells*entries + 8*cells + 8*slotTile*slotBlock*float64(n+2)
}

func newPersistentSlots(z *slotChain) *persistentSlots {
	n := z.N
	p := &persistentSlots{slotChain: z, size: max(0, z.slots-z.a[0]+1), cells: n * (n + 1) / 2, row: make([]int, n+2)}
	p.row[1] = -1
	for s := 2; s <= n+1; s++ {
		p.row[s] = p.row[s-1] + n - s + 1
	}
	blocks := (p.size + slotBlock - 1) / slotBlock
	p.table = make([]float64, blocks*p.cells*slotBlock)
	p.column = make([][]float64, min(slotTile, n))
	for j := range p.column {
		p.column[j] = make([]float64, (n+2)*slotBlock)
	}
	p.bound()
	return p
}

// bound fills in least and full. O(N²).
func (p *persistentSlots) bound() {
	p.least, p.full = make([]int32, p.cells), make([]int32, p.cells)
	limit := p.slots + 1 // beyond is beyond
	for s := 1; s <= p.N; s++ {
		// Maxima over s < h ≤ t of what F_ck h and B_h need; h = s has no input
		// beside the base.
		forward := p.a[s] + p.oC[s]
		backward := p.abar[s] + p.delta[s] + p.delta[s-1] + p.oB[s]
		for t := s; t <= p.N; t++ {
			if t > s {
				forward = max(forward, p.a[t-1]+p.a[t]+p.oC[t])
				backward = max(backward, p.a[t-1]+p.abar[t]+p.delta[t]+p.delta[t-1]+p.oB[t])
			}
			p.least[p.row[s]+t] = int32(min(limit, max(p.delta[t]+forward, backward)))
		}
	}
	for t := 1; t <= p.N; t++ {
		full := 0
		for s := t; s >= 1; s-- {
			full = min(limit, max(p.needAll(s, t), p.abar[s]+full))
			p.full[p.row[s]+t] = int32(full)
		}
	}
}

// block is the entries first..first+Block-1 of O(s,t,·), first being a multiple
// of Block.
func (p *persistentSlots) block(first, cell int) *[slotBlock]float64 {
	at := first*p.cells + cell*slotBlock
	return (*[slotBlock]float64)(p.table[at : at+slotBlock])
}

// at is O(s,t,m).
func (p *persistentSlots) value(s, t, m int) float64 {
	if m < 0 {
		return math.Inf(1)
	}
	return p.block(m&^(slotBlock-1), p.row[s]+t)[m%slotBlock]
}

// shifted copies O(s,t,m) for m = first..first+Block-1, first being any number,
// +Inf where m is negative.
func (p *persistentSlots) shifted(out *[slotBlock]float64, s, t, first int) {
	cell := p.row[s] + t
	offset := first & (slotBlock - 1)
	first -= offset
	if first >= 0 {
		copy(out[:slotBlock-offset], p.block(first, cell)[offset:])
	} else {
		slotFill(out[:slotBlock-offset], math.Inf(1))
	}
	if offset == 0 {
		return
	}
	if first += slotBlock; first >= 0 {
		copy(out[slotBlock-offset:], p.block(first, cell)[:offset])
	} else {
		slotFill(out[slotBlock-offset:], math.Inf(1))
	}
}

func slotFill(x []float64, value float64) {
	for i := range x {
		x[i] = value
	}
}

// fill fills the table; false if the context ended first.
func (p *persistentSlots) fill(ctx context.Context) bool {
	for first := 0; first < p.size; first += slotBlock {
		for t0 := 1; t0 <= p.N; t0 += slotTile {
			t1 := min(t0+slotTile-1, p.N)
			for s := t1; s >= 1; s-- {
				if ctx.Err() != nil {
					return false
				}
				for t := max(s, t0); t <= t1; t++ {
					p.cell(first, s, t, p.column[t-t0])
				}
			}
		}
	}
	return true
}

// cell computes O(s,t,m) for m = first..first+Block-1, and W_t(s,m) in w.
func (p *persistentSlots) cell(first, s, t int, w []float64) {
	cell := p.row[s] + t
	out := p.block(first, cell)
	base := p.until[s-1]
	switch least, full := int(p.least[cell]), int(p.full[cell]); {
	case first+slotBlock <= least:
		slotFill(out[:], math.Inf(1))
	case first >= full:
		slotFill(out[:], 0)
	default:
		p.all(out, s, t, first)
		p.split(out, s, t, first, max(0, least-first), w)
		for i := 0; i < least-first; i++ {
			out[i] = math.Inf(1)
		}
	}
	if s > 1 {
		in := (*[slotBlock]float64)(w[s*slotBlock:])
		p.shifted(in, s, t, first-p.a[s-1])
		for i := range in {
			in[i] += base
		}
	}
}

// all sets out to C_1 of [004] (2.10): F_all s is first.
func (p *persistentSlots) all(out *[slotBlock]float64, s, t, first int) {
	if s == t {
		slotFill(out[:], 0)
	} else {
		p.shifted(out, s+1, t, first-p.abar[s])
	}
	for i := range min(slotBlock, max(0, p.needAll(s, t)-first)) {
		out[i] = math.Inf(1)
	}
}

// split lowers out to C_2 of [004] (2.10): F_ck s is first. What is before
// out[from] does not count: below m_∅, among others, all is infinite.
func (p *persistentSlots) split(out *[slotBlock]float64, s, t, first, from int, w []float64) {
	var best [slotBlock]float64
	slotFill(best[:], math.Inf(1))
	base := p.until[s-1]
	rows := p.table[first*p.cells+(p.row[s]+s)*slotBlock:]
	for k := s; k < t; k += slotStep {
		if p.until[k] >= min(best[from], out[from]+base) { // (c)
			break
		}
		end := min(k+slotStep, t)
		minplus.Fold(&best, w[(k+1)*slotBlock:(end+1)*slotBlock], rows[(k-s)*slotBlock:(end-s)*slotBlock])
	}
	for i, x := range best {
		out[i] = min(out[i], x-base)
	}
}

func (p *persistentSlots) overhead(m int) float64 {
	if m -= p.a[0]; m < 0 {
		return math.Inf(1)
	}
	return p.value(1, p.N, m)
}

func (p *persistentSlots) append(s *model.Sequence, m int) {
	p.sequence(s, 1, p.N, m-p.a[0], false)
}

// sequence appends OptRecP(s, t, m) ([004] Alg. 4). The choice made is found
// again by its value; of equals F_all s comes first, then the smallest k.
// baseIsAbar says whether the base is ā_{s-1} or a_{s-1}.
func (p *persistentSlots) sequence(q *model.Sequence, s, t, m int, baseIsAbar bool) {
	for {
		if s == t || m >= p.needAll(s, t) && p.value(s+1, t, m-p.abar[s]) == p.value(s, t, m) {
			q.All(s)
			if s < t {
				p.sequence(q, s+1, t, m-p.abar[s], true)
			}
			q.Backward(s)
			return
		}
		k := p.choice(s, t, m)
		q.Advance(s, k)
		p.sequence(q, k+1, t, m-p.a[k], false)
		t = k
	}
}

// choice is the k whose candidate is O(s,t,m), computed as in cell.
func (p *persistentSlots) choice(s, t, m int) int {
	base, least := p.until[s-1], p.value(s, t, m)
	for k := s; k < t; k++ {
		if p.until[k]+p.value(k+1, t, m-p.a[k])+p.value(s, k, m)-base == least {
			return k
		}
	}
	panic("remat: a table of persistent-slots does not follow from itself")
}
