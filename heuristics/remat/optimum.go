package remat

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
	"workbench/model/proof"
)

// limits are the work limits of a search.
type limits struct {
	// states is the maximum number of states of the search, some 200 bytes each; negative: no
	// search.
	states int
	// steps is the maximum number of steps of functions that each dynamic program may store, some
	// 60 bytes each.
	steps int
}

var optimumLimits = limits{states: 4 << 20, steps: 8 << 20}

// Optimum is our own method: it returns a plan with the proven minimum makespan of all valid plans.
// It first computes the best canonical plan and the lower bound of canonical plans (see canonical
// in optimum_canonical.go); if the two differ, A* over the stored states decides. Exponential in
// the worst case. If the plan is proved optimal, the bound is its makespan.
//
// start is the best known plan, or nil. A limit or the end of ctx yields the best plan and the best
// bound so far, with Proved false. The errors are a *plan.Infeasible, or wrap plan.ErrNoPlan if a
// limit was reached before any plan was found, or say why the chain or the memory is invalid.
func Optimum(ctx context.Context, c *chain.Chain, p platform.Platform, start *plan.Plan) (*proof.Optimum, error) {
	t, err := newOptimum(c, p, start, optimumLimits)
	if err != nil {
		return nil, err
	}
	return t.run(ctx)
}

func newOptimum(c *chain.Chain, p platform.Platform, start *plan.Plan, o limits) (*optimum, error) {
	v, err := model.New(c, p.Memory)
	if err != nil {
		return nil, err
	}
	t := &optimum{v: v, z: v.RoundedDown(runs(v.N)), c: c, p: p, o: o, time: math.Inf(1)}
	if start != nil {
		if start.Problem != Problem {
			return nil, fmt.Errorf("%s: the start is a plan for %s", Problem, start.Problem)
		}
		t.best, t.time = start, t.z.Time(start.Ops)
	}
	t.bound = t.z.Compute()
	return t, nil
}

func (t *optimum) run(ctx context.Context) (*proof.Optimum, error) {
	if !t.done() {
		if err := t.canonical(ctx); err != nil {
			return nil, err
		}
	}
	return t.result()
}

// runs returns how often a plan of minimum time computes a layer at most. Between two backwards
// each of the at most N values that are kept until the second has one line of ancestors, in which
// no layer occurs twice; what is in none is not needed. So there are N runs, times N backwards; a
// canonical plan has one sweep between two backwards. Sums of longer paths may be rounded, but not
// below an exact sum.
func runs(n int) int {
	if n <= maxSearched {
		return n * n
	}
	return n
}

// optimum is the state of a run of Optimum. Times are those of z, whose sums are exact: what is
// proved there is a bound on plans of v.
type optimum struct {
	v, z *model.View
	c    *chain.Chain
	p    platform.Platform
	o    limits

	best   *plan.Plan
	time   float64 // of best by z; +Inf if there is none
	bound  float64
	states int64
	search bool

	excluded proof.States // by the search
}

// done says whether the best plan is proved optimal.
func (t *optimum) done() bool { return t.time <= t.bound }

// updateIncumbent takes a plan of such operations if it is better than the best.
func (t *optimum) updateIncumbent(write func(q *model.Sequence)) {
	q := t.v.NewSequence()
	write(q)
	if time := t.z.Time(q.Ops); time < t.time {
		t.best, t.time = q.Plan("optimum", t.c, t.p), time
	}
}

func (t *optimum) result() (*proof.Optimum, error) {
	if t.best == nil {
		return nil, fmt.Errorf("%s: optimum: %w before a limit was reached; any plan takes at least %g s", Problem, plan.ErrNoPlan, t.bound)
	}
	r := &proof.Optimum{Plan: t.best, Proved: t.done(), States: int(t.states)}
	r.Raise(t.bound, "state")
	if r.Why = t.excluded.Shares(); len(r.Why) == 0 {
		r.Why = []proof.Share{{By: "dynamic program over canonical plans", Part: 1}}
	}
	return r, nil
}

// Memory resolutions of the dynamic programs: parts of the memory, then exact. The first takes
// little time and leaves a result if a limit ends the next.
var grains = [...]float64{100, 2000, 0}

// canonical runs the dynamic programs and, if need be, the search.
func (t *optimum) canonical(ctx context.Context) error {
	if need := 2 * canonicalBytes(t.v.N); need > maxTables {
		if t.best != nil {
			return nil // with the plain bound
		}
		return &TooLargeError{Need: need, Limit: maxTables, What: fmt.Sprintf("optimum on %d layers", t.v.N)}
	}
	low, high := newCanonical(ctx, t.z, false), newCanonical(ctx, t.z, true)
	if low.stopped || high.stopped {
		return nil
	}
	if !t.v.Fits(leastBound(low)) {
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
	if low.stopped || t.o.states < 0 || t.v.N > maxSearched {
		return nil
	}
	t.search = true
	high.reset()
	s := &optimumSearch{v: t.z, low: low, limit: t.o.states, upper: t.time}
	last, bound, done := s.run(ctx)
	t.states += int64(len(s.nodes))
	t.excluded = s.excluded
	if done && last < 0 && t.best == nil {
		return t.infeasible(ctx, low, high)
	}
	t.bound = max(t.bound, bound)
	if last >= 0 {
		t.updateIncumbent(func(q *model.Sequence) { s.build(q, last) })
	}
	return nil
}

// infeasible returns the error that no plan fits, with the minimum memory as far as known.
func (t *optimum) infeasible(ctx context.Context, low, high *canonical) error {
	least, _, proved := leastMemory(ctx, low, high, t.o.states)
	return t.v.TooLittle(max(least, t.v.Memory+1), whyLeast(proved))
}

// maxTables is the maximum memory for the tables of canonical, in bytes.
const maxTables = 1 << 30

// program runs a dynamic program with the memory divided into parts, 0: exactly.
func (t *optimum) program(d *canonical, parts float64) {
	d.reset()
	d.limit = int64(t.o.steps)
	if parts > 0 {
		d.grain = max(1, math.Floor(t.v.Memory/parts))
	}
	m := t.v.Memory - t.v.A[0]
	best := d.value(d.root(), m, t.time)
	t.states += d.steps
	if d.stopped {
		return
	}
	if !d.forwards {
		t.bound = max(t.bound, best.value)
	}
	if best.over || math.IsInf(best.value, 1) {
		return
	}
	q := t.v.NewSequence()
	d.build(q, d.root(), m, best.value)
	if !d.stopped && t.v.Fits(q.Peak) {
		t.updateIncumbent(func(o *model.Sequence) { *o = *q })
	}
}
