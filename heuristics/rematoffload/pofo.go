package rematoffload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
)

// POFOClaim is "Persistent with Offloading during Forward Only", the dynamic
// program of [004] 4.2, re-timed in the integral model. What it minimises is the
// makespan in the model of Assumptions 4, in which transfers free and take
// memory byte by byte (OR.5). Its plans always fit in the
// integral model too, where they may take longer, a tensor leaving as a whole, and
// may take less, as transfers need not be separated by the loss (OR.3). Of the
// sequences that the program ends with the one is returned that is fastest there
// and claims at most 2 % more than the best.
//
// The claim is the least makespan in seconds in its own model, which may be of
// another sequence than the plan's. It is no bound of the integral problem: OR.1
// to OR.4 forbid what may be better.
//
// Sizes are not rounded. Slots divide the memory for the states of the program:
// of two that differ by less than a slot in A, Δ_F and Δ_B one is followed, and of
// sequences of the backward phase that differ by less than an eighth of the
// memory in what they wait for. With all sizes and uF·β, uB·β whole slots and up
// to eight of these, this is the program of the thesis and optimal in its model
// (Theorem 12).
//
// The backward phase takes O(N³·slots) steps, the forward phase O(N²·slots³) at
// worst, far less as a rule: only states that are reached, that no other one is
// better than, and that may still beat a coarser program are followed. Space
// O(N²·slots + slots³).
//
// The errors are those of the package; a *TooLargeError is one of them.
func POFOClaim(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (claim float64, out *plan.Plan, err error) {
	in, err := newInstance(c, p)
	if err != nil {
		return 0, nil, err
	}
	found, err := in.pofo(ctx, slots, both)
	if err != nil {
		return 0, nil, err
	}
	all, err := retimed(found)
	if err != nil {
		return 0, nil, err
	}
	out, err = all[0].s.Plan("pofo")
	return found[0].claim, out, err
}

// ErrSlots is wrapped when the number of slots makes no sense.
var ErrSlots = errors.New("slots must be at least 1")

// pofo runs the program.
func (in *instance) pofo(ctx context.Context, slots int, which only) ([]*outline, error) {
	if slots < 1 {
		return nil, fmt.Errorf("remat-offload: %w: %d", ErrSlots, slots)
	}
	if in.Bandwidth == 0 { // nothing is transferred, so any bandwidth will do
		alone := *in.Instance
		alone.Bandwidth = 1
		in, which = &instance{&alone}, onlyRecompute
	}
	d, err := newTails(ctx, in, slots, coarse, math.Inf(1), tableLimit)
	if err != nil {
		return nil, err
	}
	return in.pofoWith(ctx, d, which, math.Inf(1), grids)
}

// grids are by how much the slots of the table are divided for the states of the
// forward phase: coarse ones first, as what costs more than their results need
// not be followed again.
var grids = []int{8, 3, 1}

// pofoWith is the forward phase with the table of a backward phase, on some of the
// grids. What claims more than atMost need not be found. It returns the outlines
// of the ends, the best first; where a finer grid does not fit, of the coarser ones.
func (in *instance) pofoWith(ctx context.Context, d *tails, which only, atMost float64, on []int) (found []*outline, err error) {
	rests := in.rests()
	for _, part := range on {
		if d.slots/part < 4 && part > 1 {
			continue
		}
		slots := d.slots / part
		f := &forwards{in: in, d: d, only: which, atMost: atMost, rests: rests, side: slots + 2, slot: in.slot(slots)}
		var ends []end
		if ends, err = f.run(ctx); err != nil {
			break
		}
		for k := range min(len(ends), mostEnds) {
			found = append(found, f.outline(&ends[k]))
			atMost = min(atMost, ends[k].cost)
		}
	}
	switch {
	case len(found) == 0 && err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("remat-offload: pofo finds nothing in %s: %w", in.Chain.Unit.Exactly(in.Platform.Memory), plan.ErrNoPlan)
	}
	slices.SortStableFunc(found, func(x, y *outline) int { return cmp.Compare(x.claim, y.claim) })
	return found, nil
}

// mostEnds is how many ends of each grid are re-timed.
const mostEnds = 200

// A timed outline is one with its schedule in the integral model.
type timed struct {
	o *outline
	s *view.Schedule
}

// retimed times the outlines that claim at most nearly more than the best, and
// returns those that fit, the fastest first.
func retimed(found []*outline) (all []timed, err error) {
	for _, o := range found {
		if o.claim > found[0].claim*(1+nearly) {
			break
		}
		s, failed := o.schedule()
		if failed != nil {
			err = failed
			continue
		}
		all = append(all, timed{o, s})
	}
	if all == nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(x, y timed) int { return cmp.Compare(x.s.Makespan, y.s.Makespan) })
	return all, nil
}

// nearly is 2 %.
const nearly = 0.02
