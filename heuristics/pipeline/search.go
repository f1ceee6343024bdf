package pipeline

import (
	"math"

	"workbench/heuristics/pipeline/moves"
	"workbench/heuristics/pipeline/sprint"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
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
// as long as they gain. At last many mini-batches of the best allocation, and of those near
// it, are scheduled by a list until that repeats itself (unroll): patterns of up to 6 mini-batches,
// whose stages may be interrupted. The plan is never worse than the starting ones, nor than
// those of KPeriodic and Eager. A schedule a move, 60 moves a layer; O(200·n³) a
// beam; 2 to 30 ms for each of at most 318 unrolled schedules, in all 2 s. Where the
// platform has replicas it is [searchReplicated].
func Search(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	if p.Replicas {
		return in.searched("search", in.searchReplicated())
	}
	return in.searched("search", in.straight())
}

// straight returns the best pattern of Search without replicas, nil if it finds none.
func (in *instance) straight() *view.Pattern {
	one := in.onePeriodic()
	s := in.unroll(in.severalAPeriod(one), unrolledMost, unrolledMoves)
	if s == nil {
		return nil
	}
	starts := []*view.Pattern{s}
	if one != nil && one != s {
		starts = append(starts, one)
	}
	for _, x := range starts {
		if y := in.reordered(x, reorderedWork); y != nil && y.Rate() < s.Rate() {
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
		s = in.improve(in.beamSearch(s))
		gained = s.Rate() < before*(1-beamLast)
	}
	return in.unroll(s, 1, 0)
}

const (
	// unrolledMost is how many mini-batches a period of an unrolled schedule has at most.
	unrolledMost = 6
	// unrolledMoves is how many allocations near the best are unrolled.
	unrolledMoves = 300
	// unrolledWays is the work on all of them: a microsecond each.
	unrolledWays = 1 << 21
)

// unroll returns the best of s and what unrolled list schedules find, of up to k mini-batches a
// period: 18 of the allocation of s, layers together or apart, and one each of up to so many
// others, a move away or, if there are few, all.
func (in *instance) unroll(s *view.Pattern, k, others int) *view.Pattern {
	if s == nil {
		return nil
	}
	floor := max(in.U[in.N]/float64(in.Procs), in.LargestLayer(), in.HeldMemory())
	ways := unrolledWays
	try := func(stages []plan.Stage, part, together, late float64) bool {
		if in.stopped() || s.Rate() <= floor*(1+1e-6) {
			return false
		}
		period := max(s.Rate()*part, floor)
		x := sprint.Run(in.Instance, stages, sprint.Options{Period: period, Together: together * period, Late: late, Most: k, Below: s.Rate() * (1 - 1e-6), Ways: &ways})
		if x != nil {
			s = x
		}
		return x != nil
	}
	for _, part := range []float64{0.96, 0.985, 1.015} {
		for _, together := range []float64{2, 0.15, 0.05} {
			try(s.Stages, part, together, 0.25)
			try(s.Stages, part, together, 0.5)
		}
	}
	if in.fewAllocations() && others > 0 {
		in.eachAllocation(func(stages []plan.Stage) {
			try(stages, 0.96, 0.05, 0.25)
			try(stages, 1, 0.05, 1)
		})
		return s
	}
	for found := true; found && others > 0; {
		found = false
		for _, x := range moves.Neighbours(view.Merged(s.Stages), in.Procs) {
			if others--; found || others < 0 {
				break
			}
			found = try(x, 0.985, 0.15, 0.25)
		}
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

// improve is the local search from s.
func (in *instance) improve(s *view.Pattern) *view.Pattern {
	if s == nil {
		return nil
	}
	floor := max(in.U[in.N]/float64(in.Procs), in.Runs(true, false), in.HeldMemory())
	left := searchSteps * in.N
	at := 0
	for left > 0 && s.Rate() > floor*(1+1e-9) && !in.stopped() {
		near := moves.Neighbours(view.Merged(s.Stages), in.Procs)
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
