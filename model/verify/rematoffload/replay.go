package rematoffload

import (
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// An offloadReplay is the replay of a plan with transfers. Tensor ids are ℓ for
// a_ℓ and N+1+ℓ for ā_ℓ; ā_0 is a_0.
type offloadReplay struct {
	*replay.Replay
	activation bool // the problem is activation offloading
	fractional bool // memory of transfers in parts; see VerifyFractional
	chain      *chain.Chain
	n          int

	tensors []offloaded
	delta   []gradient
	ranF    []bool // F_ℓ has ended at least once
	begunF  []bool // F_ℓ has started; of activation offloading
	begunB  []bool

	actions  []action
	running  [3]float64 // outputs of what runs, by part
	overhead float64
	coming   int // prefetches that run
	lastP    int // the one that started last
	now      float64
	lastOp   int // the operation that started or ended last

	points  []memoryPoint
	flights []flight
	blocks  replay.Blocks
}

// offloaded is where a tensor is.
type offloaded struct {
	stored bool // on the device, usable
	host   bool
	// leave: offloads that run. gone: one has ended, the tensor goes when the
	// computations that use it have ended.
	leave  int
	gone   bool
	coming int // prefetches that run
	users  int // computations that run and use it
	flight int // of the last offload
	block  int32
}

// gradient is where a δ is.
type gradient struct {
	stored bool
	block  int32
}

// An action is what the replay knows of an operation.
type action struct {
	replay.Timing
	runs   bool
	id     int     // of a transfer or discard: the tensor
	size   float64 // of that
	flight int     // of a transfer: index in flights, -1: none
	reads  [2]int  // of a computation: the tensors that it uses, -1: none
	out    int32   // the block of what it makes, or fetches
	temp   int32   // that of its overhead
}

// A flight is a transfer that takes time and moves something. Its points are
// those from its start (inclusive) to its end; an offload is in parts from the
// point held on.
type flight struct {
	op          int
	part        int
	size        float64
	from, until int
	held        int
}

// replayOffload replays p in the integral model, noting the memory over time if
// record.
func replayOffload(c *chain.Chain, p *plan.Plan, record bool) (*offloadReplay, error) {
	v, err := newOffload(c, p, record)
	if err != nil {
		return nil, err
	}
	v.run()
	return v, nil
}

func newOffload(c *chain.Chain, p *plan.Plan, record bool) (*offloadReplay, error) {
	invalid := plan.ErrNoInstance
	if c != nil {
		invalid, p = c.Validate(), p.Converted(c.Unit)
	}
	problem, activation := problemOf(p)
	r, err := replay.New(p, problem, invalid, record)
	if err != nil {
		return nil, err
	}
	n := c.Len()
	flags := make([]bool, 3*(n+1))
	v := &offloadReplay{
		Replay: r, activation: activation, chain: c, n: n,
		tensors: make([]offloaded, 2*n+2), actions: make([]action, len(p.Ops)), blocks: replay.NoBlocks{},
		delta: make([]gradient, n+1), ranF: flags[:n+1], begunF: flags[n+1 : 2*n+2], begunB: flags[2*n+2:],
	}
	return v, r.AllowTransfers(v.computes, func(o *plan.Op) bool {
		if o.Op != plan.OpO && o.Op != plan.OpP {
			return false
		}
		id, wrong := v.tensor(o)
		return wrong == "" && v.size(id) > 0
	})
}

// run replays the plan and fills the report.
func (v *offloadReplay) run() {
	v.store(0, v.allocate(0))
	v.CheckStart()
	for k := range v.Plan.Ops {
		v.read(k)
	}
	v.CheckLink("", v.link)
	v.sweep()
	for l := v.n; l >= 1; l-- {
		if !v.begunB[l] {
			v.AtEnd(plan.RuleMissingBackward, 0, "B_%d is missing, so there is no δ_%d", l, l-1)
		}
	}
	v.judgeMemory()
	v.Finish() // its error is nil
}

// computes reports whether o is a computation of the problem.
func (v *offloadReplay) computes(o *plan.Op) bool {
	switch o.Op {
	case plan.OpFAll, plan.OpB:
		return true
	case plan.OpFCk, plan.OpFNone:
		return !v.activation
	}
	return false
}

// tensor returns the id of the tensor that O, P or D names, or what is wrong
// with the name.
func (v *offloadReplay) tensor(o *plan.Op) (id int, wrong string) {
	first, last := 0, v.n
	switch {
	case o.Tensor == plan.TensorAbar && v.activation:
		last = v.n - 1
	case o.Tensor == plan.TensorAbar:
		first = 1
	case o.Tensor == plan.TensorA && !v.activation:
	case v.activation:
		return 0, fmt.Sprintf("tensor %q; it has %q", o.Tensor, plan.TensorAbar)
	default:
		return 0, fmt.Sprintf("tensor %q; it has %q or %q", o.Tensor, plan.TensorA, plan.TensorAbar)
	}
	switch {
	case o.Layer == 0 && first == 1:
		return 0, fmt.Sprintf("layer 0; ā_0 is a_0, tensor %q", plan.TensorA)
	case o.Layer < first || o.Layer > last:
		return 0, fmt.Sprintf("layer %d; it has one of layers %d to %d", o.Layer, first, last)
	case o.Tensor == plan.TensorAbar:
		return v.abar(o.Layer), ""
	}
	return o.Layer, ""
}

func (v *offloadReplay) abar(l int) int {
	if l == 0 {
		return 0
	}
	return v.n + 1 + l
}

// layerOf returns the layer of a tensor and the part of memory that holds it.
func (v *offloadReplay) layerOf(id int) (layer, part int) {
	if id > v.n {
		return id - v.n - 1, replay.Saved
	}
	return id, replay.Activations
}

func (v *offloadReplay) size(id int) float64 {
	l, part := v.layerOf(id)
	if part == replay.Saved {
		return v.chain.Abar(l)
	}
	return v.chain.A(l)
}

// name is a tensor as the papers write it.
func (v *offloadReplay) name(id int) string {
	if l, part := v.layerOf(id); part == replay.Saved || v.activation {
		return fmt.Sprintf("ā_%d", l)
	}
	return fmt.Sprintf("a_%d", id)
}

// read checks what operation k is and how long it takes.
func (v *offloadReplay) read(k int) {
	o, x := &v.Plan.Ops[k], &v.actions[k]
	x.flight, x.reads = -1, [2]int{-1, -1}
	switch {
	case v.computes(o):
		if !v.CheckFields(k, false, false, nil) {
			return
		}
		if o.Layer < 1 || o.Layer > v.n {
			v.Broken(plan.RuleLayer, k, 0, "%s is of layer %d; it has one of layers 1 to %d", o.Op, o.Layer, v.n)
			return
		}
		l := &v.chain.Layers[o.Layer-1]
		if o.Op == plan.OpB {
			v.CheckTime(k, l.BackwardTime)
		} else {
			v.CheckTime(k, l.ForwardTime)
		}
	case o.Op == plan.OpO || o.Op == plan.OpP || o.Op == plan.OpD && !v.activation:
		id, wrong := v.tensor(o)
		switch {
		case wrong != "" && (o.Tensor == plan.TensorAbar || o.Tensor == plan.TensorA && !v.activation):
			v.Broken(plan.RuleLayer, k, 0, "%s has %s", o, wrong)
			return
		case wrong != "":
			v.Broken(plan.RuleUnknownOp, k, 0, "%s has %s", o, wrong)
			return
		case o.Branch != 0 || o.Node != "":
			v.CheckFields(k, false, false, []string{o.Tensor})
			return
		}
		x.id, x.size = id, v.size(id)
		switch {
		case o.Op == plan.OpD:
			v.CheckTime(k, 0)
		case x.size == 0:
			v.CheckSpan(k, 0)
		default:
			v.CheckSpan(k, x.size/v.Plan.Platform.Bandwidth)
		}
	default:
		v.Broken(plan.RuleUnknownOp, k, 0, "operation %q is unknown in %s; there are %s", o.Op, v.Plan.Problem, kinds(v.activation))
		return
	}
	x.Meant = true
}

// link returns for how long operation k uses the link, if it does.
func (v *offloadReplay) link(k int) (seconds float64, uses bool) {
	x := &v.actions[k]
	return x.size / v.Plan.Platform.Bandwidth, x.Meant && v.Plan.Ops[k].Op != plan.OpD && x.size > 0
}

// edges returns the starts and ends of all operations, in the order in which
// they happen.
func (v *offloadReplay) edges() []replay.Event {
	return v.Replay.Events(
		func(k int) *replay.Timing { return &v.actions[k].Timing },
		func(o *plan.Op) bool { return o.Op != plan.OpO && o.Op != plan.OpP },
		func(o *plan.Op) int8 {
			if o.Op == plan.OpP {
				return replay.Fetching
			}
			return replay.Starting
		})
}

// sweep lets everything happen, instant by instant.
func (v *offloadReplay) sweep() {
	for es := v.edges(); len(es) > 0; {
		n := 1
		for n < len(es) && es[n].Instant == es[0].Instant {
			n++
		}
		v.instant(es[:n])
		if es = es[n:]; v.Record && len(es) > 0 {
			v.note(v.lastOp, v.now, es[0].Time)
		}
	}
}

// instant lets everything of one instant happen.
func (v *offloadReplay) instant(es []replay.Event) {
	v.now = es[0].Time
	if v.coming > 0 {
		v.point(v.lastP, true)
	}
	for ; len(es) > 0 && es[0].Phase == replay.Ending; es = es[1:] {
		v.end(es[0].Op)
	}
	v.recordFinal()
	var waiting []int // offloads whose tensor is not there yet
	for ; len(es) > 0 && es[0].Phase == replay.Starting; es = es[1:] {
		k := es[0].Op
		switch x := &v.actions[k]; {
		case es[0].Side == 1:
			v.end(k)
			if v.Record && v.computes(&v.Plan.Ops[k]) {
				v.recordFinal()
			}
		case v.Plan.Ops[k].Op == plan.OpO && !v.tensors[x.id].stored:
			waiting = append(waiting, k)
		default:
			v.start(k)
		}
	}
	for _, k := range waiting {
		v.start(k)
		if x := &v.actions[k]; x.Start == x.End {
			v.end(k)
		}
	}
	for ; len(es) > 0; es = es[1:] {
		v.start(es[0].Op)
	}
}

// start and end begin and finish operation k. What has not begun does not end.
func (v *offloadReplay) start(k int) {
	v.lastOp = k
	o, x := &v.Plan.Ops[k], &v.actions[k]
	x.runs = true
	switch o.Op {
	case plan.OpO:
		v.startOffload(k)
	case plan.OpP:
		v.startPrefetch(k)
	case plan.OpD:
		v.discard(k)
	case plan.OpB:
		x.runs = v.startBackward(k)
	default:
		x.runs = v.startForward(k)
	}
	if v.Record && x.runs && x.Start == x.End && v.computes(o) {
		v.note(k, v.now, v.now)
	}
}

func (v *offloadReplay) end(k int) {
	v.lastOp = k
	if x := &v.actions[k]; !x.runs {
		return
	}
	v.actions[k].runs = false
	switch v.Plan.Ops[k].Op {
	case plan.OpO:
		v.endOffload(k)
	case plan.OpP:
		v.endPrefetch(k)
	case plan.OpB:
		v.endBackward(k)
	case plan.OpFAll, plan.OpFCk, plan.OpFNone:
		v.endForward(k)
	}
}

// missing reports that operation k needs what is not stored.
func (v *offloadReplay) missing(k int, size float64, what string) {
	v.Broken(plan.RuleMissingInput, k, size, "%s needs %s", &v.Plan.Ops[k], what)
}

// where names a tensor, itself or in any form, and says why it cannot be used.
func (v *offloadReplay) where(id int, itself string) string {
	why := "which is not stored"
	switch x := &v.tensors[id]; {
	case x.coming > 0:
		why = "whose prefetch has not ended"
	case x.host:
		why = "which is on the host only"
	}
	return v.name(id) + itself + ", " + why
}

// use notes that computation k uses a tensor, and release that it no longer
// does.
func (v *offloadReplay) use(k, id int) {
	x := &v.actions[k]
	x.reads[1] = x.reads[0]
	x.reads[0] = id
	t := &v.tensors[id]
	t.users++
	v.pin(t)
}

// pin notes that no part of a tensor may go although it is being offloaded.
func (v *offloadReplay) pin(t *offloaded) {
	if t.leave > 0 && t.flight >= 0 {
		v.flights[t.flight].held = math.MaxInt
	}
}

func (v *offloadReplay) release(k int) {
	for _, id := range v.actions[k].reads {
		if id < 0 {
			continue
		}
		t := &v.tensors[id]
		t.users--
		v.letGo(id)
	}
	v.actions[k].reads = [2]int{-1, -1}
}

// letGo frees a tensor, or the part of it that has been sent, unless it is
// needed.
func (v *offloadReplay) letGo(id int) {
	t := &v.tensors[id]
	switch {
	case t.users > 0 || v.activation && !v.usedForward(id):
	case t.leave > 0:
		if t.flight >= 0 {
			f := &v.flights[t.flight]
			f.held = min(f.held, len(v.points))
		}
	case t.gone:
		v.drop(id)
	}
}

// usedForward reports whether F_{i+1} has used ā_i.
func (v *offloadReplay) usedForward(id int) bool {
	l, _ := v.layerOf(id)
	return l == v.n || v.ranF[l+1]
}

// input finds what a computation of layer ℓ reads: a_{ℓ-1}, or ā_{ℓ-1} too
// unless it must be a.
func (v *offloadReplay) input(k, l int, mustBeA bool) {
	a, abar := l-1, v.abar(l-1)
	if v.activation {
		a = abar
	}
	switch x, y := &v.tensors[a], &v.tensors[abar]; {
	case mustBeA && !x.stored && a != abar && y.stored:
		v.missing(k, v.size(a), fmt.Sprintf("%s; it cannot consume %s", v.where(a, " itself"), v.name(abar)))
	case mustBeA && !x.stored || a == abar && !x.stored:
		v.missing(k, v.size(a), v.where(a, ""))
	case !x.stored && !y.stored:
		v.missing(k, v.size(a), fmt.Sprintf("%s, or %s", v.where(a, ""), v.where(abar, "")))
	case mustBeA || !y.stored || x.stored && (!x.leaving() || y.leaving()):
		v.use(k, a)
	default:
		v.use(k, abar)
	}
}

func (t *offloaded) leaving() bool { return t.leave > 0 || t.gone }

// startForward starts F_all ℓ, F_ck ℓ or F_none ℓ.
func (v *offloadReplay) startForward(k int) bool {
	o := &v.Plan.Ops[k]
	x := &v.chain.Layers[o.Layer-1]
	if v.activation && v.begunF[o.Layer] {
		v.Broken(plan.RuleTwice, k, x.ForwardTime, "F_%d runs a second time; %s allows no recomputation", o.Layer, v.Plan.Problem)
		return false
	}
	v.begunF[o.Layer] = true
	v.input(k, o.Layer, o.Op == plan.OpFNone)
	v.runs(v.output(o), x.Overhead(o.Op == plan.OpFAll), 1)
	v.actions[k].out = v.allocate(v.output(o))
	v.actions[k].temp = v.blocks.Allocate(v.now, x.Overhead(o.Op == plan.OpFAll), "overhead", o.Layer)
	v.point(k, false)
	return true
}

// output returns the tensor that F makes.
func (v *offloadReplay) output(o *plan.Op) int {
	if o.Op == plan.OpFAll {
		return v.abar(o.Layer)
	}
	return o.Layer
}

// runs adds the output and the overhead of a computation that starts, or takes
// them away, sign −1.
func (v *offloadReplay) runs(output int, overhead, sign float64) {
	_, part := v.layerOf(output)
	v.running[part] += sign * v.size(output)
	v.overhead += sign * overhead
}

func (v *offloadReplay) endForward(k int) {
	o := &v.Plan.Ops[k]
	v.runs(v.output(o), v.chain.Layers[o.Layer-1].Overhead(o.Op == plan.OpFAll), -1)
	v.ranF[o.Layer] = true
	v.blocks.Free(v.now, &v.actions[k].temp)
	v.store(v.output(o), v.actions[k].out)
	v.release(k)
	if v.activation {
		v.letGo(v.abar(o.Layer - 1)) // even if it came too late to be used
	}
	if o.Op == plan.OpFNone {
		v.consume(o.Layer - 1)
	}
}

// startBackward starts B ℓ.
func (v *offloadReplay) startBackward(k int) bool {
	l := v.Plan.Ops[k].Layer
	x := &v.chain.Layers[l-1]
	if v.begunB[l] {
		v.Broken(plan.RuleTwice, k, x.BackwardTime, "B_%d runs a second time; each backward runs once", l)
		return false
	}
	v.begunB[l] = true
	if l == v.n {
		v.AtLoss = v.checkpoints()
		v.Replay.Store(&v.delta[l].stored, replay.Gradients, x.Gradient)
		v.delta[l].block = v.blocks.Allocate(v.now, x.Gradient, plan.TensorDelta, l)
	}
	if !v.delta[l].stored {
		v.missing(k, x.Gradient, fmt.Sprintf("δ_%d, which is not stored", l))
	}
	if id := v.abar(l); v.tensors[id].stored {
		v.use(k, id)
	} else {
		v.missing(k, x.Saved, v.where(id, ""))
	}
	v.input(k, l, false)
	v.running[replay.Gradients] += v.chain.Delta(l - 1)
	v.overhead += x.BackwardOverhead
	v.actions[k].out = v.blocks.Allocate(v.now, v.chain.Delta(l-1), plan.TensorDelta, l-1)
	v.actions[k].temp = v.blocks.Allocate(v.now, x.BackwardOverhead, "overhead", l)
	v.point(k, false)
	return true
}

// checkpoints counts what is stored, and what is on the host only.
func (v *offloadReplay) checkpoints() *replay.Checkpoints {
	c := &replay.Checkpoints{}
	for id := range v.tensors {
		_, part := v.layerOf(id)
		switch t := &v.tensors[id]; {
		case t.stored && (part == replay.Saved || v.activation):
			c.Saved++
		case t.stored:
			c.Activations++
		case t.host:
			c.Host++
		}
	}
	return c
}

func (v *offloadReplay) endBackward(k int) {
	l := v.Plan.Ops[k].Layer
	x := &v.chain.Layers[l-1]
	v.running[replay.Gradients] -= v.chain.Delta(l - 1)
	v.overhead -= x.BackwardOverhead
	v.blocks.Free(v.now, &v.actions[k].temp)
	v.release(k)
	v.Free(&v.delta[l].stored, replay.Gradients, x.Gradient)
	v.blocks.Free(v.now, &v.delta[l].block)
	v.consume(v.abar(l))
	if l == 1 || !v.activation {
		v.consume(l - 1)
	}
	v.Replay.Store(&v.delta[l-1].stored, replay.Gradients, v.chain.Delta(l-1))
	v.delta[l-1].block = v.actions[k].out
}

// store puts a tensor on the device in a block, drop takes it away; a second block of it is freed.
func (v *offloadReplay) store(id int, block int32) {
	t := &v.tensors[id]
	if t.stored {
		v.blocks.Free(v.now, &block)
	} else {
		t.block = block
	}
	_, part := v.layerOf(id)
	v.Replay.Store(&t.stored, part, v.size(id))
}

func (v *offloadReplay) drop(id int) {
	t := &v.tensors[id]
	if t.stored {
		v.blocks.Free(v.now, &t.block)
	}
	_, part := v.layerOf(id)
	t.gone = false
	v.Free(&t.stored, part, v.size(id))
}

// allocate takes a block for a tensor.
func (v *offloadReplay) allocate(id int) int32 {
	name := plan.TensorA
	l, part := v.layerOf(id)
	if part == replay.Saved {
		name = plan.TensorAbar
	}
	return v.blocks.Allocate(v.now, v.size(id), name, l)
}

// consume takes away what a computation consumed; what is being offloaded goes
// with the end of that.
func (v *offloadReplay) consume(id int) {
	if v.tensors[id].leave == 0 {
		v.drop(id)
	}
}

// discard replays D.
func (v *offloadReplay) discard(k int) {
	x := &v.actions[k]
	switch t := &v.tensors[x.id]; {
	case !t.stored:
		v.Broken(plan.RuleNotStored, k, x.size, "D discards %s", v.where(x.id, ""))
	case t.leaving() && x.size > 0:
		v.Broken(plan.RuleDiscardUsed, k, x.size, "D discards %s, which is being offloaded", v.name(x.id))
	}
	v.drop(x.id)
}

// startOffload starts O.
func (v *offloadReplay) startOffload(k int) {
	x := &v.actions[k]
	t := &v.tensors[x.id]
	if !t.stored {
		v.Broken(plan.RuleNotStored, k, x.size, "O offloads %s", v.where(x.id, ""))
	}
	if x.size == 0 {
		return
	}
	t.leave++
	t.flight = -1
	if x.End > x.Start {
		v.fly(k)
		t.flight = x.flight
		v.pin(t)
		v.letGo(x.id)
	}
}

// fly notes a transfer that takes time.
func (v *offloadReplay) fly(k int) {
	x := &v.actions[k]
	_, part := v.layerOf(x.id)
	x.flight = len(v.flights)
	v.flights = append(v.flights, flight{op: k, part: part, size: x.size, from: len(v.points), until: math.MaxInt, held: math.MaxInt})
}

func (v *offloadReplay) land(k int) {
	if f := v.actions[k].flight; f >= 0 {
		v.flights[f].until = len(v.points)
	}
}

func (v *offloadReplay) endOffload(k int) {
	x := &v.actions[k]
	t := &v.tensors[x.id]
	t.host = true
	if x.size == 0 {
		return
	}
	v.land(k)
	t.leave--
	t.gone = t.stored
	v.letGo(x.id)
}

// startPrefetch starts P.
func (v *offloadReplay) startPrefetch(k int) {
	x := &v.actions[k]
	t := &v.tensors[x.id]
	if !t.host {
		v.Broken(plan.RuleHostAbsent, k, x.size, "P fetches %s, which the host does not hold", v.name(x.id))
	}
	if x.size == 0 {
		return
	}
	if t.stored || t.coming > 0 {
		v.Broken(plan.RulePrefetch, k, x.size, "P fetches %s, which is on the device already", v.name(x.id))
	}
	t.coming++
	v.coming++
	v.lastP = k
	_, part := v.layerOf(x.id)
	v.Held[part] += x.size
	x.out = v.allocate(x.id)
	if x.End > x.Start {
		v.fly(k)
	}
	v.point(k, false)
}

func (v *offloadReplay) endPrefetch(k int) {
	x := &v.actions[k]
	t := &v.tensors[x.id]
	if x.size > 0 {
		v.land(k)
		t.coming--
		v.coming--
		_, part := v.layerOf(x.id)
		v.Held[part] -= x.size
	}
	v.store(x.id, x.out)
}
