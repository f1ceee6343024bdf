package ilp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// CheckOptions say how a formulation is checked. The zero value checks
// DefaultCases instances of up to three layers.
type CheckOptions struct {
	Seed   uint64
	Cases  int // instances to try; 0: DefaultCases
	Layers int // of the longest chain, at most exhaustive.MaxLayers; 0: 3
}

// DefaultCases is what CheckOptions.Cases means if it is 0.
const DefaultCases = 200

// largest is the largest number in the instances of a check, states the most
// that the exhaustive search visits for one of them.
const (
	largest = 3
	states  = 1 << 20
)

// CheckReport is what a check found.
type CheckReport struct {
	Formulation Formulation
	Backends    []string
	Cases       int // instances tried
	Skipped     int // of them, those too hard for exhaustive search
	Tight       int // of them, those where the optima are equal
	Failures    []Failure
}

// Failure is one way in which a formulation does not keep its promise.
type Failure struct {
	Kind  FailureKind
	Count int // instances that fail so
	// Smallest is the first of them, shrunk as long as it fails so.
	Smallest Counterexample
}

// FailureKind says what is wrong.
type FailureKind string

const (
	NoSolution FailureKind = "infeasible although there is a plan"
	Above      FailureKind = "above the optimum"
	Below      FailureKind = "below the optimum"
	BadStart   FailureKind = "an optimal plan is no solution"
	BadPlan    FailureKind = "the plan of a solution is not valid or not optimal"
	Disagree   FailureKind = "backends disagree"
	Unsolved   FailureKind = "not solved"
)

// Counterexample is an instance on which a formulation fails.
type Counterexample struct {
	Chain    *chain.Chain
	Platform platform.Platform
	Optimum  float64 // by exhaustive search
	Plan     *plan.Plan
	Detail   string
}

// String prints the instance, one layer a line, and what is wrong.
func (x *Counterexample) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory %g, bandwidth %g, |a_0| = %g\n", x.Platform.Memory, x.Platform.Bandwidth, x.Chain.Input.Activation)
	for i := range x.Chain.Layers {
		l := &x.Chain.Layers[i]
		fmt.Fprintf(&b, "layer %d: u_F = %g, u_B = %g, |a| = %g, |w| = %g\n", i+1, l.ForwardTime, l.BackwardTime, l.Activation, l.Weight)
	}
	fmt.Fprintf(&b, "optimum %g; %s", x.Optimum, x.Detail)
	return b.String()
}

// Check compares a formulation with exhaustive search on random tiny instances,
// on every backend. A formulation that fails is a result, not an error; the
// error says that the check itself could not run.
func Check(ctx context.Context, f Formulation, backends []solvers.Backend, o CheckOptions) (*CheckReport, error) {
	if f.Problem != plan.WeightOffload {
		return nil, fmt.Errorf("%w: formulation %s is of problem %q, which has no exhaustive search", ErrInstance, f.Name, f.Problem)
	}
	if o.Cases == 0 {
		o.Cases = DefaultCases
	}
	if o.Layers == 0 {
		o.Layers = 3
	}
	if o.Layers < 1 || o.Layers > exhaustive.MaxLayers || o.Cases < 0 {
		return nil, fmt.Errorf("%w: %d cases of up to %d layers; exhaustive search takes 1 to %d layers", ErrInstance, o.Cases, o.Layers, exhaustive.MaxLayers)
	}
	k := &checker{ctx: ctx, f: f, backends: backends}
	report := &CheckReport{Formulation: f}
	for _, b := range backends {
		report.Backends = append(report.Backends, b.Name())
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	for n := range o.Cases {
		x := randomInstance(rng, 1+n%o.Layers)
		kind, tight, err := k.try(x)
		switch {
		case errors.Is(err, exhaustive.ErrLimit):
			report.Skipped++
		case err != nil:
			return nil, err
		case kind != "":
			if err := k.add(report, kind, x); err != nil {
				return nil, err
			}
		case tight:
			report.Tight++
		}
		report.Cases++
	}
	return report, nil
}

// checker checks instances one by one.
type checker struct {
	ctx      context.Context
	f        Formulation
	backends []solvers.Backend
}

// randomInstance returns an instance of small integers for which plans exist,
// of bandwidth 1. Computations take some time in total.
func randomInstance(r *rand.Rand, layers int) *Counterexample {
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(2))}}
	for range layers {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: float64(r.IntN(largest + 1)), BackwardTime: float64(r.IntN(largest + 1)),
			Activation: float64(r.IntN(largest)), Weight: float64(r.IntN(largest + 1)),
		})
	}
	c.Layers[r.IntN(layers)].BackwardTime++
	low, high := cycle.Of(c).Range()
	return &Counterexample{Chain: c, Platform: platform.Platform{Memory: max(1, low+float64(r.IntN(int(high-low)+1))), Bandwidth: 1}}
}

// add counts a failure, and shrinks the instance if it is the first of its
// kind.
func (k *checker) add(report *CheckReport, kind FailureKind, x *Counterexample) error {
	for i := range report.Failures {
		if report.Failures[i].Kind == kind {
			report.Failures[i].Count++
			return nil
		}
	}
	small, err := k.shrink(x, kind)
	if err != nil {
		return err
	}
	report.Failures = append(report.Failures, Failure{Kind: kind, Count: 1, Smallest: *small})
	return nil
}

// shrink makes x smaller as long as it fails in the same way: it drops layers,
// and makes numbers zero or one less.
func (k *checker) shrink(x *Counterexample, kind FailureKind) (*Counterexample, error) {
next:
	for {
		for _, y := range smaller(x) {
			low, _ := cycle.Of(y.Chain).Range()
			if y.Chain.Len() == 0 || y.Chain.TotalTime() == 0 || y.Platform.Memory < max(1, low) {
				continue
			}
			switch found, _, err := k.try(y); {
			case errors.Is(err, exhaustive.ErrLimit):
			case err != nil:
				return nil, err
			case found == kind:
				x = y
				continue next
			}
		}
		return x, nil
	}
}

// smaller returns the instances that are a little smaller than x.
func smaller(x *Counterexample) (all []*Counterexample) {
	change := func(edit func(*Counterexample)) {
		c := *x.Chain
		c.Layers = append([]chain.Layer(nil), c.Layers...)
		y := &Counterexample{Chain: &c, Platform: x.Platform}
		edit(y)
		all = append(all, y)
	}
	for i := range x.Chain.Layers {
		change(func(y *Counterexample) { y.Chain.Layers = append(y.Chain.Layers[:i], y.Chain.Layers[i+1:]...) })
	}
	number := func(at func(*Counterexample) *float64) {
		if v := *at(x); v > 0 {
			change(func(y *Counterexample) { *at(y) = 0 })
			change(func(y *Counterexample) { *at(y) = v - 1 })
		}
	}
	for i := range x.Chain.Layers {
		number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Weight })
		number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Activation })
		number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].ForwardTime })
		number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].BackwardTime })
	}
	number(func(y *Counterexample) *float64 { return &y.Chain.Input.Activation })
	number(func(y *Counterexample) *float64 { return &y.Platform.Memory })
	return all
}

// try compares the formulation with exhaustive search on x, and notes the
// numbers in it. kind is "" if the promise is kept, and tight says whether the
// optima are equal.
func (k *checker) try(x *Counterexample) (kind FailureKind, tight bool, err error) {
	if x.Optimum, x.Plan, err = exhaustive.WeightOffload(x.Chain, x.Platform, states); err != nil {
		return "", false, err
	}
	program, err := k.f.Build(x.Chain, x.Platform)
	if err != nil {
		return "", false, err
	}
	if k.f.Promise != Nothing {
		start, err := program.Start(x.Plan)
		if err != nil {
			return "", false, err
		}
		if v := program.Model.Violations(start, checkTolerance); len(v) > 0 {
			x.Detail = v[0].String()
			return BadStart, false, nil
		}
	}
	first := math.NaN()
	for i, b := range k.backends {
		r, err := b.Solve(k.ctx, program.Model, solvers.Options{})
		if err != nil {
			return "", false, err
		}
		if err := k.ctx.Err(); err != nil {
			return "", false, err
		}
		if kind := k.judge(x, program, r); kind != "" {
			return kind, false, nil
		}
		value, _ := r.Objective()
		if i == 0 {
			first = value
		} else if !same(first, value) {
			x.Detail = fmt.Sprintf("%s: %g, %s: %g", k.backends[0].Name(), first, b.Name(), value)
			return Disagree, false, nil
		}
	}
	return "", same(first, x.Optimum), nil
}

// judge says what is wrong with the answer of one backend, "" if nothing.
func (k *checker) judge(x *Counterexample, program *Program, r *solvers.Result) FailureKind {
	switch r.Status {
	case solvers.Optimal:
	case solvers.Infeasible:
		x.Detail = r.Backend + ": infeasible"
		return NoSolution
	default:
		x.Detail = fmt.Sprintf("%s: %v %v", r.Backend, r.Status, r.Note)
		return Unsolved
	}
	value, _ := r.Objective()
	x.Detail = fmt.Sprintf("%s: %g", r.Backend, value)
	switch {
	case same(value, x.Optimum):
	case value > x.Optimum:
		return Above
	case k.f.Promise == Equal:
		return Below
	}
	if program.Plan == nil {
		return ""
	}
	solution, _ := r.Solution()
	p, err := program.Plan(solution)
	if err != nil {
		x.Detail = err.Error()
		return BadPlan
	}
	report, err := plan.Verify(x.Chain, p)
	switch {
	case err != nil:
		x.Detail = err.Error()
	case !report.Valid():
		x.Detail = report.Violations[0].Detail
	case len(report.ClaimErrors) > 0:
		x.Detail = report.ClaimErrors[0]
	case !same(*p.Period, x.Optimum):
		x.Detail = fmt.Sprintf("plan of period %g", *p.Period)
	default:
		return ""
	}
	return BadPlan
}

// checkTolerance is what solvers leave undone, and far less than the optima of
// instances of integers differ by.
const checkTolerance = 1e-6

func same(a, b float64) bool { return math.Abs(a-b) <= 10*checkTolerance*(1+math.Abs(b)) }
