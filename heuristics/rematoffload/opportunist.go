package rematoffload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"workbench/heuristics/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
)

// Opportunist keeps the link busy ([004] 4.3). It runs F_all of the first layer, whose input and output are
// offloaded, then the next layers without keeping anything until these transfers have ended, then F_all again, and
// so on. It stops when the rest can be computed in memory without transfers. The B of the layers of each group are
// then computed by the best persistent rematerialization.
//
// The thesis leaves open when the rest "can be entirely performed in memory": here, when all of it can be kept.
// The transfers of a group start when their tensors have been computed; the plan is then re-timed as all plans
// are. The error wraps plan.ErrNoPlan when a group does not fit. O(N) and a remat.Persistent for each group.
func Opportunist(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return planned(ctx, "opportunist", c, p, (*instance).opportunist)
}

func (in *instance) opportunist(ctx context.Context) (*view.Schedule, error) {
	if in.Bandwidth == 0 {
		return in.pureRemat(ctx)
	}
	var steps []view.Step
	var starts []int // layers with F_all
	away := make([]bool, 2*in.N+2)
	clock, link := 0.0, 0.0
	s := 1
	for ; s <= in.N && !in.fits(s); s++ {
		steps = append(steps, view.Step{Kind: view.FAll, Layer: int32(s)})
		starts = append(starts, s)
		input, output := view.TensorOf(s-1, len(starts) > 1 && starts[len(starts)-2] == s-1), view.TensorOf(s, true)
		if !away[input] {
			link = max(link, clock) + in.Size(input)/in.Bandwidth
		}
		clock += in.UF[s]
		if s < in.N {
			link = max(link, clock) + in.Size(output)/in.Bandwidth
		}
		away[input], away[output] = true, s < in.N
		for first := true; s+1 < in.N && clock < link && !in.fits(s+1); first = false {
			s++
			kind := view.FNone
			if first {
				kind = view.FCk // its input is ā
			}
			steps = append(steps, view.Step{Kind: kind, Layer: int32(s)})
			clock += in.UF[s]
		}
	}
	// The rest, s..N, is kept; then each group follows, the last one first.
	for l := s; l <= in.N; l++ {
		steps = append(steps, view.Step{Kind: view.FAll, Layer: int32(l)})
	}
	for l := in.N; l >= s; l-- {
		steps = append(steps, view.Step{Kind: view.Backward, Layer: int32(l)})
	}
	end := s - 1
	for _, first := range slices.Backward(starts) {
		inner, err := in.group(ctx, first, end)
		if err != nil {
			return nil, err
		}
		steps = append(append(steps, inner...), view.Step{Kind: view.Backward, Layer: int32(first)})
		end = first - 1
	}
	r, ok := view.NewProfile(in.Instance, steps)
	if !ok {
		return nil, fmt.Errorf("remat-offload: opportunist's sequence violates a rule: %w", plan.ErrNoPlan)
	}
	gaps := slices.DeleteFunc(nonEmptyGaps(r, r.Gaps), func(g view.Gap) bool { return !away[g.Tensor] })
	out, ok := view.Retime(r, gaps)
	if !ok {
		return nil, fmt.Errorf("remat-offload: opportunist needs more than the available %s: %w", in.Chain.Unit.Exactly(in.Platform.Memory),
			plan.ErrNoPlan)
	}
	return out, nil
}

// fits reports whether F_all s .. B_s fit in addition to the input of layer s. O(N).
func (in *instance) fits(s int) bool {
	kept := in.A[s-1]
	for l := s; l <= in.N; l++ {
		if kept+in.NeedAll(l) > in.Memory || kept+in.NeedBackward(l) > in.Memory {
			return false
		}
		kept += in.Abar[l]
	}
	return true
}

// group returns the steps of B_t .. B_{s+1} from ā_s, while a_{s-1} is resident unless it can be fetched later.
func (in *instance) group(ctx context.Context, s, t int) ([]view.Step, error) {
	if s == t {
		return nil, nil
	}
	sub := &chain.Chain{Name: in.Chain.Name, Layers: in.Chain.Layers[s:t]}
	sub.Input = chain.Input{Activation: in.Abar[s], Gradient: in.Delta[s]}
	p, err := remat.Persistent(ctx, sub, platform.Platform{Memory: in.Platform.Memory})
	if err != nil {
		return nil, errors.Join(plan.ErrNoPlan, fmt.Errorf("remat-offload: opportunist, layers %d to %d: %w", s+1, t, in.fromRemat(err)))
	}
	steps := view.StepsOf(p.Ops)
	for i := range steps {
		steps[i].Layer += int32(s)
	}
	return steps, nil
}
