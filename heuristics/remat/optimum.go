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

// limits are those of the work of a search.
type limits struct {
	// states is the most states that the search may reach, some 200 bytes each; negative: no
	// search.
	states int
	// steps is the most steps of functions that each dynamic program may keep, some 60
	// bytes each.
	steps int
}

var optimumLimits = limits{states: 4 << 20, steps: 8 << 20}

// Optimum is a method of our own: it returns a plan of least makespan among all
// plans that the rules allow, with proof. It first computes the best canonical plan
// and the lower bound of canonical plans (see the comment of canonical in
// optimum_canonical.go); where the two differ, A* over the stored states decides.
// Exponential at worst. The bound is the plan's own makespan where that is proved.
//
// start is the best plan known, or nil. A limit or the end of ctx yield
// the best plan and the best bound so far, Proved being false. The errors are a
// *plan.Infeasible, or wrap plan.ErrNoPlan if a limit came before any plan was
// found, or say what is wrong with the chain or the memory.
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

// runs is how often a plan of least time computes a layer at most. Between two
// backwards each of the at most N values that are kept until the second has one
// line of ancestors, in which no layer occurs twice; what is in none is not
// needed. So there are N runs, times N backwards; a canonical plan has one sweep
// between two backwards. Sums of paths that are longer than that may be rounded,
// but not below what is exact.
func runs(n int) int {
	if n <= maxSearched {
		return n * n
	}
	return n
}

// optimum is the state of a run of Optimum. Times are those of z, of which sums
// are exact: what is proved there is a bound on plans of v.
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

// Grains of the dynamic programs: memory is rounded to so many parts, then not
// at all. The first takes little time and leaves something for limits.
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

// infeasible returns the error that no plan fits, with the least memory as far as
// it is known.
func (t *optimum) infeasible(ctx context.Context, low, high *canonical) error {
	least, _, proved := leastMemory(ctx, low, high, t.o.states)
	return t.v.TooLittle(max(least, t.v.Memory+1), whyLeast(proved))
}

// maxTables is the most memory for the tables of canonical, in bytes.
const maxTables = 1 << 30

// program runs a dynamic program with memory in so many parts, 0: exactly.
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
