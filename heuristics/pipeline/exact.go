package pipeline

import (
	"context"
	"math"
	"time"

	view "workbench/model/problem/pipeline"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// ExactResult is the result of Exact.
type ExactResult struct {
	Plan        *plan.Plan // the best 1-periodic plan, nil: none better than the start
	OnePeriodic DualBound  // on 1-periodic patterns
	AnyK        DualBound  // on all patterns
	Allocations int64      // partial and complete ones that were visited
	Patterns    int64      // decisions about patterns of complete allocations
}

// DualBound is a lower bound on the period of a mini-batch in seconds. Why says which argument excluded which part of the
// allocations at that period; it is empty for a bound in closed form.
type DualBound struct {
	Period float64
	Why    []proof.Share
}

// Exact is a method of our own: it closes in on the shortest period of 1-periodic patterns from both sides, by branch and
// bound over allocations and orders of operations. above is a period that is known to be possible, +Inf if none is; gap
// is the relative distance of plan and bound at which the search ends. It ends before when ctx does, with what it has by
// then. Exponential.
//
// A pattern can be stretched, so what has no pattern of period T has none of a shorter one. A probe asks whether there is
// a pattern of period T: it enumerates allocations (see enumeration) with a budget of work, which grows when all periods
// have been probed in vain. The bound for any k comes of probes with what holds for any k; it ends at a gap of anyKGap.
func Exact(ctx context.Context, c *chain.Chain, p platform.Platform, o Options, above, gap float64) (*ExactResult, error) {
	o.Stop = ctx.Done()
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	x := &exact{in: in, stop: func() bool { return ended(ctx) }, progress: o.Progress, upper: above, gap: max(gap, leastGap)}
	closed := max(in.Load(), in.LargestLayer(), in.LayerMemory(), in.HeldMemory(), in.Runs(false, false)) * (1 - safe)
	x.anyK = anyKBound{bound: DualBound{Period: closed}, open: math.Inf(1)}
	x.bound = DualBound{Period: max(closed, in.Runs(true, false)*(1-safe))}
	return x.run()
}

const (
	// firstBudget is the work of a probe in the first round.
	firstBudget = 1 << 18
	// safe is the relative rounding of a proof.
	safe = 1e-8
	// leastGap is the minimum gap.
	leastGap = 5e-7
	// firstStep is the relative step of the first probe; usually no more can be gained.
	firstStep = 0.02
	// resolution is the relative width of the interval of periods that a round leaves open.
	resolution = 2e-3
	// anyKGap is the gap at which the bound for any k is not raised further.
	anyKGap = 0.01
	// mostVain is the number of consecutive fourfold increases of work without progress after which
	// the bound for any k is final.
	mostVain = 2
)

// exact is a search for the shortest period.
type exact struct {
	in          *instance
	stop        func() bool
	progress    func(period, bound float64, allocations int64)
	anyK        anyKBound
	bound       DualBound
	upper, gap  float64
	best        *view.Pattern // with period upper; nil: none of its own
	exactLayers bool          // no layer is negligible

	allocations, decisions int64
}

func (x *exact) run() (*ExactResult, error) {
	in := x.in
	if math.IsInf(x.upper, 1) {
		// One mini-batch after the other: what needs more memory than this needs more than there is.
		x.upper = 2 * in.Latest()
		if e := x.probe(x.upper, firstBudget); e.proved() {
			return nil, &plan.Infeasible{
				Problem: plan.Pipeline, Memory: math.Floor(in.Memory) + 1, Given: in.Memory,
				Why: "no allocation fits even with one mini-batch at a time",
			}
		}
	}
	for budget := int64(firstBudget); !x.done() && budget < math.MaxInt64/64; budget *= 4 {
		x.raiseAnyK(budget / 8)
		if short := x.round(budget); !short && !x.done() {
			if x.exactLayers {
				break // more work would not prove more
			}
			x.exactLayers, x.anyK.open = true, math.Inf(1)
		}
	}
	for budget, vain := int64(firstBudget), 0; vain < mostVain && !x.stop() && x.raiseAnyK(budget) != converged; budget *= 4 {
		if vain++; x.anyK.raised {
			vain = 0
		}
	}
	r := &ExactResult{OnePeriodic: x.bound, AnyK: x.anyK.bound, Allocations: x.allocations, Patterns: x.decisions}
	if x.best != nil {
		r.Plan = x.best.Plan(in.Instance, "branch-and-bound")
	}
	return r, nil
}

func (x *exact) report() {
	if x.progress != nil {
		x.progress(x.upper, x.bound.Period, x.allocations)
	}
}

func (x *exact) done() bool {
	return platform.Closed(x.upper, x.bound.Period, x.gap+2*safe) || x.stop()
}

// round probes until the periods that it cannot decide are few. It reports whether it might have decided more with more
// work. Rounds after the first begin where there may be few allocations left: of these the best patterns come, even where
// they prove nothing (see enumeration.leaf).
func (x *exact) round(budget int64) (short bool) {
	open := x.upper // the shortest period that has been found undecided
	for !x.done() {
		if open-x.bound.Period <= resolution*x.upper && open < x.upper {
			return short
		}
		test := (x.bound.Period + open) / 2
		if open == x.upper && budget > firstBudget && x.bound.Period < x.upper*(1-2*firstStep) {
			test = x.bound.Period + (open-x.bound.Period)/3
		} else if open == x.upper {
			// A large step, or what there is left to gain.
			for _, step := range []float64{firstStep, resolution, x.gap} {
				if test = x.upper * (1 - step); test > x.bound.Period*(1+leastGap/2) {
					break
				}
			}
		}
		switch e := x.probe(test, budget); {
		case e.found != nil:
			open = x.upper
		case e.proved():
			x.bound = DualBound{test * (1 - safe), e.excluded.shares()}
		default:
			open = test
			short = short || e.short
		}
		open = min(open, x.upper)
		x.report()
	}
	return short
}

// probe looks for a pattern of at most that period.
func (x *exact) probe(period float64, budget int64) *enumeration {
	e := newEnumeration(x.in, period, x.exactLayers, false, budget, x.stop)
	e.pespBudget, e.below = int(budget/128), x.upper
	e.run()
	for _, s := range []*view.Pattern{e.better, e.found} {
		if s != nil {
			x.best, x.upper = s, s.Rate()
		}
	}
	x.allocations += e.nodes
	x.decisions += e.decisions
	return e
}

// anyKBound is what is known of patterns of any k.
type anyKBound struct {
	bound  DualBound
	open   float64 // the shortest period that is left open with any work
	raised bool    // by the last call of raiseAnyK
}

// convergence is how a bisection on the dual bound ended.
type convergence bool

const converged convergence = true

// raiseAnyK raises the bound for any k by bisection, each probe with that work, until plan and bound are within anyKGap
// or the periods that it cannot decide are few. It reports converged if more work would not raise it.
func (x *exact) raiseAnyK(budget int64) convergence {
	b := &x.anyK
	before := b.bound.Period
	open := min(x.upper, b.open)
	for !x.stop() && open-b.bound.Period > resolution*open && b.bound.Period < x.upper*(1-anyKGap) {
		test := (b.bound.Period + open) / 2
		e := newEnumeration(x.in, test, x.exactLayers, true, budget, x.stop)
		e.run()
		x.allocations += e.nodes
		if e.proved() {
			b.bound = DualBound{test * (1 - safe), e.excluded.shares()}
			if b.bound.Period > x.bound.Period {
				x.bound = b.bound
			}
		} else if open = test; !e.short {
			b.open = test
		}
		x.report()
	}
	b.raised = b.bound.Period > before
	return convergence(b.bound.Period >= x.upper*(1-anyKGap) || b.open-b.bound.Period <= resolution*b.open)
}

// ended reports whether ctx has ended; its timer may be late on a busy machine.
func ended(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	d, ok := ctx.Deadline()
	return ok && !time.Now().Before(d)
}
