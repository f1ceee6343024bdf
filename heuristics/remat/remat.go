// Package remat plans rematerialization of chains ([002], [004] chapter 2):
// which activations are kept, which are computed again, so that a training step
// fits in the memory and takes little longer than its computations.
//
// Every method takes a chain and a platform, of which the memory counts, and
// returns a plan of the operations of [004] Table 2.1; a *plan.Infeasible error
// when it is proved that no plan fits; or an error wrapping plan.ErrNoPlan when
// the method found none though one may exist.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the
// chain's input.
package remat

import (
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.Remat

// Point is one breakpoint of a trade-off: from Memory bytes on, a makespan of
// Makespan seconds is reached.
type Point struct{ Memory, Makespan float64 }

// view is a chain in flat slices indexed by layer as in the papers: 1..N, and
// 0 for the input.
type view struct {
	n                      int
	uF, uB                 []float64 // seconds; index 0 unused
	a, abar, delta, oF, oB []float64 // bytes
}

// newView copies c. O(N).
func newView(c *chain.Chain) *view {
	n := c.Len()
	flat := make([]float64, 7*(n+1))
	part := func(k int) []float64 { return flat[k*(n+1) : (k+1)*(n+1) : (k+1)*(n+1)] }
	v := &view{n: n, uF: part(0), uB: part(1), a: part(2), abar: part(3), delta: part(4), oF: part(5), oB: part(6)}
	v.a[0], v.abar[0], v.delta[0] = c.Input.Activation, c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		v.uF[i+1], v.uB[i+1] = l.ForwardTime, l.BackwardTime
		v.a[i+1], v.abar[i+1], v.delta[i+1] = l.Activation, l.Saved, l.Gradient
		v.oF[i+1], v.oB[i+1] = l.ForwardOverhead, l.BackwardOverhead
	}
	return v
}

// A sequence is a plan under construction: operations follow each other
// without idle time.
type sequence struct {
	v    *view
	ops  []plan.Op
	time float64 // end of the last operation
	// Memory at the end of the last operation, and the most so far.
	stored, peak float64
}

// newSequence starts with a_0 and δ_N in memory.
func newSequence(v *view) *sequence {
	s := &sequence{v: v, stored: v.a[0] + v.delta[v.n]}
	s.peak = s.stored
	return s
}

// run appends a computation that takes so long, needs so much more memory while
// it runs, and then leaves change bytes more (or less) stored.
func (s *sequence) run(op string, layer int, duration, during, change float64) {
	s.peak = max(s.peak, s.stored+during)
	s.ops = append(s.ops, plan.Op{Op: op, Layer: layer, Start: s.time, End: s.time + duration})
	s.time += duration
	s.stored += change
}

// all is F_all ℓ.
func (s *sequence) all(l int) {
	s.run(plan.OpFAll, l, s.v.uF[l], s.v.abar[l]+s.v.oF[l], s.v.abar[l])
}

// checkpoint is F_ck ℓ.
func (s *sequence) checkpoint(l int) {
	s.run(plan.OpFCk, l, s.v.uF[l], s.v.a[l]+s.v.oF[l], s.v.a[l])
}

// none is F_none ℓ, which consumes a_{ℓ-1}.
func (s *sequence) none(l int) {
	s.run(plan.OpFNone, l, s.v.uF[l], s.v.a[l]+s.v.oF[l], s.v.a[l]-s.v.a[l-1])
}

// backward is B ℓ. It consumes a_{ℓ-1} unless ā_{ℓ-1} is what is stored.
func (s *sequence) backward(l int, inputIsAbar bool) {
	change := s.v.delta[l-1] - s.v.delta[l] - s.v.abar[l]
	if !inputIsAbar {
		change -= s.v.a[l-1]
	}
	s.run(plan.OpB, l, s.v.uB[l], s.v.delta[l-1]+s.v.oB[l], change)
}

// discard is D of a_ℓ or ā_ℓ.
func (s *sequence) discard(tensor string, l int) {
	size := s.v.a[l]
	if tensor == plan.TensorAbar {
		size = s.v.abar[l]
	}
	s.ops = append(s.ops, plan.Op{Op: plan.OpD, Tensor: tensor, Layer: l, Start: s.time, End: s.time})
	s.stored -= size
}

// plan returns what was built, with claims.
func (s *sequence) plan(method string, c *chain.Chain, p platform.Platform) *plan.Plan {
	out := plan.New(Problem, method, c, p)
	out.Ops = s.ops
	out.Claims = plan.Claims{Makespan: s.time, PeakMemory: s.peak}
	return out
}
