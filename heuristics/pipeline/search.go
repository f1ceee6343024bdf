package pipeline

import (
	"math"
	"slices"

	"workbench/model/chain"
	view "workbench/model/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
)

// searchSteps is how many allocations Search looks at per layer.
const searchSteps = 60

// Search is a method of our own: local search over allocations, contiguous or not,
// each scheduled as in Schedule. It starts from the best of OneFOneBStar and
// MadPipe, or where these find nothing from an allocation that fits with one
// mini-batch at a time, and moves to an allocation as soon as that has a smaller
// period: one that shifts the cut between two stages by a layer, gives a stage
// to another processor, exchanges the processors of two stages, or takes the
// first or last part of a stage off to another processor. Moves are tried in a
// fixed order, from where the last one was found. Where there are few
// allocations, all are scheduled. Then beam searches and local search take turns
// as long as they gain. The plan is never worse than the starting ones, nor than
// those of KPeriodic and Eager. A schedule a move, 60 moves a layer; O(200·n³) a
// beam.
func Search(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	return in.searched("search", in.severalAPeriod(in.onePeriodic()))
}

// SearchOnePeriodic is Search among 1-periodic patterns.
func SearchOnePeriodic(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	return in.searched("search", in.onePeriodic())
}

// Several returns the best pattern of KPeriodic and Eager, which may have several
// mini-batches a period.
func Several(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	return in.searched("k-periodic", in.severalAPeriod(nil))
}

func (in *instance) searched(method string, s *view.Pattern) (*plan.Plan, error) {
	if s == nil {
		return nil, in.noPlan(method, "no contiguous allocation fits and no other was found")
	}
	return s.Plan(in.Instance, method), nil
}

// onePeriodic returns the best 1-periodic pattern it finds, nil if it finds none.
func (in *instance) onePeriodic() *view.Pattern {
	best := in.bestContiguous(0)
	in.tell(best)
	if s := in.madPipe(FineGrid); s != nil && (best == nil || s.Rate() < best.Rate()) {
		best = s
	}
	if best == nil {
		best = in.squeezed()
	}
	in.tell(best)
	s := in.tryAll(in.improve(best))
	for gained := s != nil; gained && !in.stopped(); {
		in.tell(s)
		before := s.Rate()
		s = in.improve(in.shorten(s))
		gained = s.Rate() < before*(1-beamLast)
	}
	return s
}

// tell says that s, if there is one, is the best pattern.
func (in *instance) tell(s *view.Pattern) {
	if s != nil && in.better != nil {
		in.better(s.Plan(in.Instance, "search"))
	}
}

// severalAPeriod returns the best of s and the patterns of several mini-batches a
// period of KPeriodic and Eager.
func (in *instance) severalAPeriod(s *view.Pattern) *view.Pattern {
	for k := 1; k < 2*in.Procs && (s == nil || !in.stopped()); k++ {
		if x := in.bestContiguous(k); x != nil && (s == nil || x.Rate()*float64(k+1)/float64(k) < s.Rate()*(1-view.Rounding)) {
			s = cancelled(x, k)
		}
	}
	if s != nil && in.stopped() {
		return s
	}
	if x := in.bestEager(); x != nil && (s == nil || x.Rate() < s.Rate()*(1-view.Rounding)) {
		s = x
	}
	return s
}

// squeezed returns the pattern of the allocation that needs least, one
// mini-batch after the other, or nil if that does not fit.
func (in *instance) squeezed() *view.Pattern {
	least := in.Least()
	if !in.Fits(least.High) {
		return nil
	}
	if s := in.OneByOne(least.Allocation); in.Fits(s.Peak(in.Instance)) {
		return s
	}
	return nil
}

// allAllocations is the number of allocations up to which all are scheduled.
const allAllocations = 1000

// tryAll schedules every allocation, if there are few, and returns the best
// pattern, s included. Processors are alike: they are numbered in the order of
// their first layers.
func (in *instance) tryAll(s *view.Pattern) *view.Pattern {
	if math.Pow(float64(in.Procs), float64(in.N-1)) > allAllocations {
		return s
	}
	below := math.Inf(1)
	if s != nil {
		below = s.Period
	}
	stages := make([]plan.Stage, in.N)
	var place func(l, used int)
	place = func(l, used int) {
		if s != nil && in.stopped() {
			return
		}
		if l > in.N {
			if x := in.schedule(view.Merged(stages), below*(1-1e-6)); x != nil {
				s, below = x, x.Period
			}
			return
		}
		for p := range min(used+1, in.Procs) {
			stages[l-1] = plan.Stage{Processor: p, From: l, To: l}
			place(l+1, max(used, p+1))
		}
	}
	place(1, 0)
	return s
}

// improve is the local search from s.
func (in *instance) improve(s *view.Pattern) *view.Pattern {
	if s == nil {
		return nil
	}
	floor := max(in.U[in.N]/float64(in.Procs), in.Runs(true, false), in.HeldMemory())
	left := searchSteps * in.N
	at := 0
	for left > 0 && s.Rate() > floor*(1+1e-9) && !in.stopped() {
		moves := in.neighbours(view.Merged(s.Stages))
		found := false
		for tried := 0; tried < len(moves) && left > 0 && !found && !in.stopped(); tried++ {
			k := (at + tried) % len(moves)
			left--
			if x := in.schedule(moves[k], s.Period*(1-1e-6)); x != nil {
				s, found, at = x, true, k
			}
		}
		if !found {
			break
		}
	}
	return s
}

// neighbours lists the allocations one move away.
func (in *instance) neighbours(stages []plan.Stage) [][]plan.Stage {
	var list [][]plan.Stage
	add := func(s []plan.Stage) { list = append(list, view.Merged(s)) }
	for k, s := range stages {
		if k > 0 {
			if s.From < s.To {
				x := slices.Clone(stages)
				x[k-1].To++
				x[k].From++
				add(x)
			}
			if prev := stages[k-1]; prev.From < prev.To {
				x := slices.Clone(stages)
				x[k-1].To--
				x[k].From--
				add(x)
			}
		}
		for p := range in.Procs {
			if p != s.Processor {
				x := slices.Clone(stages)
				x[k].Processor = p
				add(x)
			}
		}
		for m := k + 1; m < len(stages); m++ {
			if stages[m].Processor != s.Processor {
				x := slices.Clone(stages)
				x[k].Processor, x[m].Processor = x[m].Processor, x[k].Processor
				add(x)
			}
		}
		for l := s.From; l < s.To; l++ {
			for p := range in.Procs {
				if p == s.Processor {
					continue
				}
				head, tail := slices.Clone(stages), slices.Clone(stages)
				head[k].From, tail[k].To = l+1, l
				add(slices.Insert(head, k, plan.Stage{Processor: p, From: s.From, To: l}))
				add(slices.Insert(tail, k+1, plan.Stage{Processor: p, From: l + 1, To: s.To}))
			}
		}
	}
	return list
}
