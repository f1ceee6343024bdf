package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"workbench/model/plan"
	"workbench/model/platform"
)

// tolerance is the relative difference between a plan and a bound at which the
// gap counts as closed: ten times what MILP solvers guarantee for a row.
const Tolerance = 1e-6

// ErrInput is wrapped by errors in what the user gave: files, names, limits.
var ErrInput = errors.New("bad input")

// InvalidPlanError is the error of a method whose plan failed verification, and
// of verify.
type InvalidPlanError struct {
	Method string
	Report *plan.Report
}

func (e *InvalidPlanError) Error() string {
	v := e.Report.Violations[0]
	return fmt.Sprintf("the plan of %s breaks %d rules; the first, %s: %s", e.Method, len(e.Report.Violations), v.Rule, v.Detail)
}

// Run runs one method on one instance. Whatever it returns has been replayed
// by the verifier, and carries the best bound that is known. Everything that
// can go wrong is in the result: see Status and Err.
func Run(ctx context.Context, p *Problem, m *Method, in *Instance, s Setting) *Result {
	r := &Result{
		Format: ResultFormat, Problem: p.Name, Method: m.Name, Kind: m.Kind, Unverified: m.Unverified,
		Instance: in.Ref(),
		Platform: s.Platform,
		Parameters: Parameters{
			TimeLimit: s.Time.Seconds(), Gap: s.Gap, Threads: s.Threads,
		},
		Seed: s.Seed,
	}
	s = s.Of(m)
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
		ctx, cancel = context.WithTimeout(ctx, s.Time)
		defer cancel()
	}
	if err := takes(p, m, in); err != nil {
		return r.fail(err)
	}
	closed := p.Bound(in, s)
	r.withBounds(closed)
	out, err := m.Run(ctx, in, s)
	if err != nil {
		return r.fail(ended(ctx, err))
	}
	r.Note, r.Formulation = out.Note, out.Formulation
	if out.Solver != nil {
		name, version, _ := strings.Cut(out.Solver.Backend, " ")
		r.Backend = &BackendRef{name, version}
		r.Nodes = &out.Solver.Nodes
	}
	for _, b := range out.Bounds {
		if r.OwnBound == nil || b.Value > r.OwnBound.Value {
			r.OwnBound = &b
		}
	}
	r.Bounds = nil
	proved := out.Bounds
	// What the method proved itself is named rather than a closed form as good.
	if !slices.ContainsFunc(proved, func(b Bound) bool { return len(b.Assumptions) == 0 && b.Value >= closed.Value*(1-1e-9) }) {
		proved = append(slices.Clone(proved), closed)
	}
	if out.Plan == nil {
		r.withBounds(proved...)
		r.Status = Limit
		if m.Kind == Relaxed && !out.Stopped {
			r.Status = Optimal
		}
		if m.Kind != Relaxed {
			r.Err = fmt.Errorf("%s: %w within the limits", m.Name, plan.ErrNoPlan)
			r.Error = r.Err.Error()
		}
		return r
	}
	report, err := plan.VerifyOn(in.Instance, out.Plan)
	if err != nil {
		return r.fail(fmt.Errorf("%s: plan cannot be replayed: %w", m.Name, err))
	}
	out.Plan.Instance = in.Ref()
	r.Plan, r.Report = out.Plan, report
	if !report.Valid() {
		return r.fail(&InvalidPlanError{m.Name, report})
	}
	r.Objective, r.Makespan, r.PeakMemory = &report.Makespan, &report.Makespan, &report.PeakMemory
	if n := in.Samples(); n > 0 && report.Makespan > 0 {
		throughput := float64(n) / report.Makespan
		r.Throughput = &throughput
	}
	r.withBounds(proved...)
	return r
}

// ended says of an error that comes of the end of ctx that there is no plan
// within the limits.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, plan.ErrNoPlan) {
		return fmt.Errorf("%w within the limits: %w", plan.ErrNoPlan, err)
	}
	return err
}

// takes refuses an instance that the problem or the method is not made for.
func takes(p *Problem, m *Method, in *Instance) error {
	if err := p.Accepts(in); err != nil {
		return err
	}
	if !m.Accepts(in) {
		return InputError(fmt.Errorf("%s works on %s and %s is a %s: workbench methods --problem %s lists what does", m.Name, FormNames(m.Takes), in.Name, in.Form(), p.Name))
	}
	return nil
}

// fail records err and the status it stands for.
func (r *Result) fail(err error) *Result {
	r.Err, r.Error, r.Status = err, err.Error(), Failed
	var infeasible *plan.Infeasible
	switch {
	case errors.As(err, &infeasible):
		r.Status, r.Bound, r.Unconditional, r.Bounds = Infeasible, nil, nil, nil
	case errors.Is(err, ErrInput): // refused, whether or not there is a plan
	case errors.Is(err, plan.ErrNoPlan):
		r.Status = Limit
	}
	return r
}

// withBounds adds proven bounds and judges the plan by the best that binds it.
func (r *Result) withBounds(more ...Bound) {
	if r.Status == Failed || r.Status == Infeasible {
		return
	}
	for _, b := range more {
		if !math.IsNaN(b.Value) && !math.IsInf(b.Value, 0) {
			b.Assumptions = append([]string{}, b.Assumptions...) // [] in JSON, not null
			r.Bounds = append(r.Bounds, b)
		}
	}
	r.Bound, r.Unconditional = best(r.Bounds, r.bound)
	if r.Plan != nil {
		r.judge()
	}
}

// bound reports whether b binds the plan: what it assumes is so. Of an assumption
// that cannot be looked up, a plan that beats the bound is no instance.
func (r *Result) bound(b *Bound) bool {
	if r.Plan == nil {
		return true
	}
	for _, a := range b.Assumptions {
		meets, known := r.Plan.Meets(a)
		if known && !meets || !known && RelativeGap(*r.Objective, b.Value) < -Tolerance {
			return false
		}
	}
	return true
}

// best returns the best of the bounds that bind and, if it has assumptions, the
// best without; nil: there is none.
func best(bounds []Bound, binds func(*Bound) bool) (bound, unconditional *Bound) {
	for i := range bounds {
		if b := &bounds[i]; binds(b) {
			bound = better(bound, b)
			if len(b.Assumptions) == 0 {
				unconditional = better(unconditional, b)
			}
		}
	}
	if bound == unconditional {
		unconditional = nil
	}
	return bound, unconditional
}

// better returns the larger bound, or one with fewer assumptions that is as good.
// nil is no bound.
func better(a, b *Bound) *Bound {
	if a == nil {
		return b
	}
	handicap := 1 + 1e-9*float64(cmp.Compare(len(b.Assumptions), len(a.Assumptions)))
	if b.Value > a.Value*handicap {
		return b
	}
	return a
}

// judge sets the gap and the status of a result with a verified plan.
func (r *Result) judge() {
	r.Status = Feasible
	if r.Bound == nil {
		return
	}
	gap := RelativeGap(*r.Objective, r.Bound.Value)
	if gap < -Tolerance {
		r.fail(fmt.Errorf("%s: the verified plan (%v s) beats the bound of %s (%v s): the bound is wrong", r.Method, *r.Objective, r.Bound.By, r.Bound.Value))
		return
	}
	gap = max(gap, 0)
	r.Gap = &gap
	if gap <= max(r.Parameters.Gap, Tolerance) {
		r.Status = Optimal
	}
}

// JudgeTogether gives every result the bounds that any of them knows. It returns
// the best of them all and, if that has assumptions, the best without; nil: there
// is none.
func JudgeTogether(results []*Result) (bound, unconditional *Bound) {
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

// RelativeGap returns (objective − bound) / objective, 0 for two zeros.
func RelativeGap(objective, bound float64) float64 {
	if objective == bound {
		return 0
	}
	return (objective - bound) / math.Max(math.Abs(objective), 1e-300)
}

// ResolveMemory turns a memory flag ("16GiB", "40%") into bytes for this
// instance.
func ResolveMemory(p *Problem, in *Instance, spec platform.MemorySpec) float64 {
	low, high := p.Range(in)
	return in.Resolve(spec, low, high)
}
