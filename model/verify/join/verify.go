// Package join has the verifier of plans of joins.
package join

import (
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// Verify replays p, a plan of [004] chapter 1, on j. Every value takes one
// slot, and p.Platform.Memory is in slots.
//
// Each branch has its a_0 once at the start. F_i puts a_i in the place of
// a_{i-1}. S_i copies a_i, in no time: values are counted. LOSS, once, puts δ_L
// in the place of a_L of every branch. B_i, once, needs δ_i and a_{i-1},
// consumes both and adds δ_{i-1}. D discards an a_i or a δ_0 in no time. At the
// end δ_0 of the branches that keep it is stored, once each, and nothing else.
//
// Memory during an operation is the number of values before it or after it,
// whichever is larger. Times, broken rules and errors are as for remat.Verify;
// what is stored at the end is looked at only if no computation is missing.
// O(operations + forwards of the join).
func Verify(j *join.Join, p *plan.Plan) (*plan.Report, error) {
	return replay.Verdict(replayJoin(j, p, false))(p)
}

// Profile returns the memory in use over time, in the unit of the instance: see package
// verify.
func Profile(j *join.Join, p *plan.Plan) ([]replay.MemoryStep, error) {
	return replay.StepsOf(replayJoin(j, p, true))
}

// joinReplay is the replay of a join: how often a_ℓ of a branch is stored, and
// whether δ_ℓ is, at first[branch]+ℓ for ℓ = 0..L.
type joinReplay struct {
	*replay.Replay
	join    *join.Join
	first   []int
	a       []int
	delta   []bool
	run     []bool // B_ℓ
	lossRun bool
}

func replayJoin(j *join.Join, p *plan.Plan, record bool) (*replay.Replay, error) {
	invalid := plan.ErrNoInstance
	if j != nil {
		invalid = j.Validate()
	}
	r, err := replay.New(p, plan.Join, invalid, record)
	if err != nil {
		return nil, err
	}
	v := &joinReplay{Replay: r, join: j, first: make([]int, j.K())}
	values := 0
	for b, length := range j.Branches {
		v.first[b] = values
		values += length + 1
	}
	v.a, v.delta, v.run = make([]int, values), make([]bool, values), make([]bool, values)
	for b := range j.Branches {
		v.count(v.first[b], 1)
	}
	r.CheckStart()
	for k := range p.Ops {
		r.RecordDuring(k)
		switch o := &p.Ops[k]; o.Op {
		case plan.OpF:
			v.forward(k)
		case plan.OpB:
			v.backward(k)
		case plan.OpS:
			v.copy(k)
		case plan.OpD:
			v.discard(k)
		case plan.OpLoss:
			v.loss(k)
		default:
			r.Broken(plan.RuleUnknownOp, k, 0, "operation %q is unknown; there are F, B, S, D and LOSS", o.Op)
		}
		r.RecordAfter(k)
	}
	if v.complete() {
		v.checkEnd()
	}
	return r.Finish()
}

// complete reports the computations that are missing.
func (v *joinReplay) complete() bool {
	found := len(v.Report.Violations)
	if !v.lossRun {
		v.AtEnd(plan.RuleMissing, 0, "LOSS is missing")
	}
	for b, length := range v.join.Branches {
		for l := length; l >= 1; l-- {
			if !v.run[v.first[b]+l] {
				v.AtEnd(plan.RuleMissingBackward, 0, "B_%d of branch %d is missing, so there is no δ_%d", l, b+1, l-1)
			}
		}
	}
	return len(v.Report.Violations) == found
}

// checkEnd compares what is stored at the end with what must be.
func (v *joinReplay) checkEnd() {
	for b, length := range v.join.Branches {
		for l := 0; l <= length; l++ {
			x := v.first[b] + l
			keep := l == 0 && v.join.Keeps(b)
			switch {
			case keep && !v.delta[x]:
				v.AtEnd(plan.RuleMissingOutput, 1, "δ_0 of branch %d is not stored at the end", b+1)
			case !keep && v.delta[x]:
				v.AtEnd(plan.RuleLeftOver, 1, "δ_%d of branch %d is stored at the end", l, b+1)
			}
			if n := v.a[x]; n > 0 {
				v.AtEnd(plan.RuleLeftOver, float64(n), "a_%d of branch %d is stored at the end, %d times", l, b+1, n)
			}
		}
	}
}

// count changes how often an a is stored; it never falls below 0.
func (v *joinReplay) count(x, change int) {
	if v.a[x]+change >= 0 {
		v.a[x] += change
		v.Held[replay.Activations] += float64(change)
	}
}

// place returns the place of operation k's branch and layer, which may be
// first or larger.
func (v *joinReplay) place(k, first int) (x int, ok bool) {
	o := &v.Plan.Ops[k]
	if o.Branch < 1 || o.Branch > v.join.K() {
		v.Broken(plan.RuleBranch, k, 0, "%s is of branch %d; the join has branches 1 to %d", o.Op, o.Branch, v.join.K())
		return 0, false
	}
	if n := v.join.Branches[o.Branch-1]; o.Layer < first || o.Layer > n {
		v.Broken(plan.RuleLayer, k, 0, "%s is of layer %d; on branch %d it has one of layers %d to %d", o.Op, o.Layer, o.Branch, first, n)
		return 0, false
	}
	return v.first[o.Branch-1] + o.Layer, true
}

// missing reports that operation k needs a value that is not stored.
func (v *joinReplay) missing(k int, value string, layer int) {
	v.Broken(plan.RuleMissingInput, k, 1, "%s needs %s_%d, which is not stored", &v.Plan.Ops[k], value, layer)
}

func (v *joinReplay) forward(k int) {
	if !v.CheckFields(k, true, false, nil) {
		return
	}
	x, ok := v.place(k, 1)
	if !ok {
		return
	}
	v.CheckTime(k, v.join.ForwardTime)
	if v.a[x-1] == 0 {
		v.missing(k, "a", v.Plan.Ops[k].Layer-1)
	}
	v.CheckMemory(k, replay.Activations, 0, 0)
	v.count(x-1, -1)
	v.count(x, 1)
}

func (v *joinReplay) backward(k int) {
	if !v.CheckFields(k, true, false, nil) {
		return
	}
	x, ok := v.place(k, 1)
	if !ok {
		return
	}
	o := &v.Plan.Ops[k]
	v.CheckTime(k, v.join.BackwardTime)
	if v.run[x] {
		v.Broken(plan.RuleTwice, k, v.join.BackwardTime, "%s runs a second time; each backward runs once", o)
		return
	}
	v.run[x] = true
	if !v.delta[x] {
		v.missing(k, "δ", o.Layer)
	}
	if v.a[x-1] == 0 {
		v.missing(k, "a", o.Layer-1)
	}
	v.CheckMemory(k, replay.Gradients, 0, 0)
	v.count(x-1, -1)
	v.Free(&v.delta[x], replay.Gradients, 1)
	v.Store(&v.delta[x-1], replay.Gradients, 1)
}

func (v *joinReplay) copy(k int) {
	if !v.CheckFields(k, true, false, nil) {
		return
	}
	x, ok := v.place(k, 0)
	if !ok {
		return
	}
	v.CheckTime(k, 0)
	if v.a[x] == 0 {
		v.missing(k, "a", v.Plan.Ops[k].Layer)
	}
	v.CheckMemory(k, replay.Activations, 1, 0)
	v.count(x, 1)
}

// joinTensors are the tensors that D discards.
var joinTensors = []string{plan.TensorA, plan.TensorDelta}

func (v *joinReplay) discard(k int) {
	if !v.CheckFields(k, true, false, joinTensors) {
		return
	}
	x, ok := v.place(k, 0)
	if !ok {
		return
	}
	o := &v.Plan.Ops[k]
	switch {
	case o.Tensor == plan.TensorDelta && o.Layer != 0:
		v.Broken(plan.RuleLayer, k, 0, "%s: of gradients δ_0 alone is discarded", o)
		return
	case o.Tensor == plan.TensorA && v.a[x] == 0, o.Tensor == plan.TensorDelta && !v.delta[x]:
		v.Broken(plan.RuleNotStored, k, 1, "%s discards a value that is not stored", o)
	}
	v.CheckTime(k, 0)
	if o.Tensor == plan.TensorA {
		v.count(x, -1)
		return
	}
	v.Free(&v.delta[x], replay.Gradients, 1)
}

func (v *joinReplay) loss(k int) {
	if !v.CheckFields(k, false, false, nil) {
		return
	}
	if o := &v.Plan.Ops[k]; o.Layer != 0 {
		v.Broken(plan.RuleUnknownOp, k, 0, "%s has layer %d; it has none", o.Op, o.Layer)
		return
	}
	v.CheckTime(k, v.join.LossTime)
	if v.lossRun {
		v.Broken(plan.RuleTwice, k, v.join.LossTime, "LOSS runs a second time; it runs once")
		return
	}
	v.lossRun = true
	v.AtLoss = &replay.Checkpoints{Activations: int(v.Held[replay.Activations])}
	for b, length := range v.join.Branches {
		if x := v.first[b] + length; v.a[x] == 0 {
			v.Broken(plan.RuleMissingInput, k, 1, "LOSS needs a_%d of branch %d, which is not stored", length, b+1)
		}
	}
	v.CheckMemory(k, replay.Gradients, 0, 0)
	for b, length := range v.join.Branches {
		x := v.first[b] + length
		v.count(x, -1)
		v.Store(&v.delta[x], replay.Gradients, 1)
	}
}

// Summarize replays p, a plan of [plan.Join], and sums it up. The error is that of [Verify].
func Summarize(j *join.Join, p *plan.Plan) (*replay.Summary, error) {
	r, err := replayJoin(j, p, false)
	if err != nil {
		return nil, err
	}
	forwards := 0
	for _, length := range j.Branches {
		forwards += length
	}
	return replay.Summarize(j, forwards, p, r), nil
}
