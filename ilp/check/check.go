// Package check holds formulations against exhaustive search on random tiny instances.
package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"workbench/ilp/formulation"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/solvers"
)

// Options say how a formulation is checked. The zero value checks
// DefaultCases instances of up to three layers.
type Options struct {
	Seed  uint64
	Cases int // instances to try; 0: DefaultCases
	// Layers of the longest chain, or forward nodes of the largest graph; 0: 3.
	// There can be 4 of weight offloading, 6 of rematerialization on chains, 5
	// on graphs, 4 if the formulation is Staged, 5 of activation
	// offloading, 4 of rematerialization with offloading, 6 functions of swapping.
	Layers int
}

// DefaultCases is what Options.Cases means if it is 0.
const DefaultCases = 200

// states is the most that the exhaustive search visits for one instance.
const States = 1 << 20

// Report is what a check found.
type Report struct {
	Formulation formulation.Formulation
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
	NoPlan     FailureKind = "a solution although there is no plan"
	Above      FailureKind = "above the optimum"
	Below      FailureKind = "below the optimum"
	BadStart   FailureKind = "an optimal plan is no solution"
	BadPlan    FailureKind = "the plan of a solution is not valid or not optimal"
	Disagree   FailureKind = "backends disagree"
	Unsolved   FailureKind = "not solved"
)

// Run compares a formulation with exhaustive search on random tiny instances,
// on every backend. A formulation that fails is a result, not an error; the
// error says that the check itself could not run.
//
// The objective of a model must be in seconds. What is wrong depends on the
// promise: an optimum above that of the search always is, one below it if the
// promise is Equal. Unless the promise is Nothing, the plan that the search
// finds must be a start, no worse than itself. Plans of solutions must be
// valid, of formulations without promise as good as the objective, of exact
// ones optimal. The end of ctx ends the check with the instances until then.
func Run(ctx context.Context, f formulation.Formulation, backends []solvers.Backend, o Options) (*Report, error) {
	about, ok := subjectOf(f)
	if !ok {
		return nil, fmt.Errorf("%w: formulation %s is of problem %q, which has no exhaustive search", formulation.ErrInstance, f.Name, f.Problem)
	}
	if o.Cases == 0 {
		o.Cases = DefaultCases
	}
	if o.Layers == 0 {
		o.Layers = 3
	}
	if o.Layers < 1 || o.Layers > about.most || o.Cases < 0 {
		return nil, fmt.Errorf("%w: %d cases of up to %d %s; exhaustive search takes 1 to %d", formulation.ErrInstance, o.Cases, o.Layers, about.unit, about.most)
	}
	k := &checker{ctx: ctx, f: f, about: about, backends: backends}
	report := &Report{Formulation: f}
	for _, b := range backends {
		report.Backends = append(report.Backends, b.Name())
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	for n := range o.Cases {
		x, err := about.random(rng, 1+n%o.Layers)
		if err != nil {
			return nil, err
		}
		kind, tight, err := k.try(x)
		if ctx.Err() != nil {
			return report, nil
		}
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
	f        formulation.Formulation
	about    *subject
	backends []solvers.Backend
}

// add counts a failure, and shrinks the instance if it is the first of its
// kind.
func (k *checker) add(report *Report, kind FailureKind, x *Counterexample) error {
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
// nodes and edges, and makes numbers zero or one less.
func (k *checker) shrink(x *Counterexample, kind FailureKind) (*Counterexample, error) {
next:
	for {
		for _, y := range k.about.smaller(x) {
			switch found, _, err := k.try(y); {
			case errors.Is(err, exhaustive.ErrLimit), errors.Is(err, formulation.ErrInstance):
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

// try compares the formulation with exhaustive search on x, and notes the
// numbers in it. kind is "" if the promise is kept, and tight says whether the
// optima are equal, or there is no plan and no solution.
func (k *checker) try(x *Counterexample) (kind FailureKind, tight bool, err error) {
	if err := k.about.solve(x); err != nil {
		return "", false, err
	}
	program, err := k.build(x)
	var infeasible *plan.Infeasible
	if errors.As(err, &infeasible) {
		if x.Plan == nil {
			return "", true, nil
		}
		x.Detail = err.Error()
		return NoSolution, false, nil
	}
	if err != nil {
		return "", false, err
	}
	if k.f.Promise != formulation.Nothing && k.f.Promise != formulation.Restriction && x.Plan != nil && program.Start != nil {
		if x.Detail = badStart(program, x); x.Detail != "" {
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
		value, ok := r.Objective()
		if !ok {
			value = math.Inf(1) // infeasible, and rightly so
		}
		value = program.Objective(value)
		if i == 0 {
			first = value
		} else if !Same(first, value) {
			x.Detail = fmt.Sprintf("%s: %g, %s: %g", k.backends[0].Name(), first, b.Name(), value)
			return Disagree, false, nil
		}
	}
	return "", Same(first, x.Optimum), nil
}

func (k *checker) build(x *Counterexample) (*formulation.Program, error) {
	switch {
	case x.Graph != nil:
		return k.f.BuildGraph(x.Graph, x.Platform)
	case x.Functions != nil:
		return k.f.BuildFunctions(x.Functions, x.Platform)
	}
	return k.f.Build(x.Chain, x.Platform)
}

// badStart says what is wrong with the best plan as a start, "" if nothing.
func badStart(program *formulation.Program, x *Counterexample) string {
	start, err := program.Start(x.Plan)
	if err != nil {
		return err.Error()
	}
	if v := program.Model.Violations(start, CheckTolerance); len(v) > 0 {
		return v[0].String()
	}
	if value := program.Objective(program.Model.Objective(start)); value > x.Optimum && !Same(value, x.Optimum) {
		return fmt.Sprintf("the start costs %g", value)
	}
	return ""
}

// judge says what is wrong with the answer of one backend, "" if nothing.
func (k *checker) judge(x *Counterexample, program *formulation.Program, r *solvers.Result) FailureKind {
	switch r.Status {
	case solvers.Optimal:
	case solvers.Infeasible:
		if x.Plan == nil || k.f.Promise == formulation.Restriction {
			return ""
		}
		x.Detail = r.Backend + ": infeasible"
		return NoSolution
	default:
		x.Detail = fmt.Sprintf("%s: %v %v", r.Backend, r.Status, r.Note)
		return Unsolved
	}
	value, _ := r.Objective()
	value = program.Objective(value)
	x.Detail = fmt.Sprintf("%s: %g", r.Backend, value)
	whole := k.f.Promise == formulation.Equal || k.f.Promise == formulation.Restriction // solutions are plans
	switch {
	case Same(value, x.Optimum):
	case value > x.Optimum && (k.f.Promise == formulation.Equal || k.f.Promise == formulation.LowerBound):
		return Above
	case whole && x.Plan == nil:
		return NoPlan
	case whole && value < x.Optimum:
		return Below
	}
	// A relaxation may have solutions where there is no plan.
	if program.Plan != nil && (k.f.Promise != formulation.LowerBound || x.Plan != nil) {
		if wrong := k.badPlan(x, program, r, value); wrong != "" {
			x.Detail = wrong
			return BadPlan
		}
	}
	if value > x.Optimum && !Same(value, x.Optimum) && k.f.Promise != formulation.Restriction {
		return Above
	}
	return ""
}

// badPlan says what is wrong with the plan of a solution of so much cost, "" if
// nothing.
func (k *checker) badPlan(x *Counterexample, program *formulation.Program, r *solvers.Result, cost float64) string {
	solution, _ := r.Solution()
	p, err := program.Plan(solution)
	switch {
	case errors.Is(err, plan.ErrNoPlan) && k.f.Promise == formulation.LowerBound:
		return "" // a relaxation leaves out rules that its solutions may break
	case err != nil:
		return err.Error()
	}
	report, err := plan.VerifyOn(plan.Instance{Chain: x.Chain, Graph: x.Graph, Functions: x.Functions}, p)
	switch {
	case err != nil:
		return err.Error()
	case !report.Valid():
		return report.Violations[0].Detail
	case len(report.ClaimErrors) > 0:
		return report.ClaimErrors[0]
	case k.f.Promise == formulation.Equal && !Same(report.Makespan, x.Optimum),
		k.f.Promise == formulation.Restriction && !Same(report.Makespan, cost),
		k.f.Promise == formulation.Nothing && report.Makespan > cost && !Same(report.Makespan, cost):
		what := "makespan"
		if p.Period != nil {
			what = "period"
		}
		return fmt.Sprintf("plan of %s %g", what, report.Makespan)
	}
	return ""
}

// CheckTolerance is what solvers leave undone, and far less than the optima of
// instances of integers differ by.
const CheckTolerance = 1e-6

func Same(a, b float64) bool {
	return a == b || !math.IsInf(b, 0) && math.Abs(a-b) <= 10*CheckTolerance*(1+math.Abs(b))
}
