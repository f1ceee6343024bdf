package activationoffload

import (
	"cmp"
	"context"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// VDNN returns the best plan that offloads the inputs of layers with much computation per byte of
// input: those with uF_ℓ/ā_{ℓ-1} at least a threshold, or every other one of these, in sorted
// order, over all thresholds ([004] 3.4.1, after vDNN++). The lowest threshold offloads everything,
// so a plan is found whenever one exists. When ctx ends, it returns the best of the thresholds so
// far. O(N²).
func VDNN(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s := view.NewNoWait(in.Instance)
	b := newBest(in)
	in.vdnn(ctx, s, b)
	return b.plan(s, "vdnn")
}

func (in *instance) vdnn(ctx context.Context, s *view.NoWait, b *best) {
	byRatio := make([]int, 0, in.N)
	for i := range in.N {
		if in.Abar[i] > 0 {
			byRatio = append(byRatio, i)
		}
	}
	ratio := func(i int) float64 { return in.UF[i+1] / in.Abar[i] }
	slices.SortStableFunc(byRatio, func(i, j int) int { return cmp.Compare(ratio(j), ratio(i)) })
	all, half := make([]bool, in.N), make([]bool, in.N)
	b.try(s, all)
	for k, i := range byRatio {
		all[i] = true
		last := k+1 == len(byRatio) // which always makes a plan
		if !last && (ratio(byRatio[k+1]) == ratio(i) || ctx.Err() != nil) {
			continue
		}
		b.try(s, all)
		other := false
		for i := range all {
			half[i] = false
			if all[i] {
				other = !other
				half[i] = other
			}
		}
		b.try(s, half)
	}
}

// best is the best set of activations seen so far, in sorted order.
type best struct {
	in   *instance
	away []bool
	T    float64
}

func newBest(in *instance) *best {
	return &best{in: in, away: make([]bool, in.N), T: math.Inf(1)}
}

// try evaluates a set and keeps it if it is better. O(N).
func (b *best) try(s *view.NoWait, away []bool) float64 {
	s.Explain = false
	s.Choose(away)
	T := s.Evaluate()
	if T < b.T {
		b.T = T
		copy(b.away, away)
	}
	return T
}

// plan writes the best plan; the error is why the set has none.
func (b *best) plan(s *view.NoWait, method string) (*plan.Plan, error) {
	s.Explain = true
	s.Choose(b.away)
	T := s.Evaluate()
	if s.Unfit != nil {
		return nil, s.Unfit
	}
	return s.Plan(method, T), nil
}
