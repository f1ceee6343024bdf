// Package flush has the methods that order the operations of pipelines that flush
// without a MILP solver: the schedules that have names, list scheduling, a local search,
// and a branch and bound.
package flush

import (
	"context"

	"workbench/model/plan"
	"workbench/model/problem/flush"
)

// A Method makes an order; nil: it has none that fits.
type Method func(context.Context, *flush.Instance) flush.Order

// straightStages returns the stage of each GPU of the straight placement, nil for other placements.
func straightStages(v *flush.Instance) []int {
	if v.Platform.Placement != plan.Straight {
		return nil
	}
	stages := make([]int, v.GPUs)
	for g := range stages {
		stages[g] = v.On[g][0]
	}
	return stages
}

// sequence builds the order of one GPU of one stage.
type sequence struct {
	v     *flush.Instance
	stage int
	n     [3]int
	ops   []flush.Operation
}

// put adds n operations of a kind, as many as there are; W only where there is one.
func (w *sequence) put(kind, n int) {
	if kind == flush.W && !w.v.Split[w.stage] {
		return
	}
	for n = min(n, w.v.Jobs-w.n[kind]); n > 0; n-- {
		w.ops = append(w.ops, flush.OperationOf(w.stage, kind))
		w.n[kind]++
	}
}

// each returns the order in which GPUs of one stage each have the sequences that fill makes.
func each(v *flush.Instance, fill func(w *sequence, g int)) flush.Order {
	o := make(flush.Order, v.GPUs)
	for g, s := range straightStages(v) {
		w := &sequence{v: v, stage: s}
		fill(w, g)
		o[g] = w.ops
	}
	return o
}

// GPipe runs all F, then each B with its W (Huang et al., GPipe, 2019). O(operations).
func GPipe(_ context.Context, v *flush.Instance) flush.Order {
	if straightStages(v) == nil {
		return nil
	}
	return each(v, func(w *sequence, _ int) {
		w.put(flush.F, v.Jobs)
		for range v.Jobs {
			w.put(flush.B, 1)
			w.put(flush.W, 1)
		}
	})
}

// OneFOneB runs as many F as there are stages from here on, then B, W and F by turns
// (Narayanan et al., PipeDream, 2019, with a flush). O(operations).
func OneFOneB(_ context.Context, v *flush.Instance) flush.Order {
	if straightStages(v) == nil {
		return nil
	}
	return each(v, func(w *sequence, g int) {
		w.put(flush.F, v.GPUs-g)
		for range v.Jobs {
			w.put(flush.B, 1)
			w.put(flush.W, 1)
			w.put(flush.F, 1)
		}
	})
}

// ZBH1 returns 1F1B in which stage g, from 0, delays its Ws by g Bs, so that all stages hold as
// much as the first one (Qi et al. 2024, §2.1). O(operations).
func ZBH1(_ context.Context, v *flush.Instance) flush.Order {
	return delayedW(v, func(g int) (warm, late int) { return v.GPUs - g, g })
}

// ZBH2 is [ZBH1] with twice as many micro-batches on their way, 2P − 1 on the first
// stage: no GPU waits for its first B where F, B and W take one time (§2.2).
func ZBH2(_ context.Context, v *flush.Instance) flush.Order {
	return delayedW(v, func(g int) (warm, late int) { return 2*(v.GPUs-g) - 1, 2 * g })
}

// delayedW returns the order of warm Fs, then alternating B and F, with each W late Bs later; the
// remaining Ws fill the end, one after each B.
func delayedW(v *flush.Instance, of func(g int) (warm, late int)) flush.Order {
	if straightStages(v) == nil {
		return nil
	}
	return each(v, func(w *sequence, g int) {
		warm, late := of(g)
		w.put(flush.F, warm)
		for range v.Jobs {
			w.put(flush.B, 1)
			if w.n[flush.B]-w.n[flush.W] > late || w.n[flush.F] == v.Jobs {
				w.put(flush.W, 1)
			}
			w.put(flush.F, 1)
		}
		w.put(flush.W, v.Jobs)
	})
}

// best returns the schedule of the best of several orders, those that do not hold or
// have a deadlock left out; nil: there is none.
func best(v *flush.Instance, orders ...flush.Order) *flush.Schedule {
	var found *flush.Schedule
	for _, o := range orders {
		if o == nil || !v.Complete(o) || !v.KeepsMemory(o) {
			continue
		}
		if s, err := v.Schedule(o); err == nil && (found == nil || s.Objective < found.Objective) {
			found = s
		}
	}
	return found
}
