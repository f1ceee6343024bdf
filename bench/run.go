package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"workbench/model/plan"
	"workbench/model/platform"
)

// tolerance is the relative difference between a plan and a bound at which the
// gap counts as closed: ten times what MILP solvers guarantee for a row.
const tolerance = 1e-6

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
	s = s.of(m)
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
	closed := p.Bound(in, s.Platform)
	r.Bound = &closed
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
		b.Assumptions = append([]string{}, b.Assumptions...) // [] in JSON, not null
		if r.OwnBound == nil || b.Value > r.OwnBound.Value {
			r.OwnBound = &b
		}
		// What the method proved itself is named before a closed form that is
		// as good.
		if b.Value >= r.Bound.Value*(1-1e-9) {
			r.Bound = &b
		}
	}
	if out.Plan == nil {
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
	r.judge(s.Gap)
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
		r.Status, r.Bound = Infeasible, nil
	case errors.Is(err, ErrInput): // refused, whether or not there is a plan
	case errors.Is(err, plan.ErrNoPlan):
		r.Status = Limit
	}
	return r
}

// improveBound keeps the larger of two proven lower bounds.
func (r *Result) improveBound(b Bound) {
	if !math.IsNaN(b.Value) && !math.IsInf(b.Value, 0) && (r.Bound == nil || b.Value > r.Bound.Value) {
		r.Bound = &b
	}
}

// judge sets the gap and the status of a result with a verified plan.
func (r *Result) judge(asked float64) {
	r.Status = Feasible
	if r.Bound == nil {
		return
	}
	gap := RelativeGap(*r.Objective, r.Bound.Value)
	if gap < -tolerance {
		r.fail(fmt.Errorf("%s: the verified plan (%v s) beats the bound of %s (%v s): the bound is wrong", r.Method, *r.Objective, r.Bound.By, r.Bound.Value))
		return
	}
	gap = max(gap, 0)
	r.Gap = &gap
	if gap <= max(asked, tolerance) {
		r.Status = Optimal
	}
}

// WithBound judges a result again under a bound found elsewhere, if it is
// better: compare gives every method the best bound of all.
func (r *Result) WithBound(b *Bound) {
	if b == nil || r.Objective == nil || r.Status == Failed {
		return
	}
	r.improveBound(*b)
	r.judge(r.Parameters.Gap)
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
	return spec.Resolve(low, high)
}
