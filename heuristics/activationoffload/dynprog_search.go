package activationoffload

import (
	"cmp"
	"context"
	"math"
	"slices"

	view "workbench/model/problem/activationoffload"
)

// commSearch runs Algorithm 5 of [004] on an instance, without states that are dominated or that
// cannot improve on the incumbent.
//
// Dominance. Let J(A, Δ_F, Δ_B) be the minimum remaining idle time after a state of O_i, including
// ε_G (times β, as everywhere here). For A ≤ A′
//
//	J(A, Δ_F, Δ_B) ≤ J(A′, Δ′_F, Δ′_B) + (Δ_F − Δ′_F)⁺ + (Δ_B − Δ′_B)⁺.
//
// So of two states with A ≤ A′ the second is not needed if the idle time of the first plus the last
// two terms is at most that of the second: waiting makes the first as good. This holds if none of
//
//	idle, idle + Δ_F, idle + Δ_B, idle + Δ_F + Δ_B
//
// is larger in the first than in the second. If none is larger by more than x, omitting the second
// costs at most x.
//
// Proof, by induction from the last layer on, with the same decisions. At the end J = (Δ_F + Δ_B)⁺,
// which satisfies it. In a step let g be the ε_F and h the new Δ_F; r ≥ r′ as A ≤ A′, and F_i fits
// after A as it does after A′. With g = (Δ_F − r)⁺ and
//
//	h = max(min(Δ_F, r) − u, −r) if ā is kept, max(min(Δ_F⁺, r) + ā − u, 0) if not,
//
// it suffices that g + (h − h′)⁺ ≤ g′ + (Δ_F − Δ′_F)⁺. If h ≤ h′, this holds because g decreases in
// r and increases in Δ_F no faster than Δ_F. If h > h′, it holds because the same is true of g + h,
// which is
//
//	max(Δ_F − u, (Δ_F − r)⁺ − r)  or  max(Δ_F⁺ + ā − u, (Δ_F⁺ − r)⁺).
//
// The step of B is the same, with h = max(min(Δ_B, s) − u, 0) + ā in the second case. GapSimple has
// 0 for −r and −s, and GapPrinted −r − ā for one 0: all these sums decrease in r, as required. ∎
type commSearch struct {
	*comm
	gap   Gap
	limit int     // of states in one layer
	gain  float64 // idle times that differ by less are as good
	ahead         // bounds

	best    float64  // minimum known idle time
	ties    [][]bool // sets that have it, up to gain
	layers  [][]commState
	corners []corner // see filter
	slack   float64  // of dominance: more than rounding if states are too many
	loss    float64  // upper bound on best minus the optimum when run has ended
	states  int      // the most in one layer
}

// ahead holds what bounds need; index i is of the layers from i on.
type ahead struct {
	room         []float64 // the most that may be kept before F_i
	massF, massB []float64
	away         []float64
	sent         []float64 // Σ (uF + uB)
}

// newSearch prepares the bounds. O(N).
func newSearch(z *comm, gap Gap, limit int, gain float64) *commSearch {
	s := &commSearch{comm: z, gap: gap, limit: limit, gain: gain, best: math.Inf(1), slack: gain / float64(2*z.n)}
	for _, x := range []*[]float64{&s.room, &s.massF, &s.massB, &s.ahead.away, &s.sent} {
		*x = make([]float64, z.n+2)
	}
	end := z.n + 1
	s.room[end] = math.Inf(1)
	s.massF[end], s.massB[end], s.ahead.away[end] = math.Inf(-1), math.Inf(-1), math.Inf(-1)
	for i := z.n; i >= 1; i-- {
		in := z.abar[i-1]
		f, b := z.needF[i]+in-z.memory, z.needB[i]+in-z.memory
		s.room[i] = min(s.room[i+1], -max(f, b))
		s.massF[i] = max(f, s.massF[i+1]+in-z.uF[i])
		s.massB[i] = max(b, s.massB[i+1]+in-z.uB[i])
		s.ahead.away[i] = max(f, b, s.ahead.away[i+1]+in)
		s.sent[i] = s.sent[i+1] + z.uF[i] + z.uB[i]
	}
	return s
}

// bound returns a lower bound on the final idle time of all continuations of x, of O_i: the larger
// of two. O(1).
//
// waits: A + Δ_F⁺ grows by ā_{i-1} in step i, less at most β (ε_F + uF), and before F_j it is at
// most M − M_{F_j} − ā_{j-1} + β ε_{F_j}. So the sum of the ε_F from i on is at least A + Δ_F⁺ +
// massF, massF being the maximum over j ≥ i of M_{F_j} − M + Σ_{i≤k≤j} ā_{k-1} − Σ_{i≤k<j} β uF_k.
// Likewise the ε_B.
//
// link: for some operation of layer j ≥ i at least A + away bytes of ā_{i-1}..ā_{j-2} have to be
// offloaded. They are added to Δ_F and to Δ_B, each of which falls by at most β (ε + u) in a step,
// and at the end the idle time has Δ_F + Δ_B added.
func (s *commSearch) bound(i int, x *commState) float64 {
	waits := max(0, x.kept+max(0, x.deltaF)+s.massF[i]) + max(0, x.kept+max(0, x.deltaB)+s.massB[i])
	link := x.deltaF + x.deltaB + 2*max(0, x.kept+s.ahead.away[i]) - s.sent[i]
	return x.idle + max(waits, link)
}

// run is Algorithm 5. It starts from the best of the sets {ā_0..ā_{k-1}}; false if
// the context ended first. O(N · states · log states) and, for dominance, in the
// worst case O(N · states²).
func (s *commSearch) run(ctx context.Context) bool {
	s.prefixes()
	s.layers = append(s.layers[:0], []commState{{}})
	for i := 1; i <= s.n; i++ {
		if ctx.Err() != nil {
			return false
		}
		next := s.next(i, s.layers[i-1])
		if len(next) == 0 {
			return true // nothing as good
		}
		s.layers = append(s.layers, next)
	}
	s.end()
	return true
}

// prefixes tries the sets {ā_0..ā_{k-1}}, which GREEDY chooses from. O(N²).
func (s *commSearch) prefixes() {
	away := make([]bool, s.n)
	for k := 0; ; k++ {
		s.found(s.idle(away, s.gap), away)
		if k == s.n {
			return
		}
		away[k] = s.abar[k] > 0
	}
}

// found records a set with its idle time.
func (s *commSearch) found(idle float64, away []bool) {
	if math.IsInf(idle, 1) || idle > s.best+s.gain {
		return
	}
	if idle < s.best-s.gain {
		s.ties = s.ties[:0]
	}
	s.best = min(s.best, idle)
	s.ties = append(s.ties, slices.Clone(away))
}

// next is O_{i+1} made from O_i. Activations of no size are kept: see commSearch,
// offloading one only raises Δ.
func (s *commSearch) next(i int, from []commState) []commState {
	to := make([]commState, 0, 2*len(from))
	for k := range from {
		keep, offload := s.step(i, &from[k], s.gap)
		if keep.kept <= s.room[i+1] && s.bound(i+1, &keep) < s.best+s.gain {
			keep.parent = int32(2 * k)
			to = append(to, keep)
		}
		if s.abar[i-1] > 0 && s.bound(i+1, &offload) < s.best+s.gain {
			offload.parent = int32(2*k + 1)
			to = append(to, offload)
		}
	}
	// A state comes after those that dominate it.
	slices.SortFunc(to, func(x, y commState) int {
		return cmp.Or(cmp.Compare(x.kept, y.kept), cmp.Compare(2*x.idle+x.deltaF+x.deltaB, 2*y.idle+y.deltaF+y.deltaB))
	})
	slack := s.gain / float64(2*s.n)
	to = s.filter(to, slack)
	if len(to) > s.limit {
		slack = max(slack, s.slack/2, s.memory*0x1p-30)
		for to = s.filter(to, slack); len(to) > s.limit; to = s.filter(to, slack) {
			slack *= 2
		}
		s.slack = slack
		slack *= 2 // each pass may use half of the remaining slack
	}
	s.loss += slack
	s.states = max(s.states, len(to))
	return slices.Clip(to)
}

// A corner bounds a block of states from below.
type corner struct{ idle, f, b, both float64 }

func cornerOf(x *commState) corner {
	return corner{x.idle, x.idle + x.deltaF, x.idle + x.deltaB, x.idle + x.deltaF + x.deltaB}
}

// dominates reports whether no number of c is larger than that of d.
func (c *corner) dominates(d *corner) bool {
	return c.idle <= d.idle && c.f <= d.f && c.b <= d.b && c.both <= d.both
}

const filterBlock = 32

// filter keeps in x, in order, the states that no earlier state dominates up to slack. The kept
// states are compared in blocks, most of which are excluded by their corners.
func (s *commSearch) filter(x []commState, slack float64) []commState {
	s.corners = s.corners[:0]
	out := x[:0]
	for k := range x {
		y := x[k]
		c := cornerOf(&y)
		if s.dominated(out, corner{c.idle + slack, c.f + slack, c.b + slack, c.both + slack}) {
			continue
		}
		if len(out)%filterBlock == 0 {
			s.corners = append(s.corners, c)
		}
		last := &s.corners[len(s.corners)-1]
		*last = corner{min(last.idle, c.idle), min(last.f, c.f), min(last.b, c.b), min(last.both, c.both)}
		out = append(out, y)
	}
	return out
}

func (s *commSearch) dominated(by []commState, c corner) bool {
	for block := range s.corners {
		if !s.corners[block].dominates(&c) {
			continue
		}
		first := block * filterBlock
		for k := first; k < min(first+filterBlock, len(by)); k++ {
			if d := cornerOf(&by[k]); d.dominates(&c) {
				return true
			}
		}
	}
	return false
}

// end runs the last loop of Algorithm 5, over O_{N+1}, and reconstructs the set.
func (s *commSearch) end() {
	last := s.layers[s.n]
	least := math.Inf(1)
	for k := range last {
		least = min(least, last[k].end())
	}
	away := make([]bool, s.n)
	for k := range last {
		x := last[k].end()
		if x > least+s.gain {
			continue
		}
		for i, at := s.n, k; i >= 1; i-- {
			p := s.layers[i][at].parent
			away[i-1] = p&1 != 0
			at = int(p >> 1)
		}
		s.found(x, away)
	}
}

// pick returns that tie whose plan in the integral model is shortest; nil if none
// fits. O(ties · N).
func (s *commSearch) pick(in *instance) []bool {
	var best []bool
	plans, least := view.NewNoWait(in.Instance), math.Inf(1)
	plans.Explain = false
	for _, away := range s.ties {
		plans.Choose(away)
		if T := plans.Evaluate(); T < least {
			best, least = away, T
		}
	}
	return best
}
