// Package replay is the kernel under the verifiers: operations, events and links of one
// device, the circle of a period, the memory in use, violations, and summaries. A verifier
// is written from the rules of its problem and shares no code with any method.
package replay

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
)

// MemoryParts is memory in use, in bytes (of a join: slots), by what it holds.
type MemoryParts struct {
	Fixed       float64 `json:"fixed"`       // resident all the time: the input of a graph
	Activations float64 `json:"activations"` // a; of a graph, values of forward nodes; of swapping, variables on the GPU
	Saved       float64 `json:"saved"`       // ā; of swapping, variables on their way in
	Gradients   float64 `json:"gradients"`   // δ; of a graph, values of loss and backward nodes
	Overhead    float64 `json:"overhead"`    // of the running operation
}

// Total returns the sum of the parts.
func (m MemoryParts) Total() float64 {
	return m.Fixed + m.Activations + m.Saved + m.Gradients + m.Overhead
}

// MemoryStep is the memory in use during and after one operation of a plan.
type MemoryStep struct {
	Op         int // index in Plan.Ops
	Start, End float64
	During     MemoryParts // everything stored before, the outputs and the overhead
	After      MemoryParts
}

// A replay follows the operations of a plan in their order, one at a time on
// one device.
type Replay struct {
	Plan   *plan.Plan
	Report *plan.Report
	eps    float64 // seconds; instants closer than this are simultaneous
	Limit  float64 // memory that there is

	Fixed float64
	Held  [3]float64 // stored now, by part

	before int     // the operation that starts last so far, -1 if none
	last   int     // the one that ends last
	clock  float64 // when it ends
	busy   Sum     // what the operations take by the instance

	AtLoss *Checkpoints // what is stored when the loss has been reached

	Record bool
	Steps  []MemoryStep
}

// Parts of replay.held.
const (
	Activations = iota
	Saved
	Gradients
)

// New checks that there is something to replay.
func New(p *plan.Plan, problem string, invalid error, record bool) (*Replay, error) {
	fail := func(format string, args ...any) (*Replay, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{plan.ErrUnreadable}, args...)...)
	}
	switch {
	case p == nil:
		return fail("no plan")
	case p.Problem != problem:
		return fail("problem is %q, not %q", p.Problem, problem)
	case invalid != nil:
		return fail("the instance is not valid: %w", invalid)
	case p.Period != nil:
		return fail("period is %g; plans of %s do not repeat, so it must be null", *p.Period, problem)
	case !(p.Platform.Memory >= 0):
		return fail("platform.memory is %g; it must be a number from 0 on", p.Platform.Memory)
	}
	r := &Replay{Plan: p, Limit: p.Platform.Memory, Report: &plan.Report{PeakOp: -1}, before: -1, Record: record}
	for k := range p.Ops {
		if end := p.Ops[k].End; plan.Finite(end) {
			r.Report.Makespan = max(r.Report.Makespan, end)
		}
	}
	r.eps = plan.Tolerance * r.Report.Makespan
	if record {
		r.Steps = make([]MemoryStep, 0, len(p.Ops))
	}
	return r, nil
}

// begin notes what is stored before the first operation.
func (r *Replay) CheckStart() {
	r.Report.PeakMemory = r.Stored()
	if used := r.Report.PeakMemory; !platform.Fits(used, r.Limit) {
		p := r.Plan
		r.Broken(plan.RuleMemory, -1, p.Unit.Bytes(used-r.Limit), "%s are stored at the start; there is memory for %s", p.Size(used),
			p.Size(r.Limit))
	}
}

// Finish returns the replay of a whole plan, its report in order.
//
// Operations may be short of their durations, or overlap, by a rounding; a
// million of them must not gain time by that.
func (r *Replay) Finish() (*Replay, error) {
	if gain := r.busy.Value() - r.Report.Makespan; gain > r.eps && !r.mistimed() {
		r.AtEnd(plan.RuleDuration, gain, "the operations take %.10g s together, the plan %.10g s", r.busy.Value(), r.Report.Makespan)
	}
	SortViolations(r.Report.Violations)
	r.Report.ClaimErrors = CompareClaims(r.Plan, r.Report)
	return r, nil
}

// mistimed reports whether a rule about times has been broken.
func (r *Replay) mistimed() bool {
	return slices.ContainsFunc(r.Report.Violations, func(v plan.Violation) bool {
		return slices.Contains([]string{plan.RuleTime, plan.RuleDuration, plan.RuleOrder, plan.RuleOverlap, plan.RuleLinkOverlap}, v.Rule)
	})
}

// StepsOf are the steps of a replay that records them.
func StepsOf(r *Replay, err error) ([]MemoryStep, error) {
	if err != nil {
		return nil, err
	}
	return r.Steps, nil
}

// Verdict is the report of a replay, for the plan as it was given.
func Verdict(r *Replay, err error) func(*plan.Plan) (*plan.Report, error) {
	return func(given *plan.Plan) (*plan.Report, error) {
		if err != nil {
			return nil, err
		}
		return r.Report.Converted(r.Plan.Unit, given.Unit), nil
	}
}

func (r *Replay) Stored() float64 {
	return r.Fixed + r.Held[Activations] + r.Held[Saved] + r.Held[Gradients]
}

// CheckTime checks when operation k, which takes so long, runs. Operations stand in
// the plan in the order in which they run.
func (r *Replay) CheckTime(k int, duration float64) {
	o := &r.Plan.Ops[k]
	r.busy.Add(duration)
	if !r.CheckSpan(k, duration) {
		return
	}
	if r.before < 0 {
		r.before, r.last, r.clock = k, k, o.End
		return
	}
	switch b := &r.Plan.Ops[r.before]; {
	case o.Start < b.Start-r.eps:
		r.Broken(plan.RuleOrder, k, b.Start-o.Start, "%s starts %.10g s before %s, which stands before it in the plan", o, b.Start-o.Start, b)
	case o.Start < r.clock-r.eps:
		r.Broken(plan.RuleOverlap, k, r.clock-o.Start, "%s starts %.10g s before %s ends", o, r.clock-o.Start, &r.Plan.Ops[r.last])
	}
	if o.Start >= r.Plan.Ops[r.before].Start {
		r.before = k
	}
	if o.End >= r.clock {
		r.last, r.clock = k, o.End
	}
}

// CheckSpan checks that operation k takes so long and does not begin before time 0.
// It returns false if its times mean nothing.
func (r *Replay) CheckSpan(k int, duration float64) bool {
	o := &r.Plan.Ops[k]
	switch {
	case !plan.Finite(o.Start) || !plan.Finite(o.End):
		r.Broken(plan.RuleTime, k, 0, "%s runs from %g to %g; both must be finite", o, o.Start, o.End)
		return false
	case o.End < o.Start-r.eps:
		r.Broken(plan.RuleTime, k, o.Start-o.End, "%s ends %.10g s before it starts", o, o.Start-o.End)
		return false
	case o.Start < -r.eps:
		r.Broken(plan.RuleTime, k, -o.Start, "%s starts %.10g s before time 0", o, -o.Start)
	}
	if d := o.End - o.Start; math.Abs(d-duration) > r.eps {
		r.Broken(plan.RuleDuration, k, d-duration, "%s takes %.10g s; it must take %.10g s", o, d, duration)
	}
	return true
}

// CheckMemory counts the memory in use while operation k runs: what is stored, its
// output and its overhead.
func (r *Replay) CheckMemory(k, part int, output, overhead float64) {
	o := &r.Plan.Ops[k]
	before := r.Stored()
	if r.Record {
		m := &r.Steps[k].During
		m.Add(part, output)
		m.Overhead = overhead
	}
	total := before + output + overhead
	if total > r.Report.PeakMemory {
		r.Report.PeakMemory, r.Report.PeakOp, r.Report.PeakTime = total, k, 0
		if plan.Finite(o.Start) {
			r.Report.PeakTime = o.Start
		}
	}
	if !platform.Fits(total, r.Limit) {
		p := r.Plan
		r.Broken(plan.RuleMemory, k, p.Unit.Bytes(total-r.Limit), "%s needs %s of %s: %s stored before, %s for its output, %s beside",
			o, p.Size(total), p.Size(r.Limit), p.Size(before), p.Size(output), p.Size(overhead))
	}
}

// enter and leave note what is stored before and after operation k.
func (r *Replay) RecordDuring(k int) {
	if r.Record {
		o := &r.Plan.Ops[k]
		r.Steps = append(r.Steps, MemoryStep{Op: k, Start: o.Start, End: o.End, During: r.Parts()})
	}
}

func (r *Replay) RecordAfter(k int) {
	if r.Record {
		r.Steps[k].After = r.Parts()
	}
}

func (r *Replay) Parts() MemoryParts {
	return MemoryParts{
		Fixed: r.Fixed, Activations: r.Held[Activations], Saved: r.Held[Saved], Gradients: r.Held[Gradients],
	}
}

func (m *MemoryParts) Add(part int, size float64) {
	*[...]*float64{&m.Activations, &m.Saved, &m.Gradients}[part] += size
}

// store and free change *here, whether something of that size is in memory.
func (r *Replay) Store(here *bool, part int, size float64) {
	if !*here {
		*here = true
		r.Held[part] += size
	}
}

func (r *Replay) Free(here *bool, part int, size float64) {
	if *here {
		*here = false
		r.Held[part] -= size
	}
}

// Broken adds a violation by operation k, or of the whole plan if k is -1.
func (r *Replay) Broken(rule string, k int, amount float64, format string, args ...any) {
	v := plan.Violation{Rule: rule, Op: k, Amount: InRange(amount), Detail: fmt.Sprintf(format, args...)}
	if k >= 0 && plan.Finite(r.Plan.Ops[k].Start) {
		v.Time = r.Plan.Ops[k].Start
	}
	r.Report.Violations = append(r.Report.Violations, v)
}

// InRange returns x, or the largest number for more than that: JSON has no
// infinities.
func InRange(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }

// AtEnd adds a violation of the plan as a whole, at its end.
func (r *Replay) AtEnd(rule string, amount float64, format string, args ...any) {
	r.Broken(rule, -1, amount, format, args...)
	r.Report.Violations[len(r.Report.Violations)-1].Time = r.Report.Makespan
}

// CheckFields reports whether operation k has nothing but what its kind has: one of
// the tensors (nil: none), and a branch or a node if so said. If not, it adds a violation.
func (r *Replay) CheckFields(k int, branch, node bool, tensors []string) bool {
	o := &r.Plan.Ops[k]
	what := ""
	switch {
	case len(tensors) == 0 && o.Tensor != "":
		what = fmt.Sprintf("tensor %q; it has none", o.Tensor)
	case len(tensors) > 0 && !slices.Contains(tensors, o.Tensor):
		what = fmt.Sprintf("tensor %q; it has one of %q", o.Tensor, tensors)
	case !branch && o.Branch != 0:
		what = fmt.Sprintf("branch %d; it has none", o.Branch)
	case !node && o.Node != "":
		what = fmt.Sprintf("node %q; it has none", o.Node)
	case o.Storage != "":
		what = fmt.Sprintf("storage %q; it has none", o.Storage)
	case node && o.Layer != 0:
		what = fmt.Sprintf("layer %d; it has a node", o.Layer)
	default:
		return true
	}
	r.Broken(plan.RuleUnknownOp, k, 0, "%s has %s", o, what)
	return false
}

// A Sum adds durations without the rounding that a million of them would pile
// up (Neumaier's compensated sum).
type Sum struct{ hi, lo float64 }

func (s *Sum) Add(x float64) {
	t := s.hi + x
	if math.Abs(s.hi) >= math.Abs(x) {
		s.lo += (s.hi - t) + x
	} else {
		s.lo += (x - t) + s.hi
	}
	s.hi = t
}

func (s *Sum) Value() float64 { return s.hi + s.lo }
