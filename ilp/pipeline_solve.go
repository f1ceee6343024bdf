package ilp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// PipelineResult is what SolvePipeline found out.
type PipelineResult struct {
	Plan  *plan.Plan // the best plan, of the start if none is better; nil: none found
	Bound float64    // seconds: no pattern has a shorter period for one mini-batch
	By    string     // who proved it
	// Assumptions of the bound; empty: it holds for every pattern.
	Assumptions []string
	Result      *solvers.Result // of the last model solved; nil: none was
}

// pipelineExactLayers is the length of the longest chain for which the ILP of
// chapter 6 is asked for the rest of the gap.
const pipelineExactLayers = 8

// A pipelineSearch is a decomposition: allocations by one model, their
// patterns by another.
type pipelineSearch struct {
	ctx     context.Context
	backend solvers.Backend
	in      *pipelineInstance
	options solvers.Options
	end     time.Time // zero: no limit
	gap     float64   // relative, to be reached
	result  *PipelineResult
	tried   [][]plan.Stage // allocations
}

// SolvePipeline looks for a pattern of least period and proves a lower bound.
// model is a memory model, task if empty. start is a verified plan or nil; it
// may have several mini-batches a period. known is a proven bound for 1-periodic
// patterns, 0 if there is none. A limit in o ends the search with the
// best so far, as does o.RelGap. The error is a *plan.Infeasible if no
// allocation fits.
//
// If a period is at most t, then an allocation exists that stores what is
// needed for t (see pipelineAllocation): where there is none, t is a lower
// bound. The search bisects for the largest such t, makes the best pattern of
// every allocation it meets, and for chains of up to six layers asks the ILP of
// [004] chapter 6 about what is left.
func SolvePipeline(ctx context.Context, b solvers.Backend, c *chain.Chain, p platform.Platform, model string, start *plan.Plan, known float64, o solvers.Options) (*PipelineResult, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no chain", ErrInstance)
	}
	in, err := newPipelineInstance(c, p, singleLayers(c), model)
	if err != nil {
		return nil, err
	}
	if err := in.fits(); err != nil {
		return nil, err
	}
	s := &pipelineSearch{ctx: ctx, backend: b, in: in, options: o, gap: 1e-6, result: &PipelineResult{Plan: start}}
	if o.RelGap.Set {
		s.gap = max(s.gap, o.RelGap.Value)
	}
	if o.Time > 0 {
		s.end = time.Now().Add(o.Time)
	}
	s.raise(in.loadBound(), "the loads of processors", true)
	if known > s.result.Bound { // the caller knows who proved it
		s.result.Bound, s.result.By, s.result.Assumptions = known, "", []string{plan.OnePeriodic}
	}
	if err := s.bisect(); err != nil {
		return nil, err
	}
	if in.n > pipelineExactLayers {
		if err := s.improve(); err != nil {
			return nil, err
		}
	} else if !s.done() {
		if err := s.exact(); err != nil {
			return nil, err
		}
	}
	if r := s.result; r.Plan != nil {
		r.Bound = min(r.Bound, r.Plan.Claims.Makespan)
	}
	return s.result, nil
}

// loadBound is a bound on all patterns, in seconds: the load of an average
// processor, and that of a layer.
func (in *pipelineInstance) loadBound() float64 {
	least := in.chain.TotalTime() / float64(min(in.platform.Processors, in.n))
	for i := range in.chain.Layers {
		least = max(least, in.chain.Layers[i].ForwardTime+in.chain.Layers[i].BackwardTime)
	}
	return least
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

func (s *pipelineSearch) over() bool {
	return s.ctx.Err() != nil || !s.end.IsZero() && time.Until(s.end) < 10*time.Millisecond
}

// part returns the options with a part of the time that is left.
func (s *pipelineSearch) part(share float64) solvers.Options {
	o := s.options
	o.Start = nil
	if !s.end.IsZero() {
		o.Time = max(10*time.Millisecond, time.Duration(share*float64(time.Until(s.end))))
	}
	return o
}

// bisect looks for the largest limit without an allocation. undecided is the
// least limit for which one exists, or time ran out.
func (s *pipelineSearch) bisect() error {
	undecided := math.Inf(1)
	limit := s.upper()
	for round := 0; !s.done(); round++ {
		f := newPipelineAllocation(s.in, limit/s.in.time)
		f.easy()
		r, err := s.backend.Solve(s.ctx, f.m, s.part(0.2))
		if err != nil {
			return fmt.Errorf("%s: %w", f.m.Name(), err)
		}
		s.result.Result = r
		if r.Status == solvers.Infeasible {
			if round == 0 && s.result.Plan == nil {
				return s.infeasible()
			}
			s.raise(limit, fmt.Sprintf("%s (%s)", f.m.Name(), r.Backend), false)
		} else {
			undecided = min(undecided, limit)
			if err := s.schedule(f, r); err != nil {
				return err
			}
		}
		top := min(undecided, s.upper())
		if s.closed(s.result.Bound, top) {
			return nil
		}
		// What is asked for first; mostly that is all there is to prove.
		if limit = s.upper() / (1 + max(s.gap, wanted)); round > 0 || limit <= s.result.Bound || limit >= top {
			limit = (s.result.Bound + top) / 2
		}
	}
	return nil
}

// improve makes patterns of further allocations until the time is over or there
// are none. The time is over at once if there is no limit: only the bisection
// ends by itself.
func (s *pipelineSearch) improve() error {
	for !s.end.IsZero() && !s.done() {
		f := newPipelineAllocation(s.in, s.upper()/s.in.time*(1-1e-4))
		f.easy()
		for _, stages := range s.tried {
			f.exclude(stages)
		}
		r, err := s.backend.Solve(s.ctx, f.m, s.part(0.2))
		if err != nil {
			return fmt.Errorf("%s: %w", f.m.Name(), err)
		}
		if _, ok := r.Solution(); !ok {
			return nil
		}
		if err := s.schedule(f, r); err != nil {
			return err
		}
	}
	return nil
}

// wanted is the gap that the search tries to prove before it bisects.
const wanted = 0.02

// mostTries is how many allocations of one limit get their patterns.
const mostTries = 6

// schedule makes patterns of the allocation of a solution and, while they do
// not beat the best plan, of others like it.
func (s *pipelineSearch) schedule(f *pipelineAllocation, r *solvers.Result) error {
	for range mostTries {
		x, ok := r.Solution()
		if !ok || s.done() {
			return nil
		}
		stages := f.allocation(x)
		before := s.upper()
		if err := s.scheduleOne(stages); err != nil || s.upper() < before {
			return err
		}
		f.exclude(stages)
		var err error
		if r, err = s.backend.Solve(s.ctx, f.m, s.part(0.05)); err != nil {
			return fmt.Errorf("%s: %w", f.m.Name(), err)
		}
	}
	return nil
}

// infeasible is the error that no allocation fits. What all patterns need at
// least is there, so that all that is known is that more is needed.
func (s *pipelineSearch) infeasible() error {
	given := s.in.platform.Memory
	return &plan.Infeasible{
		Problem: plan.Pipeline, Memory: math.Nextafter(given, math.Inf(1)), Given: given,
		Why: "no allocation fits even with one mini-batch at a time",
	}
}

// scheduleOne looks for a pattern of an allocation that beats the best plan.
func (s *pipelineSearch) scheduleOne(stages []plan.Stage) error {
	if len(stages) == 0 || s.done() {
		return nil
	}
	s.tried = append(s.tried, stages)
	longest := math.Inf(1)
	if s.result.Plan != nil {
		longest = s.upper() * (1 - 1e-6)
	}
	f, err := newStageILP(s.in.chain, s.in.platform, stages, s.in.model, longest)
	if err != nil {
		return err
	}
	r, err := s.backend.Solve(s.ctx, f.m, s.part(0.1))
	if err != nil {
		return fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	return s.take(f, r)
}

// take makes a plan of a solution and keeps it if it is the best.
func (s *pipelineSearch) take(f *pipelineILP, r *solvers.Result) error {
	s.result.Result = r
	x, ok := r.Solution()
	if !ok || s.options.Relax {
		return nil
	}
	p, err := f.plan(x)
	if errors.Is(err, ErrCyclic) {
		// Operations far shorter than the solver's tolerance are in an order that
		// no pattern has. The bound holds.
		return nil
	}
	if err != nil {
		return err
	}
	if p.Claims.PeakMemory <= s.in.platform.Memory*fits && (s.result.Plan == nil || p.Claims.Makespan < s.upper()) {
		s.result.Plan = p
	}
	return nil
}

// exact asks the strengthened ILP of chapter 6 for what is left of the gap.
func (s *pipelineSearch) exact() error {
	var o PipelineOptions
	if s.result.Plan != nil {
		o.Longest = s.upper() * (1 + 1e-6)
	}
	f, err := newPipelineStrong(s.in.chain, s.in.platform, s.in.model, o)
	if err != nil {
		return err
	}
	f.m.SetBounds(f.period, s.result.Bound/s.in.time*(1-1e-6), f.longest)
	x := s.part(1)
	if best := s.result.Plan; best != nil && s.backend.Can()&solvers.CanStart != 0 {
		if start, err := f.start(best); err == nil {
			x.Start = start
		}
	}
	r, err := s.backend.Solve(s.ctx, f.m, x)
	if err != nil {
		return fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	if r.Status == solvers.Infeasible && s.result.Plan == nil {
		return s.infeasible()
	}
	if r.Status != solvers.Infeasible {
		s.raise(r.Bound, fmt.Sprintf("%s (%s, %s)", f.m.Name(), r.BoundBy, r.Backend), false)
	}
	return s.take(f, r)
}
