package offload

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// AutoSwap offloads activations by priority, in sorted order, until every
// operation fits. The priority is a weighted mean of four scores of the time
// between F_{i+1} and B_{i+1}, when ā_i is not needed, each divided by its
// largest value:
//
//	DOA    how long that is, two transfers of ā_i taken off
//	AOA    the same times ā_i
//	WDOA   by how much memory is exceeded then, as an integral over time
//	SWDOA  the same when what was chosen before has left, ā_i being the next
//
// in the schedule that offloads nothing. The weights are tuned by a seeded
// search in place of the Bayesian optimisation that [004] 3.4.1 names: single
// scores, random weights, then changes of the best. [004] does not define the
// scores; these are our reading of their names. It finds a plan whenever there
// is one. O(N²) and O(N log N) for each of a few hundred weights.
func AutoSwap(ctx context.Context, c *chain.Chain, p platform.Platform, seed uint64) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s := newScheduler(in)
	b := newBest(in)
	in.autoSwap(ctx, s, b, seed)
	return b.plan(s, "autoswap")
}

// Weights that AutoSwap tries: at random, and near the best.
const (
	randomWeights = 150
	nearWeights   = 150
)

type weights [4]float64

func (in *instance) autoSwap(ctx context.Context, s *scheduler, b *best, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0xa5))
	scores := in.scores()
	x := in.excess()
	order, priority, away := make([]int, 0, in.n), make([]float64, in.n), make([]bool, in.n)
	best, bestT := weights{}, math.Inf(1)
	try := func(w weights) {
		for i := range priority {
			priority[i] = 0
			for k := range w {
				priority[i] += w[k] * scores[k][i]
			}
		}
		order = order[:0]
		for i := range in.n - 1 { // B_N needs ā_{N-1} at once
			if in.abar[i] > 0 {
				order = append(order, i)
			}
		}
		slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(priority[j], priority[i]), cmp.Compare(i, j)) })
		in.first(order, x, away)
		if T := b.try(s, away); T < bestT {
			best, bestT = w, T
		}
	}
	for k := range best {
		var w weights
		w[k] = 1
		try(w)
	}
	try(weights{1, 1, 1, 1})
	for k := 0; k < randomWeights+nearWeights && ctx.Err() == nil; k++ {
		w := best
		if k < randomWeights {
			w = weights{}
		}
		for i := range w {
			switch {
			case k < randomWeights:
				w[i] = rng.ExpFloat64() // uniform among weights that add up to 1
			case rng.IntN(2) == 0:
				w[i] *= math.Exp(0.5 * rng.NormFloat64())
			}
		}
		try(w)
	}
}

// first marks the fewest activations at the front of order with which all
// operations fit. O(N log N).
func (in *instance) first(order []int, x excess, away []bool) {
	mark := func(k int) {
		clear(away)
		for _, i := range order[:k] {
			away[i] = true
		}
	}
	low, high := 0, len(order)
	for low < high {
		mid := (low + high) / 2
		mark(mid)
		if in.fits(away, x) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	mark(high)
}

// fits reports whether every operation has enough memory when away has left. O(N).
func (in *instance) fits(away []bool, x excess) bool {
	left := 0.0 // bytes away of ā_0..ā_{ℓ-2}
	for l := 1; l <= in.n; l++ {
		if l >= 2 && away[l-2] {
			left += in.abar[l-2]
		}
		if max(x.forward[l], x.backward[l]) > left {
			return false
		}
	}
	return true
}

// scores returns the four scores of every activation, each at most 1. O(N²).
func (in *instance) scores() [4][]float64 {
	n := in.n
	var s [4][]float64
	for k := range s {
		s[k] = make([]float64, n)
	}
	// Of the operations ℓ > i+1, during which ā_i could be away: their time and
	// by how much they exceed the memory.
	x := in.excess()
	time, over := 0.0, 0.0
	for i := n - 2; i >= 0; i-- {
		l := i + 2
		time += in.uF[l] + in.uB[l]
		over += in.uF[l]*max(0, x.forward[l]) + in.uB[l]*max(0, x.backward[l])
		s[0][i] = max(0, time-2*in.move[i])
		s[1][i] = s[0][i] * in.abar[i]
		s[2][i] = over
	}
	in.submodular(x, s[3])
	for k := range s {
		if top := slices.Max(s[k]); top > 0 {
			for i := range s[k] {
				s[k][i] /= top
			}
		}
	}
	return s
}

// submodular chooses activations one by one, always the one with the most memory
// exceeded while it could be away, and scores each by that.
func (in *instance) submodular(x excess, score []float64) {
	n := in.n
	x = excess{slices.Clone(x.forward), slices.Clone(x.backward)}
	chosen := make([]bool, n)
	for range n - 1 {
		next, most, over := -1, -1.0, 0.0
		for i := n - 2; i >= 0; i-- {
			l := i + 2
			over += in.uF[l]*max(0, x.forward[l]) + in.uB[l]*max(0, x.backward[l])
			if !chosen[i] && in.abar[i] > 0 && over > most {
				next, most = i, over
			}
		}
		if next < 0 {
			return
		}
		chosen[next], score[next] = true, most
		for l := next + 2; l <= n; l++ {
			x.forward[l] -= in.abar[next]
			x.backward[l] -= in.abar[next]
		}
	}
}
