package combined

import (
	"context"
	"slices"
)

// polish improves a schedule by changing what becomes of one tensor at a time
// that is stored over the loss: it is offloaded or kept, or discarded after its
// last use before the loss and computed again right before its next use, from
// the nearest layer below of which something is there. The last is the move that
// persistent plans, also floating ones, lack (errata 1); with it goes computing
// a_ℓ only, not ā_ℓ, before the loss. It ends when nothing helps, or after so
// many timings as are left.
func (b *search) polish(ctx context.Context, s *schedule) {
	away := make([]bool, 2*b.in.n+2)
	for _, g := range s.away {
		away[g.tensor] = true
	}
	best := s
	try := func(steps []step) bool {
		if b.left == 0 || ctx.Err() != nil {
			return false
		}
		b.left--
		r, ok := newProfile(b.in, steps)
		if !ok {
			return false
		}
		gaps := slices.DeleteFunc(r.worth(r.gaps), func(g gap) bool { return !away[g.tensor] })
		next, ok := retime(r, gaps)
		if !ok || next.makespan >= best.makespan*(1-1e-9) {
			return false
		}
		best = next
		b.take(nil, next)
		return true
	}
	for again := true; again; {
		again = false
		for k := 0; k < len(best.gaps); k++ {
			g := best.gaps[k]
			// With a link only what takes space is worth a transfer.
			if b.in.beta > 0 && b.in.size(g.tensor) > 0 {
				away[g.tensor] = !away[g.tensor]
				if try(best.steps) {
					again = true
					continue
				}
				away[g.tensor] = !away[g.tensor]
			}
			if g.tensor == 0 {
				continue // a_0 cannot be computed
			}
			was := away[g.tensor]
			away[g.tensor] = false
			improved := false
			for _, steps := range best.again(g) {
				if try(steps) {
					improved, again = true, true
					break
				}
			}
			if !improved {
				away[g.tensor] = was
			}
		}
	}
}

// again is the ways to compute the tensor of a gap again.
func (r *profile) again(g gap) [][]step {
	l := int(g.tensor >> 1)
	abar := g.tensor&1 == 1
	again := r.from(g.to, l, abar)
	if again == nil {
		return nil
	}
	drop := step{discardA, int32(l)}
	if abar {
		drop.kind = discardAbar
	}
	build := func(before []step, drop step) []step {
		return slices.Concat(before, []step{drop}, r.steps[g.from+1:g.to], again, r.steps[g.to:])
	}
	ways := [][]step{build(r.steps[:g.from+1], drop)}
	if made := slices.Index(r.steps[:g.from+1], step{fAll, int32(l)}); abar && made >= 0 && made < g.from {
		// F_ck ℓ instead of F_all ℓ, if a_ℓ is what the steps up to from read.
		before := slices.Clone(r.steps[:g.from+1])
		before[made].kind = fCk
		ways = append(ways, build(before, step{discardA, int32(l)}))
	}
	return ways
}

// from is the steps that compute ā_ℓ or a_ℓ before step i, nil if they are none.
func (r *profile) from(i, l int, abar bool) []step {
	stored := r.stored(i)
	k := l - 1
	for k >= 0 && !stored[tensorOf(k, false)] && !stored[tensorOf(k, true)] {
		k--
	}
	if k < 0 {
		return nil
	}
	last := step{fCk, int32(l)}
	if abar {
		last.kind = fAll
	}
	var steps []step
	if k < l-1 {
		steps = segment(nil, k+1, l-1)
		if !abar {
			last.kind = fNone
			return append(steps, last)
		}
		// a_{ℓ-1} stays for B_ℓ, which would else have to compute it again.
	}
	return append(steps, last)
}

// stored is what is stored before step i, without transfers.
func (r *profile) stored(i int) []bool {
	stored := make([]bool, 2*r.in.n+2)
	stored[0] = true
	for _, s := range r.steps[:i] {
		l := int(s.layer)
		switch s.kind {
		case fAll:
			stored[tensorOf(l, true)] = true
		case fCk:
			stored[tensorOf(l, false)] = true
		case fNone:
			stored[tensorOf(l, false)], stored[tensorOf(l-1, false)] = true, false
		case backward:
			stored[tensorOf(l, true)], stored[tensorOf(l-1, false)] = false, false
		case discardA:
			stored[tensorOf(l, false)] = false
		case discardAbar:
			stored[tensorOf(l, true)] = false
		}
	}
	return stored
}
