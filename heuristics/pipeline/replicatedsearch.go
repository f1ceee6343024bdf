package pipeline

import (
	"slices"

	"workbench/heuristics/pipeline/moves"
	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// replicatedLoads is how many allocations a local search with replicas reckons the loads
// of: some seconds.
const replicatedLoads = 1 << 20

// searchLeast is the least part of the period that is a gain.
const searchLeast = 1e-6

// searchReplicated is Search where stages may be on several processors: local search from
// the plan of [replicated] and from that of Search without replicas, and never worse than
// either. The first is the best of contiguous stages, whatever their replicas, that do all
// as soon as they may, but for links: there a link from a replica has the time in which
// either stage's take turns, and here that in which both meet. Contiguous stages leave some
// processors less to do than others, so here those without replicas may have several.
//
// Moves are those of Search; a processor more or less for a stage, or one from another; two
// stages become one with the processors of both, and one becomes two that share its own. Where
// no move has a shorter period, two of them may, of which the first takes from what is
// busiest. Allocations whose loads are less than the period are scheduled as in [Schedule],
// 60 a layer; there are O(n·P) moves, loads take O(n) each, and of 2²⁰ they are reckoned.
func (in *instance) searchReplicated() *view.Pattern {
	best := in.improveReplicated(in.replicated())
	if best != nil && in.stopped() {
		return best
	}
	if s := in.improveReplicated(in.straight()); s != nil && (best == nil || s.Rate() < best.Rate()) {
		best = s
	}
	return best
}

// improveReplicated is the local search from s, nil: there is none.
func (in *instance) improveReplicated(s *view.Pattern) *view.Pattern {
	if s == nil {
		return nil
	}
	x := &replicatedSearch{in: in, best: s, schedules: searchSteps * in.N, loads: replicatedLoads}
	load := in.U[in.N] / float64(in.Platform.Processors)
	for x.best.Rate() > load*(1+1e-9) && x.step() {
	}
	return x.best
}

// replicatedSearch is a local search, with what it may still look at.
type replicatedSearch struct {
	in               *instance
	best             *view.Pattern
	schedules, loads int
}

// over reports whether it may look at no more.
func (x *replicatedSearch) over() bool {
	return x.schedules <= 0 || x.loads <= 0 || x.in.stopped()
}

// step reports whether one move, or two, have a shorter period.
func (x *replicatedSearch) step() bool {
	stages := view.Merged(x.best.Stages)
	list := moves.Replicated(stages, x.in.Procs, x.in.Platform.Processors)
	if slices.ContainsFunc(list, x.try) {
		return true
	}
	least := x.best.Rate() * (1 - searchLeast)
	busiest := slices.Max(newScheduler(x.in, stages).loads())
	for _, first := range list {
		if x.over() {
			return false
		}
		if busiest >= least && slices.Contains(newScheduler(x.in, first).loads(), busiest) {
			continue // else a second move alone would do
		}
		if slices.ContainsFunc(moves.Replicated(first, x.in.Procs, x.in.Platform.Processors), x.try) {
			return true
		}
	}
	return false
}

// try reports whether an allocation has a shorter period, and keeps it.
func (x *replicatedSearch) try(stages []plan.Stage) bool {
	if x.over() {
		return false
	}
	x.loads--
	least := x.best.Rate() * (1 - searchLeast)
	if slices.Max(newScheduler(x.in, stages).loads()) >= least {
		return false
	}
	x.schedules--
	s := x.in.schedule(stages, least)
	if s != nil {
		x.best = s
	}
	return s != nil
}
