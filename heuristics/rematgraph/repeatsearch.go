package rematgraph

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// RepeatSearch is a method of ours for steps in which blocks repeat: it searches the step of a
// dozen of them, unrolls that to all, and changes the memory that the short one has until the long
// one fits. Then what memory is left is filled, and the search goes on as Search does.
//
// The same seed and number of rounds give the same plan. The end of ctx ends it with the
// best plan until then. The error wraps plan.ErrNoPlan where no blocks repeat.
func RepeatSearch(ctx context.Context, v *rematgraph.View, p platform.Platform, seed uint64, rounds int) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	r := Repeat(v)
	if r == nil {
		return nil, fmt.Errorf("repeat-search: %w: there are no %d equal blocks that follow each other", plan.ErrNoPlan, fewestBlocks)
	}
	s := &search{ctx: ctx, v: v, limits: everywhere(v, p.Memory), r: rand.New(rand.NewPCG(seed, 3)), bound: v.TimeBound}
	s.unrolled(r, rounds)
	switch err := ctx.Err(); {
	case s.best == nil && err != nil:
		return nil, fmt.Errorf("repeat-search: %w: %w", plan.ErrNoPlan, err)
	case s.best == nil:
		return nil, fmt.Errorf("repeat-search: %w: what %d blocks do is not enough for all", plan.ErrNoPlan, len(r.stand))
	}
	s.lowest = v.TimeBound(p.Memory).Seconds
	s.anneal(rounds)
	return fit("repeat-search", s.best, p)
}

// repeated tries schedules of a step with fewer blocks, if there are blocks that repeat.
func (s *search) repeated(rounds int) {
	if r := Repeat(s.v); r != nil {
		s.unrolled(r, rounds)
	}
}

// A step with fewer blocks is searched so often, first a hundredth of the rounds, last a tenth.
const (
	lengths     = 4
	shortRounds = 100
)

// unrolled tries schedules of a step with fewer blocks.
func (s *search) unrolled(r *Repeated, rounds int) {
	var from []*rematgraph.Schedule
	before := s.best
	r.Aim(s.most(), lengths, func(k int, memory float64) (over float64, ok bool) {
		if s.done() {
			return 0, false
		}
		short := &search{ctx: s.ctx, v: r.Short, limits: everywhere(r.Short, memory), r: s.r, from: from, bound: r.Short.TimeBound}
		short.run(rounds * (1 + 3*k) / shortRounds)
		if short.best == nil || s.stop() && s.best != before {
			return 0, false
		}
		from = append(from[:0], short.best)
		x := newState(r.Unroll(short.best), s.limits)
		s.remember(x)
		over = MaxExcess(x.s, s.limits)
		s.try(x.s, exact)
		return over, true
	})
}

// MaxExcess returns by how many bytes a schedule exceeds the limits of its stages where it does most, negative
// where it is below all of them.
func MaxExcess(x *rematgraph.Schedule, limits []float64) float64 {
	over := math.Inf(-1)
	for t, limit := range limits {
		peak, _ := x.StagePeak(t)
		over = max(over, peak-limit)
	}
	return over
}

// Aim looks for the memory of Short, in whole bytes, at which what try makes of it for all blocks
// takes so many bytes. It calls try so often, with k = 0, 1, … and the memory, or until that is not ok;
// try says by how much too many bytes are taken. As long as it is always too many or never, the next memory is less by the
// part of that which its blocks have; then it is between the last two of either side (false position).
func (r *Repeated) Aim(bytes float64, times int, try func(k int, memory float64) (over float64, ok bool)) {
	memory, part := r.memory(bytes)
	type aimed struct{ memory, over float64 }
	var last [2]*aimed // that fits, and that exceeds
	for k := range times {
		memory = math.Floor(memory)
		over, ok := try(k, memory)
		if !ok {
			return
		}
		side := 0
		if over > 0 {
			side = 1
		}
		last[side] = &aimed{memory, over}
		if fits, exceeds := last[0], last[1]; fits != nil && exceeds != nil {
			memory = fits.memory + (exceeds.memory-fits.memory)*fits.over/(fits.over-exceeds.over)
		} else {
			memory -= over * part
		}
	}
}

// memory returns how much of so many bytes Short has if every block has the same part of them,
// and how much of a byte more or less. What a step takes at least and at most are linear in its
// blocks, and so is what lies between.
func (r *Repeated) memory(bytes float64) (short, part float64) {
	low, _ := r.v.LeastBound()
	shortLow, _ := r.Short.LeastBound()
	part = (KeepingAll(r.Short) - shortLow) / max(1, KeepingAll(r.v)-low)
	return shortLow + (bytes-low)*part, part
}
