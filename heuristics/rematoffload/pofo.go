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

// POFOClaim is "Persistent with Offloading during Forward Only", the dynamic program of [004] 4.2, re-timed in the
// integral model. It minimises the makespan in the model of Assumptions 4, in which transfers free and allocate
// memory byte by byte (OR.5). Its plans always fit in the integral model. There they may take longer, since a
// tensor is freed as a whole, or shorter, since the loss need not separate transfers (OR.3). Among the final
// sequences whose makespan in its own model is at most 2 % above the best, it returns the fastest in the integral
// model.
//
// The claim is the minimum makespan in seconds in its own model, possibly of another sequence than the plan's. It
// is no bound on the integral problem: OR.1 to OR.4 exclude plans that may be better.
//
// Sizes are not rounded. Slots divide the memory for the states of the program. Of two states that differ by less
// than a slot in A, Δ_F and Δ_B one is kept. So is one of two sequences of the backward phase whose waiting
// differs by less than an eighth of the memory. With all sizes and uF·β, uB·β integer slots and up to eight of
// these, this is the program of the thesis and optimal in its model (Theorem 12).
//
// The backward phase takes O(N³·slots) steps, the forward phase O(N²·slots³) at worst, usually far less: it
// expands only reachable, nondominated states that may improve on a coarser program. Space O(N²·slots + slots³).
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

// ErrSlots is wrapped by the error for an invalid number of slots.
var ErrSlots = errors.New("slots must be at least 1")

// pofo runs the program.
func (in *instance) pofo(ctx context.Context, slots int, which only) ([]*outline, error) {
	if slots < 1 {
		return nil, fmt.Errorf("remat-offload: %w: %d", ErrSlots, slots)
	}
	if in.Bandwidth == 0 { // nothing is transferred, so the bandwidth is arbitrary
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

// grids divide the slots of the table for the states of the forward phase: coarse ones first, as their results
// prune the finer ones.
var grids = []int{8, 3, 1}

// pofoWith runs the forward phase with the table of a backward phase, on some of the grids. It may omit results
// above atMost. It returns the outlines of the ends, the best first; where a finer grid does not fit, those of the
// coarser ones.
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
		return nil, fmt.Errorf("remat-offload: pofo finds no plan in %s: %w", in.Chain.Unit.Exactly(in.Platform.Memory), plan.ErrNoPlan)
	}
	slices.SortStableFunc(found, func(x, y *outline) int { return cmp.Compare(x.claim, y.claim) })
	return found, nil
}

// mostEnds limits the ends of each grid that are re-timed.
const mostEnds = 200

// timed is an outline with its schedule in the integral model.
type timed struct {
	o *outline
	s *view.Schedule
}

// retimed times the outlines whose claim is within nearly of the best, and returns those that fit, the fastest
// first.
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
