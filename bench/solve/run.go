package solve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"workbench/ilp/formulation"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// Tolerance is the relative gap at which a plan counts as optimal: ten times what MILP solvers guarantee for a
// row.
const Tolerance = 1e-6

// Exactness is the relative difference up to which two objectives, or an objective and a bound, are equal. It
// covers only the rounding of sums of times.
const Exactness = plan.Tolerance

// ErrInput is wrapped by errors in the user's input: files, names, limits.
var ErrInput = errors.New("bad input")

// InvalidPlanError is the error of a method whose plan failed verification, and
// of verify.
type InvalidPlanError struct {
	Method string
	Report *plan.Report
}

func (e *InvalidPlanError) Error() string {
	v := e.Report.Violations[0]
	return fmt.Sprintf("the plan of %s breaks %s; the first, %s: %s", e.Method, platform.Count(len(e.Report.Violations), "rule"), v.Rule,
		v.Detail)
}

// Run runs one method on one instance. Every plan that it returns has been replayed by the verifier, and the
// result has the best known bound. All failures are in the result: see Status and Err.
func Run(ctx context.Context, p *Problem, m *Method, in *Instance, s Setting) *Result {
	r := &Result{
		Format: ResultFormat, Problem: p.Name, Method: m.Name, Kind: m.Kind, Unverified: m.Unverified,
		Instance: in.Ref(),
		Platform: s.Platform, Budget: s.Budget,
		Parameters: Parameters{
			TimeLimit: s.Time.Seconds(), Gap: s.Gap, Threads: s.Threads,
		},
		Seed: s.Seed,
	}
	s = s.WithDefaults(m)
	s.problem = p.Name
	r.Keeps = func(assumption string) bool { return p.meets(in, r.Plan, assumption) }
	if m.Slots > 0 {
		r.Parameters.Slots = s.Slots
	}
	start, cpu := time.Now(), cpuTime()
	defer func() {
		r.WallTime = time.Since(start).Seconds()
		r.CPUTime = (cpuTime() - cpu).Seconds()
	}()
	if s.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.left())
		defer cancel()
	}
	if err := takes(p, m, in); err != nil {
		return r.fail(err)
	}
	var closed Bound
	in.RunLimited(ctx, BoundPart(s.left()), func() { closed = p.Bound(in, s) })
	r.withBounds(closed)
	err := r.needsLink(in)
	var out *Outcome
	if err == nil {
		s.OnProgress = r.withoutTransfers(in, s.OnProgress)
		in.RunLimited(ctx, 0, func() { out, err = m.Run(ctx, in, s) })
	}
	if err != nil {
		r.fail(atEnd(ctx, err))
		r.Ended = ended(ctx, r, &Outcome{}, s)
		return r
	}
	if m.Solver && out.Solver == nil && s.Missing != nil {
		out.Remark("the MILP was skipped: " + s.Missing.Error())
	}
	defer func() { r.Ended = ended(ctx, r, out, s) }()
	return r.setOutcome(in, m, out, closed)
}

// left returns the part of the time limit that remains for the method; 0: no limit.
func (s *Setting) left() time.Duration { return max(s.Time-s.Spent, s.Time/10) }

// BoundPart returns the part of a time limit, 0 being none, for searches before a method begins.
func BoundPart(limit time.Duration) time.Duration { return limit / 4 }

// RangeWithin returns Range. The search for its low end may take a part of s.Time, and if that does not
// suffice, low is high. If the memory was given as a percentage of the range (needed), neither the limit nor the
// end of ctx stops the search, since the percentage has no value without it. Setting.Spent accounts for its time.
func (p *Problem) RangeWithin(ctx context.Context, in *Instance, s Setting, needed bool) (low, high float64) {
	limit := BoundPart(s.Time)
	if needed {
		ctx, limit = context.WithoutCancel(ctx), 0
	}
	in.RunLimited(ctx, limit, func() {
		if low, high = p.Range(in, s); in.Stop.Given() {
			low = high
		}
	})
	return low, high
}

// setOutcome records what a method found: its plan once that is replayed, its bounds and the closed-form one, and
// its claims.
func (r *Result) setOutcome(in *Instance, m *Method, out *Outcome, closed Bound) *Result {
	r.Refused = out.Refused
	for _, x := range out.Refused {
		out.Remark("refused: " + x.Err.Error())
	}
	r.Note, r.Model, r.Formulation = out.Note, out.Model, describe(out.Model)
	if out.Solver != nil {
		name, version, _ := strings.Cut(out.Solver.Backend, " ")
		r.Backend = &BackendRef{name, version}
		r.Nodes = &out.Solver.Nodes
	}
	for _, b := range out.Bounds {
		if b.Proof.Trusted() && (r.OwnBound == nil || b.Value > r.OwnBound.Value) {
			r.OwnBound = &b
		}
	}
	r.Claims = out.Claims
	proved := append(slices.Clone(out.Bounds), closed)
	r.Bounds = nil
	if out.Plan == nil && out.Infeasible != nil && len(out.Supposing) == 0 {
		r.Disproof = out.Infeasible
		return r.fail(&plan.Infeasible{
			Problem: r.Problem, Given: r.Platform.Memory,
			Why: "certified: " + out.Infeasible.Formulation + " has no solution",
		})
	}
	if out.Plan == nil {
		r.withBounds(proved...)
		r.Status = Limit
		if m.Kind == Relaxed && !out.Stopped && r.OwnBound != nil && len(r.Claims) == 0 {
			r.Status = Optimal
		}
		if m.Kind != Relaxed {
			r.Err = fmt.Errorf("%s: %w within the limits", m.Name, plan.ErrNoPlan)
			r.Error = r.Err.Error()
		}
		return r
	}
	if r.unlinked() && out.Plan.Moves() {
		return r.withoutLink(m, in, proved)
	}
	report, err := in.replay(out.Plan)
	if report == nil {
		return r.fail(err)
	}
	out.Plan.Instance = in.Ref()
	r.Plan, r.Report = out.Plan, report
	if err != nil {
		return r.fail(&InvalidPlanError{m.Name, report})
	}
	if c := out.Infeasible; c != nil && r.bound(&Bound{Assumptions: out.Supposing}) {
		return r.fail(fmt.Errorf("%s: there is a verified plan, but %s is certified to be infeasible: the formulation is wrong", m.Name,
			c.Formulation))
	}
	objective := report.Objective(r.Problem)
	r.Objective, r.PeakMemory = &objective, &report.PeakMemory
	if !plan.MinimisesMemory(r.Problem) {
		r.Makespan = &report.Makespan
	}
	if f := report.Flush; f != nil {
		r.Span, r.GPUMemory = &f.Span, f.Memory
	}
	if n := in.Samples(); n > 0 && report.Makespan > 0 { // of each micro-batch, if there are any
		throughput := float64(n*max(1, out.Plan.Platform.MicroBatches)) / report.Makespan
		r.Throughput = &throughput
	}
	r.withBounds(proved...)
	return r
}

// unlinked reports whether the bandwidth is a placeholder for no link.
func (r *Result) unlinked() bool {
	return 0 < r.Platform.Bandwidth && r.Platform.Bandwidth <= platform.NoLink
}

// withoutLink returns the result for a plan that transfers data although there is no link.
func (r *Result) withoutLink(m *Method, in *Instance, proved []Bound) *Result {
	r.withBounds(proved...)
	if err := r.needsLink(in); err != nil {
		return r.fail(err)
	}
	return r.fail(fmt.Errorf("%s: %w without transfers", m.Name, plan.ErrNoPlan))
}

// neverArrives returns a time that only plans with a transfer over a placeholder link exceed. Plans without
// transfers compute everything at most once for each layer, and a single byte takes 10^30 seconds.
func neverArrives(in *Instance) float64 { return 1e12 * in.Compute() }

// needsLink returns the proof that no plan exists without a link, namely a bound above neverArrives; nil if there
// is none.
func (r *Result) needsLink(in *Instance) error {
	if !r.unlinked() || r.Bound == nil || r.Bound.Value <= neverArrives(in) {
		return nil
	}
	return &plan.Infeasible{Problem: r.Problem, Given: r.Platform.Memory, Why: "without a link nothing can leave the GPU: " + r.Bound.By}
}

// withoutTransfers returns tell without the plans that transfer data although there is no link.
func (r *Result) withoutTransfers(in *Instance, tell func(Progress)) func(Progress) {
	if !r.unlinked() || tell == nil {
		return tell
	}
	return func(p Progress) {
		if p.Objective > neverArrives(in) {
			p.Objective = math.NaN()
		}
		tell(p)
	}
}

// atEnd turns an error caused by the end of ctx into one that says that no plan was found within the limits, and
// which limit ended the run.
func atEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	if !errors.Is(err, plan.ErrNoPlan) {
		err = fmt.Errorf("%w within the limits: %w", plan.ErrNoPlan, err)
	}
	return &limitError{err}
}

// limitError is the end of a context in words of this program.
type limitError struct{ err error }

func (e *limitError) Error() string {
	return strings.NewReplacer(
		context.DeadlineExceeded.Error(), "the time limit was reached",
		context.Canceled.Error(), "it was interrupted",
	).Replace(e.err.Error())
}

func (e *limitError) Unwrap() error { return e.err }

// takes returns an error for an instance that the problem or the method does not support.
func takes(p *Problem, m *Method, in *Instance) error {
	if err := p.Accepts(in); err != nil {
		return err
	}
	if !m.Accepts(in) {
		return InputError(fmt.Errorf("%s supports %s, but %s is a %s: workbench methods --problem %s lists the methods that support it",
			m.Name, KindWords(m.Takes), in.Name, KindWord(in.Kind()), p.Name))
	}
	return nil
}

// fail records err and the corresponding status.
func (r *Result) fail(err error) *Result {
	r.Err, r.Error, r.Status = err, err.Error(), Failed
	var infeasible *plan.Infeasible
	switch {
	case errors.As(err, &infeasible):
		r.Status, r.Bound, r.Conditional, r.Bounds = Infeasible, nil, nil, nil
	case errors.Is(err, ErrInput): // rejected, whether or not a plan exists
	case errors.Is(err, plan.ErrNoPlan):
		r.Status = Limit
	}
	return r
}

// ended returns the reason why the run ended.
func ended(ctx context.Context, r *Result, out *Outcome, s Setting) proof.Ended {
	switch why, over := formulation.StopReason(ctx); {
	case r.Status == Failed:
		return proof.Error
	case r.Status == Optimal || r.Status == Infeasible || len(r.OptimalWithin) > 0:
		return proof.Closed
	case r.Gap != nil && *r.Gap <= s.Gap:
		return proof.Gap
	case over:
		return why
	case out.Ended != "" && out.Ended != proof.Closed:
		return out.Ended
	case out.Stopped:
		return proof.TimeLimit
	}
	return proof.NoProof
}

// withBounds adds bounds and judges the plan by the best one that applies to it. An uncertified solver bound
// becomes a claim.
func (r *Result) withBounds(more ...Bound) {
	if r.Status == Failed || r.Status == Infeasible {
		return
	}
	for _, b := range more {
		switch {
		case math.IsNaN(b.Value) || math.IsInf(b.Value, 0):
		case !b.Proof.Trusted():
			r.Claims = append(r.Claims, proof.Claim{By: b.By, Value: b.Value, Status: "feasible", Why: "not certified"})
		default:
			b.Assumptions = append([]string{}, b.Assumptions...) // [] in JSON, not null
			r.Bounds = append(r.Bounds, b)
		}
	}
	r.Bound, r.Conditional = best(r.Bounds, r.bound)
	r.Claims = slices.DeleteFunc(r.Claims, r.proves)
	if r.Plan != nil {
		r.judge()
	}
}

// proves reports whether a known bound implies a claim, under at most the assumptions of the claim.
func (r *Result) proves(c proof.Claim) bool {
	return slices.ContainsFunc(r.Bounds, func(b Bound) bool {
		of := func(a string) bool { return slices.Contains(c.Assumptions, a) }
		return !math.IsInf(c.Value, 0) && platform.Closed(c.Value, b.Value, Tolerance) &&
			!slices.ContainsFunc(b.Assumptions, func(a string) bool { return !of(a) })
	})
}

// bound reports whether b applies to the plan: the plan satisfies its assumptions.
func (r *Result) bound(b *Bound) bool {
	return r.Plan == nil || !slices.ContainsFunc(b.Assumptions, func(a string) bool { return !r.Keeps(a) })
}

// meets reports whether a plan satisfies an assumption. Unknown assumptions count as satisfied, so that a plan
// that is better than such a bound raises an error.
func (p *Problem) meets(in *Instance, x *plan.Plan, assumption string) bool {
	test := p.Meets
	if test == nil {
		test = func(_ *Instance, x *plan.Plan, a string) (bool, bool) { return x.Meets(a) }
	}
	meets, known := test(in, x, assumption)
	return meets || !known
}

// best returns the best of the bounds on all plans and, if an applicable bound with assumptions is better, that
// one as conditional; nil: none.
func best(bounds []Bound, binds func(*Bound) bool) (bound, conditional *Bound) {
	for i := range bounds {
		b := &bounds[i]
		switch {
		case len(b.Assumptions) == 0:
			bound = better(bound, b)
		case binds(b):
			conditional = better(conditional, b)
		}
	}
	if bound != nil && conditional != nil && proof.Compare(bound, conditional) <= 0 {
		conditional = nil
	}
	return bound, conditional
}

// better returns the better of two bounds; nil is none.
func better(a, b *Bound) *Bound {
	if a == nil || proof.Compare(b, a) < 0 {
		return b
	}
	return a
}

// judge sets the gap and the status of a result with a verified plan. It fails if the plan is better than a bound
// that applies to it.
func (r *Result) judge() {
	r.Status, r.OptimalWithin = Feasible, nil
	r.Claims = slices.DeleteFunc(r.Claims, func(c proof.Claim) bool {
		disproved := platform.Excess(*r.Objective, c.Value) < -Tolerance
		if disproved {
			r.Note = strings.TrimPrefix(r.Note+fmt.Sprintf("; the plan disproves what %s claims, %v s", c.By, c.Value), "; ")
		}
		return disproved
	})
	for i := range r.Bounds {
		b := &r.Bounds[i]
		if platform.Excess(*r.Objective, b.Value) < -Exactness && r.bound(b) {
			r.fail(fmt.Errorf("%s: the verified plan (%v s) is better than the bound of %s (%v s, %s): the bound is wrong", r.Method, *r.Objective,
				b.By, b.Value, b.Proof))
			return
		}
	}
	if r.Conditional != nil && platform.Closed(*r.Objective, r.Conditional.Value, Tolerance) {
		r.OptimalWithin = r.Conditional.Assumptions
	}
	if r.Bound == nil {
		return
	}
	gap := platform.Gap(*r.Objective, r.Bound.Value)
	r.Gap = &gap
	// The bound may be a certified one, preferred to a higher one of a search.
	closes := func(b Bound) bool {
		return len(b.Assumptions) == 0 && platform.Closed(*r.Objective, b.Value, Tolerance)
	}
	if slices.ContainsFunc(r.Bounds, closes) {
		r.Status, r.OptimalWithin = Optimal, nil
	}
}

// JudgeTogether gives every result the bounds of all results. It returns the best bound on all plans and, if a
// bound with assumptions is better, that one; nil: none. A result that proves infeasibility fails if another has a
// plan.
func JudgeTogether(results []*Result) (bound, conditional *Bound) {
	if k := slices.IndexFunc(results, func(r *Result) bool { return r.Status == Feasible || r.Status == Optimal && r.Plan != nil }); k >= 0 {
		for _, r := range results {
			if r.Status == Infeasible {
				r.fail(fmt.Errorf("%s proves that no plan exists (%v), but %s has a verified one: the proof is wrong", r.Method, r.Err,
					results[k].Method))
			}
		}
	}
	var all []Bound
	for _, r := range results {
		all = append(all, r.Bounds...)
	}
	for _, r := range results {
		r.Bounds = nil
		r.withBounds(all...)
	}
	return best(all, func(*Bound) bool { return true })
}
