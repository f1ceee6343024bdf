// Package check holds formulations against exhaustive search on random tiny instances.
package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/testcase"
	"workbench/model/verify"
	"workbench/solvers"
)

// Options say how a formulation is checked. The zero value checks
// DefaultCases instances of the usual size.
type Options struct {
	Seed  uint64
	Cases int // instances to try; 0: DefaultCases
	// Layers of the longest chain, forward nodes of the largest graph or functions;
	// 0: the subject's Usual. There can be as many as its Most.
	Layers int
	// Without are constraint groups that are left out: whether the promise needs them.
	Without []string
	// Grow goes on after Cases until the context ends, with one layer more each Cases instances, up to
	// the subject's Most.
	Grow bool
}

// DefaultCases is what Options.Cases means if it is 0.
const DefaultCases = 200

// Report is what a check found.
type Report struct {
	Formulation formulation.Formulation
	Backends    []string
	Cases       int // instances tried
	Skipped     int // of them, those too hard for exhaustive search or not for the formulation
	Tight       int // of them, those where the optima are equal
	// First is Tight of the first Cases instances, which are the same on every machine, and Expected
	// what it was when the formulation was entered; 0: not known. Less means that the bound got weaker.
	First, Expected int
	Layers          int // of the largest instances
	// Starts, Plans and Hints are how many plans were tried as starts, plans made of
	// solutions and replayed, and hints read off solutions: 0 where a formulation has none.
	Starts, Plans, Hints int
	Failures             []Failure
}

// Counterexample is an instance on which a formulation fails.
type Counterexample struct {
	testcase.Trial
	about   *testcase.Subject
	Optimum float64    // by exhaustive search, seconds; +Inf: there is no plan
	Plan    *plan.Plan // that has the optimum; nil: there is none
	Detail  string
}

// String prints the instance, one layer or node a line, and what is wrong; "" if the failure is of no
// single instance.
func (x *Counterexample) String() string {
	if x.about == nil {
		return ""
	}
	s := x.about.Text(&x.Trial, x.Plan)
	if math.IsInf(x.Optimum, 1) {
		return s + "no plan; " + x.Detail
	}
	return s + fmt.Sprintf("optimum %g; %s", x.Optimum, x.Detail)
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
	BadHint    FailureKind = "the hint of a solution is none"
	BadPlan    FailureKind = "the plan of a solution is not valid or not optimal"
	Disagree   FailureKind = "backends disagree"
	Unsolved   FailureKind = "not solved"
	Panics     FailureKind = "panics"
	Weaker     FailureKind = "equal to the optimum less often than when it was entered: the bound got weaker"
)

// small instances are solved on every backend, larger ones on the first alone:
// lp_solve, without cuts, takes minutes for some.
const small = 3

// Run compares a formulation with exhaustive search on random tiny instances of a
// subject, on every backend. A formulation that fails is a result, not an error; the
// error says that the check itself could not run.
//
// The objective of a model must be in seconds. What is wrong depends on the
// promise: an optimum above that of the search always is, one below it if the
// promise is Equal. Unless the promise is Nothing or Restriction, the plan that the search
// finds must be a start, no worse than itself. Plans of solutions must be
// valid, of formulations without promise as good as the objective, of exact
// ones optimal; and they must be starts, too, unless the promise is Nothing. Hints must say
// something finite of every operation. The end of ctx ends the check with the instances until then.
func Run(ctx context.Context, f formulation.Formulation, about *testcase.Subject, backends []solvers.Backend, o Options) (*Report, error) {
	if about == nil || about.Kind != f.Kind || about.Staged != f.Staged {
		return nil, fmt.Errorf("%w: formulation %s is of problem %q, which has no exhaustive search of it", formulation.ErrInstance, f.Name,
			f.Problem)
	}
	if o.Cases == 0 {
		o.Cases = DefaultCases
	}
	if o.Layers == 0 {
		o.Layers = about.Usual
	}
	if o.Layers < 1 || o.Layers > about.Most || o.Cases < 0 {
		return nil, fmt.Errorf("%w: %d cases of up to %d %s; exhaustive search takes 1 to %d", formulation.ErrInstance, o.Cases, o.Layers,
			about.Units, about.Most)
	}
	report := &Report{Formulation: f}
	k := &checker{ctx: ctx, f: f, about: about, without: o.Without, report: report}
	for _, b := range backends {
		report.Backends = append(report.Backends, b.Name())
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	layers := o.Layers
	for n := 0; n < o.Cases || o.Grow && ctx.Err() == nil; n++ {
		if n > 0 && n%o.Cases == 0 && layers < about.Most {
			layers++
		}
		if n == o.Cases {
			report.First = report.Tight
		}
		units := 1 + n%layers
		report.Layers = max(report.Layers, units)
		trial, err := about.Random(rng, units)
		if err != nil {
			return nil, err
		}
		x := &Counterexample{Trial: *trial, about: about}
		k.backends = backends
		if units > small && len(backends) > 1 {
			k.backends = backends[:1]
		}
		kind, tight, err := k.try(x)
		if ctx.Err() != nil || errors.Is(err, errStopped) {
			report.expect(o, n)
			return report, nil
		}
		switch {
		case errors.Is(err, exhaustive.ErrLimit), errors.Is(err, formulation.ErrInstance):
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
	if !o.Grow {
		report.First = report.Tight
	}
	report.expect(o, report.Cases)
	return report, k.unseen()
}

// expect compares how often a bound was equal to the optimum with the table, where the instances are
// those of the table and all of them were tried.
func (r *Report) expect(o Options, tried int) {
	want, known := tight[r.Formulation.Name]
	if o.Seed != 0 || o.Cases != DefaultCases || o.Layers != want.layers || len(o.Without) > 0 || !known || tried < o.Cases {
		return
	}
	if r.Expected = want.equal; r.First < r.Expected {
		r.Failures = append(r.Failures, Failure{Kind: Weaker, Count: r.Expected - r.First})
	}
}

// errStopped says that a backend ended with the context.
var errStopped = errors.New("stopped")

// checker checks instances one by one.
type checker struct {
	ctx      context.Context
	f        formulation.Formulation
	about    *testcase.Subject
	backends []solvers.Backend
	without  []string // groups
	groups   []string // that models had
	report   *Report  // whose counts of starts, plans and hints grow
}

// unseen returns an error for a group to be left out that no model had.
func (k *checker) unseen() error {
	for _, name := range k.without {
		if !slices.Contains(k.groups, name) {
			return fmt.Errorf("%w: %s has no group %q on any instance: %w: %s", formulation.ErrInstance, k.f.Name, name, milp.ErrNoGroup,
				nearest.Hint(name, k.groups))
		}
	}
	return nil
}

// ablate leaves out the groups that the model has.
func (k *checker) ablate(program *formulation.Program) (err error) {
	var there []string
	for _, g := range program.Model.Groups() {
		if !slices.Contains(k.groups, g.Name) {
			k.groups = append(k.groups, g.Name)
		}
		if slices.Contains(k.without, g.Name) {
			there = append(there, g.Name)
		}
	}
	if len(there) > 0 {
		program.Model, err = program.Model.Without(there...)
	}
	return err
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
		for _, y := range k.smaller(x) {
			switch found, _, err := k.try(y); {
			case errors.Is(err, errStopped):
				return x, nil
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

// smaller returns instances that are a little smaller than x.
func (k *checker) smaller(x *Counterexample) (list []*Counterexample) {
	for _, t := range k.about.Smaller(&x.Trial) {
		list = append(list, &Counterexample{Trial: *t, about: k.about})
	}
	return list
}

// try compares the formulation with exhaustive search on x, and notes the
// numbers in it. kind is "" if the promise is kept, and tight says whether the
// optima are equal, or there is no plan and no solution.
//
// A formulation that panics, in its builder, its starts or its decoder, fails on x.
func (k *checker) try(x *Counterexample) (kind FailureKind, tight bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			kind, tight, err = Panics, false, nil
			x.Detail = fmt.Sprintf("panic: %v", p)
		}
	}()
	optimum, best, err := k.about.Search(&x.Trial, testcase.States)
	switch {
	case errors.Is(err, exhaustive.ErrInfeasible):
		x.Optimum, x.Plan = math.Inf(1), nil
	case err != nil:
		return "", false, err
	default:
		x.Optimum, x.Plan = optimum, best
	}
	program, err := k.f.Build(x.In, x.Platform, nil)
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
	if err := k.ablate(program); err != nil {
		return "", false, err
	}
	if k.promise(x) != formulation.Nothing && k.promise(x) != formulation.Restriction && x.Plan != nil && program.Start != nil {
		if x.Detail = k.badStart(program, x.Plan, x.Optimum); x.Detail != "" {
			return BadStart, false, nil
		}
	}
	first := math.NaN()
	for i, b := range k.backends {
		r, err := b.Solve(k.ctx, program.Model, solvers.Options{})
		if err != nil {
			return "", false, err
		}
		if r.Stop == solvers.Time || r.Stop == solvers.Cancelled { // no limit but that of the context, of which a backend may know first
			return "", false, fmt.Errorf("%w: %v", errStopped, r.Stop)
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

// promise is what the formulation is held to on x.
func (k *checker) promise(x *Counterexample) formulation.Promise {
	if c, ok := x.In.(*chain.Chain); ok && k.f.Promise == formulation.Restriction && c.Len() <= k.f.EqualTo {
		return formulation.Equal
	}
	return k.f.Promise
}

// badStart says what is wrong with a plan of so much cost as a start, "" if nothing.
func (k *checker) badStart(program *formulation.Program, p *plan.Plan, cost float64) string {
	k.report.Starts++
	start, err := program.Start(p)
	if err != nil {
		return err.Error()
	}
	if v := program.Model.Violations(start, CheckTolerance); len(v) > 0 {
		return v[0].String()
	}
	if value := program.Objective(program.Model.Objective(start)); value > cost && !Same(value, cost) {
		return fmt.Sprintf("the start costs %g, its plan %g", value, cost)
	}
	return ""
}

// judge says what is wrong with the answer of one backend, "" if nothing.
func (k *checker) judge(x *Counterexample, program *formulation.Program, r *solvers.Result) FailureKind {
	switch r.Status {
	case solvers.Optimal:
	case solvers.Infeasible:
		if x.Plan == nil || k.promise(x) == formulation.Restriction {
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
	whole := k.promise(x) == formulation.Equal || k.promise(x) == formulation.Restriction // solutions are plans
	switch {
	case Same(value, x.Optimum):
	case value > x.Optimum && (k.promise(x) == formulation.Equal || k.promise(x) == formulation.LowerBound):
		return Above
	case whole && x.Plan == nil:
		return NoPlan
	case whole && value < x.Optimum:
		return Below
	}
	if program.Hint != nil {
		if wrong := k.badHint(program, r); wrong != "" {
			x.Detail = wrong
			return BadHint
		}
	}
	// A relaxation may have solutions where there is no plan.
	if program.Plan != nil && (k.promise(x) != formulation.LowerBound || x.Plan != nil) {
		if kind, wrong := k.badPlan(x, program, r, value); wrong != "" {
			x.Detail = wrong
			return kind
		}
	}
	if value > x.Optimum && !Same(value, x.Optimum) && k.promise(x) != formulation.Restriction {
		return Above
	}
	return ""
}

// badHint says what is wrong with the hint of a solution, "" if nothing.
func (k *checker) badHint(program *formulation.Program, r *solvers.Result) string {
	k.report.Hints++
	solution, _ := r.Solution()
	h := program.Hint(solution)
	if h == nil || len(h.Away) == 0 || len(h.Away) != len(h.Idle) {
		return fmt.Sprintf("the hint is %+v", h)
	}
	for j, idle := range h.Idle {
		if math.IsNaN(idle) || math.IsInf(idle, 0) || idle < -CheckTolerance*(1+r.Obj) {
			return fmt.Sprintf("the hint says %g s of idle time after operation %d", idle, j)
		}
	}
	return ""
}

// badPlan says what is wrong with the plan of a solution of so much cost, "" if
// nothing: with itself, or with it as a start.
func (k *checker) badPlan(x *Counterexample, program *formulation.Program, r *solvers.Result,
	cost float64,
) (kind FailureKind, wrong string) {
	p, objective, wrong := k.planOf(x, program, r, cost)
	if wrong != "" {
		return BadPlan, wrong
	}
	if p == nil || program.Start == nil || k.promise(x) == formulation.Nothing {
		return "", ""
	}
	return BadStart, k.badStart(program, p, objective)
}

// planOf replays the plan of a solution of so much cost, nil if there need be none, and says
// what is wrong with it, "" if nothing.
func (k *checker) planOf(x *Counterexample, program *formulation.Program, r *solvers.Result,
	cost float64,
) (_ *plan.Plan, objective float64, wrong string) {
	k.report.Plans++
	solution, _ := r.Solution()
	p, err := program.Plan(solution)
	switch {
	case errors.Is(err, plan.ErrNoPlan) && k.promise(x) == formulation.LowerBound:
		return nil, 0, "" // a relaxation leaves out rules that its solutions may break
	case err != nil:
		return nil, 0, err.Error()
	}
	report, err := verify.Replay(x.In, p)
	if err != nil {
		return nil, 0, err.Error()
	}
	objective = report.Objective(p.Problem)
	switch {
	case !report.Valid():
		return nil, 0, report.Violations[0].Detail
	case len(report.ClaimErrors) > 0:
		return nil, 0, report.ClaimErrors[0]
	case k.promise(x) == formulation.Equal && !Same(objective, x.Optimum),
		k.promise(x) == formulation.Restriction && !Same(objective, cost),
		k.promise(x) == formulation.Nothing && objective > cost && !Same(objective, cost):
		what := "makespan"
		switch {
		case plan.MinimisesMemory(p.Problem):
			what = "peak memory"
		case p.Period != nil:
			what = "period"
		}
		return nil, 0, fmt.Sprintf("plan of %s %g", what, objective)
	}
	return p, objective, ""
}

// CheckTolerance is what solvers leave undone, and far less than the optima of
// instances of integers differ by.
const CheckTolerance = 1e-6

// Same reports whether two objectives differ by ten CheckTolerance of 1 + |b| at most.
func Same(a, b float64) bool {
	return a == b || !math.IsInf(b, 0) && math.Abs(a-b) <= 10*CheckTolerance*(1+math.Abs(b))
}
