// Package check compares formulations with exhaustive search on small random instances.
package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

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

// Options configure the check of a formulation. The zero value checks DefaultCases instances of the usual size.
type Options struct {
	Seed  uint64
	Cases int // number of instances; 0: DefaultCases
	// Layers is the length of the longest chain, or the number of forward nodes of the largest graph or of
	// functions. 0 means the subject's Usual; the maximum is its Most.
	Layers int
	// Without lists constraint groups to leave out, which shows whether the promise needs them.
	Without []string
	// Grow continues after Cases until the context ends, with one layer more every Cases instances, up to the
	// subject's Most.
	Grow bool
	// Known returns plans that methods have for an instance, at best of large ones, whether or not they are valid; nil: none.
	Known func(context.Context, *testcase.Trial) []KnownPlan
}

// KnownPlan is a plan and the method that made it.
type KnownPlan struct {
	Method string
	Plan   *plan.Plan
}

// DefaultCases is the meaning of Options.Cases = 0.
const DefaultCases = 200

// Report is the result of a check.
type Report struct {
	Formulation formulation.Formulation
	Backends    []string
	Cases       int // instances compared
	Skipped     int // of these: too hard for exhaustive search or outside the formulation
	Tight       int // of these: optima equal
	// First is Tight of the first Cases instances, which are the same on every machine. Expected is its value when
	// the formulation was added; 0: not known. A smaller First means that the bound became weaker.
	First, Expected int
	Layers          int // of the largest instances
	// Starts, Plans and Hints count the plans converted to starts, the plans of solutions replayed, and the hints
	// derived from solutions. They are 0 where a formulation has none.
	Starts, Plans, Hints int
	// Large is the number of instances, beyond exhaustive search, on which Known plans were tried.
	Large    int
	Failures []Failure
}

// Counterexample is an instance on which a formulation fails.
type Counterexample struct {
	testcase.Trial
	about   *testcase.Subject
	Optimum float64    // by exhaustive search, seconds; +Inf: infeasible
	Plan    *plan.Plan // an optimal plan; nil: infeasible
	Method  string     // of the plan whose objective Optimum is; "": exhaustive search
	Detail  string
}

// String returns the instance, one layer or node a line, and the failure; "" if the failure does not concern a
// single instance.
func (x *Counterexample) String() string {
	if x.about == nil {
		return ""
	}
	s := x.about.Text(&x.Trial, x.Plan)
	if math.IsInf(x.Optimum, 1) {
		return s + "no plan; " + x.Detail
	}
	if x.Method != "" {
		return s + fmt.Sprintf("plan of %s %g; %s", x.Method, x.Optimum, x.Detail)
	}
	return s + fmt.Sprintf("optimum %g; %s", x.Optimum, x.Detail)
}

// Failure is one kind of violation of a formulation's promise.
type Failure struct {
	Kind  FailureKind
	Count int // instances with this failure
	// Smallest is the first of them, shrunk while the failure persists.
	Smallest Counterexample
}

// FailureKind names what is wrong.
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
	KnownStart FailureKind = "the plan of a heuristic is no solution"
	KnownAbove FailureKind = "the relaxation is above the plan of a heuristic"
	Weaker     FailureKind = "equal to the optimum less often than when it was entered: the bound got weaker"
)

// small is the number of layers up to which instances are solved on every backend. Larger ones run on the first
// only: lp_solve, without cuts, takes minutes for some.
const small = 3

// Run compares a formulation with exhaustive search on small random instances of a subject, on every backend. A
// formulation that fails is a result, not an error; the error says that the check itself could not run.
//
// The objective of a model must be in seconds. The criteria depend on the promise:
//
//   - An optimum above that of the search is always wrong; one below it is wrong if the promise is Equal.
//   - Unless the promise is Nothing or Restriction, the plan of the search must be a start, no worse than itself.
//   - Plans of solutions must be valid. Those of formulations without a promise must attain their objective; those
//     of exact ones must be optimal. Unless the promise is Nothing, they must be starts, too.
//   - Hints must give a finite value for every operation.
//   - On larger instances valid plans of methods, Options.Known, must be starts, and no better than the relaxation.
//
// When ctx ends, the check ends and reports the instances so far.
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
	k := &checker{ctx: ctx, f: f, about: about, without: o.Without, report: report, known: o.Known}
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
			if err := k.tryLarge(o); err != nil {
				return nil, err
			}
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
		if err := k.tryLarge(o); err != nil {
			return nil, err
		}
	}
	report.expect(o, report.Cases)
	return report, k.unseen()
}

// expect compares the number of equal optima with the table, if all instances of the table were tried.
func (r *Report) expect(o Options, tried int) {
	want, known := tight[r.Formulation.Name]
	if o.Seed != 0 || o.Cases != DefaultCases || o.Layers != want.layers || len(o.Without) > 0 || !known || tried < o.Cases {
		return
	}
	if r.Expected = want.equal; r.First < r.Expected {
		r.Failures = append(r.Failures, Failure{Kind: Weaker, Count: r.Expected - r.First})
	}
}

// errStopped reports that a backend stopped because the context ended.
var errStopped = errors.New("stopped")

// checker checks instances one at a time.
type checker struct {
	ctx      context.Context
	f        formulation.Formulation
	about    *testcase.Subject
	backends []solvers.Backend
	without  []string // groups to leave out
	groups   []string // groups of the models so far
	report   *Report  // its counts of starts, plans and hints are updated
	known    func(context.Context, *testcase.Trial) []KnownPlan
}

// large are the sizes of instances that exhaustive search does not take, each tried twice; relaxations are given up after
// largeTime.
var large = [...]int{10, 15, 25, 40}

const largeTime = time.Second

// tryLarge compares the formulation with plans of methods on larger instances: a valid plan must be a start without
// violations where it can be a start at all, and no better than the relaxation. It ends with the context.
func (k *checker) tryLarge(o Options) error {
	promised := k.f.Promise == formulation.Equal || k.f.Promise == formulation.LowerBound
	if k.known == nil || !promised || len(k.backends) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	for n := range 2 * len(large) {
		trial, err := k.about.Random(rng, large[n/2])
		if err != nil { // beyond what the generator makes
			return nil
		}
		x := &Counterexample{Trial: *trial, about: k.about}
		kind, _, err := k.tryKnown(x)
		switch {
		case k.ctx.Err() != nil:
			return nil
		case errors.Is(err, formulation.ErrInstance), errors.Is(err, formulation.ErrTooLong):
			continue
		case err != nil:
			return err
		case kind != "":
			if err := k.add(k.report, kind, x); err != nil {
				return err
			}
		}
		if x.Method != "" { // a plan was compared
			k.report.Large++
		}
	}
	return nil
}

// tryKnown is try with the plans that methods have, in place of exhaustive search.
func (k *checker) tryKnown(x *Counterexample) (kind FailureKind, tight bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			kind, err = Panics, nil
			x.Method, x.Detail = "a heuristic", fmt.Sprintf("panic: %v", p)
		}
	}()
	program, err := k.f.Build(x.In, x.Platform, nil)
	if errors.As(err, new(*plan.Infeasible)) {
		return "", false, nil
	}
	if err == nil {
		err = k.ablate(program)
	}
	if err != nil {
		return "", false, err
	}
	bound, err := k.relaxation(program)
	if err != nil {
		return "", false, err
	}
	for _, known := range k.known(k.ctx, &x.Trial) {
		r, err := verify.Replay(x.In, known.Plan)
		if err != nil || !r.Valid() || k.about.Covers != nil && !k.about.Covers(&x.Trial, known.Plan) {
			continue
		}
		x.Plan, x.Method, x.Optimum = known.Plan, known.Method, r.Objective(known.Plan.Problem)
		if bound > x.Optimum && !Same(bound, x.Optimum) {
			x.Detail = fmt.Sprintf("relaxation %g", bound)
			return KnownAbove, false, nil
		}
		if program.Start == nil {
			continue
		}
		if start, err := program.Start(known.Plan); err == nil { // else the plan has no form that this model has
			if v := program.Model.Violations(start, CheckTolerance); len(v) > 0 {
				x.Detail = v[0].String()
				return KnownStart, false, nil
			}
		}
	}
	return "", false, nil
}

// relaxation returns the optimum of the linear relaxation, −∞ if it takes too long.
func (k *checker) relaxation(program *formulation.Program) (float64, error) {
	d := program.Model.Data()
	d.Integer = make([]bool, len(d.Integer))
	ctx, cancel := context.WithTimeout(k.ctx, largeTime)
	defer cancel()
	r, err := k.backends[0].Solve(ctx, milp.FromData(d), solvers.Options{})
	switch {
	case ctx.Err() != nil:
		return math.Inf(-1), nil
	case err != nil:
		return 0, err
	case r.Status == solvers.Infeasible:
		return math.Inf(1), nil
	case r.Status != solvers.Optimal:
		return math.Inf(-1), nil
	}
	value, _ := r.Objective()
	return program.Objective(value), nil
}

// unseen returns an error for a group in without that no model had.
func (k *checker) unseen() error {
	for _, name := range k.without {
		if !slices.Contains(k.groups, name) {
			return fmt.Errorf("%w: %s has no group %q on any instance: %w: %s", formulation.ErrInstance, k.f.Name, name, milp.ErrNoGroup,
				nearest.Hint(name, k.groups))
		}
	}
	return nil
}

// ablate removes from the model those groups in without that it has.
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

// add counts a failure, and shrinks the instance if it is the first of its kind.
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

// shrink returns the smallest instance found that fails in the same way as x: it drops layers, nodes and edges,
// and sets numbers to zero or one less.
func (k *checker) shrink(x *Counterexample, kind FailureKind) (*Counterexample, error) {
next:
	for {
		try := k.try
		if x.Method != "" {
			try = k.tryKnown
		}
		for _, y := range k.smaller(x) {
			switch found, _, err := try(y); {
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

// smaller returns instances that are slightly smaller than x.
func (k *checker) smaller(x *Counterexample) (list []*Counterexample) {
	for _, t := range k.about.Smaller(&x.Trial) {
		list = append(list, &Counterexample{Trial: *t, about: k.about})
	}
	return list
}

// try compares the formulation with exhaustive search on x, and records the numbers in it. kind is "" if the
// promise is kept. tight reports whether the optima are equal, or both problems are infeasible.
//
// A formulation whose builder, start or decoder panics fails on x.
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
		if r.Stop == solvers.Time || r.Stop == solvers.Cancelled { // the only limit is the context's, and a backend may detect its end first
			return "", false, fmt.Errorf("%w: %v", errStopped, r.Stop)
		}
		if kind := k.judge(x, program, r); kind != "" {
			return kind, false, nil
		}
		value, ok := r.Objective()
		if !ok {
			value = math.Inf(1) // infeasible, as expected
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

// promise returns the promise that applies on x.
func (k *checker) promise(x *Counterexample) formulation.Promise {
	if c, ok := x.In.(*chain.Chain); ok && k.f.Promise == formulation.Restriction && c.Len() <= k.f.EqualTo {
		return formulation.Equal
	}
	return k.f.Promise
}

// badStart returns what is wrong with a plan of the given cost as a start, "" if nothing.
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

// judge returns what is wrong with the result of one backend, "" if nothing.
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

// badHint returns what is wrong with the hint of a solution, "" if nothing.
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

// badPlan returns what is wrong with the plan of a solution of the given cost, or with it as a start; "" if
// nothing.
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

// planOf replays the plan of a solution of the given cost. The plan is nil if the promise requires none. wrong
// describes a failure, "" if there is none.
func (k *checker) planOf(x *Counterexample, program *formulation.Program, r *solvers.Result,
	cost float64,
) (_ *plan.Plan, objective float64, wrong string) {
	k.report.Plans++
	solution, _ := r.Solution()
	p, err := program.Plan(solution)
	switch {
	case errors.Is(err, plan.ErrNoPlan) && k.promise(x) == formulation.LowerBound:
		return nil, 0, "" // solutions of a relaxation may violate rules that it omits
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

// CheckTolerance is the error allowed to solvers, far below the difference between optima of integer instances.
const CheckTolerance = 1e-6

// Same reports whether two objectives differ by at most 10·CheckTolerance·(1 + |b|).
func Same(a, b float64) bool {
	return a == b || !math.IsInf(b, 0) && math.Abs(a-b) <= 10*CheckTolerance*(1+math.Abs(b))
}
