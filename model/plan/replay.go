package plan

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/platform"
)

// Rules of problems whose operations run one at a time on one device, as
// violations name them, beside RuleMemory, RuleOrder, RuleDuration, RuleTime,
// RuleLayer and RuleMissing of weight offloading.
const (
	RuleUnknownOp       = "unknown-op"       // an operation of unknown kind, or with what its kind does not have
	RuleNode            = "node"             // an operation of a node that the graph does not have
	RuleBranch          = "branch"           // an operation of a branch that the join does not have
	RuleOverlap         = "overlap"          // two operations at once
	RuleMissingInput    = "missing-input"    // an operation whose input is not stored
	RuleNotStored       = "not-stored"       // a discard or an offload of what is not stored
	RuleTwice           = "twice"            // a second run of what runs once
	RuleMissingBackward = "missing-backward" // a backward that is not in the plan
	RuleMissingOutput   = "missing-output"   // a result that is not stored at the end
	RuleLeftOver        = "left-over"        // something else that is
	RuleChanged         = "changed"          // a node that changes or reads what nodes change, in another order than the graph's
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
type replay struct {
	plan   *Plan
	report *Report
	eps    float64 // seconds; instants closer than this are simultaneous
	limit  float64 // memory that there is

	fixed float64
	held  [3]float64 // stored now, by part

	before int     // the operation that starts last so far, -1 if none
	last   int     // the one that ends last
	clock  float64 // when it ends
	busy   Sum     // what the operations take by the instance

	atLoss *Checkpoints // what is stored when the loss has been reached

	record bool
	steps  []MemoryStep
}

// Parts of replay.held.
const (
	activations = iota
	saved
	gradients
)

// newReplay checks that there is something to replay.
func newReplay(p *Plan, problem string, invalid error, record bool) (*replay, error) {
	fail := func(format string, args ...any) (*replay, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrUnreadable}, args...)...)
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
	r := &replay{plan: p, limit: p.Platform.Memory, report: &Report{PeakOp: -1}, before: -1, record: record}
	for k := range p.Ops {
		if end := p.Ops[k].End; Finite(end) {
			r.report.Makespan = max(r.report.Makespan, end)
		}
	}
	r.eps = Tolerance * r.report.Makespan
	if record {
		r.steps = make([]MemoryStep, 0, len(p.Ops))
	}
	return r, nil
}

// begin notes what is stored before the first operation.
func (r *replay) begin() {
	r.report.PeakMemory = r.stored()
	if used := r.report.PeakMemory; !platform.Fits(used, r.limit) {
		p := r.plan
		r.broken(RuleMemory, -1, p.Unit.Bytes(used-r.limit), "%s are stored at the start; there is memory for %s", p.Size(used), p.Size(r.limit))
	}
}

// finish returns the replay of a whole plan, its report in order.
//
// Operations may be short of their durations, or overlap, by a rounding; a
// million of them must not gain time by that.
func (r *replay) finish() (*replay, error) {
	if gain := r.busy.Value() - r.report.Makespan; gain > r.eps && !r.mistimed() {
		r.atEnd(RuleDuration, gain, "the operations take %.10g s together, the plan %.10g s", r.busy.Value(), r.report.Makespan)
	}
	SortViolations(r.report.Violations)
	r.report.ClaimErrors = CompareClaims(r.plan, r.report)
	return r, nil
}

// mistimed reports whether a rule about times has been broken.
func (r *replay) mistimed() bool {
	return slices.ContainsFunc(r.report.Violations, func(v Violation) bool {
		return v.Rule == RuleTime || v.Rule == RuleDuration || v.Rule == RuleOrder || v.Rule == RuleOverlap || v.Rule == RuleLinkOverlap
	})
}

// stepsOf are the steps of a replay that records them.
func stepsOf(r *replay, err error) ([]MemoryStep, error) {
	if err != nil {
		return nil, err
	}
	return r.steps, nil
}

// verdict is the report of a replay, for the plan as it was given.
func verdict(r *replay, err error) func(*Plan) (*Report, error) {
	return func(given *Plan) (*Report, error) {
		if err != nil {
			return nil, err
		}
		return r.report.Converted(r.plan.Unit, given.Unit), nil
	}
}

func (r *replay) stored() float64 {
	return r.fixed + r.held[activations] + r.held[saved] + r.held[gradients]
}

// time checks when operation k, which takes so long, runs. Operations stand in
// the plan in the order in which they run.
func (r *replay) time(k int, duration float64) {
	o := &r.plan.Ops[k]
	r.busy.Add(duration)
	if !r.span(k, duration) {
		return
	}
	if r.before < 0 {
		r.before, r.last, r.clock = k, k, o.End
		return
	}
	switch b := &r.plan.Ops[r.before]; {
	case o.Start < b.Start-r.eps:
		r.broken(RuleOrder, k, b.Start-o.Start, "%s starts %.10g s before %s, which stands before it in the plan", o, b.Start-o.Start, b)
	case o.Start < r.clock-r.eps:
		r.broken(RuleOverlap, k, r.clock-o.Start, "%s starts %.10g s before %s ends", o, r.clock-o.Start, &r.plan.Ops[r.last])
	}
	if o.Start >= r.plan.Ops[r.before].Start {
		r.before = k
	}
	if o.End >= r.clock {
		r.last, r.clock = k, o.End
	}
}

// span checks that operation k takes so long and does not begin before time 0.
// It returns false if its times mean nothing.
func (r *replay) span(k int, duration float64) bool {
	o := &r.plan.Ops[k]
	switch {
	case !Finite(o.Start) || !Finite(o.End):
		r.broken(RuleTime, k, 0, "%s runs from %g to %g; both must be finite", o, o.Start, o.End)
		return false
	case o.End < o.Start-r.eps:
		r.broken(RuleTime, k, o.Start-o.End, "%s ends %.10g s before it starts", o, o.Start-o.End)
		return false
	case o.Start < -r.eps:
		r.broken(RuleTime, k, -o.Start, "%s starts %.10g s before time 0", o, -o.Start)
	}
	if d := o.End - o.Start; math.Abs(d-duration) > r.eps {
		r.broken(RuleDuration, k, d-duration, "%s takes %.10g s; it must take %.10g s", o, d, duration)
	}
	return true
}

// during counts the memory in use while operation k runs: what is stored, its
// output and its overhead.
func (r *replay) during(k, part int, output, overhead float64) {
	o := &r.plan.Ops[k]
	before := r.stored()
	if r.record {
		m := &r.steps[k].During
		m.add(part, output)
		m.Overhead = overhead
	}
	total := before + output + overhead
	if total > r.report.PeakMemory {
		r.report.PeakMemory, r.report.PeakOp, r.report.PeakTime = total, k, 0
		if Finite(o.Start) {
			r.report.PeakTime = o.Start
		}
	}
	if !platform.Fits(total, r.limit) {
		p := r.plan
		r.broken(RuleMemory, k, p.Unit.Bytes(total-r.limit), "%s needs %s of %s: %s stored before, %s for its output, %s beside",
			o, p.Size(total), p.Size(r.limit), p.Size(before), p.Size(output), p.Size(overhead))
	}
}

// enter and leave note what is stored before and after operation k.
func (r *replay) enter(k int) {
	if r.record {
		o := &r.plan.Ops[k]
		r.steps = append(r.steps, MemoryStep{Op: k, Start: o.Start, End: o.End, During: r.parts()})
	}
}

func (r *replay) evict(k int) {
	if r.record {
		r.steps[k].After = r.parts()
	}
}

func (r *replay) parts() MemoryParts {
	return MemoryParts{
		Fixed: r.fixed, Activations: r.held[activations], Saved: r.held[saved], Gradients: r.held[gradients],
	}
}

func (m *MemoryParts) add(part int, size float64) {
	*[...]*float64{&m.Activations, &m.Saved, &m.Gradients}[part] += size
}

// store and free change *here, whether something of that size is in memory.
func (r *replay) store(here *bool, part int, size float64) {
	if !*here {
		*here = true
		r.held[part] += size
	}
}

func (r *replay) free(here *bool, part int, size float64) {
	if *here {
		*here = false
		r.held[part] -= size
	}
}

// broken adds a violation by operation k, or of the whole plan if k is -1.
func (r *replay) broken(rule string, k int, amount float64, format string, args ...any) {
	v := Violation{Rule: rule, Op: k, Amount: InRange(amount), Detail: fmt.Sprintf(format, args...)}
	if k >= 0 && Finite(r.plan.Ops[k].Start) {
		v.Time = r.plan.Ops[k].Start
	}
	r.report.Violations = append(r.report.Violations, v)
}

// InRange returns x, or the largest number for more than that: JSON has no
// infinities.
func InRange(x float64) float64 { return min(max(x, -math.MaxFloat64), math.MaxFloat64) }

// atEnd adds a violation of the plan as a whole, at its end.
func (r *replay) atEnd(rule string, amount float64, format string, args ...any) {
	r.broken(rule, -1, amount, format, args...)
	r.report.Violations[len(r.report.Violations)-1].Time = r.report.Makespan
}

// plain reports whether operation k has nothing but what its kind has: one of
// the tensors (nil: none), and a branch or a node if so said.
func (r *replay) plain(k int, branch, node bool, tensors []string) bool {
	o := &r.plan.Ops[k]
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
	r.broken(RuleUnknownOp, k, 0, "%s has %s", o, what)
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
