package pipeline

import (
	"workbench/heuristics/pipeline/eager"
	"workbench/heuristics/pipeline/moves"
	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// eagerSteps is how many allocations bestEager simulates.
const eagerSteps = 400

// bestEager returns a pattern of eager 1F1B in which every stage, not only the
// first, has a limit of mini-batches in flight: as many as fit in its processor.
// It starts from the allocations of OneFOneBStar and KPeriodic and from
// PipeDream's for each NOAM, and shifts cuts by a layer, one or two at a time,
// as long as the period gets smaller. The patterns are k-periodic with the k
// that comes out, and may be better than any 1-periodic one of their
// allocation. Nil if none of these fits.
func (in *instance) bestEager() *view.Pattern {
	var best *view.Pattern
	try := func(stages []plan.Stage) bool {
		s := in.eagerFull(stages)
		if s == nil || best != nil && s.Rate() >= best.Rate()*(1-1e-6) {
			return false
		}
		best = s
		return true
	}
	for k := 0; k < 2*in.Procs && (best == nil || !in.stopped()); k++ {
		if s := in.bestContiguous(k); s != nil {
			try(s.Stages)
		}
		if stages, _ := in.partition(k); stages != nil {
			try(stages)
		}
	}
	if best == nil {
		return nil
	}
	left := eagerSteps
	for improved := true; improved && left > 0 && !in.stopped(); {
		improved = false
		for _, x := range moves.Shifts(best.Stages) {
			if left--; left < 0 || in.stopped() {
				break
			}
			if in.loads(x) < best.Rate() && try(x) {
				improved = true
				break
			}
		}
	}
	return best
}

// eagerFull is eager 1F1B with the largest limits that fit, nil if none do. If
// operations interleave so that a processor holds more than it reckoned with,
// the limit of its stage is lowered.
func (in *instance) eagerFull(stages []plan.Stage) *view.Pattern {
	limits := make([]int, len(stages))
	for k, s := range stages {
		room := in.Memory - in.Needs(s.From, s.To, 1)
		if room < 0 {
			return nil
		}
		// More than 2P in flight are of no use.
		limits[k] = 2 * in.Procs
		limits[k] = int(min(float64(limits[k]), 1+view.Count(room, in.Inputs(s.From, s.To))))
	}
	for {
		s := eager.Run(in.Instance, stages, limits)
		if s == nil {
			return nil
		}
		over := false
		for k, m := range s.Memory(in.Instance) {
			if !in.Fits(m) {
				if limits[k] == 1 {
					return nil
				}
				limits[k]--
				over = true
			}
		}
		if !over {
			return s
		}
	}
}

// loads returns the largest load of a stage or communication.
func (in *instance) loads(stages []plan.Stage) float64 { return longest(in.Items(stages)) }
