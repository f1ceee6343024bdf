// Package remat has the verifier of the rematerialization of chains.
package remat

import (
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// Verify replays p, a sequence of the operations of [004] Table 2.1, on c.
//
// a_0 and δ_N are stored from the start. F_all ℓ and F_ck ℓ need a_{ℓ-1} or
// ā_{ℓ-1}, keep it, and add ā_ℓ or a_ℓ. F_none ℓ needs a_{ℓ-1} itself, consumes
// it and adds a_ℓ. B_ℓ needs δ_ℓ, ā_ℓ and a_{ℓ-1} or ā_{ℓ-1}, consumes δ_ℓ, ā_ℓ
// and a_{ℓ-1}, and adds δ_{ℓ-1}; it runs once. D discards a stored a_ℓ or ā_ℓ
// in no time. What is stored is a set: a value that is computed again while it
// is stored takes its space twice until the operation ends.
//
// Memory during an operation is everything stored before it, its output and its
// overhead. Operations stand in the order in which they run, one at a time;
// between them the device may idle. Instants closer than 1e-9 of the makespan
// are simultaneous.
//
// After a broken rule the replay goes on as if the operation had had what it
// needs. The error wraps [plan.ErrUnreadable] where there is nothing to replay.
// O(operations + layers).
func Verify(c *chain.Chain, p *plan.Plan) (*plan.Report, error) {
	return replay.Verdict(replayChain(c, p, false))(p)
}

// Profile returns the memory in use over time, in the unit of the instance: see package
// verify.
func Profile(c *chain.Chain, p *plan.Plan) ([]replay.MemoryStep, error) {
	return replay.StepsOf(replayChain(c, p, true))
}

// chainReplay is the replay of a chain: what is stored of each layer 0..N.
type chainReplay struct {
	*replay.Replay
	n              int
	chain          *chain.Chain
	a, abar, delta []bool
	run            []bool // B_ℓ
}

func replayChain(c *chain.Chain, p *plan.Plan, record bool) (*replay.Replay, error) {
	invalid := plan.ErrNoInstance
	if c != nil {
		invalid, p = c.Validate(), p.Converted(c.Unit)
	}
	r, err := replay.New(p, plan.Remat, invalid, record)
	if err != nil {
		return nil, err
	}
	n := c.Len()
	flags := make([]bool, 4*(n+1))
	v := &chainReplay{
		Replay: r, n: n, chain: c,
		a: flags[:n+1], abar: flags[n+1 : 2*n+2], delta: flags[2*n+2 : 3*n+3], run: flags[3*n+3:],
	}
	r.Store(&v.a[0], replay.Activations, v.chain.A(0))
	r.Store(&v.delta[n], replay.Gradients, v.chain.Delta(n))
	r.CheckStart()
	for k := range p.Ops {
		r.RecordDuring(k)
		switch o := &p.Ops[k]; o.Op {
		case plan.OpFAll, plan.OpFCk, plan.OpFNone:
			v.forward(k, o.Layer)
		case plan.OpB:
			v.backward(k, o.Layer)
		case plan.OpD:
			v.discard(k, o.Layer)
		default:
			r.Broken(plan.RuleUnknownOp, k, 0, "operation %q is unknown; there are F_all, F_ck, F_none, B and D", o.Op)
		}
		r.RecordAfter(k)
	}
	for l := n; l >= 1; l-- {
		if !v.run[l] {
			r.AtEnd(plan.RuleMissingBackward, 0, "B_%d is missing, so there is no δ_%d", l, l-1)
		}
	}
	return r.Finish()
}

// hasLayer reports an operation of a layer outside first..N.
func (v *chainReplay) hasLayer(k, l, first int) bool {
	if l >= first && l <= v.n {
		return true
	}
	o := &v.Plan.Ops[k]
	v.Broken(plan.RuleLayer, k, 0, "%s is of layer %d; it has one of layers %d to %d", o.Op, l, first, v.n)
	return false
}

// missing reports that operation k needs what is not stored.
func (v *chainReplay) missing(k int, size float64, what string) {
	v.Broken(plan.RuleMissingInput, k, size, "%s needs %s", &v.Plan.Ops[k], what)
}

// forward replays F_all ℓ, F_ck ℓ or F_none ℓ.
func (v *chainReplay) forward(k, l int) {
	o := &v.Plan.Ops[k]
	if !v.CheckFields(k, false, false, nil) || !v.hasLayer(k, l, 1) {
		return
	}
	x := &v.chain.Layers[l-1]
	v.CheckTime(k, x.ForwardTime)
	switch {
	case v.a[l-1]:
	case o.Op == plan.OpFNone && v.abar[l-1]:
		v.missing(k, v.chain.A(l-1), fmt.Sprintf("a_%d itself, which is not stored; it cannot consume ā_%d", l-1, l-1))
	case o.Op == plan.OpFNone || l == 1:
		v.missing(k, v.chain.A(l-1), fmt.Sprintf("a_%d, which is not stored", l-1))
	case !v.abar[l-1]:
		v.missing(k, v.chain.A(l-1), fmt.Sprintf("a_%d or ā_%d, neither of which is stored", l-1, l-1))
	}
	if o.Op == plan.OpFAll {
		v.CheckMemory(k, replay.Saved, x.Saved, x.Overhead(true))
		v.Store(&v.abar[l], replay.Saved, x.Saved)
		return
	}
	v.CheckMemory(k, replay.Activations, x.Activation, x.Overhead(false))
	v.Store(&v.a[l], replay.Activations, x.Activation)
	if o.Op == plan.OpFNone {
		v.Free(&v.a[l-1], replay.Activations, v.chain.A(l-1))
	}
}

// backward replays B ℓ.
func (v *chainReplay) backward(k, l int) {
	if !v.CheckFields(k, false, false, nil) || !v.hasLayer(k, l, 1) {
		return
	}
	x := &v.chain.Layers[l-1]
	v.CheckTime(k, x.BackwardTime)
	if v.run[l] {
		v.Broken(plan.RuleTwice, k, x.BackwardTime, "B_%d runs a second time; each backward runs once", l)
		return
	}
	v.run[l] = true
	if l == v.n {
		v.AtLoss = &replay.Checkpoints{Activations: count(v.a), Saved: count(v.abar)}
	}
	if !v.delta[l] {
		v.missing(k, x.Gradient, fmt.Sprintf("δ_%d, which is not stored", l))
	}
	if !v.abar[l] {
		v.missing(k, x.Saved, fmt.Sprintf("ā_%d, which is not stored", l))
	}
	switch {
	case v.a[l-1] || v.abar[l-1]:
	case l == 1:
		v.missing(k, v.chain.A(0), "a_0, which is not stored")
	default:
		v.missing(k, v.chain.A(l-1), fmt.Sprintf("a_%d or ā_%d, neither of which is stored", l-1, l-1))
	}
	v.CheckMemory(k, replay.Gradients, v.chain.Delta(l-1), x.BackwardOverhead)
	v.Free(&v.delta[l], replay.Gradients, x.Gradient)
	v.Free(&v.abar[l], replay.Saved, x.Saved)
	v.Free(&v.a[l-1], replay.Activations, v.chain.A(l-1))
	v.Store(&v.delta[l-1], replay.Gradients, v.chain.Delta(l-1))
}

// chainTensors are the tensors that D discards.
var chainTensors = []string{plan.TensorA, plan.TensorAbar}

// discard replays D of a_ℓ or ā_ℓ.
func (v *chainReplay) discard(k, l int) {
	if !v.CheckFields(k, false, false, chainTensors) {
		return
	}
	o := &v.Plan.Ops[k]
	first := 0
	if o.Tensor == plan.TensorAbar {
		first = 1 // ā_0 is a_0
	}
	if !v.hasLayer(k, l, first) {
		return
	}
	v.CheckTime(k, 0)
	if o.Tensor == plan.TensorA {
		if !v.a[l] {
			v.Broken(plan.RuleNotStored, k, v.chain.A(l), "D discards a_%d, which is not stored", l)
		}
		v.Free(&v.a[l], replay.Activations, v.chain.A(l))
		return
	}
	size := v.chain.Layers[l-1].Saved
	if !v.abar[l] {
		v.Broken(plan.RuleNotStored, k, size, "D discards ā_%d, which is not stored", l)
	}
	v.Free(&v.abar[l], replay.Saved, size)
}

// count returns how many are set.
func count(flags []bool) (n int) {
	for _, set := range flags {
		if set {
			n++
		}
	}
	return n
}

// Summarize replays p, a plan of [plan.Remat], and sums it up. The error is that of [Verify].
func Summarize(c *chain.Chain, p *plan.Plan) (*replay.Summary, error) {
	r, err := replayChain(c, p, false)
	if err != nil {
		return nil, err
	}
	return replay.Summarize(c, c.Len(), p, r), nil
}
