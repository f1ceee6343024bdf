package activationoffload

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
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
	s := view.NewNoWait(in.Instance)
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

func (in *instance) autoSwap(ctx context.Context, s *view.NoWait, b *best, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0xa5))
	scores := in.scores()
	x := in.Excess()
	order, priority, away := make([]int, 0, in.N), make([]float64, in.N), make([]bool, in.N)
	best, bestT := weights{}, math.Inf(1)
	try := func(w weights) {
		for i := range priority {
			priority[i] = 0
			for k := range w {
				priority[i] += w[k] * scores[k][i]
			}
		}
		order = order[:0]
		for i := range in.N - 1 { // B_N needs ā_{N-1} at once
			if in.Abar[i] > 0 {
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
func (in *instance) first(order []int, x view.Excess, away []bool) {
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

// fits reports whether every operation fits in memory with the set away on the host. O(N).
func (in *instance) fits(away []bool, x view.Excess) bool {
	left := 0.0 // bytes of ā_0..ā_{ℓ-2} on the host
	for l := 1; l <= in.N; l++ {
		if l >= 2 && away[l-2] {
			left += in.Abar[l-2]
		}
		if max(x.Forward[l], x.Backward[l]) > left {
			return false
		}
	}
	return true
}

// scores returns the four scores of every activation, each at most 1. O(N²).
func (in *instance) scores() [4][]float64 {
	n := in.N
	var s [4][]float64
	for k := range s {
		s[k] = make([]float64, n)
	}
	// Over the operations ℓ > i+1, during which ā_i could be on the host: their time and by how
	// much they exceed the memory.
	x := in.Excess()
	time, over := 0.0, 0.0
	for i := n - 2; i >= 0; i-- {
		l := i + 2
		time += in.UF[l] + in.UB[l]
		over += in.UF[l]*max(0, x.Forward[l]) + in.UB[l]*max(0, x.Backward[l])
		s[0][i] = max(0, time-2*in.Move[i])
		s[1][i] = s[0][i] * in.Abar[i]
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

// submodular chooses activations greedily, each time the one with the most excess memory while it
// could be on the host, and uses that excess as its score.
func (in *instance) submodular(x view.Excess, score []float64) {
	n := in.N
	x = view.Excess{Forward: slices.Clone(x.Forward), Backward: slices.Clone(x.Backward)}
	chosen := make([]bool, n)
	for range n - 1 {
		next, most, over := -1, -1.0, 0.0
		for i := n - 2; i >= 0; i-- {
			l := i + 2
			over += in.UF[l]*max(0, x.Forward[l]) + in.UB[l]*max(0, x.Backward[l])
			if !chosen[i] && in.Abar[i] > 0 && over > most {
				next, most = i, over
			}
		}
		if next < 0 {
			return
		}
		chosen[next], score[next] = true, most
		for l := next + 2; l <= n; l++ {
			x.Forward[l] -= in.Abar[next]
			x.Backward[l] -= in.Abar[next]
		}
	}
}
