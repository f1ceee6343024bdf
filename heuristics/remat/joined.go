package remat

import (
	"context"
	"fmt"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/remat"
)

// Joined is [Persistent] on the chain whose layers are blocks of those of c, so many of
// them at most, written out again: chains that are too long for its O(N³) have a plan of
// it. Of as many layers a block, give or take, each ends where the activation is smallest.
// A block runs, is kept and is differentiated as a whole, and its overheads are what its
// layers need then, so that the plan fits where that of the blocks does. With a block for each
// layer it is Persistent's plan. An error wraps plan.ErrNoPlan; it is a *plan.Infeasible if no
// plan of c fits. O(N) and O(blocks³) sums of step functions.
func Joined(ctx context.Context, c *chain.Chain, p platform.Platform, blocks int) (*plan.Plan, error) {
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, err
	}
	ends := blockEnds(v, blocks)
	coarse, err := Persistent(ctx, joinedChain(v, c, ends), p)
	if err != nil { // what does not fit in blocks may fit: nothing is proved
		return nil, fmt.Errorf("persistent: %w of %s: %v", plan.ErrNoPlan, platform.Count(len(ends)-1, "block"), err)
	}
	s := v.NewSequence()
	for _, o := range coarse.Ops {
		first, last := ends[o.Layer-1]+1, ends[o.Layer]
		switch o.Op {
		case plan.OpFAll:
			for l := first; l <= last; l++ {
				s.All(l)
			}
		case plan.OpFCk:
			s.Advance(first, last)
		case plan.OpFNone:
			for l := first; l <= last; l++ {
				s.None(l)
			}
		case plan.OpB:
			for l := last; l >= first; l-- {
				s.Backward(l)
			}
		}
	}
	return s.Plan("persistent", c, p), s.Err
}

// blockEnds returns the last layers of the blocks, after a 0; the loss is one of its own.
func blockEnds(v *model.View, blocks int) []int {
	ends := []int{0}
	blocks = min(max(blocks, 2), v.N) - 1 // beside the loss
	for b := 1; b < blocks; b++ {
		// Between the middles of this block and the next, of equal blocks, behind the last end.
		from, to := (2*b-1)*(v.N-1)/(2*blocks), (2*b+1)*(v.N-1)/(2*blocks)
		best := max(from, ends[b-1]) + 1
		for l := best; l <= to; l++ {
			if v.A[l] < v.A[best] {
				best = l
			}
		}
		ends = append(ends, best)
	}
	return append(ends, v.N-1, v.N)
}

// joinedChain is the chain of blocks.
func joinedChain(v *model.View, c *chain.Chain, ends []int) *chain.Chain {
	out := &chain.Chain{Name: c.Name, Unit: c.Unit, Input: c.Input, Layers: make([]chain.Layer, len(ends)-1)}
	for b := range out.Layers {
		x, first, last := &out.Layers[b], ends[b]+1, ends[b+1]
		x.Activation, x.Gradient = v.A[last], v.Delta[last]
		all, forward, back := 0.0, 0.0, 0.0 // what its F_all, other forwards and B take, beside their input
		for l := first; l <= last; l++ {
			x.ForwardTime += v.UF[l]
			x.BackwardTime += v.UB[l]
			x.Saved += v.Abar[l]
			all = max(all, x.Saved+v.OF[l])
			input := 0.0
			if l > first {
				input = v.A[l-1]
			}
			forward = max(forward, input+v.A[l]+v.OC[l])
			back = max(back, x.Saved+v.Delta[l]+v.Delta[l-1]+v.OB[l])
		}
		x.ForwardOverhead = all - x.Saved
		x.CheckpointOverhead = max(forward-x.Activation, x.ForwardOverhead)
		x.BackwardOverhead = max(0, back-x.Saved-x.Gradient-v.Delta[first-1])
	}
	return out
}
