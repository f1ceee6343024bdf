package pipeline

import (
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// searchSteps is the number of allocations that Search tries per layer.
const searchSteps = 60

// Search is a method of our own: local search over allocations, contiguous or not, each scheduled as in Schedule. It starts
// from the best of OneFOneBStar and MadPipe, or where these find nothing from an allocation that fits with one mini-batch at
// a time, and moves to the first neighbour with a shorter period (see neighbours), in a fixed order from where the last one
// was found. Where there are few allocations, all are scheduled. Then beam searches over allocations and local search
// alternate as long as they gain. At last the order of the operations of the best pattern is annealed, with up to 4
// mini-batches a period. The plan is never worse than the starting ones, nor than those of KPeriodic and eager 1F1B. A
// schedule a move, 60 moves a layer; O(200·n³) a beam. Where the platform has replicas, the plan is the better of PipeDream's
// with replicas and of the search without.
func Search(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	s := in.searched()
	if p.Replicas && (s == nil || !in.stopped()) {
		if x := in.replicated(); x != nil && (s == nil || x.Rate() < s.Rate()) {
			s = x
		}
	}
	return in.planOf("search", s)
}

// searched returns the best pattern of Search without replicas, nil if it finds none.
func (in *instance) searched() *view.Pattern {
	one := in.onePeriodic()
	s := in.severalAPeriod(one)
	if s == nil {
		return nil
	}
	starts := []*view.Pattern{s}
	if one != nil && one != s {
		starts = append(starts, one)
	}
	for _, x := range starts {
		if y := in.annealed(x, annealWork); y != nil && y.Rate() < s.Rate() {
			s = y
		}
	}
	return s
}

// SearchOnePeriodic is Search among 1-periodic patterns.
func SearchOnePeriodic(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	return in.planOf("search", in.onePeriodic())
}

// Several returns the best pattern of KPeriodic and Eager, which may have several
// mini-batches a period.
func Several(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	return in.planOf("k-periodic", in.severalAPeriod(nil))
}

// planOf returns a pattern as a plan, or the error that there is none.
func (in *instance) planOf(method string, s *view.Pattern) (*plan.Plan, error) {
	if s == nil {
		return nil, in.noPlan(method, "no contiguous allocation fits and no other was found")
	}
	return s.Plan(in.Instance, method), nil
}

// onePeriodic returns the best 1-periodic pattern it finds, nil if it finds none.
func (in *instance) onePeriodic() *view.Pattern {
	best := in.bestContiguous(0)
	in.report(best)
	if s := in.madPipe(FineGrid); s != nil && (best == nil || s.Rate() < best.Rate()) {
		best = s
	}
	if best == nil {
		best = in.squeezed()
	}
	in.report(best)
	s := in.tryAll(in.improve(best))
	for gained := s != nil; gained && !in.stopped(); {
		in.report(s)
		before := s.Rate()
		s = in.improve(in.beamSearch(s))
		gained = s.Rate() < before*(1-beamLast)
	}
	return s
}

// report calls Options.Better with s, if there is one.
func (in *instance) report(s *view.Pattern) {
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

// squeezed returns the pattern of the allocation that needs the minimum, one
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

func (in *instance) fewAllocations() bool {
	return math.Pow(float64(in.Procs), float64(in.N-1)) <= allAllocations
}

// tryAll schedules every allocation, if there are few, and returns the best
// pattern, s included.
func (in *instance) tryAll(s *view.Pattern) *view.Pattern {
	if !in.fewAllocations() {
		return s
	}
	below := math.Inf(1)
	if s != nil {
		below = s.Period
	}
	in.eachAllocation(func(stages []plan.Stage) {
		if s != nil && in.stopped() {
			return
		}
		if x := in.schedule(stages, below*(1-1e-6)); x != nil {
			s, below = x, x.Period
		}
	})
	return s
}

// eachAllocation lists all allocations. Processors are alike: they are numbered in the order of
// their first layers.
func (in *instance) eachAllocation(do func([]plan.Stage)) {
	stages := make([]plan.Stage, in.N)
	var place func(l, used int)
	place = func(l, used int) {
		if l > in.N {
			do(view.Merged(stages))
			return
		}
		for p := range min(used+1, in.Procs) {
			stages[l-1] = plan.Stage{Processor: p, From: l, To: l}
			place(l+1, max(used, p+1))
		}
	}
	place(1, 0)
}

// improve runs the local search from s.
func (in *instance) improve(s *view.Pattern) *view.Pattern {
	if s == nil {
		return nil
	}
	floor := max(in.U[in.N]/float64(in.Procs), in.Runs(true, false), in.HeldMemory())
	left := searchSteps * in.N
	at := 0
	for left > 0 && s.Rate() > floor*(1+1e-9) && !in.stopped() {
		near := neighbours(view.Merged(s.Stages), in.Procs)
		found := false
		for tried := 0; tried < len(near) && left > 0 && !found && !in.stopped(); tried++ {
			k := (at + tried) % len(near)
			left--
			if x := in.schedule(near[k], s.Period*(1-1e-6)); x != nil {
				s, found, at = x, true, k
			}
		}
		if !found {
			break
		}
	}
	return s
}
