package plan

import "workbench/model/instance/join"

// VerifyJoin replays p, a plan of [004] chapter 1, on j. Every value takes one
// slot, and p.Platform.Memory is in slots.
//
// Each branch has its a_0 once at the start. F_i puts a_i in the place of
// a_{i-1}. S_i copies a_i, in no time: values are counted. LOSS, once, puts δ_L
// in the place of a_L of every branch. B_i, once, needs δ_i and a_{i-1},
// consumes both and adds δ_{i-1}. D discards an a_i or a δ_0 in no time. At the
// end δ_0 of the branches that keep it is stored, once each, and nothing else.
//
// Memory during an operation is the number of values before it or after it,
// whichever is larger. Times, broken rules and errors are as for [VerifyRemat];
// what is stored at the end is looked at only if no computation is missing.
// O(operations + forwards of the join).
func VerifyJoin(j *join.Join, p *Plan) (*Report, error) {
	return verdict(replayJoin(j, p, false))(p)
}

// ProfileJoin returns the memory in use over time, in the unit of the instance: see package
// verify.
func ProfileJoin(j *join.Join, p *Plan) ([]MemoryStep, error) { return stepsOf(replayJoin(j, p, true)) }

// joinReplay is the replay of a join: how often a_ℓ of a branch is stored, and
// whether δ_ℓ is, at first[branch]+ℓ for ℓ = 0..L.
type joinReplay struct {
	*replay
	join    *join.Join
	first   []int
	a       []int
	delta   []bool
	run     []bool // B_ℓ
	lossRun bool
}

func replayJoin(j *join.Join, p *Plan, record bool) (*replay, error) {
	invalid := ErrNoInstance
	if j != nil {
		invalid = j.Validate()
	}
	r, err := newReplay(p, Join, invalid, record)
	if err != nil {
		return nil, err
	}
	v := &joinReplay{replay: r, join: j, first: make([]int, j.K())}
	values := 0
	for b, length := range j.Branches {
		v.first[b] = values
		values += length + 1
	}
	v.a, v.delta, v.run = make([]int, values), make([]bool, values), make([]bool, values)
	for b := range j.Branches {
		v.count(v.first[b], 1)
	}
	r.begin()
	for k := range p.Ops {
		r.enter(k)
		switch o := &p.Ops[k]; o.Op {
		case OpF:
			v.forward(k)
		case OpB:
			v.backward(k)
		case OpS:
			v.copy(k)
		case OpD:
			v.discard(k)
		case OpLoss:
			v.loss(k)
		default:
			r.broken(RuleUnknownOp, k, 0, "operation %q is unknown; there are F, B, S, D and LOSS", o.Op)
		}
		r.evict(k)
	}
	if v.complete() {
		v.checkEnd()
	}
	return r.finish()
}

// complete reports the computations that are missing.
func (v *joinReplay) complete() bool {
	found := len(v.report.Violations)
	if !v.lossRun {
		v.atEnd(RuleMissing, 0, "LOSS is missing")
	}
	for b, length := range v.join.Branches {
		for l := length; l >= 1; l-- {
			if !v.run[v.first[b]+l] {
				v.atEnd(RuleMissingBackward, 0, "B_%d of branch %d is missing, so there is no δ_%d", l, b+1, l-1)
			}
		}
	}
	return len(v.report.Violations) == found
}

// checkEnd compares what is stored at the end with what must be.
func (v *joinReplay) checkEnd() {
	for b, length := range v.join.Branches {
		for l := 0; l <= length; l++ {
			x := v.first[b] + l
			keep := l == 0 && v.join.Keeps(b)
			switch {
			case keep && !v.delta[x]:
				v.atEnd(RuleMissingOutput, 1, "δ_0 of branch %d is not stored at the end", b+1)
			case !keep && v.delta[x]:
				v.atEnd(RuleLeftOver, 1, "δ_%d of branch %d is stored at the end", l, b+1)
			}
			if n := v.a[x]; n > 0 {
				v.atEnd(RuleLeftOver, float64(n), "a_%d of branch %d is stored at the end, %d times", l, b+1, n)
			}
		}
	}
}

// count changes how often an a is stored; it never falls below 0.
func (v *joinReplay) count(x, change int) {
	if v.a[x]+change >= 0 {
		v.a[x] += change
		v.held[activations] += float64(change)
	}
}

// place returns the place of operation k's branch and layer, which may be
// first or larger.
func (v *joinReplay) place(k, first int) (x int, ok bool) {
	o := &v.plan.Ops[k]
	if o.Branch < 1 || o.Branch > v.join.K() {
		v.broken(RuleBranch, k, 0, "%s is of branch %d; the join has branches 1 to %d", o.Op, o.Branch, v.join.K())
		return 0, false
	}
	if n := v.join.Branches[o.Branch-1]; o.Layer < first || o.Layer > n {
		v.broken(RuleLayer, k, 0, "%s is of layer %d; on branch %d it has one of layers %d to %d", o.Op, o.Layer, o.Branch, first, n)
		return 0, false
	}
	return v.first[o.Branch-1] + o.Layer, true
}

// missing reports that operation k needs a value that is not stored.
func (v *joinReplay) missing(k int, value string, layer int) {
	v.broken(RuleMissingInput, k, 1, "%s needs %s_%d, which is not stored", &v.plan.Ops[k], value, layer)
}

func (v *joinReplay) forward(k int) {
	if !v.plain(k, true, false, nil) {
		return
	}
	x, ok := v.place(k, 1)
	if !ok {
		return
	}
	v.time(k, v.join.ForwardTime)
	if v.a[x-1] == 0 {
		v.missing(k, "a", v.plan.Ops[k].Layer-1)
	}
	v.during(k, activations, 0, 0)
	v.count(x-1, -1)
	v.count(x, 1)
}

func (v *joinReplay) backward(k int) {
	if !v.plain(k, true, false, nil) {
		return
	}
	x, ok := v.place(k, 1)
	if !ok {
		return
	}
	o := &v.plan.Ops[k]
	v.time(k, v.join.BackwardTime)
	if v.run[x] {
		v.broken(RuleTwice, k, v.join.BackwardTime, "%s runs a second time; each backward runs once", o)
		return
	}
	v.run[x] = true
	if !v.delta[x] {
		v.missing(k, "δ", o.Layer)
	}
	if v.a[x-1] == 0 {
		v.missing(k, "a", o.Layer-1)
	}
	v.during(k, gradients, 0, 0)
	v.count(x-1, -1)
	v.free(&v.delta[x], gradients, 1)
	v.store(&v.delta[x-1], gradients, 1)
}

func (v *joinReplay) copy(k int) {
	if !v.plain(k, true, false, nil) {
		return
	}
	x, ok := v.place(k, 0)
	if !ok {
		return
	}
	v.time(k, 0)
	if v.a[x] == 0 {
		v.missing(k, "a", v.plan.Ops[k].Layer)
	}
	v.during(k, activations, 1, 0)
	v.count(x, 1)
}

// joinTensors are the tensors that D discards.
var joinTensors = []string{TensorA, TensorDelta}

func (v *joinReplay) discard(k int) {
	if !v.plain(k, true, false, joinTensors) {
		return
	}
	x, ok := v.place(k, 0)
	if !ok {
		return
	}
	o := &v.plan.Ops[k]
	switch {
	case o.Tensor == TensorDelta && o.Layer != 0:
		v.broken(RuleLayer, k, 0, "%s: of gradients δ_0 alone is discarded", o)
		return
	case o.Tensor == TensorA && v.a[x] == 0, o.Tensor == TensorDelta && !v.delta[x]:
		v.broken(RuleNotStored, k, 1, "%s discards a value that is not stored", o)
	}
	v.time(k, 0)
	if o.Tensor == TensorA {
		v.count(x, -1)
		return
	}
	v.free(&v.delta[x], gradients, 1)
}

func (v *joinReplay) loss(k int) {
	if !v.plain(k, false, false, nil) {
		return
	}
	if o := &v.plan.Ops[k]; o.Layer != 0 {
		v.broken(RuleUnknownOp, k, 0, "%s has layer %d; it has none", o.Op, o.Layer)
		return
	}
	v.time(k, v.join.LossTime)
	if v.lossRun {
		v.broken(RuleTwice, k, v.join.LossTime, "LOSS runs a second time; it runs once")
		return
	}
	v.lossRun = true
	v.atLoss = &Checkpoints{Activations: int(v.held[activations])}
	for b, length := range v.join.Branches {
		if x := v.first[b] + length; v.a[x] == 0 {
			v.broken(RuleMissingInput, k, 1, "LOSS needs a_%d of branch %d, which is not stored", length, b+1)
		}
	}
	v.during(k, gradients, 0, 0)
	for b, length := range v.join.Branches {
		x := v.first[b] + length
		v.count(x, -1)
		v.store(&v.delta[x], gradients, 1)
	}
}
