package checkmate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"workbench/model/graph"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/stages"
	"workbench/solvers"
)

// Result is what Solve found.
type Result struct {
	Plan *plan.Plan // the best one found; nil: none
	// Bound is a proven lower bound in seconds on the makespan of every plan
	// that keeps the Assumptions, By who proved it. There are none where the
	// bound holds for all plans. Loose is the part of it that does not need
	// stages.InStages.
	Bound, Loose float64
	By           string
	Assumptions  []string
	Rounds       int             // models solved
	Nodes        int64           // of all of them
	Result       *solvers.Result // of the last one
	Model        *milp.Model     // the last one; nil: none was needed
}

// Gap returns (makespan − bound) / makespan; 1 without a plan.
func (r *Result) Gap() float64 {
	if r.Plan == nil {
		return 1
	}
	return solvers.Gap(r.Plan.Claims.Makespan, r.Bound)
}

// roughGap is the gap to which models are solved as long as their solutions
// make no plans that fit.
const roughGap = 0.002

// Solve finds a plan of a graph and a bound on all plans. A verified
// plan, if there is one, is where it starts. A limit in o ends the search with
// what there is. The error is a *plan.Infeasible if one computation alone needs
// more than the memory, and wraps plan.ErrNoPlan if no schedule of stages fits.
//
// It solves Strong without the stages of the forward phase and without
// the memory rows of recomputations, both of which rarely matter: a
// relaxation, in which many values need not be considered. Where the plan of
// a solution exceeds the memory, the rows that it breaks are added and the model
// is solved again, from a repaired plan.
func Solve(ctx context.Context, b solvers.Backend, g *graph.Graph, p platform.Platform, start *plan.Plan, o solvers.Options) (*Result, error) {
	in, err := newInstance(g, p)
	if err != nil {
		return nil, err
	}
	if err := in.atMost(MostRelaxed); err != nil {
		return nil, err
	}
	c := &search{instance: in, backend: b, o: o, ctx: ctx}
	if o.Time > 0 {
		c.deadline = time.Now().Add(o.Time)
	}
	c.known()
	c.adopt(in.StoreAll())
	if start != nil {
		s, err := in.read(start)
		if err != nil {
			return nil, err
		}
		c.adopt(s)
	}
	s := in.StoreAll()
	if err := in.evict(s, c.over); err == nil {
		c.adopt(s)
	}
	if err := c.both(); err != nil {
		return nil, err
	}
	return c.result("checkmate-strong"), nil
}

// SolvePrinted solves the paper's model as it is, from a verified plan if
// there is one: what Solve is to be compared with.
func SolvePrinted(ctx context.Context, b solvers.Backend, g *graph.Graph, p platform.Platform, start *plan.Plan, o solvers.Options) (*Result, error) {
	in, err := newInstance(g, p)
	if err != nil {
		return nil, err
	}
	if err := in.atMost(MostCheckmate); err != nil {
		return nil, err
	}
	c := &search{instance: in, backend: b, o: o, ctx: ctx}
	c.known()
	f := buildPrinted(in)
	if start != nil {
		s, err := in.read(start)
		if err != nil {
			return nil, err
		}
		c.adopt(s)
		if b.Can()&solvers.CanStart != 0 {
			o.Start = f.values(s)
		}
	}
	if o.OnProgress != nil && b.Can()&solvers.CanProgress != 0 {
		o.OnProgress = func(p solvers.Progress) {
			if p.X != nil {
				c.adopt(f.schedule(p.X))
			}
			c.raise(p.Bound, f.m, true, "branch and bound", b.Name())
			c.report(p)
		}
	}
	r, err := b.Solve(ctx, f.m, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	c.rounds, c.nodes, c.last, c.model = 1, r.Nodes, r, f.m
	if r.Status == solvers.Infeasible && c.best == nil {
		return nil, c.noPlan(f.m.Name(), r.Backend)
	}
	c.raise(r.Bound, f.m, true, r.BoundBy, r.Backend)
	if x, ok := r.Solution(); ok {
		c.adopt(f.schedule(x))
	}
	return c.result("checkmate"), nil
}

// search is a run of Solve. Costs are in the units of the
// models.
type search struct {
	*instance
	ctx      context.Context
	backend  solvers.Backend
	o        solvers.Options
	deadline time.Time // zero: none

	mu    sync.Mutex
	best  *stages.Schedule // fits; nil: none
	cost  float64          // of it
	bound float64
	loose float64
	by    string

	// forward says that the bound comes from a model of the forward phase, too,
	// and so assumes its order.
	forward bool

	rows   [][2]int // memory rows asked for, by stage and node
	rounds int
	nodes  int64
	last   *solvers.Result
	model  *milp.Model // of last
}

// known begins with the bound that needs no model.
func (c *search) known() {
	b := c.TimeBound(c.platform.Memory)
	c.bound, c.by = b.Seconds/c.unit, b.Why
	c.loose = c.bound
}

// left returns the time left and whether there is any.
func (c *search) left() (time.Duration, bool) {
	if c.ctx.Err() != nil {
		return 0, false
	}
	if c.deadline.IsZero() {
		return 0, true
	}
	d := time.Until(c.deadline)
	return d, d > 10*time.Millisecond
}

// over reports whether the search must end.
func (c *search) over() bool { _, ok := c.left(); return !ok }

// gap is the gap that the caller is content with.
func (c *search) gap() float64 {
	if c.o.RelGap.Set {
		return c.o.RelGap.Value
	}
	return 0
}

// closed reports whether the best plan is proved to be good enough.
func (c *search) closed(gap float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best != nil && c.cost-c.bound <= max(gap, plan.Tolerance)*c.cost
}

// adopt makes s the best schedule if it fits and is better.
func (c *search) adopt(s *stages.Schedule) bool {
	if !c.fits(s) {
		return false
	}
	cost := s.Cost() / c.unit
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.best == nil || cost < c.cost {
		c.best, c.cost = s.Clone(), cost
	}
	return true
}

// broken returns the computations of s that exceed the memory, by stage and
// node.
func (c *search) broken(s *stages.Schedule) (rows [][2]int) {
	for t := range c.n {
		if m, i := s.StagePeak(t); !platform.Fits(m, c.platform.Memory) {
			rows = append(rows, [2]int{t, i})
		}
	}
	return rows
}

// both runs the search for bounds and the one for better schedules: beside
// each other if there are two threads, as the search of HiGHS uses but one;
// else that for schedules first, in a fifth of the time.
func (c *search) both() error {
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	if c.o.Threads.Value < 2 {
		if c.o.Time > 0 {
			ctx, cancel = context.WithTimeout(ctx, c.o.Time/5)
			defer cancel()
		}
		if err := c.improve(ctx); err != nil {
			return err
		}
		return c.run()
	}
	c.o.Threads.Value--
	done := make(chan error)
	go func() {
		for c.incumbent() == nil && ctx.Err() == nil && !c.over() {
			time.Sleep(20 * time.Millisecond)
		}
		done <- c.improve(ctx)
	}()
	err := c.run()
	if err != nil || c.closed(c.gap()) || c.over() || c.incumbent() == nil {
		cancel()
	}
	if other := <-done; err == nil {
		err = other
	}
	return err
}

// run solves models until the gap is closed, a limit comes, or there is
// nothing more to ask.
func (c *search) run() error {
	gap := max(c.gap(), roughGap)
	for !c.closed(c.gap()) {
		left, ok := c.left()
		if !ok {
			return nil
		}
		f := buildStrong(c.instance, Options{Backward: true, Ends: true, Contract: true, Rows: c.rows})
		s, done, err := c.round(f, gap, left)
		if err != nil {
			return err
		}
		switch {
		case s == nil:
			return nil // a limit
		case c.adopt(s):
			if done && gap <= c.gap() {
				return nil
			}
			gap = c.gap()
		default:
			before := len(c.rows)
			for _, x := range c.broken(s) {
				if f.holds(x) && !slices.Contains(c.rows, x) {
					c.rows = append(c.rows, x)
				}
			}
			if err := c.repair(s); err != nil {
				return err
			}
			if len(c.rows) == before {
				if gap <= c.gap() {
					return c.exact() // nothing more to ask of this model
				}
				gap = c.gap()
			}
		}
	}
	return nil
}

// mostExact is the largest number of nodes of which the exact model is solved:
// it has up to n³/6 entries.
const mostExact = 120

// exact solves the exact model, which leaves nothing open but takes longer.
func (c *search) exact() error {
	left, ok := c.left()
	if !ok || c.n > mostExact {
		return nil
	}
	s, _, err := c.round(buildStrong(c.instance, Options{}), c.gap(), left)
	if err == nil && s != nil {
		c.adopt(s)
	}
	return err
}

// round solves one model from the best schedule and returns that of its
// solution, nil if there is none, and whether the search came to its end.
func (c *search) round(f *strong, gap float64, left time.Duration) (*stages.Schedule, bool, error) {
	o := c.o
	if !c.deadline.IsZero() {
		o.Time = left
	}
	o.RelGap = solvers.Some(gap)
	o.Start = nil
	best := c.incumbent()
	if best != nil && c.backend.Can()&solvers.CanStart != 0 {
		o.Start = f.values(best)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	if c.backend.Can()&solvers.CanProgress != 0 {
		o.OnProgress = func(p solvers.Progress) {
			if p.X != nil {
				c.adopt(f.schedule(p.X))
			}
			c.prove(p.Bound, f, "branch and bound", c.backend.Name())
			if c.closed(c.gap()) {
				cancel()
			}
			if c.o.OnProgress != nil {
				c.report(p)
			}
		}
	}
	r, err := c.backend.Solve(ctx, f.m, o)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	c.rounds++
	c.nodes += r.Nodes
	c.last, c.model = r, f.m
	switch r.Status {
	case solvers.Infeasible:
		if best == nil {
			return nil, false, c.noPlan(f.m.Name(), r.Backend)
		}
		return nil, false, nil // a plan says otherwise: no answer
	case solvers.Unbounded, solvers.InfeasibleOrUnbounded:
		return nil, false, nil // times are bounded: no answer
	}
	c.prove(r.Bound, f, r.BoundBy, r.Backend)
	x, ok := r.Solution()
	if !ok {
		return nil, false, nil
	}
	return f.schedule(x), r.Status == solvers.Optimal, nil
}

// noPlan is the error of a model without solution, which proves nothing about
// plans that are no schedules of stages.
func (in *instance) noPlan(model, by string) error {
	return fmt.Errorf("%w: %s proves that %s has no solution within %.0f bytes, so that no schedule of stages fits", plan.ErrNoPlan, by, model, in.platform.Memory)
}

// raise notes a bound that is proven for model m, which may be one of the
// forward phase, too.
func (c *search) raise(bound float64, m *milp.Model, forward bool, by, backend string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if math.IsInf(bound, 0) || !(bound > c.bound) {
		return
	}
	c.forward = forward
	c.bound, c.by = bound, fmt.Sprintf("%s (%s, %s)", m.Name(), by, backend)
}

// prove notes a bound that is proven for f.
func (c *search) prove(bound float64, f *strong, by, backend string) {
	c.raise(bound, f.m, !f.o.Backward, by, backend)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.o.Ends && len(f.o.Rows) == 0 && !math.IsInf(bound, 0) && bound > c.loose {
		c.loose = bound
	}
}

// incumbent returns the best schedule, nil if there is none. It is not to be
// changed.
func (c *search) incumbent() *stages.Schedule {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best
}

// report passes progress on, in seconds and with the best plan that fits.
func (c *search) report(p solvers.Progress) {
	p.X = nil
	p.Objective = math.NaN()
	c.mu.Lock()
	p.Bound = c.bound * c.unit
	if c.best != nil {
		p.Objective = c.cost * c.unit
	}
	c.mu.Unlock()
	p.Gap = solvers.Gap(p.Objective, p.Bound)
	c.o.OnProgress(p)
}

// neighbourTime is what one neighbourhood may take.
const neighbourTime = 20 * time.Second

// repair looks for a schedule that fits near s, which does not: it frees the
// stages around those that exceed the memory, more and more of them.
func (c *search) repair(s *stages.Schedule) error {
	for width := 2; width <= 64; width *= 2 {
		broken := c.broken(s)
		if len(broken) == 0 {
			c.adopt(s)
			return nil
		}
		open := make([]bool, c.n+1)
		for _, x := range broken {
			for t := max(0, x[0]-width); t <= min(c.n-1, x[0]+width); t++ {
				open[t] = true
			}
		}
		if _, ok := c.left(); !ok {
			return nil
		}
		better, err := c.neighbour(c.ctx, s, open, false)
		if err != nil {
			return err
		}
		if better != nil {
			s = better
		}
	}
	return nil
}

// improve looks for better schedules near the best one until the context ends
// or nothing is found any more: it frees one window of stages after the other,
// and wider ones once those have no more to give.
func (c *search) improve(ctx context.Context) error {
	first := 0
	for t := range c.n {
		if !c.Once[t] {
			first = t + 1
		}
	}
	for width := 8; width < 2*(c.n-first); width *= 2 {
		for better := true; better; {
			better = false
			for from := first; from < c.n; from += width / 2 {
				open := make([]bool, c.n+1)
				for t := from; t < min(c.n, from+width); t++ {
					open[t] = true
				}
				s := c.incumbent()
				if ctx.Err() != nil || s == nil || c.over() || c.closed(c.gap()) {
					return nil
				}
				near, err := c.neighbour(ctx, s, open, true)
				if err != nil {
					return err
				}
				if near != nil && near.Cost() < s.Cost()*(1-1e-9) && c.adopt(near) {
					better = true
				}
			}
		}
	}
	return nil
}

// neighbour returns the best schedule that is equal to s but for what is
// retained into the open stages, and fits in them; nil if none is found. s is a
// start if it fits itself.
func (c *search) neighbour(ctx context.Context, s *stages.Schedule, open []bool, fits bool) (*stages.Schedule, error) {
	var rows [][2]int
	for t := range c.n {
		for k := 0; k <= t && (open[t] || open[t+1]); k++ {
			rows = append(rows, [2]int{t, k})
		}
	}
	f := buildStrong(c.instance, Options{Backward: true, Ends: true, Contract: true, Rows: rows, Plans: true})
	x := f.values(s)
	for t := f.first; t < c.n; t++ {
		for i := range t {
			if y, ok := f.s(t, i); ok && !open[t] {
				f.m.Fix(y, x[y.Index()])
			}
			if y, ok := f.r(t, i); ok && !open[t] && !open[t+1] && f.into[i] == i {
				f.m.Fix(y, x[y.Index()])
			}
		}
	}
	o := solvers.Options{Time: neighbourTime, Seed: c.o.Seed, Raw: c.o.Raw, RelGap: solvers.Some(roughGap / 20)}
	if left, _ := c.left(); !c.deadline.IsZero() {
		o.Time = min(o.Time, max(left, time.Millisecond))
	}
	if fits && c.backend.Can()&solvers.CanStart != 0 {
		o.Start = x
	}
	r, err := c.backend.Solve(ctx, f.m, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	y, ok := r.Solution()
	if !ok {
		return nil, nil
	}
	return f.schedule(y), nil
}

// ordered reports whether every plan is as InGraphOrder says where it matters
// to a model: without the forward phase, if all nodes that may be recomputed are
// needed by the first of the nodes from which on all are computed once, and each
// of these reads the one before; with it, if every node reads the one before.
// O(edges).
func (in *instance) ordered(forward bool) bool {
	first := in.n
	for first > 0 && in.Once[first-1] {
		first--
	}
	if first == in.n {
		return false
	}
	needed := make([]bool, in.n)
	needed[first] = true
	for i := first; i >= 0; i-- {
		if !needed[i] {
			return false
		}
		for _, j := range in.Pred[i] {
			needed[j] = true
		}
	}
	if forward {
		first = 0
	}
	for t := first + 1; t < in.n; t++ {
		if _, ok := slices.BinarySearch(in.Pred[t], t-1); !ok {
			return false
		}
	}
	return true
}

func (c *search) result(method string) *Result {
	r := &Result{
		Bound: c.bound * c.unit, Loose: c.loose * c.unit, By: c.by, Rounds: c.rounds, Nodes: c.nodes, Result: c.last, Model: c.model,
	}
	if !c.ordered(c.forward) {
		r.Assumptions = append(r.Assumptions, stages.InGraphOrder)
	}
	if c.loose < c.bound {
		r.Assumptions = append(r.Assumptions, stages.InStages)
	}
	if c.best != nil {
		r.Plan = c.plan(method, c.best)
	}
	return r
}
