package pipeline

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// OneFOneB returns PipeDream's partition (Narayanan et al., "PipeDream: Generalized
// Pipeline Parallelism for DNN Training", 2019) with its eager 1F1B and as many
// mini-batches in flight as there are stages, the NOAM of a straight pipeline.
// The pattern is the one into which the simulation of 500 mini-batches settles;
// it is k-periodic with the k that comes out. O(P·n² + 500·P²). Stages are not
// replicated over processors, as in [004].
func OneFOneB(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	stages, _ := in.partition(0)
	s := in.eager(stages, firstLimited(stages, len(stages)))
	switch {
	case s == nil:
		return nil, in.noPlan("1f1b", "the simulation does not settle into a pattern")
	case !in.Fits(s.Peak(in.Instance)):
		return nil, in.noPlan("1f1b", "PipeDream's partition with as many mini-batches in flight as stages does not fit")
	}
	return s.Plan(in.Instance, "1f1b"), nil
}

// PipeDream returns the best of the patterns of eager 1F1B over all NOAM, the number of
// mini-batches in flight, as [004] 6.5 obtains solutions from PipeDream. For each NOAM the
// partition without memory limit and the one that PipeDream considers to fit are simulated for 500
// mini-batches, and the true memory of the pattern decides. NOAM goes up to twice the number of
// processors, as communications are items in flight as well. Of equal periods the smallest NOAM is
// returned.
//
// A simulation that does not settle is no pattern, and [004] does not specify what to do. Here it
// is replaced by 1F1B* of its partition with the shortest period that fits.
//
// O(P) partitions, simulations and schedules, each as in [OneFOneB] and [PipeDreamStar]. With
// replicas it is [replicated].
func PipeDream(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	if p.Replicas {
		s := in.replicated()
		if s == nil {
			return nil, in.noPlan("pipedream", "no contiguous stages fit, on one processor or several, whatever the period")
		}
		return s.Plan(in.Instance, "pipedream"), nil
	}
	var best *view.Pattern
	free, _ := in.partition(0)
	for noam := 1; noam <= 2*in.Procs && (best == nil || !in.stopped()); noam++ {
		fitting, _ := in.partition(noam)
		for _, stages := range [][]plan.Stage{free, fitting} {
			if stages == nil {
				continue
			}
			s := in.eager(stages, firstLimited(stages, noam))
			if s == nil {
				s = in.smallest(stages, in.Items(stages), 0)
			}
			if s != nil && (best == nil || s.Rate() < best.Rate()*(1-view.Rounding)) && in.Fits(s.Peak(in.Instance)) {
				best = s
			}
		}
	}
	if best == nil {
		return nil, in.noPlan("pipedream", "whatever the number of mini-batches in flight")
	}
	return best.Plan(in.Instance, "pipedream"), nil
}

// firstLimited returns limits of mini-batches in flight: noam of the first stage, none of the others.
func firstLimited(stages []plan.Stage, noam int) []int {
	limits := make([]int, len(stages))
	limits[0] = noam
	return limits
}
