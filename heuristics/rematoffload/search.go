package rematoffload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/heuristics/activationoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	verifyrematoffload "workbench/model/verify/rematoffload"
)

// Search is a method of this project. It takes the best plan of all methods of this package (POFO with the same
// slots), of activation offloading by GREEDY and DYNPROG with 500 slots, and of others, and improves it by local
// search. others are plans of the caller for the same platform, of this problem or of activation offloading.
//
// POFO runs with several limits up to the memory: its model frees memory byte by byte, so a lower limit may yield
// a faster plan after re-timing. Then the best outlines are changed while that improves them. The input of a level
// is offloaded or kept, also in exchange for another's. Levels begin earlier or later, are merged (stored tensors
// are recomputed), or split (recomputed tensors are stored, on the device or on the host). Last, the best sequence
// of all, pure rematerialization, and the sequence that only offloads are changed tensor by tensor, beyond
// persistent plans (see polish). All are timed in the integral model.
//
// With a link it finds a plan whenever one exists; without, it is [PureRemat], polished. When ctx ends it returns
// the best plan so far. The cost is that of its parts: about three times POFO, and some thousand timings of O(N)
// each.
func Search(ctx context.Context, c *chain.Chain, p platform.Platform, slots int, others ...*plan.Plan) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	if slots < 1 {
		return nil, fmt.Errorf("remat-offload: %w: %d", ErrSlots, slots)
	}
	b := &search{in: in, left: searchTimings}
	var failed []error
	try := func(s *view.Schedule, err error) *view.Schedule {
		failed = append(failed, err)
		b.updateIncumbent(nil, s)
		return s
	}
	if in.Bandwidth > 0 { // fast methods come first: ctx may end at any time
		try(in.offloadAll())
		try(in.opportunist(ctx))
		others = append(others, in.greedyOffload(ctx)...)
	}
	starts := b.updateIncumbent(nil, try(in.pureRemat(ctx)))
	if in.Bandwidth > 0 {
		try(in.autocapper(ctx))
		b.outlines(ctx, slots, searchMemory[:])
		if in.N <= finerLayers {
			// The coarse limits can miss a sequence; finer ones find it.
			b.outlines(ctx, finer*slots, searchMemory[:2])
		}
		greedy, _ := in.capper(in.keepAll())
		starts = b.updateIncumbent(starts, greedy)
		others = append(others, in.dynamicOffload(ctx)...)
	}
	if b.best != nil {
		for _, s := range append(starts, b.best) {
			b.left = polishTimings
			b.polish(ctx, s)
		}
	}
	var best *plan.Plan
	if b.best != nil {
		if best, err = b.best.Plan("search"); err != nil {
			return nil, err
		}
	}
	for _, o := range others {
		// Invalid plans are skipped.
		if o = in.taken(o); o != nil && in.replays(o) && (best == nil || o.Claims.Makespan < best.Claims.Makespan) {
			best = o
		}
	}
	if best == nil {
		return nil, errors.Join(failed...)
	}
	return best, nil
}

// taken converts a plan of another method for Search, nil if it belongs to another problem.
func (in *instance) taken(o *plan.Plan) *plan.Plan {
	if o == nil || o.Platform != in.Platform {
		return nil
	}
	if o.Problem != view.Problem { // of activation offloading
		o, _ = PureOffload(in.Chain, in.Platform, o)
	}
	if o == nil || o.Problem != view.Problem {
		return nil
	}
	x := *o
	x.Method = "search"
	return &x
}

// replays reports whether a plan is valid.
func (in *instance) replays(p *plan.Plan) bool {
	r, err := verifyrematoffload.Verify(in.Chain, p)
	return err == nil && r.Valid()
}

// greedyOffload returns the plan of activation offloading by GREEDY, if there is one: without recomputation the
// memory may not suffice.
func (in *instance) greedyOffload(ctx context.Context) []*plan.Plan {
	if o, err := activationoffload.Greedy(ctx, in.Chain, in.Platform); err == nil {
		return []*plan.Plan{o}
	}
	return nil
}

// dynamicOffload returns that by DYNPROG.
func (in *instance) dynamicOffload(ctx context.Context) []*plan.Plan {
	if o, err := activationoffload.DynProgSlots(ctx, in.Chain, in.Platform, 500); err == nil {
		return []*plan.Plan{o}
	}
	return nil
}

// searchTimings limits the outlines that Search times in addition to those of POFO, polishTimings those of polish.
// searchMemory lists the limits of POFO as fractions of the memory.
const searchTimings, polishTimings = 20000, 2000

var searchMemory = [...]float64{1, 0.97, 0.94, 0.9, 0.85, 0.78, 0.7}

// For the first limits POFO uses all its grids, for others the coarse ones. The startsEach fastest outlines of
// each run are candidates for local search, mostStarts of all runs are changed.
const (
	fineMemories = 2
	startsEach   = 5
	mostStarts   = 20
)

// On chains of at most finerLayers layers POFO also runs with finer times the slots.
const finer, finerLayers = 3, 40

type search struct {
	in   *instance
	best *view.Schedule
	left int // remaining timings
}

// updateIncumbent keeps the best of schedules, some of which may be nil, and returns list with them appended.
func (b *search) updateIncumbent(list []*view.Schedule, schedules ...*view.Schedule) []*view.Schedule {
	for _, s := range schedules {
		if s == nil {
			continue
		}
		list = append(list, s)
		if b.best == nil || s.Makespan < b.best.Makespan {
			b.best = s
		}
	}
	return list
}

// outlines runs POFO, unless it is too large, and improves its results: with all grids for the first limits, with
// the coarse ones for others.
func (b *search) outlines(ctx context.Context, slots int, memory []float64) {
	atMost := math.Inf(1)
	if b.best != nil {
		atMost = b.best.Makespan * (1 + nearly)
	}
	d, err := newTails(ctx, b.in, slots, coarse, atMost, searchLimit)
	if err != nil {
		return
	}
	var starts []timed
	for i, part := range memory {
		lower := *b.in.Instance
		lower.Memory *= part
		less := &instance{&lower}
		for _, which := range [...]only{both, onlyRecompute, onlyOffload} {
			if which != both && i > 0 {
				break
			}
			on := grids
			if i >= fineMemories {
				on = grids[:len(grids)-1]
			}
			atMost := math.Inf(1) // at first without a limit
			if b.best != nil && (i > 0 || which != both) {
				atMost = b.best.Makespan * (1 + nearly)
			}
			found, err := less.pofoWith(ctx, d, which, atMost, on)
			if err != nil {
				continue
			}
			for _, o := range found {
				o.in = b.in
			}
			all, err := retimed(found)
			if err != nil {
				continue
			}
			b.updateIncumbent(nil, all[0].s)
			all = slices.CompactFunc(all, func(x, y timed) bool { return x.s.Makespan == y.s.Makespan })
			starts = append(starts, all[:min(len(all), startsEach)]...)
		}
	}
	slices.SortStableFunc(starts, func(x, y timed) int { return cmp.Compare(x.s.Makespan, y.s.Makespan) })
	for k, x := range starts {
		if k == mostStarts {
			break
		}
		b.climb(ctx, d, x.o, x.s.Makespan)
	}
}

// climb changes an outline while that makes it faster.
func (b *search) climb(ctx context.Context, d *tails, o *outline, makespan float64) {
	for again := true; again; {
		again = false
		for i := 0; i < len(o.levels); i++ {
			for _, change := range o.changes(i) {
				if b.left == 0 || ctx.Err() != nil {
					return
				}
				next := &outline{in: b.in, levels: change}
				if !next.refill(d) {
					continue
				}
				r, ok := view.NewProfile(b.in.Instance, next.steps())
				if !ok || r.Computing() >= makespan*(1-plan.Tolerance) {
					continue
				}
				b.left--
				s, ok := view.Retime(r, next.gaps(r))
				if !ok || s.Makespan >= makespan*(1-plan.Tolerance) {
					continue
				}
				b.updateIncumbent(nil, s)
				o, makespan, again = next, s.Makespan, true
				break
			}
		}
	}
}

// changes returns the levels of the neighbours of an outline at level i. Their inner steps are not yet set.
func (o *outline) changes(i int) [][]level {
	var all [][]level
	last := len(o.levels) - 1
	v := o.levels[i]
	with := func(from, to int, levels ...level) {
		all = append(all, slices.Concat(o.levels[:from], levels, o.levels[to:]))
	}
	if i < last {
		x := v
		x.offload = !x.offload
		with(i, i+1, x)
		// Exchange with another input.
		for j := i + 1; j < last; j++ {
			if y := o.levels[j]; y.offload == x.offload {
				y.offload = !y.offload
				levels := slices.Clone(o.levels)
				levels[i], levels[j] = x, y
				all = append(all, levels)
			}
		}
	}
	if i+1 < last && !v.all {
		// The next level begins earlier or later.
		for t := max(v.s, v.t-3); t <= v.t+3; t++ {
			if y := o.levels[i+1]; t != v.t && !y.all && t < y.t {
				x := v
				x.t, y.s = t, t+1
				with(i, i+2, x, y)
			}
		}
	}
	// Merge levels i..j: tensors stored between them are recomputed.
	for j := i + 1; j < last && j <= i+3; j++ {
		x := level{s: v.s, t: o.levels[j].t, abar: v.abar, offload: v.offload}
		with(i, j+1, x)
		x.offload = !x.offload
		with(i, j+1, x)
	}
	switch {
	case v.all && i < last:
		x := v
		x.all = false
		with(i, i+1, x) // F_ck s; ā_s is recomputed for B_s only
	case !v.all && v.s == v.t:
		x := v
		x.all = true
		with(i, i+1, x)
	case !v.all:
		for t := v.s; t < v.t; t++ {
			for _, offload := range [...]bool{false, true} {
				x, y := v, v
				x.t, y.s, y.abar, y.offload = t, t+1, false, offload
				with(i, i+1, x, y)
			}
		}
		// F_all of the first layer, and of all layers.
		x, y := v, v
		x.t, x.all = v.s, true
		y.s = v.s + 1
		with(i, i+1, x, y)
		y.offload = !y.offload
		with(i, i+1, x, y)
	}
	return all
}

// refill sets the inner steps of all levels: the fastest that fit in the states of the decisions in the model of
// 4.2; false if none fit.
func (o *outline) refill(d *tails) bool {
	in := o.in
	kept, back := 0.0, 0.0
	levels := make([]level, len(o.levels))
	for i, v := range o.levels {
		v.abar = i > 0 && levels[i-1].all
		input := in.Input(v.s, v.abar)
		room := in.Memory - kept
		var time float64
		if v.all {
			needB := input + in.NeedBackward(v.s)
			if input+in.NeedAll(v.s) > room || needB > room {
				return false
			}
			time = in.UB[v.s] + max(0, (needB+back-room)/in.Bandwidth)
		} else {
			k, cost := d.best(v.s, v.t, room-input, back)
			if k < 0 {
				return false
			}
			time = cost
			v.inner = d.append(nil, k, v.s, v.t)
		}
		back = max(0, back-time*in.Bandwidth)
		if v.offload {
			back += input
		} else {
			kept += input
		}
		levels[i] = v
	}
	o.levels = levels
	return true
}
