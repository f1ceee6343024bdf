package ilp

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/stages"
	"workbench/solvers"
)

// CheckmateResult is what SolveCheckmate found.
type CheckmateResult struct {
	Plan *plan.Plan // the best one found; nil: none
	// Bound is a proven lower bound in seconds on the makespan of every plan
	// that keeps the Assumptions, By who proved it. Loose is the part of it
	// that holds whatever is recomputed between two first computations, in any
	// order and any number of times: only the first of the Assumptions is needed.
	Bound, Loose float64
	By           string
	Assumptions  []string
	Rounds       int             // models solved
	Nodes        int64           // of all of them
	Result       *solvers.Result // of the last one
}

// Gap returns (makespan − bound) / makespan; 1 without a plan.
func (r *CheckmateResult) Gap() float64 {
	if r.Plan == nil {
		return 1
	}
	return solvers.Gap(r.Plan.Claims.Makespan, r.Bound)
}

// Assumptions of bounds from models of stages.
const (
	InGraphOrder = "loss and backward nodes are computed in the order of the graph"
	InStages     = "between two of their computations a node is computed at most once, in the order of the graph"
)

// roughGap is the gap to which models are solved as long as their solutions
// make no plans that fit.
const roughGap = 0.002

// SolveCheckmate finds a plan of a graph and a bound on all plans. A verified
// plan, if there is one, is where it starts. A limit in o ends the search with
// what there is. The error is a *plan.Infeasible if it is proved that no plan
// exists.
//
// It solves CheckmateStrong without the stages of the forward phase and without
// the memory rows of recomputations, both of which rarely matter: a
// relaxation, in which many values need not be considered. Where the plan of
// a solution exceeds the memory, the rows that it breaks are added and the model
// is solved again, from a repaired plan.
func SolveCheckmate(ctx context.Context, b solvers.Backend, g *graph.Graph, p platform.Platform, start *plan.Plan, o solvers.Options) (*CheckmateResult, error) {
	in, err := newCheckmateInstance(g, p)
	if err != nil {
		return nil, err
	}
	c := &checkmateSearch{checkmateInstance: in, backend: b, o: o, ctx: ctx}
	if o.Time > 0 {
		c.deadline = time.Now().Add(o.Time)
	}
	c.bound, c.by = sum(in.cost), "every node once"
	c.loose = c.bound
	c.adopt(in.StoreAll())
	if start != nil {
		s, err := in.FromPlan(start)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrStart, err)
		}
		c.adopt(s)
	}
	if s := in.StoreAll(); in.evict(s) {
		c.adopt(s)
	}
	if err := c.both(); err != nil {
		return nil, err
	}
	return c.result(), nil
}

func sum(xs []float64) float64 {
	s := 0.0
	for _, x := range xs {
		s += x
	}
	return s
}

// checkmateSearch is a run of SolveCheckmate. Costs are in the units of the
// models.
type checkmateSearch struct {
	*checkmateInstance
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

	rows   [][2]int // memory rows asked for, by stage and node
	rounds int
	nodes  int64
	last   *solvers.Result
}

// left returns the time left and whether there is any.
func (c *checkmateSearch) left() (time.Duration, bool) {
	if c.ctx.Err() != nil {
		return 0, false
	}
	if c.deadline.IsZero() {
		return 0, true
	}
	d := time.Until(c.deadline)
	return d, d > 10*time.Millisecond
}

// gap is the gap that the caller is content with.
func (c *checkmateSearch) gap() float64 {
	if c.o.RelGap.Set {
		return c.o.RelGap.Value
	}
	return 0
}

// closed reports whether the best plan is proved to be good enough.
func (c *checkmateSearch) closed(gap float64) bool {
	const tiny = 1e-9
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best != nil && c.cost-c.bound <= max(gap, tiny)*c.cost
}

// adopt makes s the best schedule if it fits and is better.
func (c *checkmateSearch) adopt(s *stages.Schedule) bool {
	if peak, _, _ := s.Peak(); peak > c.platform.Memory*(1+plan.Tolerance) {
		return false
	}
	cost := s.Cost() / c.second
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.best == nil || cost < c.cost {
		c.best, c.cost = s.Clone(), cost
	}
	return true
}

// broken returns the computations of s that exceed the memory, by stage and
// node.
func (c *checkmateSearch) broken(s *stages.Schedule) (rows [][2]int) {
	for t := range c.n {
		if m, i := s.StagePeak(t); m > c.platform.Memory*(1+plan.Tolerance) {
			rows = append(rows, [2]int{t, i})
		}
	}
	return rows
}

// both runs the search for bounds, and beside it, if there are two threads, the
// one for better schedules: the search of HiGHS uses but one.
func (c *checkmateSearch) both() error {
	if c.o.Threads.Value < 2 || c.backend.Can()&solvers.CanStart == 0 {
		return c.run()
	}
	c.o.Threads.Value--
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan error)
	go func() { done <- c.improve(ctx) }()
	err := c.run()
	cancel()
	if other := <-done; err == nil {
		err = other
	}
	return err
}

func (c *checkmateSearch) run() error {
	gap := max(c.gap(), roughGap)
	for !c.closed(c.gap()) {
		left, ok := c.left()
		if !ok {
			return nil
		}
		f := buildCheckmateStrong(c.checkmateInstance, CheckmateOptions{Backward: true, Ends: true, Contract: true, Rows: c.rows})
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
func (c *checkmateSearch) exact() error {
	left, ok := c.left()
	if !ok || c.n > mostExact {
		return nil
	}
	s, _, err := c.round(buildCheckmateStrong(c.checkmateInstance, CheckmateOptions{}), c.gap(), left)
	if err == nil && s != nil {
		c.adopt(s)
	}
	return err
}

// round solves one model from the best schedule and returns that of its
// solution, nil if there is none, and whether the search came to its end.
func (c *checkmateSearch) round(f *checkmateStrong, gap float64, left time.Duration) (*stages.Schedule, bool, error) {
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
			c.raise(p.Bound, f, "branch and bound", c.backend.Name())
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
	c.last = r
	switch r.Status {
	case solvers.Infeasible:
		if best != nil {
			return nil, false, fmt.Errorf("%s: %w: %s calls it infeasible, but a plan exists", f.m.Name(), solvers.ErrSolver, r.Backend)
		}
		least, _ := c.Least()
		return nil, false, &plan.Infeasible{Problem: plan.Remat, Memory: least, Given: c.platform.Memory, Why: "no schedule of stages fits"}
	case solvers.Unbounded, solvers.InfeasibleOrUnbounded:
		return nil, false, fmt.Errorf("%s: %w: %s calls it %v", f.m.Name(), solvers.ErrSolver, r.Backend, r.Status)
	}
	c.raise(r.Bound, f, r.BoundBy, r.Backend)
	x, ok := r.Solution()
	if !ok {
		return nil, false, nil
	}
	return f.schedule(x), r.Status == solvers.Optimal, nil
}

// raise notes a bound that is proven for model f.
func (c *checkmateSearch) raise(bound float64, f *checkmateStrong, by, backend string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if math.IsInf(bound, 0) || !(bound > c.bound) {
		return
	}
	c.bound, c.by = bound, fmt.Sprintf("%s (%s, %s)", f.m.Name(), by, backend)
	if f.o.Ends && len(f.o.Rows) == 0 {
		c.loose = bound
	}
}

// incumbent returns the best schedule, nil if there is none. It is not to be
// changed.
func (c *checkmateSearch) incumbent() *stages.Schedule {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best
}

// report passes progress on, in seconds and with the best plan that fits.
func (c *checkmateSearch) report(p solvers.Progress) {
	p.X = nil
	p.Objective = math.NaN()
	c.mu.Lock()
	p.Bound = c.bound * c.second
	if c.best != nil {
		p.Objective = c.cost * c.second
	}
	c.mu.Unlock()
	p.Gap = solvers.Gap(p.Objective, p.Bound)
	c.o.OnProgress(p)
}

// neighbourTime is what one neighbourhood may take.
const neighbourTime = 20 * time.Second

// repair looks for a schedule that fits near s, which does not: it frees the
// stages around those that exceed the memory, more and more of them.
func (c *checkmateSearch) repair(s *stages.Schedule) error {
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
func (c *checkmateSearch) improve(ctx context.Context) error {
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
				if ctx.Err() != nil || s == nil || c.closed(c.gap()) {
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
func (c *checkmateSearch) neighbour(ctx context.Context, s *stages.Schedule, open []bool, fits bool) (*stages.Schedule, error) {
	var rows [][2]int
	for t := range c.n {
		for k := 0; k <= t && (open[t] || open[t+1]); k++ {
			rows = append(rows, [2]int{t, k})
		}
	}
	f := buildCheckmateStrong(c.checkmateInstance, CheckmateOptions{Backward: true, Ends: true, Contract: true, Rows: rows, Plans: true})
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

func (c *checkmateSearch) result() *CheckmateResult {
	r := &CheckmateResult{
		Bound: c.bound * c.second, Loose: c.loose * c.second, By: c.by, Rounds: c.rounds, Nodes: c.nodes, Result: c.last,
		Assumptions: []string{InGraphOrder},
	}
	if c.loose < c.bound {
		r.Assumptions = append(r.Assumptions, InStages)
	}
	if c.best != nil {
		r.Plan = c.best.Fill(plan.NewGraph("checkmate-strong", c.Graph, c.platform))
		// What the solver's tolerance adds to the bound is taken off again.
		r.Bound = min(r.Bound, r.Plan.Claims.Makespan)
		r.Loose = min(r.Loose, r.Bound)
	}
	return r
}
