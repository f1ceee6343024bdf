package swap

import (
	"fmt"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// A swapReplay is the replay of a plan of swapping.
type swapReplay struct {
	*replay.Replay
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
	replay.Timing
	runs bool
	id   int // the function or the variable, as an index
}

// replaySwap replays p, noting the memory over time if record.
func replaySwap(s *functions.Sequence, p *plan.Plan, record bool) (*swapReplay, error) {
	v, err := newSwap(s, p, record)
	if err != nil {
		return nil, err
	}
	v.settleInitial()
	for k := range p.Ops {
		v.read(k)
	}
	v.CheckLink("in ", v.link(plan.OpIn))
	v.CheckLink("out ", v.link(plan.OpOut))
	v.sweep()
	for i, ran := range v.ran {
		if !ran {
			v.AtEnd(plan.RuleMissing, 0, "%s is missing", v.function(i))
		}
	}
	v.Finish() // its error is nil
	return v, nil
}

func newSwap(s *functions.Sequence, p *plan.Plan, record bool) (*swapReplay, error) {
	invalid := plan.ErrNoInstance
	if s != nil {
		invalid, p = s.Validate(), p.Converted(s.Unit)
	}
	r, err := replay.New(p, plan.Swap, invalid, record)
	if err != nil {
		return nil, err
	}
	v := &swapReplay{
		Replay: r, sequence: s, index: make(map[string]int, len(s.Variables)),
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
	return v, r.AllowTransfers(func(o *plan.Op) bool { return o.Op == plan.OpRun }, func(o *plan.Op) bool {
		id, ok := v.index[o.Variable]
		return ok && (o.Op == plan.OpIn || o.Op == plan.OpOut) && v.size(id) > 0
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
			v.allocate(id, replay.Activations, -1)
		case functions.Host:
			x.made, x.host = true, true
		}
	}
	v.CheckStart()
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
	o, x := &v.Plan.Ops[k], &v.actions[k]
	switch o.Op {
	case plan.OpRun, plan.OpIn, plan.OpOut, plan.OpDrop:
	default:
		v.Broken(plan.RuleUnknownOp, k, 0, "operation %q is unknown in %s; there are %s, %s, %s and %s", o.Op, plan.Swap,
			plan.OpRun, plan.OpIn, plan.OpOut, plan.OpDrop)
		return
	}
	if !v.CheckFields(k, false, false, nil) {
		return
	}
	if what := surplus(o); what != "" {
		v.Broken(plan.RuleUnknownOp, k, 0, "%s has %s", o, what)
		return
	}
	if o.Op == plan.OpRun {
		v.readRun(k)
		return
	}
	id, ok := v.index[o.Variable]
	if !ok {
		v.Broken(plan.RuleVariable, k, 0, "%s is of variable %q, which the sequence does not have", o.Op, o.Variable)
		return
	}
	x.id = id
	switch size := v.size(id); {
	case o.Op == plan.OpDrop || size == 0:
		v.CheckSpan(k, 0)
	default:
		v.CheckSpan(k, size/v.Plan.Platform.Bandwidth)
	}
	x.Meant = v.size(id) > 0
}

// surplus says what an operation has that its kind does not.
func surplus(o *plan.Op) string {
	switch {
	case o.Layer != 0:
		return fmt.Sprintf("layer %d; it has none", o.Layer)
	case o.Op == plan.OpRun && o.Variable != "":
		return fmt.Sprintf("variable %q; it has a function", o.Variable)
	case o.Op != plan.OpRun && o.Function != 0:
		return fmt.Sprintf("function %d; it has a variable", o.Function)
	}
	return ""
}

// readRun checks which function operation k runs, and when.
func (v *swapReplay) readRun(k int) {
	o := &v.Plan.Ops[k]
	if o.Function < 1 || o.Function > len(v.ran) {
		v.Broken(plan.RuleFunction, k, 0, "%s is of function %d; the sequence has functions 1 to %d", o.Op, o.Function, len(v.ran))
		return
	}
	i := o.Function - 1
	if v.ran[i] {
		v.Broken(plan.RuleRepeated, k, 0, "%s runs a second time; each function runs once", v.function(i))
		return
	}
	if o.Function < v.next {
		v.Broken(plan.RuleOrder, k, 0, "%s comes after %s; functions run in the order of the sequence", v.function(i), v.function(v.next-2))
	}
	v.ran[i], v.next = true, max(v.next, o.Function+1)
	v.CheckTime(k, v.sequence.Functions[i].Time)
	v.actions[k] = swapAction{Timing: replay.Timing{Meant: true}, id: i}
}

// link returns for how long operation k uses the link of one kind of transfers,
// if it does.
func (v *swapReplay) link(kind string) func(k int) (seconds float64, uses bool) {
	return func(k int) (float64, bool) {
		if x := &v.actions[k]; x.Meant && v.Plan.Ops[k].Op == kind {
			return v.size(x.id) / v.Plan.Platform.Bandwidth, true
		}
		return 0, false
	}
}

// Phases of an instant of swapping, after starting.
const (
	commencing = replay.Starting + 1 + iota // functions that take time
	sending                                 // outs
	reserving                               // ins
)

// edges returns the starts and ends of all operations, in the order in which
// they happen.
func (v *swapReplay) edges() []replay.Event {
	return v.Replay.Events(
		func(k int) *replay.Timing { return &v.actions[k].Timing },
		func(o *plan.Op) bool { return o.Op == plan.OpRun },
		func(o *plan.Op) int8 {
			switch o.Op {
			case plan.OpIn:
				return reserving
			case plan.OpOut:
				return sending
			}
			return commencing
		})
}

// sweep lets everything happen, instant by instant.
func (v *swapReplay) sweep() {
	es := v.edges()
	for i, e := range es {
		if i > 0 && e.Instant > es[i-1].Instant && v.Record {
			v.note(v.now, e.Time)
		}
		if i == 0 || e.Instant > es[i-1].Instant {
			v.now = e.Time
		}
		v.lastOp = e.Op
		if e.Side == 0 {
			v.start(e.Op)
		} else {
			v.end(e.Op)
		}
		if v.Record && e.Phase <= replay.Starting && len(v.Steps) > 0 {
			v.Steps[len(v.Steps)-1].After = v.Parts()
		}
	}
}

// note adds a step of the memory profile.
func (v *swapReplay) note(start, end float64) {
	use := v.Parts()
	v.Steps = append(v.Steps, replay.MemoryStep{Op: v.lastOp, Start: start, End: end, During: use, After: use})
}

// start and end begin and finish operation k.
func (v *swapReplay) start(k int) {
	id := v.actions[k].id
	switch v.Plan.Ops[k].Op {
	case plan.OpRun:
		v.startRun(k, id)
	case plan.OpIn:
		v.startIn(k, id)
	case plan.OpOut:
		v.startOut(k, id)
	case plan.OpDrop:
		v.drop(k, id)
	}
}

func (v *swapReplay) end(k int) {
	id := v.actions[k].id
	switch v.Plan.Ops[k].Op {
	case plan.OpRun:
		v.endRun(k, id)
	case plan.OpIn:
		v.endIn(k, id)
	case plan.OpOut:
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
			v.allocate(id, replay.Activations, k)
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
			v.allocate(id, replay.Activations, k)
		}
	}
	for _, id := range f.Written() {
		v.variables[id].writes++
		v.write(k, id)
	}
	v.look(k)
	if a := &v.actions[k]; v.Record && a.Start == a.End {
		v.note(v.now, v.now)
	}
}

// write notes that operation k changes a variable.
func (v *swapReplay) write(k, id int) {
	x := &v.variables[id]
	x.host = false
	if x.leave > 0 {
		v.Broken(plan.RuleOutWritten, k, v.size(id), "%s changes %s while it is on its way out", v.function(v.actions[k].id), v.name(id))
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
	v.Broken(plan.RuleMissingInput, k, v.size(id), "%s uses %s, %s", v.function(v.actions[k].id), v.name(id), why)
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
		v.Broken(plan.RulePrefetch, k, v.size(id), "%s fetches a variable that is on the GPU, or on its way there", &v.Plan.Ops[k])
	case !x.host:
		v.Broken(plan.RuleHostAbsent, k, v.size(id), "%s fetches a variable of which the host holds no valid copy%s", &v.Plan.Ops[k],
			v.unusedReason(x))
	}
	v.actions[k].runs = true
	x.coming++
	x.lastIn = k
	v.allocate(id, replay.Saved, k)
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
		v.free(id, replay.Saved, k)
		return
	}
	x.here = true
	v.Held[replay.Saved] -= v.size(id)
	v.Held[replay.Activations] += v.size(id)
}

// startOut begins to send a variable.
func (v *swapReplay) startOut(k, id int) {
	x := &v.variables[id]
	switch {
	case !x.here || x.gone:
		v.Broken(plan.RuleNotStored, k, v.size(id), "%s sends a variable that is not on the GPU%s", &v.Plan.Ops[k], v.unusedReason(x))
	case x.writes > 0 || x.maker >= 0:
		v.Broken(plan.RuleOutWritten, k, v.size(id), "%s starts while a function changes the variable", &v.Plan.Ops[k])
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
	x, o := &v.variables[id], &v.Plan.Ops[k]
	switch {
	case !x.here || x.gone:
		v.Broken(plan.RuleNotStored, k, v.size(id), "%s discards a variable that is not on the GPU%s", o, v.unusedReason(x))
		return
	case x.users > 0:
		v.Broken(plan.RuleDiscardUsed, k, v.size(id), "%s discards a variable that a running function uses", o)
		return
	case x.leave > 0:
		v.Broken(plan.RuleDiscardUsed, k, v.size(id), "%s discards a variable that is on its way out", o)
		return
	case !x.host:
		v.Broken(plan.RuleHostStale, k, v.size(id), "%s discards a value of which the host holds no copy", o)
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
		v.free(id, replay.Activations, k)
	}
}

// allocate and give change the memory in use by a variable.
func (v *swapReplay) allocate(id, part, k int) {
	if v.size(id) == 0 {
		return
	}
	v.Held[part] += v.size(id)
	if v.Record {
		v.allocations = append(v.allocations, Allocation{Time: v.now, Variable: id, Op: k})
	}
}

func (v *swapReplay) free(id, part, k int) {
	if v.size(id) == 0 {
		return
	}
	v.Held[part] -= v.size(id)
	if v.Record {
		v.allocations = append(v.allocations, Allocation{Time: v.now, Variable: id, Free: true, Op: k})
	}
}

// look compares the memory in use after the start of operation k with the peak
// and the limit.
func (v *swapReplay) look(k int) {
	total := v.Stored()
	time := v.now
	if start := v.Plan.Ops[k].Start; plan.Finite(start) {
		time = start
	}
	if r := v.Report; total > r.PeakMemory {
		r.PeakMemory, r.PeakOp, r.PeakTime = total, k, time
	}
	if !platform.Fits(total, v.Limit) {
		p := v.Plan
		v.Broken(plan.RuleMemory, k, p.Unit.Bytes(total-v.Limit),
			"memory reaches %s of %s with the start of %s: %s of variables on the GPU, %s on their way in",
			p.Size(total), p.Size(v.Limit), &p.Ops[k], p.Size(v.Held[replay.Activations]), p.Size(v.Held[replay.Saved]))
	}
}
