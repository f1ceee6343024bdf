package remat

import (
	"context"
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// OptimumOptions limit the work of [Optimum]. Zero fields stand for defaults.
type OptimumOptions struct {
	// States is the most states that the search may reach, some 200 bytes each;
	// default 4 million. Negative: no search.
	States int
	// Steps is the most steps of functions that each dynamic program may keep,
	// some 60 bytes each; default 8 million.
	Steps int
}

// OptimumResult is what [Optimum] found.
type OptimumResult struct {
	Plan *plan.Plan // the best plan
	// Bound is a proven lower bound on the makespan of every plan, in seconds;
	// the plan's own makespan if Proved.
	Bound  float64
	Proved bool // the plan is optimal
	// Search says whether the search was needed: the bound of canonical plans
	// did not meet the best of them.
	Search bool
	States int64 // steps of functions and states of the search that were visited
}

// optimal is how close makespan and bound are when they are called equal: sums
// of times in different order differ by rounding.
const optimal = 1e-12

// roomy allows for the rounding of sums of sizes. It is far below what a
// verifier forgives.
func roomy(memory float64) float64 { return memory * (1 + 1e-12) }

// Optimum returns a plan of least makespan among all plans that the rules
// allow, with proof. It first computes the best canonical plan and the lower
// bound of canonical plans (see the comment of canonical in
// optimum_canonical.go); where the two differ, A* over the stored states
// decides.
//
// start is the best plan known, or nil. A limit in o or the end of ctx yield
// the best plan and the best bound so far, Proved being false. The errors are a
// *plan.Infeasible, or wrap plan.ErrNoPlan if a limit came before any plan was
// found, or say what is wrong with the chain or the memory.
func Optimum(ctx context.Context, c *chain.Chain, p platform.Platform, start *plan.Plan, o OptimumOptions) (*OptimumResult, error) {
	if err := checkOptimum(c, p.Memory); err != nil {
		return nil, err
	}
	t := &optimum{v: newView(c), c: c, p: p, memory: roomy(p.Memory), o: o.defaults(), time: math.Inf(1)}
	if start != nil {
		if start.Problem != Problem {
			return nil, fmt.Errorf("%s: the start is a plan for %s", Problem, start.Problem)
		}
		t.best, t.time = start, start.Claims.Makespan
	}
	t.bound = c.TotalTime()
	if !t.done() {
		if err := t.canonical(ctx); err != nil {
			return nil, err
		}
	}
	return t.result()
}

func (o OptimumOptions) defaults() OptimumOptions {
	if o.States == 0 {
		o.States = 4 << 20
	}
	if o.Steps <= 0 {
		o.Steps = 8 << 20
	}
	return o
}

func checkOptimum(c *chain.Chain, memory float64) error {
	if c == nil {
		return fmt.Errorf("%s: there is no chain", Problem)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	if !(memory >= 0) {
		return fmt.Errorf("%s: memory is %v bytes, it must not be negative", Problem, memory)
	}
	return nil
}

// optimum is the state of a run of Optimum.
type optimum struct {
	v      *view
	c      *chain.Chain
	p      platform.Platform
	memory float64
	o      OptimumOptions

	best   *plan.Plan
	time   float64 // of best; +Inf if there is none
	bound  float64
	states int64
	search bool
}

// done says whether the best plan is proved optimal.
func (t *optimum) done() bool { return t.time <= t.bound*(1+optimal) }

// offer takes a plan if it is better than the best.
func (t *optimum) offer(q *sequence) {
	if q.time < t.time {
		t.best, t.time = q.plan("optimum", t.c, t.p), q.time
	}
}

func (t *optimum) result() (*OptimumResult, error) {
	if t.best == nil {
		return nil, fmt.Errorf("%s: optimum: %w before a limit was reached; any plan takes at least %g s", Problem, plan.ErrNoPlan, t.bound)
	}
	r := &OptimumResult{Plan: t.best, Bound: min(t.bound, t.time), Proved: t.done(), Search: t.search, States: t.states}
	if r.Proved {
		r.Bound = t.time
	}
	return r, nil
}

// Grains of the dynamic programs: memory is rounded to so many parts, then not
// at all. The first takes little time and leaves something for limits.
var grains = [...]float64{100, 2000, 0}

// canonical runs the dynamic programs and, if need be, the search.
func (t *optimum) canonical(ctx context.Context) error {
	if need := 2 * canonicalBytes(t.v.n); need > maxTables {
		if t.best != nil {
			return nil // with the plain bound
		}
		return &TooLargeError{Need: need, Limit: maxTables, What: fmt.Sprintf("optimum on %d layers", t.v.n)}
	}
	low, high := newCanonical(ctx, t.v, false), newCanonical(ctx, t.v, true)
	if low.stopped || high.stopped {
		return nil
	}
	if leastBound(low) > t.memory {
		return t.infeasible(ctx, low, high)
	}
	for _, parts := range grains {
		for _, d := range [...]*canonical{low, high} {
			t.program(d, parts)
			if t.done() {
				return nil
			}
		}
	}
	if low.stopped || t.o.States < 0 || t.v.n > maxSearched {
		return nil
	}
	t.search = true
	high.reset()
	s := &optimumSearch{v: t.v, low: low, memory: t.memory, limit: t.o.States, upper: t.time * (1 - optimal)}
	last, bound, done := s.run(ctx)
	t.states += int64(len(s.nodes))
	if done && last < 0 && t.best == nil {
		return t.infeasible(ctx, low, high)
	}
	t.bound = max(t.bound, min(bound, t.time))
	if last >= 0 {
		q := newSequence(t.v)
		s.build(q, last)
		t.offer(q)
		t.bound = t.time
	}
	return nil
}

// infeasible returns the error that no plan fits, with the least memory as far as
// it is known.
func (t *optimum) infeasible(ctx context.Context, low, high *canonical) error {
	least, _, proved, err := leastMemory(ctx, low, high, t.o.States)
	if err != nil {
		return err
	}
	why := "the least peak of any plan"
	if !proved {
		why = "a lower bound on the peak of any plan"
	}
	return &plan.Infeasible{Problem: Problem, Memory: max(least, above(t.memory)), Given: t.p.Memory, Why: why}
}

// maxTables is the most memory for the tables of canonical, in bytes.
const maxTables = 1 << 30

// program runs a dynamic program with memory in so many parts, 0: exactly.
func (t *optimum) program(d *canonical, parts float64) {
	d.reset()
	d.limit = int64(t.o.Steps)
	if parts > 0 {
		d.grain = t.memory / parts
	}
	m := t.memory - t.v.a[0]
	best := d.at(d.root(), m, t.time)
	t.states += d.steps
	if d.stopped {
		return
	}
	if !d.forwards {
		t.bound = max(t.bound, min(best.value, t.time))
	}
	if best.over || math.IsInf(best.value, 1) {
		return
	}
	q := newSequence(t.v)
	d.build(q, d.root(), m, best.value, false)
	if !d.stopped && q.peak <= t.memory {
		t.offer(q)
	}
}
