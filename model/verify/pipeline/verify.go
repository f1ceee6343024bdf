// Package pipeline has the verifier of patterns of asynchronous pipelines.
package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// mostPeriods is how many periods an operation may lie from time 0, and its
// shift from 0: beyond, numbers lose what the verifier must see.
const mostPeriods = 1 << 20

// mostProcessors is how many a pattern may have.
const mostProcessors = 1 << 16

// Verify replays p, a k-periodic pattern of [004] chapters 4 to 7, on a chain or
// on the chain that [Line] makes of a graph.
//
// In the j-th period an operation with shift h starts at j·T + Start and
// processes mini-batch j·k + h. A mini-batch passes F_1, …, F_N, B_N, …, B_1,
// with CF_ℓ between F_ℓ and F_{ℓ+1} and CB_ℓ between B_{ℓ+1} and B_ℓ at each
// cut: where the two layers are on different processors. Each of these is in
// the pattern k times, once for each remainder of the mini-batches modulo k.
// Starts may lie anywhere; the B_1 that starts first has shift 0.
//
// F_ℓ and B_ℓ take uF and uB on the processor of the layer by p.Allocation,
// CF_ℓ and CB_ℓ take a_ℓ/β and δ_ℓ/β on the link of the two processors. A
// resource does one thing at a time, modulo T; what takes no time does not
// happen inside another operation either.
//
// Of a stage with r > 1 replicas, mini-batch m is on the (m mod r)-th of its processors,
// so k is a multiple of r; its weights, its buffers and the links to them are there for
// each. Behind B of its first layer ℓ, AR_ℓ takes the replica for 4(r-1)w/(rβ), w being
// the weights of the stage, once for each mini-batch, as PipeDream's optimizer reckons the
// adding up of gradients (optimizer_graph_hierarchical.py; Narayanan et al., SOSP 2019,
// §3.1); other replicas need not wait for it.
//
// Memory is found by both models; p.MemoryModel (none: [plan.TaskModel]) says which
// one the limit and the claims are about. Both have C·W of each layer and, at
// each cut, buffers a_ℓ + δ_ℓ on either side all the time. Added to this:
//
//   - [plan.StageModel], [004] 7.1.1: NCA_ℓ·a_{ℓ-1} of each layer.
//   - [plan.TaskModel], [004] 6.3, at each operation: its input and its output (of
//     F_ℓ a_{ℓ-1} and a_ℓ, of B_ℓ δ_ℓ and δ_{ℓ-1}); a_{ℓ-1} of every mini-batch
//     for which F_ℓ ran before and B_ℓ, running or not, has not ended; the
//     output of every earlier F or B whose successor is on this processor, too,
//     and has not started (a_N between F_N and B_N).
//
// Instants closer than 1e-9 of the period are simultaneous. Operations on one
// processor that start at the same instant and take no time run before one that
// takes time, and each time the first in the plan whose mini-batch has nothing
// to do before it.
//
// The memory is left out (zeros) of a plan in which operations are missing,
// more than there should be, or of no processor. The error wraps
// [plan.ErrUnreadable] where there is nothing to replay. O(n log n + n·k) in the
// number of operations.
func Verify(in plan.Instance, p *plan.Plan) (*plan.Report, error) {
	v, err := readPattern(in, p)
	if err != nil {
		return nil, err
	}
	complete := v.checkSteps() && !slices.Contains(v.owner, -1)
	v.checkResources()
	v.checkDependencies()
	if complete {
		v.checkMemory()
	}

	r := v.report
	r.Makespan = v.Period / float64(v.k)
	replay.SortViolations(r.Violations)
	r.ClaimErrors = replay.CompareClaims(v.plan, r)
	return r.Converted(v.chain.Unit, p.Unit), nil
}

// pattern is a plan of a pipeline, sorted out for its replay.
type pattern struct {
	replay.Circle
	chain  *chain.Chain
	plan   *plan.Plan
	report *plan.Report
	k      int
	owner  []int // processor of layer ℓ, at ℓ-1, the first of several; -1: none
	copies []int // on how many it is

	steps     []step // what a mini-batch passes, in order
	index     map[stepName]int
	resources []resource
	names     map[string]int  // of resources
	samples   []replay.Sample // of the processor that is followed; nil: no profile is wanted
}

// A step is one operation in the way of a mini-batch.
type step struct {
	stepName
	duration float64
	resource int     // -1: unknown, the allocation is broken
	turns    []turn  // in the pattern, by remainder of their shifts modulo k
	output   float64 // bytes; of a computation
}

type stepName struct {
	op    string
	layer int
}

// A turn is an operation of the pattern, moved by whole periods so that it
// starts in [0, T) and so that its shift is of that period.
type turn struct {
	replay.Arc
	shift int
}

// A resource is a GPU or a link.
type resource struct {
	name string
	link bool
	arcs []replay.Arc
}

func gpuName(i int) string     { return fmt.Sprintf("gpu%d", i) }
func linkName(i, j int) string { return fmt.Sprintf("link%d-%d", min(i, j), max(i, j)) }

// readPattern sorts the operations of p by step and reports those that mean
// nothing, do not take their time or are where they should not be.
func readPattern(in plan.Instance, p *plan.Plan) (*pattern, error) {
	fail := func(format string, args ...any) (*pattern, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{plan.ErrUnreadable}, args...)...)
	}
	c, err := Line(in, p)
	if err != nil {
		return nil, err
	}
	invalid := c.Validate()
	p = p.Converted(c.Unit)
	switch {
	case p == nil:
		return fail("no plan")
	case p.Problem != plan.Pipeline:
		return fail("problem is %q, not %q", p.Problem, plan.Pipeline)
	case invalid != nil:
		return fail("the instance is not valid: %w", invalid)
	case p.Period == nil:
		return fail("period is missing; a pattern has one")
	case !(*p.Period > 0) || math.IsInf(*p.Period, 0):
		return fail("period is %g; it must be a positive number of seconds", *p.Period)
	case !(p.Platform.Memory >= 0):
		return fail("platform.memory is %g; it must be a number from 0 on", p.Platform.Memory)
	case p.Platform.Processors < 1 || p.Platform.Processors > mostProcessors:
		return fail("platform.processors is %d; it must be a number from 1 to %d", p.Platform.Processors, mostProcessors)
	case p.Platform.WeightCopies < 0:
		return fail("platform.weight_copies is %d; it must be a number from 0 on", p.Platform.WeightCopies)
	case p.K < 0 || p.K > max(1, len(p.Ops)):
		return fail("k is %d; it must be positive, and there are %d operations", p.K, len(p.Ops))
	case len(p.Allocation) == 0:
		return fail("allocation is missing; it says which processor computes which layers")
	case p.MemoryModel != "" && p.MemoryModel != plan.StageModel && p.MemoryModel != plan.TaskModel:
		return fail("memory_model is %q; there are %q and %q", p.MemoryModel, plan.StageModel, plan.TaskModel)
	}
	v := &pattern{
		Circle: replay.Circle{Period: *p.Period, Eps: plan.Tolerance * *p.Period},
		chain:  c, plan: p, k: max(1, p.K),
		names: map[string]int{}, index: map[stepName]int{},
	}
	v.report = &plan.Report{PeakOp: -1, Pattern: &plan.PatternReport{
		StageMemory: make([]float64, p.Platform.Processors),
		TaskMemory:  make([]float64, p.Platform.Processors),
		NCA:         make([]int, c.Len()),
	}}
	for i := range p.Platform.Processors {
		v.resourceOf(gpuName(i), false)
	}
	v.readAllocation()
	v.findSteps()
	for k := range p.Ops {
		o := &p.Ops[k]
		if beta := p.Platform.Bandwidth; (o.Op == plan.OpCF || o.Op == plan.OpCB || o.Op == plan.OpAR) && (!(beta > 0) || math.IsInf(beta, 0)) {
			return fail("platform.bandwidth is %g; it must be a positive number of bytes per second", beta)
		}
		v.readOp(k, o)
	}
	return v, nil
}

// readAllocation finds the processor of each layer.
func (v *pattern) readAllocation() {
	n := v.chain.Len()
	v.owner, v.copies = slices.Repeat([]int{-1}, n), slices.Repeat([]int{1}, n)
	stages := make([]int, v.plan.Platform.Processors) // of a processor
	for _, s := range v.plan.Allocation {
		for i := max(0, s.Processor); i < min(len(stages), s.Processor+min(s.Copies(), len(stages))); i++ {
			stages[i]++
		}
	}
	for i, s := range v.plan.Allocation {
		switch {
		case s.Processor < 0 || s.Processor >= v.plan.Platform.Processors:
			v.broken(plan.RuleAllocation, -1, 0, "stage %d is on processor %d; there are processors 0 to %d", i+1, s.Processor,
				v.plan.Platform.Processors-1)
			continue
		case s.Copies() > 1 && !v.plan.Platform.Replicas:
			v.broken(plan.RuleAllocation, -1, 0, "stage %d has %d replicas; the platform does not say that there may be any", i+1, s.Replicas)
			continue
		case s.Replicas < 0 || s.Copies() > v.plan.Platform.Processors-s.Processor:
			v.broken(plan.RuleAllocation, -1, 0, "stage %d has %d replicas, from processor %d on; there are processors 0 to %d", i+1, s.Replicas,
				s.Processor, v.plan.Platform.Processors-1)
			continue
		case s.Copies() > 1 && slices.Max(stages[s.Processor:s.Processor+s.Copies()]) > 1:
			v.broken(plan.RuleAllocation, -1, 0, "stage %d has %d replicas, and on one of its processors there is another stage", i+1, s.Replicas)
			continue
		case v.k%s.Copies() != 0:
			v.broken(plan.RuleAllocation, -1, 0, "stage %d has %d replicas, which take mini-batches in turn; k is %d, it must be a multiple of them",
				i+1, s.Replicas, v.k)
			continue
		case s.From < 1 || s.To > n || s.From > s.To:
			v.broken(plan.RuleAllocation, -1, 0, "stage %d has layers %d to %d; the chain has layers 1 to %d", i+1, s.From, s.To, n)
			continue
		}
		for l := s.From; l <= s.To; l++ {
			if o := &v.owner[l-1]; *o >= 0 {
				v.broken(plan.RuleAllocation, -1, 0, "layer %d is in two stages, on %s and on %s", l, gpuName(*o), gpuName(s.Processor))
			} else {
				*o, v.copies[l-1] = s.Processor, s.Copies()
			}
		}
	}
	for i, o := range v.owner {
		if o < 0 {
			v.broken(plan.RuleAllocation, -1, 0, "layer %d is in no stage", i+1)
		}
	}
}

// cut reports whether layers ℓ and ℓ+1 are on different processors.
func (v *pattern) cut(l int) bool {
	return v.owner[l-1] >= 0 && v.owner[l] >= 0 && v.owner[l-1] != v.owner[l]
}

// findSteps lists what a mini-batch passes.
func (v *pattern) findSteps() {
	n := v.chain.Len()
	add := func(s step) {
		v.index[s.stepName] = len(v.steps)
		v.steps = append(v.steps, s)
	}
	compute := func(op string, l int, duration, output float64) {
		add(step{stepName: stepName{op, l}, duration: duration, resource: v.owner[l-1], output: output})
	}
	send := func(op string, l int, size float64) {
		if v.cut(l) {
			link := v.resourceOf(linkName(v.owner[l-1], v.owner[l]), true)
			add(step{stepName: stepName{op, l}, duration: size / v.plan.Platform.Bandwidth, resource: link})
		}
	}
	for l := 1; l <= n; l++ {
		compute(plan.OpF, l, v.chain.Layers[l-1].ForwardTime, v.chain.A(l))
		if l < n {
			send(plan.OpCF, l, v.chain.A(l))
		}
	}
	for l := n; l >= 1; l-- {
		compute(plan.OpB, l, v.chain.Layers[l-1].BackwardTime, v.chain.Delta(l-1))
		if l > 1 {
			send(plan.OpCB, l-1, v.chain.Delta(l-1))
		}
	}
	v.addReductions()
}

// addReductions lists what replicas do behind the last backward of their stage.
func (v *pattern) addReductions() {
	for l, r := range v.copies {
		if r < 2 || l > 0 && v.owner[l-1] == v.owner[l] {
			continue
		}
		weights := 0.0
		for m := l; m < len(v.owner) && v.owner[m] == v.owner[l]; m++ {
			weights += v.chain.Layers[m].Weight
		}
		s := step{stepName: stepName{plan.OpAR, l + 1}, resource: v.owner[l]}
		s.duration = 4 * float64(r-1) * weights / (float64(r) * v.plan.Platform.Bandwidth)
		v.index[s.stepName] = len(v.steps)
		v.steps = append(v.steps, s)
	}
}

// place returns the resource of a step for the mini-batches with a shift, -1: unknown.
func (v *pattern) place(s *step, shift int) int {
	replica := func(l int) int { return v.owner[l-1] + v.remainder(shift)%v.copies[l-1] }
	switch {
	case s.resource < 0:
		return -1
	case !v.resources[s.resource].link:
		return replica(s.layer)
	}
	return v.resourceOf(linkName(replica(s.layer), replica(s.layer+1)), true)
}

// turnsOn returns the turns of a computation that a processor has.
func (v *pattern) turnsOn(s *step, i int) []turn {
	var list []turn
	for _, t := range s.turns {
		if v.place(s, t.shift) == i {
			list = append(list, t)
		}
	}
	return list
}

// resourceOf returns the index of the resource of that name; GPUs come first,
// so their indices are those of the processors.
func (v *pattern) resourceOf(name string, link bool) int {
	i, known := v.names[name]
	if !known {
		i = len(v.resources)
		v.names[name] = i
		v.resources = append(v.resources, resource{name: name, link: link})
	}
	return i
}

// readOp files operation k under its step, or reports why it cannot.
func (v *pattern) readOp(k int, o *plan.Op) {
	s := v.stepOf(k, o)
	if s == nil {
		return
	}
	switch {
	case !plan.Finite(o.Start) || !plan.Finite(o.End):
		v.broken(plan.RuleTime, k, 0, "%s runs from %g to %g; both must be finite", v.name(k), o.Start, o.End)
		return
	case o.End < o.Start-v.Eps:
		v.broken(plan.RuleTime, k, o.Start-o.End, "%s ends %.10g s before it starts", v.name(k), o.Start-o.End)
		return
	case math.Abs(o.Start) > mostPeriods*v.Period:
		v.broken(plan.RuleTime, k, 0, "%s starts at %.10g s, more than %d periods from 0", v.name(k), o.Start, mostPeriods)
		return
	case o.Shift < -mostPeriods || o.Shift > mostPeriods:
		v.broken(plan.RuleShift, k, 0, "%s has shift %d, more than %d from 0", v.name(k), o.Shift, mostPeriods)
		return
	}
	place := v.place(s, o.Shift)
	if place >= 0 {
		v.checkPlace(k, o, place)
	}
	if d := o.End - o.Start; math.Abs(d-s.duration) > v.Eps {
		v.broken(plan.RuleDuration, k, d-s.duration, "%s takes %.10g s; the instance says %.10g s", v.name(k), d, s.duration)
	}
	// A start a rounding before the end of the period is one at time 0.
	turns := math.Floor((o.Start + v.Eps) / v.Period)
	start := o.Start - turns*v.Period
	t := turn{Arc: replay.Arc{Start: start, End: start + max(0, o.End-o.Start), Op: k}, shift: o.Shift - int(turns)*v.k}
	if t.Length() > v.Period+v.Eps {
		v.broken(plan.RulePeriod, k, t.Length()-v.Period, "%s takes %.10g s, longer than the period of %.10g s", v.name(k), t.Length(), v.Period)
		t.End = t.Start + v.Period
	}
	s.turns = append(s.turns, t)
	if place >= 0 {
		r := &v.resources[place]
		r.arcs = append(r.arcs, t.Arc)
	}
}

// stepOf returns the step of operation k, or reports why there is none.
func (v *pattern) stepOf(k int, o *plan.Op) *step {
	n := v.chain.Len()
	last := n
	switch o.Op {
	case plan.OpF, plan.OpB, plan.OpAR:
	case plan.OpCF, plan.OpCB:
		last = n - 1
	default:
		v.broken(plan.RuleKind, k, 0, "operation %q is unknown; there are F, B, CF, CB and AR", o.Op)
		return nil
	}
	switch {
	case o.Tensor != "" || o.Node != "" || o.Branch != 0:
		v.broken(plan.RuleKind, k, 0, "%s has a tensor, a node or a branch; operations of a pattern have none", o.Op)
		return nil
	case o.Layer < 1 || o.Layer > last:
		what := "the chain has layers 1 to %d"
		if last < n {
			what = "there are communications after layers 1 to %d"
		}
		v.broken(plan.RuleLayer, k, 0, "%s is of layer %d; "+what, o.Op, o.Layer, last)
		return nil
	}
	if i, known := v.index[stepName{o.Op, o.Layer}]; known {
		return &v.steps[i]
	}
	if o.Op == plan.OpAR {
		v.broken(plan.RuleLayer, k, 0, "AR is of layer %d, which begins no stage with replicas", o.Layer)
		return nil
	}
	i := v.owner[o.Layer-1]
	if i < 0 || v.owner[o.Layer] < 0 {
		return nil // the allocation is broken
	}
	v.broken(plan.RuleNoCut, k, 0, "%s sends from %s to itself: layers %d and %d are both there", v.name(k), gpuName(i), o.Layer, o.Layer+1)
	return nil
}

// checkPlace checks where operation k runs.
func (v *pattern) checkPlace(k int, o *plan.Op, place int) {
	want := v.resources[place].name
	if o.Resource == want {
		return
	}
	i, known := v.names[o.Resource]
	switch {
	case o.Resource == "":
		v.broken(plan.RuleResource, k, 0, "%s has no resource; it runs on %s", v.name(k), want)
	case o.Op == plan.OpF || o.Op == plan.OpB || o.Op == plan.OpAR:
		rule := plan.RuleResource
		if known && !v.resources[i].link {
			rule = plan.RuleColocation
		}
		v.broken(rule, k, 0, "%s runs on %s; the allocation has layer %d on %s", v.name(k), o.Resource, o.Layer, want)
	default:
		v.broken(plan.RuleResource, k, 0, "%s runs on %s; it goes over %s", v.name(k), o.Resource, want)
	}
}

// checkSteps checks that each step is there k times, for different
// mini-batches, and reports whether it is.
func (v *pattern) checkSteps() bool {
	complete := true
	for i := range v.steps {
		s := &v.steps[i]
		slices.SortFunc(s.turns, func(a, b turn) int {
			return cmp.Or(cmp.Compare(v.remainder(a.shift), v.remainder(b.shift)), cmp.Compare(a.Op, b.Op))
		})
		switch n := len(s.turns); {
		case n < v.k && v.k == 1:
			v.broken(plan.RuleMissing, -1, 1, "%s_%d is missing", s.op, s.layer)
		case n < v.k:
			v.broken(plan.RuleMissing, -1, float64(v.k-n), "%s_%d occurs %d times; in a %d-periodic pattern it occurs %d times", s.op, s.layer, n,
				v.k, v.k)
		case n > v.k:
			t := slices.MaxFunc(s.turns, func(a, b turn) int { return cmp.Compare(a.Op, b.Op) })
			v.broken(plan.RuleRepeated, t.Op, float64(n-v.k), "%s_%d occurs %d times; in a %d-periodic pattern it occurs %d times", s.op, s.layer, n,
				v.k, v.k)
		default:
			complete = v.checkShifts(s) && complete
			continue
		}
		complete = false
	}
	v.checkConvention()
	return complete
}

// checkShifts checks that the k turns of a step process different mini-batches.
func (v *pattern) checkShifts(s *step) bool {
	ok := true
	for j := 1; j < len(s.turns); j++ {
		a, b := &s.turns[j-1], &s.turns[j]
		if v.remainder(a.shift) == v.remainder(b.shift) {
			x, y := &v.plan.Ops[a.Op], &v.plan.Ops[b.Op]
			v.broken(plan.RuleShift, b.Op, 0, "%s_%d has shifts %d and %d, which are for the same mini-batches: they are equal modulo k = %d", s.op,
				s.layer, x.Shift, y.Shift, v.k)
			ok = false
		}
	}
	return ok
}

// checkConvention checks that the first B_1 has shift 0.
func (v *pattern) checkConvention() {
	turns := v.steps[v.index[stepName{plan.OpB, 1}]].turns
	if len(turns) == 0 {
		return
	}
	first := slices.MinFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(v.plan.Ops[a.Op].Start, v.plan.Ops[b.Op].Start), cmp.Compare(a.Op, b.Op))
	})
	if o := &v.plan.Ops[first.Op]; o.Shift != 0 {
		v.broken(plan.RuleShift, first.Op, float64(o.Shift), "the first B_1 has shift %d; shifts are counted from it, so it must be 0", o.Shift)
	}
}

// remainder returns h modulo k, in 0..k-1.
func (v *pattern) remainder(h int) int { return ((h % v.k) + v.k) % v.k }

// checkResources checks that each GPU and each link does one thing at a time.
func (v *pattern) checkResources() {
	for i := range v.resources {
		r := &v.resources[i]
		rule := plan.RuleComputeOverlap
		if r.link {
			rule = plan.RuleLinkOverlap
		}
		apart := true
		v.Overlaps(slices.Clone(r.arcs), func(a, b replay.Arc) {
			apart = false
			v.broken(rule, b.Op, a.End-b.Start, "%s starts %.10g s before %s ends on %s", v.name(b.Op), a.End-b.Start, v.name(a.Op), r.name)
		})
		var busy replay.Sum
		for _, a := range r.arcs {
			busy.Add(a.Length())
		}
		// Overlaps by a rounding must not add up to time gained.
		if over := busy.Value() - v.Period; apart && over > v.Eps {
			v.broken(plan.RulePeriod, -1, over, "the operations on %s take %.10g s together, longer than the period of %.10g s", r.name,
				busy.Value(), v.Period)
		}
	}
}

// checkDependencies checks that each step of a mini-batch starts when the one
// before it has ended.
func (v *pattern) checkDependencies() {
	for i := 1; i < len(v.steps); i++ {
		before := i - 1
		if v.steps[i].op == plan.OpAR {
			before = v.index[stepName{plan.OpB, v.steps[i].layer}]
		}
		from, to := v.steps[before].turns, v.steps[i].turns
		for len(from) > 0 && len(to) > 0 {
			a, b := from[0], to[0]
			switch ra, rb := v.remainder(a.shift), v.remainder(b.shift); {
			case ra < rb:
				from = from[1:]
			case ra > rb:
				to = to[1:]
			default:
				// The same mini-batch passes b so many periods later than it
				// would in a's.
				later := float64((a.shift-b.shift)/v.k) * v.Period
				if early := a.End - (b.Start + later); early > v.Eps {
					v.broken(plan.RuleDependency, b.Op, early, "%s starts %.10g s before %s of the same mini-batch ends", v.name(b.Op), early,
						v.name(a.Op))
				}
				from, to = from[1:], to[1:]
			}
		}
	}
}

// name is the name of operation k as in the figures of [004], with its shift:
// "F_2^3".
func (v *pattern) name(k int) string {
	o := &v.plan.Ops[k]
	return fmt.Sprintf("%s_%d^%d", o.Op, o.Layer, o.Shift)
}

// broken adds a violation by operation k, or of the whole plan if k is -1.
func (v *pattern) broken(rule string, k int, amount float64, format string, args ...any) {
	time := 0.0
	if k >= 0 && plan.Finite(v.plan.Ops[k].Start) {
		time = v.plan.Ops[k].Start
	}
	v.report.Violations = append(v.report.Violations, plan.Violation{
		Rule: rule, Op: k, Time: time, Amount: replay.InRange(amount), Detail: fmt.Sprintf(format, args...),
	})
}
