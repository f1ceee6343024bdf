package plan

import (
	"fmt"

	"workbench/model/instance/functions"
	"workbench/model/platform"
)

// A swapReplay is the replay of a plan of swapping.
type swapReplay struct {
	*replay
	sequence  *functions.Sequence
	index     map[string]int // variables by id
	variables []swapped
	ran       []bool // functions that are in the plan so far
	next      int    // the function after the last of these, from 1 on

	actions     []swapAction
	now         float64
	lastOp      int // the operation that started or ended last
	allocations []Allocation
}

// swapped is where a variable is.
type swapped struct {
	made   bool // it exists, or has
	here   bool // on the GPU
	host   bool // the host holds its value
	leave  int  // outs that run
	gone   bool // one has ended, the variable goes when the functions that use it have ended
	coming int  // ins that run
	lastIn int  // the one that started last
	users  int  // functions that run and use it
	maker  int  // of these the operation that makes it, -1: none
	writes int  // those that write it
	uses   int  // functions that use it and have not ended
}

// A swapAction is what the replay knows of an operation.
type swapAction struct {
	timing
	runs bool
	id   int // the function or the variable, as an index
}

// replaySwap replays p, noting the memory over time if record.
func replaySwap(s *functions.Sequence, p *Plan, record bool) (*swapReplay, error) {
	v, err := newSwap(s, p, record)
	if err != nil {
		return nil, err
	}
	v.settleInitial()
	for k := range p.Ops {
		v.read(k)
	}
	v.checkLink("in ", v.link(OpIn))
	v.checkLink("out ", v.link(OpOut))
	v.sweep()
	for i, ran := range v.ran {
		if !ran {
			v.atEnd(RuleMissing, 0, "%s is missing", v.function(i))
		}
	}
	v.finish() // its error is nil
	return v, nil
}

func newSwap(s *functions.Sequence, p *Plan, record bool) (*swapReplay, error) {
	invalid := ErrNoInstance
	if s != nil {
		invalid, p = s.Validate(), p.Converted(s.Unit)
	}
	r, err := newReplay(p, Swap, invalid, record)
	if err != nil {
		return nil, err
	}
	v := &swapReplay{
		replay: r, sequence: s, index: make(map[string]int, len(s.Variables)),
		variables: make([]swapped, len(s.Variables)), ran: make([]bool, s.Len()), next: 1,
		actions: make([]swapAction, len(p.Ops)),
	}
	for id := range s.Variables {
		v.index[s.Variables[id].ID] = id
	}
	for i := range s.Functions {
		for _, id := range s.Functions[i].Uses {
			v.variables[id].uses++
		}
	}
	return v, r.allowTransfers(func(o *Op) bool { return o.Op == OpRun }, func(o *Op) bool {
		id, ok := v.index[o.Variable]
		return ok && (o.Op == OpIn || o.Op == OpOut) && v.size(id) > 0
	})
}

// settleInitial puts the variables where they are before the first function.
func (v *swapReplay) settleInitial() {
	v.lastOp = -1
	for id := range v.variables {
		v.variables[id].maker = -1
		switch x := &v.variables[id]; v.sequence.Variables[id].Initial {
		case functions.Device:
			x.made, x.here = true, true
			v.allocate(id, activations, -1)
		case functions.Host:
			x.made, x.host = true, true
		}
	}
	v.begin()
}

func (v *swapReplay) size(id int) float64 { return v.sequence.Variables[id].Size }
func (v *swapReplay) name(id int) string  { return v.sequence.Variables[id].ID }
func (v *swapReplay) function(i int) string {
	if name := v.sequence.Functions[i].Name; name != "" {
		return fmt.Sprintf("f_%d (%s)", i+1, name)
	}
	return fmt.Sprintf("f_%d", i+1)
}

// read checks what operation k is and how long it takes.
func (v *swapReplay) read(k int) {
	o, x := &v.plan.Ops[k], &v.actions[k]
	switch o.Op {
	case OpRun, OpIn, OpOut, OpDrop:
	default:
		v.broken(RuleUnknownOp, k, 0, "operation %q is unknown in %s; there are %s, %s, %s and %s", o.Op, Swap, OpRun, OpIn, OpOut, OpDrop)
		return
	}
	if !v.plain(k, false, false, nil) {
		return
	}
	if what := surplus(o); what != "" {
		v.broken(RuleUnknownOp, k, 0, "%s has %s", o, what)
		return
	}
	if o.Op == OpRun {
		v.readRun(k)
		return
	}
	id, ok := v.index[o.Variable]
	if !ok {
		v.broken(RuleVariable, k, 0, "%s is of variable %q, which the sequence does not have", o.Op, o.Variable)
		return
	}
	x.id = id
	switch size := v.size(id); {
	case o.Op == OpDrop || size == 0:
		v.span(k, 0)
	default:
		v.span(k, size/v.plan.Platform.Bandwidth)
	}
	x.meant = v.size(id) > 0
}

// surplus says what an operation has that its kind does not.
func surplus(o *Op) string {
	switch {
	case o.Layer != 0:
		return fmt.Sprintf("layer %d; it has none", o.Layer)
	case o.Op == OpRun && o.Variable != "":
		return fmt.Sprintf("variable %q; it has a function", o.Variable)
	case o.Op != OpRun && o.Function != 0:
		return fmt.Sprintf("function %d; it has a variable", o.Function)
	}
	return ""
}

// readRun checks which function operation k runs, and when.
func (v *swapReplay) readRun(k int) {
	o := &v.plan.Ops[k]
	if o.Function < 1 || o.Function > len(v.ran) {
		v.broken(RuleFunction, k, 0, "%s is of function %d; the sequence has functions 1 to %d", o.Op, o.Function, len(v.ran))
		return
	}
	i := o.Function - 1
	if v.ran[i] {
		v.broken(RuleRepeated, k, 0, "%s runs a second time; each function runs once", v.function(i))
		return
	}
	if o.Function < v.next {
		v.broken(RuleOrder, k, 0, "%s comes after %s; functions run in the order of the sequence", v.function(i), v.function(v.next-2))
	}
	v.ran[i], v.next = true, max(v.next, o.Function+1)
	v.time(k, v.sequence.Functions[i].Time)
	v.actions[k] = swapAction{timing: timing{meant: true}, id: i}
}

// link returns for how long operation k uses the link of one kind of transfers,
// if it does.
func (v *swapReplay) link(kind string) func(k int) (seconds float64, uses bool) {
	return func(k int) (float64, bool) {
		if x := &v.actions[k]; x.meant && v.plan.Ops[k].Op == kind {
			return v.size(x.id) / v.plan.Platform.Bandwidth, true
		}
		return 0, false
	}
}

// Phases of an instant of swapping, after starting.
const (
	commencing = starting + 1 + iota // functions that take time
	sending                          // outs
	reserving                        // ins
)

// edges returns the starts and ends of all operations, in the order in which
// they happen.
func (v *swapReplay) edges() []edge {
	return v.replay.edges(
		func(k int) *timing { return &v.actions[k].timing },
		func(o *Op) bool { return o.Op == OpRun },
		func(o *Op) int8 {
			switch o.Op {
			case OpIn:
				return reserving
			case OpOut:
				return sending
			}
			return commencing
		})
}

// sweep lets everything happen, instant by instant.
func (v *swapReplay) sweep() {
	es := v.edges()
	for i, e := range es {
		if i > 0 && e.instant > es[i-1].instant && v.record {
			v.note(v.now, e.time)
		}
		if i == 0 || e.instant > es[i-1].instant {
			v.now = e.time
		}
		v.lastOp = e.op
		if e.side == 0 {
			v.start(e.op)
		} else {
			v.end(e.op)
		}
		if v.record && e.phase <= starting && len(v.steps) > 0 {
			v.steps[len(v.steps)-1].After = v.parts()
		}
	}
}

// note adds a step of the memory profile.
func (v *swapReplay) note(start, end float64) {
	use := v.parts()
	v.steps = append(v.steps, MemoryStep{Op: v.lastOp, Start: start, End: end, During: use, After: use})
}

// start and end begin and finish operation k.
func (v *swapReplay) start(k int) {
	id := v.actions[k].id
	switch v.plan.Ops[k].Op {
	case OpRun:
		v.startRun(k, id)
	case OpIn:
		v.startIn(k, id)
	case OpOut:
		v.startOut(k, id)
	case OpDrop:
		v.drop(k, id)
	}
}

func (v *swapReplay) end(k int) {
	id := v.actions[k].id
	switch v.plan.Ops[k].Op {
	case OpRun:
		v.endRun(k, id)
	case OpIn:
		v.endIn(k, id)
	case OpOut:
		v.endOut(k, id)
	}
}

// startRun makes what function i is the first to use, and checks that the rest
// is there.
func (v *swapReplay) startRun(k, i int) {
	f := &v.sequence.Functions[i]
	for _, id := range f.Uses {
		x := &v.variables[id]
		x.users++
		switch {
		case v.size(id) == 0:
		case !x.made:
			x.made, x.here, x.host, x.maker = true, true, false, k
			v.allocate(id, activations, k)
		case x.here && !x.gone:
		case x.gone:
			v.missing(k, id)
			x.gone = false
		case x.coming > 0:
			v.missing(k, id)
			v.arrive(x.lastIn, id)
		default:
			v.missing(k, id)
			x.here = true
			v.allocate(id, activations, k)
		}
	}
	for _, id := range f.Written() {
		v.variables[id].writes++
		v.write(k, id)
	}
	v.look(k)
	if a := &v.actions[k]; v.record && a.start == a.end {
		v.note(v.now, v.now)
	}
}

// write notes that operation k changes a variable.
func (v *swapReplay) write(k, id int) {
	x := &v.variables[id]
	x.host = false
	if x.leave > 0 {
		v.broken(RuleOutWritten, k, v.size(id), "%s changes %s while it is on its way out", v.function(v.actions[k].id), v.name(id))
	}
}

// missing reports that function k lacks a variable.
func (v *swapReplay) missing(k, id int) {
	x, why := &v.variables[id], "which is not on the GPU"
	switch {
	case x.coming > 0:
		why = "which is still on its way in"
	case x.gone:
		why = "whose out has ended"
	case x.host:
		why = "which is on the host only"
	}
	v.broken(RuleMissingInput, k, v.size(id), "%s uses %s, %s", v.function(v.actions[k].id), v.name(id), why)
}

// endRun lets go of what function i uses.
func (v *swapReplay) endRun(k, i int) {
	f := &v.sequence.Functions[i]
	for _, id := range f.Written() {
		v.variables[id].writes--
	}
	for _, id := range f.Uses {
		x := &v.variables[id]
		x.users--
		x.uses--
		if x.maker == k {
			x.maker = -1
		}
		if x.uses == 0 {
			x.host = false
			x.gone = x.leave == 0 // else the transfer has to end first
		}
		if x.gone && x.users == 0 {
			v.evict(k, id)
		}
	}
}

// startIn reserves a variable.
func (v *swapReplay) startIn(k, id int) {
	x := &v.variables[id]
	switch {
	case x.here || x.coming > 0:
		v.broken(RulePrefetch, k, v.size(id), "%s fetches a variable that is on the GPU, or on its way there", &v.plan.Ops[k])
	case !x.host:
		v.broken(RuleHostAbsent, k, v.size(id), "%s fetches a variable of which the host holds no valid copy%s", &v.plan.Ops[k],
			v.unusedReason(x))
	}
	v.actions[k].runs = true
	x.coming++
	x.lastIn = k
	v.allocate(id, saved, k)
	v.look(k)
}

// unusedReason says that a variable is not used any more, if so.
func (v *swapReplay) unusedReason(x *swapped) string {
	if x.uses == 0 {
		return "; its last use is over"
	}
	return ""
}

func (v *swapReplay) endIn(k, id int) {
	if v.actions[k].runs {
		v.arrive(k, id)
	}
}

// arrive ends the transfer of operation k: the variable is on the GPU.
func (v *swapReplay) arrive(k, id int) {
	v.actions[k].runs = false
	x := &v.variables[id]
	x.coming--
	if x.here {
		v.free(id, saved, k)
		return
	}
	x.here = true
	v.held[saved] -= v.size(id)
	v.held[activations] += v.size(id)
}

// startOut begins to send a variable.
func (v *swapReplay) startOut(k, id int) {
	x := &v.variables[id]
	switch {
	case !x.here || x.gone:
		v.broken(RuleNotStored, k, v.size(id), "%s sends a variable that is not on the GPU%s", &v.plan.Ops[k], v.unusedReason(x))
	case x.writes > 0 || x.maker >= 0:
		v.broken(RuleOutWritten, k, v.size(id), "%s starts while a function changes the variable", &v.plan.Ops[k])
	}
	x.leave++
}

// endOut has sent a variable, which leaves unless a function uses it.
func (v *swapReplay) endOut(k, id int) {
	x := &v.variables[id]
	x.leave--
	x.host = x.uses > 0
	if !x.here || x.leave > 0 {
		return
	}
	x.gone = true
	if x.users == 0 {
		v.evict(k, id)
	}
}

// drop discards a variable that the host holds.
func (v *swapReplay) drop(k, id int) {
	x, o := &v.variables[id], &v.plan.Ops[k]
	switch {
	case !x.here || x.gone:
		v.broken(RuleNotStored, k, v.size(id), "%s discards a variable that is not on the GPU%s", o, v.unusedReason(x))
		return
	case x.users > 0:
		v.broken(RuleDiscardUsed, k, v.size(id), "%s discards a variable that a running function uses", o)
		return
	case x.leave > 0:
		v.broken(RuleDiscardUsed, k, v.size(id), "%s discards a variable that is on its way out", o)
		return
	case !x.host:
		v.broken(RuleHostStale, k, v.size(id), "%s discards a value of which the host holds no copy", o)
		x.host = true
	}
	v.evict(k, id)
}

// evict takes a variable off the GPU.
func (v *swapReplay) evict(k, id int) {
	x := &v.variables[id]
	x.gone = false
	if x.here {
		x.here = false
		v.free(id, activations, k)
	}
}

// allocate and give change the memory in use by a variable.
func (v *swapReplay) allocate(id, part, k int) {
	if v.size(id) == 0 {
		return
	}
	v.held[part] += v.size(id)
	if v.record {
		v.allocations = append(v.allocations, Allocation{Time: v.now, Variable: id, Op: k})
	}
}

func (v *swapReplay) free(id, part, k int) {
	if v.size(id) == 0 {
		return
	}
	v.held[part] -= v.size(id)
	if v.record {
		v.allocations = append(v.allocations, Allocation{Time: v.now, Variable: id, Free: true, Op: k})
	}
}

// look compares the memory in use after the start of operation k with the peak
// and the limit.
func (v *swapReplay) look(k int) {
	total := v.stored()
	time := v.now
	if start := v.plan.Ops[k].Start; Finite(start) {
		time = start
	}
	if r := v.report; total > r.PeakMemory {
		r.PeakMemory, r.PeakOp, r.PeakTime = total, k, time
	}
	if !platform.Fits(total, v.limit) {
		p := v.plan
		v.broken(RuleMemory, k, p.Unit.Bytes(total-v.limit),
			"memory reaches %s of %s with the start of %s: %s of variables on the GPU, %s on their way in",
			p.Size(total), p.Size(v.limit), &p.Ops[k], p.Size(v.held[activations]), p.Size(v.held[saved]))
	}
}
