package solvertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// shortly is long enough for a first incumbent of a small model, and far too
// short for the hard models here.
const shortly = 100 * time.Millisecond

// errNoIncumbent: the search ended early without the incumbent it should have.
var errNoIncumbent = errors.New("no incumbent")

// patiently runs a solve that is to end early, but with an incumbent. Where the
// machine was too busy for one within shortly, the solve gets thirty times that.
func patiently(solve func(limit time.Duration) error) error {
	err := solve(shortly)
	if errors.Is(err, errNoIncumbent) {
		err = solve(30 * shortly)
	}
	return err
}

// limitCases are about ending early, on two market splits that take any solver
// of today minutes: one where everything is a solution, one where nothing found
// is.
func limitCases() []testCase {
	return []testCase{
		{"limit/time with an incumbent", func(h *harness) error {
			return patiently(func(limit time.Duration) error {
				return h.stopped(h.ctx, newMarketSplit(4, 30, 1).slackModel(), solvers.Options{Time: limit}, solvers.Time, solvers.Feasible)
			})
		}},
		{"limit/time without an incumbent", func(h *harness) error {
			return h.stopped(h.ctx, newMarketSplit(6, 31, 2).strictModel(), solvers.Options{Time: shortly}, solvers.Time, solvers.NoSolution)
		}},
		{"limit/a millisecond", func(h *harness) error {
			return h.stopped(h.ctx, newMarketSplit(4, 30, 3).slackModel(), solvers.Options{Time: time.Millisecond}, solvers.Time,
				solvers.Feasible, solvers.NoSolution)
		}},
		{"limit/a nanosecond", func(h *harness) error {
			return h.stopped(h.ctx, newMarketSplit(4, 30, 3).slackModel(), solvers.Options{Time: time.Nanosecond}, solvers.Time, solvers.NoSolution)
		}},
		{"limit/deadline of the context", func(h *harness) error {
			return patiently(func(limit time.Duration) error {
				ctx, cancel := context.WithTimeout(h.ctx, limit)
				defer cancel()
				return h.stopped(ctx, newMarketSplit(4, 30, 4).slackModel(), solvers.Options{Time: time.Hour}, solvers.Time, solvers.Feasible)
			})
		}},
		{"limit/time before the deadline of the context", func(h *harness) error {
			ctx, cancel := context.WithTimeout(h.ctx, time.Hour)
			defer cancel()
			return patiently(func(limit time.Duration) error {
				return h.stopped(ctx, newMarketSplit(4, 30, 4).slackModel(), solvers.Options{Time: limit}, solvers.Time, solvers.Feasible)
			})
		}},
		{"limit/deadline passed before the start", func(h *harness) error {
			ctx, cancel := context.WithDeadline(h.ctx, time.Unix(1, 0))
			defer cancel()
			return h.stopped(ctx, text(pick), solvers.Options{}, solvers.Time, solvers.NoSolution)
		}},
		{"limit/cancelled before the start", func(h *harness) error {
			ctx, cancel := context.WithCancel(h.ctx)
			cancel()
			return h.stopped(ctx, text(pick), solvers.Options{}, solvers.Cancelled, solvers.NoSolution)
		}},
		{"limit/cancelled", cancelled},
		{"limit/cancelled from progress", cancelledFromProgress},
		{"limit/time does not spoil a quick solve", func(h *harness) error {
			_, err := h.optimum(text(pick), solvers.Options{Time: time.Hour}, 11)
			return err
		}},
		{"limit/nodes", func(h *harness) error {
			return h.stopped(h.ctx, newMarketSplit(4, 30, 5).slackModel(), solvers.Options{Nodes: solvers.Some(int64(20))}, solvers.Nodes,
				solvers.Feasible, solvers.NoSolution)
		}},
		{"limit/nodes and time told apart", func(h *harness) error {
			return patiently(func(limit time.Duration) error {
				o := solvers.Options{Nodes: solvers.Some(int64(math.MaxInt32)), Time: limit}
				return h.stopped(h.ctx, newMarketSplit(4, 30, 16).slackModel(), o, solvers.Time, solvers.Feasible)
			})
		}},
		{"limit/relative gap", func(h *harness) error { return gap(h, solvers.Options{RelGap: solvers.Some(0.05)}) }},
		{"limit/absolute gap", func(h *harness) error { return gap(h, solvers.Options{AbsGap: solvers.Some(200.)}) }},
		{"limit/no gap unless asked", noGap},
	}
}

// stopped solves a model that has the bound 0 and expects an early end.
func (h *harness) stopped(ctx context.Context, m *milp.Model, o solvers.Options, why solvers.Stop, statuses ...solvers.Status) error {
	r, err := h.solveCtx(ctx, m, o)
	if err != nil {
		return err
	}
	for _, s := range statuses {
		if r.Status != s {
			continue
		}
		if r.Stop != why {
			return fmt.Errorf("%v: %v (%s), want %v", r.Status, r.Stop, r.Note, why)
		}
		return boundHolds(m, r, 0)
	}
	err = fmt.Errorf("%v, %v (%s), want %v", r.Status, r.Stop, r.Note, statuses)
	if r.Status == solvers.NoSolution {
		err = fmt.Errorf("%w: %w", errNoIncumbent, err)
	}
	return err
}

// cancelled cancels from outside after a while.
func cancelled(h *harness) error {
	return patiently(func(limit time.Duration) error {
		ctx, cancel := context.WithCancel(h.ctx)
		defer cancel()
		defer time.AfterFunc(limit, cancel).Stop()
		return h.stopped(ctx, newMarketSplit(4, 30, 7).slackModel(), solvers.Options{}, solvers.Cancelled, solvers.Feasible)
	})
}

// cancelledFromProgress cancels at the first incumbent, which must survive.
func cancelledFromProgress(h *harness) error {
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	heard := math.Inf(1)
	m := newMarketSplit(4, 30, 8).slackModel()
	r, err := h.solveCtx(ctx, m, solvers.Options{OnProgress: func(p solvers.Progress) {
		if p.X != nil {
			heard = min(heard, p.Objective)
			cancel()
		}
	}})
	if err != nil {
		return err
	}
	if r.Status != solvers.Feasible || r.Stop != solvers.Cancelled {
		return fmt.Errorf("%v, %v", r.Status, r.Stop)
	}
	if obj, _ := r.Objective(); obj > heard {
		return fmt.Errorf("objective %v, but progress had %v", obj, heard)
	}
	return nil
}

// gap solves with a gap of 5 % or its like and expects it to be used honestly:
// verify has checked the gap against the bound, here is the bound's turn.
func gap(h *harness, o solvers.Options) error {
	for seed := range int64(3) {
		k := newMultiKnapsack(4, 16, seed)
		m, want := k.model(), k.optimum()
		r, err := h.status(m, o, solvers.Optimal)
		if err != nil {
			return err
		}
		if err := boundHolds(m, r, want); err != nil {
			return err
		}
		if obj, _ := r.Objective(); obj > want+gapTolerance {
			return fmt.Errorf("objective %v above the optimum %v", obj, want)
		}
	}
	return nil
}

// noGap has its two best solutions within 2e-5 of each other, inside the default
// gaps of most libraries.
func noGap(h *harness) error {
	m := newModel("two close optima")
	v := m.cols(12, milp.Binary, 0, 1)
	value := make([]float64, len(v))
	for i := range value {
		value[i] = 10_000 + float64(i)
	}
	m.row(-inf, 6, ones(v)...)
	m.max(0, sum(value, v)...)
	_, err := h.optimum(m.Model, solvers.Options{}, 60_000+6+7+8+9+10+11)
	return err
}
