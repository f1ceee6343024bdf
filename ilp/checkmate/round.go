package checkmate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"workbench/model/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/stages"
	"workbench/solvers"
)

// Rounding is one plan that Round made of a relaxation.
type Rounding struct {
	Rule string // "threshold 0.5", "random 3", either after "memory 80 %: "
	// Plan claims its peak memory. Before it is repaired it may be above the
	// limit: the plan is then not valid, only what the rounding gave.
	Plan *plan.Plan
	Fits bool
}

// RoundingResult is what Round made.
type RoundingResult struct {
	// Bound is the optimum of the relaxation in seconds: a bound on the plans
	// that keep the Assumptions.
	Bound       float64
	Assumptions []string
	// Rounded are the roundings of the relaxation for all of the memory: of
	// the threshold, then the random ones. Repaired are those that exceeded the
	// memory, made to fit, in the same order; nil where that failed.
	Rounded, Repaired []*Rounding
	// Allowance is the first rounding that fits of relaxations for less and
	// less memory, the paper's ε; nil if none does.
	Allowance *Rounding
	Best      *plan.Plan // the best one that fits; nil: none
	Result    *solvers.Result
}

// RoundingOptions say how Round rounds.
type RoundingOptions struct {
	Solver  solvers.Options // Time is for all of it, Seed also of the rounding
	Samples int             // random roundings; 0: 10
	// Strong rounds the relaxation of Strong without the forward phase
	// and without the memory rows of recomputations instead of the paper's. It
	// is smaller by an order of magnitude, and its optimum is larger.
	Strong bool
}

// Round is the approximation of Checkmate §5: it solves the LP
// relaxation, rounds S, at a threshold of 0.5 and at random with the values of
// S as probabilities, and computes the least R for it. What exceeds the
// memory is reported as such, and then repaired in two ways: as in the paper by
// asking for less memory, and by giving up retained values one by one.
func Round(ctx context.Context, b solvers.Backend, g *graph.Graph, p platform.Platform, o RoundingOptions) (*RoundingResult, error) {
	in, err := newInstance(g, p)
	if err != nil {
		return nil, err
	}
	most := MostCheckmate
	if o.Strong {
		most = MostRelaxed
	}
	if err := in.atMost(most); err != nil {
		return nil, err
	}
	if o.Samples == 0 {
		o.Samples = 10
	}
	c := &rounding{instance: in, ctx: ctx, backend: b, o: o}
	if o.Solver.Time > 0 {
		c.deadline = time.Now().Add(o.Solver.Time)
	}
	return c.run()
}

// rounding is a run of Round.
type rounding struct {
	*instance
	ctx      context.Context
	backend  solvers.Backend
	o        RoundingOptions
	deadline time.Time

	result RoundingResult
	best   *stages.Schedule
}

func (c *rounding) run() (*RoundingResult, error) {
	if !c.ordered(!c.o.Strong) {
		c.result.Assumptions = append(c.result.Assumptions, stages.InGraphOrder)
	}
	if !c.o.Strong {
		c.result.Assumptions = append(c.result.Assumptions, stages.InStages)
	}
	x, r, err := c.relax(1)
	if err != nil {
		return nil, err
	}
	c.result.Result = r
	if x == nil {
		if r.Status == solvers.Infeasible {
			return nil, c.noPlan("the LP relaxation", r.Backend)
		}
		return &c.result, nil
	}
	c.result.Bound = r.Obj * c.unit
	c.round(x, func(rule string, s *stages.Schedule) bool {
		c.result.Rounded = append(c.result.Rounded, c.report(rule, s))
		if c.fits(s) {
			return false
		}
		repaired := s.Clone()
		if c.evict(repaired, c.over) != nil {
			c.result.Repaired = append(c.result.Repaired, nil)
			return false
		}
		c.result.Repaired = append(c.result.Repaired, c.report(rule+", repaired", repaired))
		return false
	})
	for percent := 90; percent >= 50 && c.result.Allowance == nil; percent -= 10 {
		x, _, err := c.relax(float64(percent) / 100)
		if err != nil {
			return nil, err
		}
		if x == nil {
			break
		}
		c.round(x, func(rule string, s *stages.Schedule) bool {
			if !c.fits(s) {
				return false
			}
			c.result.Allowance = c.report(fmt.Sprintf("memory %d %%: %s", percent, rule), s)
			return true
		})
	}
	if c.best != nil {
		c.result.Best = c.plan("checkmate-lp-round", c.best)
	}
	return &c.result, nil
}

// noPlan is the error of a model without solution, which proves nothing about
// plans that are no schedules of stages.
func (c *rounding) noPlan(model, by string) error {
	return fmt.Errorf("%w: %s says that %s has no solution within %.0f bytes, so that no schedule of stages fits", plan.ErrNoPlan, by, model, c.platform.Memory)
}

// over reports whether time is up.
func (c *rounding) over() bool {
	return c.ctx.Err() != nil || !c.deadline.IsZero() && time.Now().After(c.deadline)
}

// fractions are the values of S in a relaxation, by stage·n + node.
type fractions []float64

// relax solves the relaxation for a part of the memory. No fractions: it has no
// solution, or a limit came before.
func (c *rounding) relax(part float64) (fractions, *solvers.Result, error) {
	in := c.within(part)
	o := c.o.Solver
	o.Relax, o.Start = true, nil
	if !c.deadline.IsZero() {
		if o.Time = time.Until(c.deadline); o.Time <= 0 {
			return nil, &solvers.Result{}, nil
		}
	}
	x := make(fractions, c.n*c.n)
	if c.o.Strong {
		f := buildStrong(in, Options{Backward: true, Ends: true})
		r, err := c.backend.Solve(c.ctx, f.m, o)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.m.Name(), err)
		}
		y, ok := r.Solution()
		if !ok {
			return nil, r, nil
		}
		for t := range c.n {
			for i := range t {
				if v, ok := f.s(t, i); ok {
					x[t*c.n+i] = y[v.Index()]
				}
			}
		}
		f.forwardFractions(x)
		return x, r, nil
	}
	f := buildPrinted(in)
	r, err := c.backend.Solve(c.ctx, f.m, o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	y, ok := r.Solution()
	if !ok {
		return nil, r, nil
	}
	for t := range c.n {
		for i := range t {
			x[t*c.n+i] = y[f.S.at(t, i).Index()]
		}
	}
	return x, r, nil
}

// forwardFractions fills in the stages that the model leaves out: what forward
// nodes read is there, the rest as far as the first stage retains it.
func (f *strong) forwardFractions(x fractions) {
	for t := range f.first {
		for i := range t {
			if f.first < f.n {
				x[t*f.n+i] = x[f.first*f.n+i]
			}
			for _, j := range f.Succ[i] {
				if j >= t && j < f.first {
					x[t*f.n+i] = 1
				}
			}
		}
	}
}

// round rounds in all ways and completes; it stops when done says so.
func (c *rounding) round(x fractions, done func(rule string, s *stages.Schedule) bool) {
	try := func(rule string, keep func(v float64) bool) bool {
		s := c.New()
		for t := range c.n {
			for i := range t {
				s.Retain(t, i, keep(x[t*c.n+i]))
			}
		}
		s.Complete()
		return done(rule, s)
	}
	if try("threshold 0.5", func(v float64) bool { return v > 0.5 }) {
		return
	}
	for k := range c.o.Samples {
		r := rand.New(rand.NewPCG(uint64(c.o.Solver.Seed.Value), uint64(k)))
		if try(fmt.Sprintf("random %d", k+1), func(v float64) bool { return r.Float64() < v }) {
			return
		}
	}
}

// report makes a Rounding, and keeps the best schedule that fits.
func (c *rounding) report(rule string, s *stages.Schedule) *Rounding {
	r := &Rounding{Rule: rule, Plan: c.plan("checkmate-lp-round", s), Fits: c.fits(s)}
	if r.Fits && (c.best == nil || s.Cost() < c.best.Cost()) {
		c.best = s.Clone()
	}
	return r
}

// evict makes a schedule fit by giving up retained values; the error wraps
// plan.ErrNoPlan if it cannot or is told to stop. As long as some computation
// exceeds the memory, it takes the first stage that needs most and gives up one value retained into it or out of it,
// until that is next computed or read: the one that costs the least time for
// each byte among those that lower what the stage needs, or if there is none,
// among those that leave it as it is. Every step retains less, so it ends.
func (in *instance) evict(s *stages.Schedule, stop func() bool) error {
	try, best := in.New(), in.New()
	for {
		peak, t, _ := s.Peak()
		if platform.Fits(peak, in.platform.Memory) {
			return nil
		}
		if stop() {
			return fmt.Errorf("%w: time is up", plan.ErrNoPlan)
		}
		before := s.Cost()
		least, lowers := math.Inf(1), false
		for i := range t + 1 {
			if in.Once[i] || in.Memory[i] == 0 {
				continue
			}
			for from := t; from <= t+1 && from < in.n; from++ {
				if !s.Retained(from, i) {
					continue
				}
				try.Copy(s)
				in.release(try, from, i)
				try.Complete()
				now, _ := try.StagePeak(t)
				if now > peak || lowers && now == peak {
					continue
				}
				rate := (try.Cost() - before) / in.Memory[i]
				if rate < least || now < peak && !lowers {
					least, lowers = rate, now < peak
					best, try = try, best
				}
			}
		}
		if math.IsInf(least, 1) {
			return fmt.Errorf("%w: nothing is left to give up in stage %d", plan.ErrNoPlan, t)
		}
		s.Copy(best)
	}
}

// release stops retaining value i from stage t until it is computed again or
// read in a stage.
func (in *instance) release(s *stages.Schedule, t, i int) {
	for ; t < in.n && s.Retained(t, i); t++ {
		s.Retain(t, i, false)
		for _, j := range in.Succ[i] {
			if s.Computed(t, j) {
				return
			}
		}
	}
}
