package rematgraph

import (
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// Rounding is one plan that Round derived from a relaxation.
type Rounding struct {
	Rule string // "threshold 0.5", "random 3", either after "memory 80 %: "
	// Plan declares its peak memory. Before repair the peak may exceed the limit; the plan is then not valid, only
	// the result of the rounding.
	Plan *plan.Plan
	Fits bool
}

// RoundingResult is the result of Round: the best plan that fits, and the optimum of the relaxation
// as an uncertified bound or, certified, as a bound.
type RoundingResult struct {
	*formulation.Result
	// Rounded are the roundings of the relaxation with full memory: by the threshold, then the
	// random ones. Repaired are those that exceeded memory after repair, in the same order; nil
	// where that failed.
	Rounded, Repaired []*Rounding
	// Allowance is the first rounding that fits among relaxations with decreasing memory, the
	// paper's ε; nil if none does.
	Allowance *Rounding
}

// RoundingOptions configure Round.
type RoundingOptions struct {
	Samples int // random roundings; 0: 10
	// Strong rounds the relaxation of Strong without the forward phase
	// and without the memory rows of recomputations instead of the paper's. It
	// is smaller by an order of magnitude, and its optimum is larger.
	Strong bool
}

// Round is the approximation of Checkmate §5. It solves the LP relaxation, rounds S, at a threshold
// of 0.5 and at random with the values of S as probabilities, and computes the minimum R for it.
// Roundings that exceed memory are reported as such, and then repaired in two ways: as in the paper
// by requesting less memory, and by evicting retained values one by one, which is ours. Polynomial:
// linear programs with O(n²) columns, and O(n·edges) a rounding. It sets t.Verify; the seed of t is
// that of the roundings, too. Errors are those of Run.
func Round(ctx context.Context, t *formulation.Task, v *rematgraph.View, p platform.Platform, o RoundingOptions) (*RoundingResult, error) {
	in, err := newInstance(v, p)
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
	t.Verify = in.verify
	c := &rounding{instance: in, ctx: ctx, o: o, seed: uint64(t.Options.Seed.Value)}
	ask, stop := iter.Pull(c.phases)
	defer stop()
	c.result.Result, err = t.Run(ctx, func(sofar *formulation.Result) (*formulation.Phase, error) {
		c.sofar = sofar
		x, _ := ask()
		return x, c.err
	})
	return &c.result, err
}

// rounding is a run of Round.
type rounding struct {
	*instance
	ctx   context.Context
	o     RoundingOptions
	seed  uint64
	sofar *formulation.Result
	yield func(*formulation.Phase) bool
	err   error

	result RoundingResult
}

// phases yields the relaxations and rounds their solutions.
func (c *rounding) phases(yield func(*formulation.Phase) bool) {
	c.yield = yield
	x := c.relax(1)
	if x == nil {
		return
	}
	c.round(x, func(rule string, s *rematgraph.Schedule) bool {
		c.result.Rounded = append(c.result.Rounded, c.report(rule, s))
		if c.fits(s) {
			return false
		}
		repaired := s.Clone()
		if c.evict(repaired, func() bool { return c.ctx.Err() != nil }) != nil {
			c.result.Repaired = append(c.result.Repaired, nil)
			return false
		}
		c.result.Repaired = append(c.result.Repaired, c.report(rule+", repaired", repaired))
		return false
	})
	for percent := 90; percent >= 50 && c.result.Allowance == nil; percent -= 10 {
		x := c.relax(float64(percent) / 100)
		if x == nil {
			return
		}
		c.round(x, func(rule string, s *rematgraph.Schedule) bool {
			if !c.fits(s) {
				return false
			}
			c.result.Allowance = c.report(fmt.Sprintf("memory %d %%: %s", percent, rule), s)
			return true
		})
	}
}

// fractions are the values of S in a relaxation, by stage·M + value.
type fractions []float64

// relax solves the relaxation for a fraction of the memory. It returns nil if the relaxation is infeasible or a
// limit was reached.
func (c *rounding) relax(part float64) fractions {
	in := c.withMemory(part)
	var program *formulation.Program
	var s func(t, i int) (milp.Var, bool)
	fill := func(fractions) {}
	if c.o.Strong {
		f := buildStrong(in, Options{Backward: true, Ends: true})
		program, s, fill = f.program(), f.s, f.forwardFractions
	} else {
		f := buildPrinted(in)
		program, s = f.program(), func(t, i int) (milp.Var, bool) { return f.S.column(t, i), true }
	}
	if part < 1 {
		program.Promise = formulation.Nothing
	}
	if !c.yield(&formulation.Phase{Program: program, Relax: true}) {
		return nil
	}
	y, ok := c.sofar.Solver.Solution()
	if !ok {
		return nil
	}
	x := make(fractions, c.n*c.M)
	for t := range c.n {
		for i := range c.made(t - 1) {
			if v, ok := s(t, i); ok {
				x[t*c.M+i] = y[v.Index()]
			}
		}
	}
	fill(x)
	return x
}

// forwardFractions fills in the stages that the model omits. Values that forward nodes read are retained, the
// others to the extent that the first stage retains them.
func (f *strong) forwardFractions(x fractions) {
	for t := range f.first {
		for i := range f.made(t - 1) {
			if f.first < f.n {
				x[t*f.M+i] = x[f.first*f.M+i]
			}
			for _, j := range f.Succ[i] {
				if j >= t && j < f.first {
					x[t*f.M+i] = 1
				}
			}
		}
	}
}

// round rounds in all ways and completes each result; it stops when done returns true.
func (c *rounding) round(x fractions, done func(rule string, s *rematgraph.Schedule) bool) {
	try := func(rule string, keep func(v float64) bool) bool {
		s := c.New()
		for t := range c.n {
			for i := range c.made(t - 1) {
				s.Retain(t, i, keep(x[t*c.M+i]))
			}
		}
		s.Complete()
		return done(rule, s)
	}
	if try("threshold 0.5", func(v float64) bool { return v > 0.5 }) {
		return
	}
	for k := range c.o.Samples {
		r := rand.New(rand.NewPCG(c.seed, uint64(k)))
		if try(fmt.Sprintf("random %d", k+1), func(v float64) bool { return r.Float64() < v }) {
			return
		}
	}
}

// report returns a Rounding, and keeps the best plan that fits.
func (c *rounding) report(rule string, s *rematgraph.Schedule) *Rounding {
	r := &Rounding{Rule: rule, Plan: c.plan("checkmate-lp-round", s), Fits: c.fits(s)}
	if !r.Fits {
		return r
	}
	if objective, err := c.verify(r.Plan); err != nil {
		c.err = err // a schedule that fits is a plan
	} else if objective < c.sofar.Objective {
		c.sofar.Plan, c.sofar.Objective = r.Plan, objective
	}
	return r
}

// evict makes a schedule fit by evicting retained values. The error wraps plan.ErrNoPlan if that is impossible or
// stop reports true. While some computation exceeds memory, it takes the first stage with the maximum requirement.
// It evicts one value retained into or out of that stage until the value is next computed or read. Among the
// values that lower the requirement of the stage, it evicts the one with the minimum time per byte; if none does,
// it chooses among those that leave it unchanged. It rejects steps after which a recomputation must retain other
// values. Every step therefore retains less, and the loop terminates.
func (in *instance) evict(s *rematgraph.Schedule, stop func() bool) error {
	try, best := in.New(), in.New()
	for {
		peak, t, _ := s.Peak()
		if platform.Fits(peak, in.platform.Memory) {
			return nil
		}
		if stop() {
			return fmt.Errorf("%w: the time limit was reached", plan.ErrNoPlan)
		}
		before := s.Cost()
		least, lowers := math.Inf(1), false
		for i := range in.made(t) {
			if in.Once[in.Writer[i]] || in.Memory[i] == 0 {
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
				if now > peak || lowers && now == peak || try.Size() >= s.Size() {
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
			return fmt.Errorf("%w: no value is left to evict in stage %d", plan.ErrNoPlan, t)
		}
		s.Copy(best)
	}
}

// release stops retaining value i from stage t until it is recomputed or read in a stage.
func (in *instance) release(s *rematgraph.Schedule, t, i int) {
	for ; t < in.n && s.Retained(t, i); t++ {
		s.Retain(t, i, false)
		for _, j := range in.Succ[i] {
			if s.Computed(t, j) {
				return
			}
		}
	}
}
