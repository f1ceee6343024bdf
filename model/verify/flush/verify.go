// Package flush has the verifier of synchronous pipelines.
package flush

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// Verify replays p, a plan of [plan.Flush], on in. Of every stage and micro-batch
// there is one F, one B and, if the backward of the stage is split, one W, on the GPU
// that the placement says and as long as the instance says. On a GPU they run one at a
// time, in the order in which the plan lists them. F comes after F of the stage
// before, B after B of the stage behind or, on the last stage, after F, W after B; what
// comes from another GPU has been on its way for the communication time. F takes its
// memory when it starts, B and W give theirs back when they end; with the weights
// of its stages and the largest of their overheads a GPU never holds more than the memory.
//
// Of a stage that sends a part of what F keeps to the host there is also one O and one P of every micro-batch,
// F, O, P and B one after the other. They run one at a time on the link of the GPU, link0 for gpu0, in the
// order in which the plan lists them. O gives the part back when it ends, P takes it
// when it starts. What the plan lists of a GPU and its link is read in turn, and memory is added up so: an F or P
// starts no earlier than all that is listed before it and gives memory back has ended. At any time a GPU so
// holds no more than is added up at the last F or P that has started.
// A B may take memory for its W, when it starts. In the runtime of PyTorch ([stages.Torch]) a B that is listed directly before
// its W is one operation with it: it takes nothing, and B of the stage before waits for the end of both.
// Instants may differ by [plan.Tolerance] of the makespan; memory is exact.
// O(operations).
func Verify(in *stages.Partition, p *plan.Plan) (*plan.Report, error) {
	v, err := newFlushReplay(in, p)
	if err != nil {
		return nil, err
	}
	for k := range p.Ops {
		v.read(k)
	}
	v.fuse()
	v.dependencies()
	v.turns()
	v.order(nil)
	v.report.Flush.Span = v.span()
	replay.SortViolations(v.report.Violations)
	v.report.ClaimErrors = replay.CompareClaims(v.plan, v.report)
	return v.report.Converted(in.Unit, p.Unit), nil
}

// flushReplay is a plan being replayed.
type flushReplay struct {
	in     *stages.Partition
	plan   *plan.Plan // in the unit of in
	report *plan.Report
	gpus   int
	listed []int // the GPU of each stage, if the placement lists them
	eps    float64
	ops    [][]int // by GPU, its link included: those that can be replayed, as the plan lists them
	at     map[flushOp]int
	fused  map[int]int // from each B that is one operation with its W to that
}

// flushOp names an operation, stages and micro-batches from 0.
type flushOp struct {
	op         string
	stage, job int
}

func newFlushReplay(in *stages.Partition, p *plan.Plan) (*flushReplay, error) {
	invalid := plan.ErrNoInstance
	if in != nil {
		invalid = in.Validate()
	}
	switch {
	case p == nil:
		return nil, fmt.Errorf("%w: no plan", plan.ErrUnreadable)
	case p.Problem != plan.Flush:
		return nil, fmt.Errorf("%w: problem is %q, not %q", plan.ErrUnreadable, p.Problem, plan.Flush)
	case invalid != nil:
		return nil, fmt.Errorf("%w: the instance is not valid: %w", plan.ErrUnreadable, invalid)
	case !(p.Platform.Memory >= 0):
		return nil, fmt.Errorf("%w: platform.memory is %g; it must be a number from 0 on", plan.ErrUnreadable, p.Platform.Memory)
	case p.Platform.MicroBatches < 1 || p.Platform.MicroBatches > stages.MostMicroBatches:
		return nil, fmt.Errorf("%w: platform.micro_batches is %d; there are from 1 to %d", plan.ErrUnreadable, p.Platform.MicroBatches,
			stages.MostMicroBatches)
	}
	objective := cmp.Or(p.Platform.Objective, plan.SpanObjective)
	if objective != plan.SpanObjective && objective != plan.MakespanObjective {
		return nil, fmt.Errorf("%w: platform.objective is %q, not %q or %q", plan.ErrUnreadable, objective, plan.SpanObjective,
			plan.MakespanObjective)
	}
	v := &flushReplay{
		in: in, plan: p.Converted(in.Unit), report: &plan.Report{PeakOp: -1, Flush: &plan.FlushReport{Objective: objective}},
		at: make(map[flushOp]int, len(p.Ops)),
	}
	v.gpus = p.Platform.Processors
	fail := func(format string, args ...any) (*flushReplay, error) {
		return nil, fmt.Errorf("%w: platform.placement of %d GPUs: %w", plan.ErrUnreadable, v.gpus, fmt.Errorf(format, args...))
	}
	listed, ok := plan.ListedRanks(p.Platform.Placement, len(in.Stages), v.gpus)
	v.listed = listed
	switch stages, on := len(in.Stages), p.Platform.Placement; {
	case ok:
	case on == plan.Straight && v.gpus != stages:
		return fail("straight: %d stages need as many GPUs", stages)
	case on == plan.Interleaved && (v.gpus < 1 || stages%v.gpus != 0):
		return fail("interleaved: %d stages are no multiple of the GPUs", stages)
	case on == plan.VShaped && stages != 2*v.gpus:
		return fail("v: %d stages need half as many GPUs", stages)
	case on != plan.Straight && on != plan.Interleaved && on != plan.VShaped:
		return fail("%q is no placement; there are %s, %s, %s and a list of the GPU of each stage", on, plan.Straight, plan.Interleaved,
			plan.VShaped)
	}
	v.ops, v.report.Flush.Memory = make([][]int, v.gpus), make([]float64, v.gpus)
	for k := range p.Ops {
		if e := p.Ops[k].End; plan.Finite(e) {
			v.report.Makespan = max(v.report.Makespan, e)
		}
	}
	v.eps = plan.Tolerance * v.report.Makespan
	return v, nil
}

func (v *flushReplay) broken(rule string, op int, time, amount float64, format string, args ...any) {
	v.report.Violations = append(v.report.Violations, plan.Violation{
		Rule: rule, Op: op, Time: time, Amount: amount,
		Detail: fmt.Sprintf(format, args...),
	})
}

// gpu returns where a stage is, both from 0.
func (v *flushReplay) gpu(stage int) int {
	if v.listed != nil {
		return v.listed[stage]
	}
	if v.plan.Platform.Placement == plan.VShaped && stage >= v.gpus {
		return 2*v.gpus - 1 - stage
	}
	return stage % v.gpus
}

// read checks an operation by itself and notes it.
func (v *flushReplay) read(k int) {
	o := &v.plan.Ops[k]
	if !plan.Finite(o.Start) || !plan.Finite(o.End) || o.Start < -v.eps || o.End < o.Start {
		v.broken(plan.RuleTime, k, 0, 0, "ops[%d], %s, runs from %g to %g; times are numbers from 0 on, the end not before the start", k, o,
			o.Start, o.End)
		return
	}
	if o.Stage < 1 || o.Stage > len(v.in.Stages) {
		v.broken(plan.RuleStage, k, o.Start, 0, "ops[%d], %s: there is no stage %d; they are numbered from 1 to %d", k, o.Op, o.Stage,
			len(v.in.Stages))
		return
	}
	if o.MicroBatch < 1 || o.MicroBatch > v.plan.Platform.MicroBatches {
		v.broken(plan.RuleMicroBatch, k, o.Start, 0, "ops[%d], %s of stage %d: there is no micro-batch %d; they are numbered from 1 to %d", k,
			o.Op, o.Stage, o.MicroBatch, v.plan.Platform.MicroBatches)
		return
	}
	s := &v.in.Stages[o.Stage-1]
	var length float64
	switch {
	case o.Op == plan.OpF:
		length = s.ForwardTime
	case o.Op == plan.OpB:
		length = s.BackwardTime
	case o.Op == plan.OpW && s.Split():
		length = s.WeightTime
	case (o.Op == plan.OpO || o.Op == plan.OpP) && s.Sends():
		length = s.OffloadTime
	default:
		v.broken(plan.RuleKind, k, o.Start, 0, "ops[%d], %s: the operations of this stage are F, B and, where the backward is split, W and, "+
			"where something is sent to the host, O and P", k, o)
		return
	}
	name := flushOp{o.Op, o.Stage - 1, o.MicroBatch - 1}
	if first, twice := v.at[name]; twice {
		v.broken(plan.RuleRepeated, k, o.Start, 0, "ops[%d], %s, repeats ops[%d]", k, o, first)
		return
	}
	v.at[name] = k
	if d := math.Abs(o.End - o.Start - length); d > v.eps {
		v.broken(plan.RuleDuration, k, o.Start, d, "ops[%d], %s, takes %g s; by the instance it takes %g s", k, o, o.End-o.Start, length)
	}
	g := v.gpu(o.Stage - 1)
	if on := lanes[laneOf(o.Op)] + strconv.Itoa(g); o.Resource != on {
		v.broken(plan.RuleResource, k, o.Start, 0, "ops[%d], %s, is on %q; the placement has stage %d on gpu%d, and %s of it on %s", k, o,
			o.Resource, o.Stage, g, o.Op, on)
	}
	v.ops[g] = append(v.ops[g], k)
}

// fuse finds, in the runtime of PyTorch, each B that is listed directly before its W, with which it is one operation.
func (v *flushReplay) fuse() {
	v.fused = map[int]int{}
	if v.in.Runtime != stages.Torch {
		return
	}
	for _, ops := range v.ops {
		for i, k := range ops[:max(0, len(ops)-1)] {
			b, w := &v.plan.Ops[k], &v.plan.Ops[ops[i+1]]
			if b.Op == plan.OpB && w.Op == plan.OpW && b.Stage == w.Stage && b.MicroBatch == w.MicroBatch {
				v.fused[k] = ops[i+1]
			}
		}
	}
}

// dependencies checks that everything is there and comes after what it needs.
func (v *flushReplay) dependencies() {
	for s := range v.in.Stages {
		for j := range v.plan.Platform.MicroBatches {
			v.checkPredecessors(flushOp{plan.OpF, s, j})
			v.checkPredecessors(flushOp{plan.OpB, s, j})
			if v.in.Stages[s].Split() {
				v.checkPredecessors(flushOp{plan.OpW, s, j})
			}
			if v.in.Stages[s].Sends() {
				v.checkPredecessors(flushOp{plan.OpO, s, j})
				v.checkPredecessors(flushOp{plan.OpP, s, j})
			}
		}
	}
}

// lanes are the names of what a GPU has, before its number: it computes, and its link to the host copies.
var lanes = [...]string{"gpu", "link"}

// laneOf returns which of them an operation runs on.
func laneOf(op string) int {
	if op == plan.OpO || op == plan.OpP {
		return 1
	}
	return 0
}

// needs returns what x comes after; the first F comes after nothing that is there.
func (v *flushReplay) needs(x flushOp) []flushOp {
	own := func(op string) flushOp { return flushOp{op, x.stage, x.job} }
	switch x.op {
	case plan.OpF:
		return []flushOp{{plan.OpF, x.stage - 1, x.job}}
	case plan.OpW:
		return []flushOp{own(plan.OpB)}
	case plan.OpO:
		return []flushOp{own(plan.OpF)}
	case plan.OpP:
		return []flushOp{own(plan.OpO)}
	}
	list := []flushOp{{plan.OpB, x.stage + 1, x.job}}
	if x.stage == len(v.in.Stages)-1 {
		list[0] = own(plan.OpF)
	}
	if v.in.Stages[x.stage].Sends() {
		list = append(list, own(plan.OpP))
	}
	return list
}

// turns checks that no operations wait for each other, in the orders of the GPUs and for what
// they need: instants do not tell where all of them take no time. O(GPUs·operations).
func (v *flushReplay) turns() {
	next, done := make([]int, v.gpus), make([]bool, len(v.plan.Ops))
	for moved := true; moved; {
		moved = false
		for g, ops := range v.ops {
			for ; next[g] < len(ops); next[g]++ {
				o := &v.plan.Ops[ops[next[g]]]
				if slices.ContainsFunc(v.needs(flushOp{o.Op, o.Stage - 1, o.MicroBatch - 1}), func(y flushOp) bool {
					i, there := v.at[y]
					return there && !done[i]
				}) {
					break
				}
				done[ops[next[g]]], moved = true, true
			}
		}
	}
	for g, ops := range v.ops {
		if next[g] < len(ops) {
			k := ops[next[g]]
			v.broken(plan.RuleDependency, k, v.plan.Ops[k].Start, 0, "ops[%d], %s, is listed on gpu%d before what it waits for", k, &v.plan.Ops[k],
				g)
			return
		}
	}
}

// checkPredecessors checks that x is in the plan and starts when what it needs has arrived.
func (v *flushReplay) checkPredecessors(x flushOp) {
	k, there := v.at[x]
	if !there {
		v.broken(plan.RuleMissing, -1, 0, 0, "%s of stage %d and micro-batch %d is not in the plan", x.op, x.stage+1, x.job+1)
		return
	}
	for _, y := range v.needs(x) {
		i, there := v.at[y]
		if !there {
			continue // x is the first, or y missing itself
		}
		ready := v.plan.Ops[i].End
		if w, one := v.fused[i]; one && x.stage != y.stage {
			ready = v.plan.Ops[w].End
		}
		if v.gpu(x.stage) != v.gpu(y.stage) {
			ready += v.in.CommunicationTime
		}
		if late := ready - v.plan.Ops[k].Start; late > v.eps {
			v.broken(plan.RuleDependency, k, v.plan.Ops[k].Start, late, "ops[%d], %s, starts %g s before what ops[%d], %s, makes has arrived", k,
				&v.plan.Ops[k], late, i, &v.plan.Ops[i])
		}
	}
}

// order goes through the operations of each GPU and its link in turn: none begins before the one
// before of the same has ended, none that takes memory before all that give some back have, and memory is added up. step
// hears of what a GPU holds at 0 and
// from each operation's start or end on, where that changes it; it may be nil.
func (v *flushReplay) order(step func(gpu int, time, held float64)) {
	for g, ops := range v.ops {
		held, overhead, full := int64(0), 0.0, false
		for s := range v.in.Stages {
			if v.gpu(s) == g {
				held += int64(v.in.Stages[s].Weight)
				overhead = max(overhead, v.in.Stages[s].Overhead)
			}
		}
		held += int64(overhead)
		v.peak(g, held, -1)
		if step != nil {
			step(g, 0, float64(held))
		}
		w := -1                                       // the W that is one operation with the last B
		last, given := [2]int{-1, -1}, [2]int{-1, -1} // of the GPU and its link, and of each the last that gave memory back
		for _, k := range ops {
			o := &v.plan.Ops[k]
			lane, takes := laneOf(o.Op), o.Op == plan.OpF || o.Op == plan.OpP
			v.checkOrder([2]string{plan.RuleComputeOverlap, plan.RuleLinkOverlap}[lane], k, last[lane])
			if last[lane] = k; takes {
				v.checkOrder(plan.RuleDependency, k, given[1-lane])
			} else {
				given[lane] = k
			}
			s, change := &v.in.Stages[o.Stage-1], int64(0)
			_, one := v.fused[k]
			switch o.Op {
			case plan.OpO:
				change = -int64(s.OffloadMemory)
			case plan.OpP:
				held += int64(s.OffloadMemory)
			case plan.OpF:
				held += int64(s.ForwardMemory)
			case plan.OpB:
				if change = int64(s.BackwardMemory); change > 0 {
					kept := change
					if change = 0; one {
						kept = 0
					}
					held += kept
				}
			case plan.OpW:
				change = int64(s.WeightMemory)
				if k == w && s.BackwardMemory > 0 {
					change += int64(s.BackwardMemory)
				}
			}
			if one {
				w = v.fused[k]
			}
			v.peak(g, held, k)
			if over := float64(held) - v.plan.Platform.Memory; !platform.Fits(float64(held), v.plan.Platform.Memory) && !full {
				full = true
				v.broken(plan.RuleMemory, k, o.Start, v.in.Unit.Bytes(over), "gpu%d holds %s bytes from ops[%d], %s, on; there is memory for %s", g,
					v.plan.Size(float64(held)), k, o, v.plan.Size(v.plan.Platform.Memory))
			}
			held += change
			if step != nil {
				at := o.End
				if takes {
					at = o.Start
				}
				step(g, at, float64(held))
			}
		}
	}
}

// checkOrder checks that an operation does not start before one that is listed before it, of the same GPU or its
// link, has ended; -1: there is none.
func (v *flushReplay) checkOrder(rule string, k, before int) {
	if before < 0 {
		return
	}
	o, x := &v.plan.Ops[k], &v.plan.Ops[before]
	if early := x.End - o.Start; early > v.eps {
		v.broken(rule, k, o.Start, early, "ops[%d], %s, starts %g s before ops[%d], %s, which is listed before it on %s, has ended", k, o, early,
			before, x, x.Resource)
	}
}

// peak notes what a GPU holds.
func (v *flushReplay) peak(g int, held int64, op int) {
	v.report.Flush.Memory[g] = max(v.report.Flush.Memory[g], float64(held))
	if float64(held) > v.report.PeakMemory {
		v.report.PeakMemory, v.report.PeakOp, v.report.PeakTime = float64(held), op, 0
		if op >= 0 {
			v.report.PeakTime = v.plan.Ops[op].Start
		}
	}
}

// span returns the largest time of a GPU between its first start and its last end.
func (v *flushReplay) span() float64 {
	span := 0.0
	for _, ops := range v.ops {
		first, last := math.Inf(1), 0.0
		for _, k := range ops { // copies are between an F and a B
			first, last = min(first, v.plan.Ops[k].Start), max(last, v.plan.Ops[k].End)
		}
		span = max(span, last-first)
	}
	return span
}

// GPU is what a GPU does in a plan of [plan.Flush].
type GPU struct {
	Stages []int   `json:"stages"`           // from 1 on
	Busy   float64 `json:"busy"`             // seconds
	Copies float64 `json:"copies,omitempty"` // how long its link to the host is busy, seconds
	Span   float64 `json:"span"`             // from the first start to the last end, seconds
	Memory float64 `json:"memory"`           // its peak in bytes, weights included
}

// Summary is what one wants to know of a plan of [plan.Flush] at a glance. Times are in
// seconds, sizes in bytes.
type Summary struct {
	Problem      string  `json:"problem"`
	Method       string  `json:"method"`
	Instance     string  `json:"instance"`
	MicroBatches int     `json:"micro_batches"`
	Placement    string  `json:"placement"`
	Span         float64 `json:"span"`
	Makespan     float64 `json:"makespan"`
	GPUs         []GPU   `json:"gpus"`
	Memory       float64 `json:"memory"`     // of a GPU
	Violations   int     `json:"violations"` // broken rules
}

// Summarize sums up p, a plan of [plan.Flush]. The error is that of [Verify].
func Summarize(in *stages.Partition, p *plan.Plan) (*Summary, error) {
	r, err := Verify(in, p)
	if err != nil {
		return nil, err
	}
	s := &Summary{
		Problem: p.Problem, Method: p.Method, Instance: p.Instance.Name, MicroBatches: p.Platform.MicroBatches, Placement: p.Platform.Placement,
		Span: r.Flush.Span, Makespan: r.Makespan, GPUs: make([]GPU, len(r.Flush.Memory)), Memory: p.Unit.Bytes(p.Platform.Memory),
		Violations: len(r.Violations),
	}
	v := &flushReplay{in: in, plan: p, gpus: len(s.GPUs)}
	v.listed, _ = plan.ListedRanks(p.Platform.Placement, len(in.Stages), v.gpus)
	first := make([]float64, len(s.GPUs))
	for g := range first {
		first[g], s.GPUs[g].Memory = math.Inf(1), p.Unit.Bytes(r.Flush.Memory[g])
	}
	for i := range in.Stages {
		s.GPUs[v.gpu(i)].Stages = append(s.GPUs[v.gpu(i)].Stages, i+1)
	}
	for k := range p.Ops {
		if o := &p.Ops[k]; o.Stage >= 1 && o.Stage <= len(in.Stages) && o.End >= o.Start {
			g := v.gpu(o.Stage - 1)
			if laneOf(o.Op) == 1 {
				s.GPUs[g].Copies += o.End - o.Start
				continue
			}
			s.GPUs[g].Busy += o.End - o.Start
			first[g] = min(first[g], o.Start)
			s.GPUs[g].Span = max(s.GPUs[g].Span, o.End)
		}
	}
	for g := range first {
		s.GPUs[g].Span = max(0, s.GPUs[g].Span-first[g])
	}
	return s, nil
}

// String returns the summary as lines of text.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s plan for %s by %s\n", s.Problem, s.Instance, s.Method)
	fmt.Fprintf(&b, "  span        %s, makespan %s for %d micro-batches, placement %s\n", platform.FormatSeconds(s.Span),
		platform.FormatSeconds(s.Makespan), s.MicroBatches, s.Placement)
	for g, x := range s.GPUs {
		copies := ""
		if x.Copies > 0 {
			copies = ", copies to and from the host " + platform.FormatSeconds(x.Copies)
		}
		noun := "stages"
		if len(x.Stages) == 1 {
			noun = "stage"
		}
		fmt.Fprintf(&b, "  gpu%-8d %s %s: busy %s, idle %.2f %% of its %s, peak %s of %s%s\n", g, noun, strings.Trim(fmt.Sprint(x.Stages), "[]"),
			platform.FormatSeconds(x.Busy), 100*max(0, x.Span-x.Busy)/max(x.Span, math.SmallestNonzeroFloat64), platform.FormatSeconds(x.Span),
			platform.FormatBytes(x.Memory), platform.FormatBytes(s.Memory), copies)
	}
	if s.Violations > 0 {
		fmt.Fprintf(&b, "  INVALID     breaks the rules %s; verify says where\n", platform.Count(s.Violations, "time"))
	}
	return b.String()
}

// A Step is what a GPU holds, in bytes, from an instant on.
type Step struct {
	GPU        int
	Time, Held float64
}

// Profile returns what each GPU holds over time, GPU by GPU and in the order of
// the plan: at 0 what is there before any operation, then a step for each of them, when it changes what
// is held. The error is that of [Verify].
func Profile(in *stages.Partition, p *plan.Plan) ([]Step, error) {
	v, err := newFlushReplay(in, p)
	if err != nil {
		return nil, err
	}
	for k := range p.Ops {
		v.read(k)
	}
	v.fuse()
	var steps []Step
	v.order(func(gpu int, time, held float64) {
		steps = append(steps, Step{gpu, time, in.Unit.Bytes(held)})
	})
	return steps, nil
}
