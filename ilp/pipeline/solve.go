package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"workbench/model/chain"
	"workbench/model/milp"
	view "workbench/model/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// Result is what Solve found out.
type Result struct {
	Plan  *plan.Plan // the best plan, of the start if none is better; nil: none found
	Bound float64    // seconds: no pattern has a shorter period for one mini-batch
	By    string     // who proved it
	// Assumptions of the bound; empty: it holds for every pattern.
	Assumptions []string
	Cuts        int             // parts of allocations that were proved to have no pattern
	Result      *solvers.Result // of the last model of allocations; nil: none was solved
}

// A pipelineSearch is a decomposition, logic-based Benders: allocations by one
// model, their patterns by another, cuts between.
type pipelineSearch struct {
	ctx     context.Context
	backend solvers.Backend
	in      *pipelineInstance
	options solvers.Options
	end     time.Time // zero: no limit
	gap     float64   // relative, to be reached
	result  *Result
	cuts    []*pipelineCut // of all probes
}

// Solve looks for a pattern of least period and proves a lower bound.
// model is a memory model, task if empty. start is a verified plan or nil; it
// may have several mini-batches a period. known is a proven bound for 1-periodic
// patterns, 0 if there is none. A limit in o ends the search with the
// best so far, as does o.RelGap. The error is a *plan.Infeasible if it is
// proved that no allocation fits, and wraps plan.ErrNoPlan where a solver says so.
//
// A pattern can be stretched to every longer period. So the search asks for one
// period t after the other whether there is a pattern, and closes in on the least
// from both sides. An allocation that stores what is needed for t comes from
// [pipelineAllocation], its pattern from [pipelineOrder]; where there is none, a
// cut tells the first model so. Where no allocation is left, t is a lower bound.
// Without a limit in o the search ends with the least period of a 1-periodic
// pattern.
func Solve(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, model string, start *plan.Plan, known float64, o solvers.Options) (*Result, error) {
	in, err := newWholePipeline(c, p, model)
	if err != nil {
		return nil, err
	}
	s := &pipelineSearch{ctx: ctx, backend: b, in: in, options: o, gap: 1e-6, result: &Result{Plan: start}}
	if o.RelGap.Set {
		s.gap = max(s.gap, o.RelGap.Value)
	}
	if o.Time > 0 {
		s.end = time.Now().Add(o.Time)
	}
	s.raise(max(in.view.Load(), in.view.LargestLayer())*(1-view.Rounding), "the loads of processors", true)
	if known > 0 && known >= s.result.Bound*(1-view.Rounding) { // the caller knows who proved it
		s.result.Bound, s.result.By, s.result.Assumptions = known, "", []string{plan.OnePeriodic}
	}
	if err := s.closeIn(); err != nil {
		return nil, err
	}
	s.result.Cuts = len(s.cuts)
	return s.result, nil
}

// raise lifts the bound; any says that it holds for every pattern.
func (s *pipelineSearch) raise(bound float64, by string, any bool) {
	r := s.result
	if !(bound > r.Bound) || math.IsInf(bound, 0) {
		return
	}
	r.Bound, r.By, r.Assumptions = bound, by, nil
	if !any {
		r.Assumptions = []string{plan.OnePeriodic}
	}
}

// upper is the period to beat in seconds.
func (s *pipelineSearch) upper() float64 {
	if p := s.result.Plan; p != nil {
		return p.Claims.Makespan
	}
	return s.in.horizon * s.in.time
}

func (s *pipelineSearch) closed(low, high float64) bool { return high <= low*(1+s.gap) }

// done reports whether the gap is closed or the time is over.
func (s *pipelineSearch) done() bool {
	return s.result.Plan != nil && s.closed(s.result.Bound, s.upper()) || s.over()
}

func (s *pipelineSearch) over() bool { return s.ctx.Err() != nil || soon(s.end) }

// soon reports whether a time is over; zero: never.
func soon(end time.Time) bool { return !end.IsZero() && time.Until(end) < 10*time.Millisecond }

// Steps of the search, relative to the period to beat.
const (
	// wanted is the gap that is asked for first: mostly that is all there is to
	// prove.
	wanted = 0.02
	// grain is the width of an interval that a round leaves open.
	grain = 5e-3
	// firstSlice is the part of the time that a probe of the first round gets.
	firstSlice = 0.08
)

// closeIn probes one period after the other until plan and bound meet. A round
// leaves open the periods that a slice of the time each does not decide; the
// next one has twice the slices.
func (s *pipelineSearch) closeIn() error {
	for slice := time.Duration(firstSlice * float64(s.options.Time)); !s.done(); slice *= 2 {
		undecided, err := s.round(slice)
		if err != nil || !undecided || s.end.IsZero() {
			return err
		}
	}
	return nil
}

// round reports whether it left periods open.
func (s *pipelineSearch) round(slice time.Duration) (undecided bool, err error) {
	open := math.Inf(1) // the least period that was not decided
	for !s.done() {
		low, high := s.result.Bound, s.upper()
		if open < high && open-low <= grain*high {
			return true, nil
		}
		limit := (low + min(open, high)) / 2
		if open >= high {
			for _, step := range [3]float64{wanted, grain, s.gap} {
				if limit = high / (1 + step); limit > low*(1+s.gap/2) {
					break
				}
			}
			if s.result.Plan == nil {
				limit = high
			}
		}
		decided, err := s.probe(limit, slice)
		if err != nil {
			return false, err
		}
		if !decided {
			if s.result.Plan == nil && limit >= high {
				return true, nil
			}
			open = limit
		}
	}
	return false, nil
}

// probe asks whether there is a pattern of at most limit seconds: it ends with
// one, or with the bound at limit, or undecided. Allocations are made by one
// model and their patterns by another; where there is no pattern, a cut excludes
// the allocation, and what is like it, from the first.
func (s *pipelineSearch) probe(limit float64, slice time.Duration) (decided bool, err error) {
	q := &pipelineProbe{pipelineSearch: s, limit: limit, until: s.end, possible: map[string]bool{}}
	if !s.end.IsZero() {
		if until := time.Now().Add(slice); until.Before(s.end) {
			q.until = until
		}
	}
	q.master = newPipelineAllocation(s.in, limit/s.in.time)
	q.master.m.Minimize(&milp.Expr{}) // any will do
	for _, c := range s.cuts {
		if c.limit >= q.master.limit {
			q.master.cut(c)
		}
	}
	for {
		r, err := q.solve(q.master.m, q.until)
		if err != nil {
			return false, err
		}
		s.result.Result = r
		if r.Status == solvers.Infeasible {
			if q.skipped {
				return false, nil
			}
			if s.result.Plan == nil && limit >= s.in.horizon*s.in.time {
				return false, fmt.Errorf("%s: %w: %s calls %s infeasible, which is no proof", plan.Pipeline, plan.ErrNoPlan, r.Backend, q.master.m.Name())
			}
			s.raise(limit, fmt.Sprintf("%s (%d cuts, %s)", q.master.m.Name(), len(s.cuts), r.Backend), false)
			return true, nil
		}
		x, ok := r.Solution()
		if !ok {
			return false, nil
		}
		found, err := q.allocated(q.master.allocation(x))
		if err != nil || found {
			return found, err
		}
		if q.over() {
			return false, nil
		}
	}
}

// A pipelineProbe is a search for a pattern of at most one period.
type pipelineProbe struct {
	*pipelineSearch
	limit   float64 // seconds
	until   time.Time
	master  *pipelineAllocation
	skipped bool // an allocation was excluded without proof
	// possible are the runs of a processor that alone have a pattern.
	possible map[string]bool
}

func (q *pipelineProbe) over() bool { return q.ctx.Err() != nil || soon(q.until) }

// solve solves a model until then at most, zero: without a limit.
func (q *pipelineProbe) solve(m *milp.Model, until time.Time) (*solvers.Result, error) {
	o := q.options
	o.Start, o.Relax = nil, false
	if !until.IsZero() {
		o.Time = max(10*time.Millisecond, time.Until(until))
	}
	r, err := q.backend.Solve(q.ctx, m, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name(), err)
	}
	return r, nil
}

// allocated makes a pattern of an allocation, or cuts.
func (q *pipelineProbe) allocated(runs []placedRun) (found bool, err error) {
	cuts := len(q.cuts)
	for r := range q.in.platform.Processors {
		if err := q.exclude(but(runs, func(x placedRun) bool { return x.processor != r })); err != nil {
			return false, err
		}
	}
	if len(q.cuts) > cuts {
		return false, nil
	}
	uninterrupted, err := q.uninterrupted(runs)
	if err != nil {
		return false, err
	}
	for _, order := range [2]*pipelineOrder{uninterrupted, q.order(runs)} {
		begin, until := time.Now(), q.until
		if order == uninterrupted && !until.IsZero() {
			until = begin.Add(time.Until(until) / 2)
		}
		r, err := q.solve(order.m, until)
		if err != nil {
			return false, err
		}
		if r.Status == solvers.Infeasible && order != uninterrupted {
			return false, q.generalise(runs, time.Since(begin))
		}
		if q.take(order, r) {
			return true, nil
		}
	}
	q.skipped = true
	q.master.cut(&pipelineCut{limit: q.master.limit, runs: runs})
	return false, nil
}

// take makes a plan of a solution and keeps it if it is the best.
func (q *pipelineProbe) take(order *pipelineOrder, r *solvers.Result) (found bool) {
	x, ok := r.Solution()
	if !ok {
		return false
	}
	// Operations far shorter than the solver's tolerance may be in an order that
	// no pattern has, or store more than there is memory for. Nothing is proved
	// then.
	p, err := order.pattern(x).plan(order.m.Name())
	if err != nil || !q.in.view.Fits(p.Claims.PeakMemory) || q.result.Plan != nil && p.Claims.Makespan >= q.upper() {
		return false
	}
	q.result.Plan = p
	return true
}

// uninterrupted is the model of patterns in which no other task interrupts a
// run, [004] 7.2: much smaller, and most patterns are of it.
func (q *pipelineProbe) uninterrupted(runs []placedRun) (*pipelineOrder, error) {
	stages, one := make([]plan.Stage, len(runs)), make([]placedRun, len(runs))
	for k, x := range runs {
		stages[k] = plan.Stage{Processor: x.processor, From: x.i + 1, To: x.j + 1}
		one[k] = placedRun{i: k, j: k, processor: x.processor}
	}
	in, err := staged(q.in.view, stages)
	if err != nil {
		return nil, err
	}
	return newPipelineOrder(in, one, make([]float64, len(runs)), q.limit/in.time), nil
}

// order is the model of patterns with these runs.
func (q *pipelineProbe) order(runs []placedRun) *pipelineOrder {
	return newPipelineOrder(q.in, runs, q.master.delays(runs), q.master.limit)
}

// exclude adds a cut for runs of one processor if these alone have no pattern.
func (q *pipelineProbe) exclude(runs []placedRun) error {
	key := fmt.Sprint(runs)
	if len(runs) == 0 || q.possible[key] {
		return nil
	}
	begin := time.Now()
	r, err := q.solve(q.order(runs).m, q.until)
	if err != nil {
		return err
	}
	if r.Status == solvers.Infeasible {
		return q.generalise(runs, time.Since(begin))
	}
	q.possible[key] = true
	return nil
}

// generalise adds a cut for runs of which it is proved that no pattern has them:
// for as little of them as is still in none. It leaves out processors, then
// runs, the lightest first; what is known of delays; and ends of runs. Each try
// may take about as long as the proof did.
func (q *pipelineProbe) generalise(runs []placedRun, proof time.Duration) error {
	var err error
	try := func(less []placedRun) bool {
		if err != nil || len(less) == 0 {
			return false
		}
		until := time.Now().Add(2*proof + 100*time.Millisecond)
		if !q.until.IsZero() && q.until.Before(until) {
			until = q.until
		}
		var r *solvers.Result
		if r, err = q.solve(q.order(less).m, until); err != nil || r.Status != solvers.Infeasible {
			return false
		}
		runs = less
		return true
	}
	change := func(k int, to func(*placedRun)) bool {
		less := slices.Clone(runs)
		if to(&less[k]); less[k] == runs[k] {
			return false
		}
		return try(less)
	}
	for r := range q.in.platform.Processors {
		if less := but(runs, func(x placedRun) bool { return x.processor == r }); len(less) < len(runs) {
			try(less)
		}
	}
	light := slices.Clone(runs)
	slices.SortFunc(light, func(x, y placedRun) int { return cmp.Compare(q.master.load(x.i, x.j), q.master.load(y.i, y.j)) })
	for _, y := range light {
		try(but(runs, func(x placedRun) bool { return x == y }))
	}
	for k := range runs {
		change(k, func(x *placedRun) { x.behind = 0 })
		if change(k, func(x *placedRun) { x.openBack = x.j < q.in.n-1; x.behind = 0 }) {
			for change(k, func(x *placedRun) { x.j = (x.i + x.j) / 2 }) {
			}
			for change(k, func(x *placedRun) { x.j = max(x.i, x.j-1) }) {
			}
		}
		if change(k, func(x *placedRun) { x.openFront = x.i > 0 }) {
			for change(k, func(x *placedRun) { x.i = (x.i + x.j + 1) / 2 }) {
			}
			for change(k, func(x *placedRun) { x.i = min(x.i+1, x.j) }) {
			}
		}
	}
	c := &pipelineCut{limit: q.master.limit, runs: runs}
	q.cuts = append(q.cuts, c)
	q.master.cut(c)
	return err
}

// but returns the runs but some.
func but(runs []placedRun, some func(placedRun) bool) []placedRun {
	return slices.DeleteFunc(slices.Clone(runs), some)
}
