package pipeline

import (
	"context"
	"fmt"
	"math"
	"time"

	view "workbench/model/problem/pipeline"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ExactResult is what Exact found out.
type ExactResult struct {
	Plan *plan.Plan // the best k-periodic plan, nil: none better than the start
	// Bound: no k-periodic pattern processes mini-batches faster, seconds each.
	Bound float64
	// Every: no pattern processes mini-batches faster, however many a period
	// has, seconds each. 0: nothing is known.
	Every       float64
	Allocations int64 // partial and whole ones that were looked at
	Patterns    int64 // decisions about patterns of whole allocations
}

// Exact is a method of our own: it closes in on the least T/k of k-periodic patterns from both
// sides, by branch and bound. above is a time a mini-batch that is known to be possible, +Inf if
// none is; gap is the relative distance of plan and bound at which the search
// ends. It ends before when ctx does, with what it has by then; what it did up
// to there is the same each time.
//
// A pattern is k-periodic if it repeats after k mini-batches, so a 1-periodic one is.
// It can be stretched: what has no pattern of period T has none of a shorter one. A probe asks whether there is a pattern of period T. It lays out
// the chain from the first layer on, a processor a layer, as long as loads,
// links and memory leave it open whether the rest fits (see allocations). Each
// allocation that is left is scheduled, or it is proved that it has no pattern
// of that period (see circle). Exponential; each probe has a budget, which
// grows when all periods have been probed in vain.
//
// Every comes of probes that reckon with what holds for k-periodic patterns
// only, and that end where an allocation is left.
func Exact(ctx context.Context, c *chain.Chain, p platform.Platform, o Options, k int, above, gap float64) (*ExactResult, error) {
	o.Stop = ctx.Done()
	if k < 1 {
		return nil, fmt.Errorf("%w: patterns of %d mini-batches, a period has at least one", ErrOptions, k)
	}
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	x := &exact{in: in, ended: func() bool { return over(ctx) }, progress: o.Progress, k: k, upper: above, gap: max(gap, leastGap)}
	every := max(in.U[in.N]/float64(in.Procs), in.LargestLayer(), in.LayerMemory(), in.HeldMemory(), in.Runs(false, false)) * (1 - safe)
	x.climb, x.apart = newClimb(in, every, max(1, o.Threads), x.ended), o.Threads > 1
	x.climb.waited = !x.apart
	if x.lower = every; k == 1 {
		x.lower = max(x.lower, in.Runs(true, false)*(1-safe))
	}
	return x.run("branch-and-bound")
}

const (
	// firstBudget is the work of a probe in the first round.
	firstBudget = 1 << 18
	// safe is the relative rounding of a proof.
	safe = 1e-8
	// leastGap is the smallest gap that is asked for.
	leastGap = 5e-7
	// firstGap is what a probe asks first: mostly that is all there is to gain.
	firstGap = 0.02
	// grain is the relative width of an interval that a round leaves open.
	grain = 2e-3
	// climbs is the number of steps to the best, of what is proved for every k; none is shorter than grain.
	climbs = 20
)

// exact is a search for the least period.
type exact struct {
	in           *instance
	ended        func() bool
	progress     func(period, bound float64, allocations int64)
	climb        *climb // what holds for every k
	k            int
	lower, upper float64 // for k-periodic patterns
	gap          float64
	best         *view.Pattern // with T/k upper; nil: none of its own
	heavy        bool          // no layer is light
	apart        bool          // what holds for every k is found out by others at the same time

	allocations, decisions int64
}

func (x *exact) run(method string) (*ExactResult, error) {
	in := x.in
	if math.IsInf(x.upper, 1) {
		// One mini-batch after the other: what needs more memory than this needs
		// more than there is.
		x.upper = 2 * in.Latest()
		if a := x.probe(x.upper, firstBudget); a.proved() {
			return nil, &plan.Infeasible{
				Problem: plan.Pipeline, Memory: math.Floor(in.Memory) + 1, Given: in.Memory,
				Why: "no allocation fits even with one mini-batch at a time",
			}
		}
	}
	if x.apart {
		x.climb.known(x.upper)
		x.climb.goApart(x.gap)
	}
	for budget, every := int64(firstBudget), int64(firstBudget/8); !x.done() && budget < math.MaxInt64/64; {
		// What is known for every k and for k has work in turns; where more tells no more it is asked less often.
		if c := x.climb; c != nil && !x.apart && every <= budget/2 && c.every < x.upper*(1-grain) {
			before := c.every
			c.raise(every, grain, func() float64 { return x.upper }, x.heard)
			if every *= 4; c.every == before {
				every *= 4
			}
			continue
		}
		if short := x.round(budget); !short && !x.done() {
			if x.heavy {
				break // more work would not tell more
			}
			x.heavy = true
			if x.climb != nil && !x.apart {
				x.climb.leaveNothingOut()
			}
		}
		budget *= 4
	}
	x.finish()
	r := &ExactResult{Bound: x.lower, Allocations: x.allocations, Patterns: x.decisions}
	if x.climb != nil {
		r.Every = x.climb.every
	}
	if x.best != nil {
		r.Plan = x.best.Plan(in.Instance, method)
	}
	return r, nil
}

// finish lets what is known for every k come as far as it does.
func (x *exact) finish() {
	switch {
	case x.climb == nil:
	case x.apart:
		close(x.climb.alone)
		for news := range x.climb.news {
			x.heard(news)
		}
	default:
		x.climb.catchUp(func() float64 { return x.upper }, x.gap, x.heard)
	}
}

// heard takes in what has become known for every k.
func (x *exact) heard(every news) {
	x.lower = max(x.lower, every.bound)
	x.allocations += every.allocations
	x.tell()
}

// tell says what is known so far.
func (x *exact) tell() {
	if x.progress != nil {
		x.progress(x.upper, x.lower, x.allocations)
	}
}

func (x *exact) done() bool {
	for x.apart && len(x.climb.news) > 0 {
		x.heard(<-x.climb.news)
	}
	return x.upper*(1-x.gap) <= x.lower*(1+2*safe) || x.ended()
}

// round probes until the periods that it cannot decide are few. It reports
// whether it might have decided more with more work. Rounds after the first begin where there may be few
// allocations left: of these the best patterns come, even where they prove nothing (see leaf).
func (x *exact) round(budget int64) (short bool) {
	open := x.upper // the least period that has been found undecided
	for !x.done() {
		if open-x.lower <= grain*x.upper && open < x.upper {
			return short
		}
		test := (x.lower + open) / 2
		if open == x.upper && budget > firstBudget && x.lower < x.upper*(1-2*firstGap) {
			test = x.lower + (open-x.lower)/3
		} else if open == x.upper {
			// A large step, or what there is left to gain.
			for _, step := range []float64{firstGap, grain, x.gap} {
				if test = x.upper * (1 - step); test > x.lower*(1+leastGap/2) {
					break
				}
			}
		}
		switch a := x.probe(test, budget); {
		case a.found != nil:
			open = x.upper
		case a.proved():
			x.lower = test * (1 - safe)
		default:
			open = test
			short = short || a.short
		}
		open = min(open, x.upper)
		x.tell()
	}
	return short
}

// probe looks for a pattern of at most that time a mini-batch.
func (x *exact) probe(period float64, budget int64) *allocations {
	a := newAllocations(x.in, period, x.heavy, x.k, x.ended)
	a.budget, a.decide, a.below, a.first = budget, int(budget/128), x.upper, budget <= firstBudget
	a.run()
	for _, s := range []*view.Pattern{a.better, a.found} {
		if s != nil {
			x.best, x.upper = s, s.Rate()
			if x.apart {
				x.climb.known(x.upper)
			}
		}
	}
	x.allocations += a.nodes
	x.decisions += a.decisions
	return a
}

// over reports whether ctx has ended; its timer may be late on a busy machine.
func over(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	d, ok := ctx.Deadline()
	return ok && !time.Now().Before(d)
}
