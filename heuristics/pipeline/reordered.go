package pipeline

import (
	"workbench/heuristics/pipeline/moves"
	"workbench/heuristics/pipeline/reorder"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

const (
	// reorderedMost is how many mini-batches a period has at most that are put in another order.
	reorderedMost = 4
	// reorderedWork is the work of a search on each number of them: moves times operations, a fifth of a microsecond each. Reorder has more.
	reorderedWork = 1 << 18
	// reorderedNear is that of an allocation a move away, if it has a 1-periodic pattern that takes at most nearBy longer.
	reorderedNear, nearBy = 1 << 17, 0.08
	// leastMoves are needed to come anywhere.
	leastMoves = 1 << 10
	// reorderedHeat is how much worse an order may be at first.
	reorderedHeat = 0.02
)

// Reorder is a method of our own: from a plan that fits it looks for a shorter pattern of several mini-batches a period in other orders of the
// operations ([reorder.Run]), and then in allocations a move away, as long as that gains. The
// least period of one mini-batch is often known where one of three is 3 % shorter: the wait between F and B has to avoid what runs
// meanwhile on each processor, and modulo T it has little choice. It returns nil if it finds none. 1 to 3 s for the
// networks of [004], and up to half a minute for the allocations.
func Reorder(c *chain.Chain, pl platform.Platform, p *plan.Plan, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, pl, o)
	if err != nil {
		return nil, err
	}
	start := in.Pattern(p)
	best := in.reordered(start, 16*reorderedWork)
	if best == nil {
		best = start
	}
	for near := in.reorderedNear(best); near != nil; near = in.reorderedNear(best) {
		best = near
		if x := in.reordered(best, 4*reorderedWork); x != nil {
			best = x
		}
	}
	if best == start {
		return nil, nil
	}
	return best.Plan(in.Instance, "search"), nil
}

// reorderedNear returns a better pattern than s of an allocation a move away, nil if it finds none.
func (in *instance) reorderedNear(s *view.Pattern) *view.Pattern {
	for _, stages := range moves.Neighbours(view.Merged(s.Stages), in.Procs) {
		if in.stopped() {
			return nil
		}
		x := in.search(stages, s.Rate()*(1+nearBy))
		if x == nil {
			continue
		}
		for k := 1; k <= reorderedMost; k++ {
			if y := in.reorder(x, k, reorderedNear, s.Rate()); y != nil {
				return y
			}
		}
	}
	return nil
}

// reordered returns a better pattern than s, of up to reorderedMost mini-batches a period or those of s, nil if it finds none: first of
// stages as they are, then of layers apart, from s and from what was found.
func (in *instance) reordered(s *view.Pattern, work int) (best *view.Pattern) {
	below := s.Rate()
	try := func(x *view.Pattern, k int) {
		if y := in.reorder(x, k, work, below); y != nil {
			best, below = y, y.Rate()
		}
	}
	start := s
	for range 2 {
		for k := 1; k == 1 || k*s.K <= reorderedMost; k++ {
			try(start, k)
		}
		if best != nil {
			try(best.Apart(in.Instance), 1)
		}
		start = s.Apart(in.Instance)
	}
	return best
}

// reorder returns a pattern below a time a mini-batch that it finds from k times s, nil if it finds none or there is too little work for it.
func (in *instance) reorder(s *view.Pattern, k, work int, below float64) *view.Pattern {
	ways := work / (2 * len(s.Items) * s.K * k)
	if ways < leastMoves || in.stopped() {
		return nil
	}
	return reorder.Run(in.Instance, reorder.Repeated(s, k), reorder.Options{Moves: ways, Heat: reorderedHeat, Below: below, Seed: uint64(k)})
}
