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

// RepeatSearch is our own method for steps with repeated blocks. It searches a step with about a
// dozen blocks, unrolls the result to all, and adapts the memory of the short step until the long
// one fits. Then it fills the remaining memory and continues as Search.
//
// It is deterministic for a seed and number of rounds, and returns the best plan so far when ctx
// ends. The error wraps plan.ErrNoPlan if no blocks repeat.
func RepeatSearch(ctx context.Context, v *rematgraph.View, p platform.Platform, seed uint64, rounds int) (*plan.Plan, error) {
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	r := Repeat(v)
	if r == nil {
		return nil, fmt.Errorf("repeat-search: %w: the graph has no %d consecutive equal blocks", plan.ErrNoPlan, fewestBlocks)
	}
	s := &search{ctx: ctx, v: v, limits: everywhere(v, p.Memory), r: rand.New(rand.NewPCG(seed, 3)), bound: v.TimeBound}
	s.unrolled(r, rounds)
	switch err := ctx.Err(); {
	case s.best == nil && err != nil:
		return nil, fmt.Errorf("repeat-search: %w: %w", plan.ErrNoPlan, err)
	case s.best == nil:
		return nil, fmt.Errorf("repeat-search: %w: the plan of %d blocks does not fit when applied to all", plan.ErrNoPlan, len(r.stand))
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

// Aim searches for the memory of Short, in integer bytes, with which the unrolled plan of try takes
// the given bytes. It calls try at most times times, with k = 0, 1, … and the memory, or until ok
// is false; over is by how many bytes the plan exceeds the target. While over always has the same
// sign, the next memory changes by the share of Short in it; then it is interpolated between the
// last two of either sign (false position).
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

// memory returns the memory of Short in which every block has the same share of the given bytes,
// and the change of it for each byte. The minimum and maximum memory of a step are linear in the
// number of blocks, and so is what lies between.
func (r *Repeated) memory(bytes float64) (short, part float64) {
	low, _ := r.v.LeastBound()
	shortLow, _ := r.Short.LeastBound()
	part = (r.Short.StoreAllPeak() - shortLow) / max(1, r.v.StoreAllPeak()-low)
	return shortLow + (bytes-low)*part, part
}
