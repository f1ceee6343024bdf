// Package combined plans training steps that rematerialize and offload at once
// ([004] chapter 4): an activation that does not fit is computed again, or goes
// to the host and comes back, whichever costs less.
//
// Every method takes a chain and a platform, of which memory and bandwidth
// count, and returns a plan of the operations of [004] Table 2.1 with transfers
// of a_ℓ and ā_ℓ over one link, valid in the integral model: an offloaded tensor
// leaves when its transfer and the computation using it have ended, a
// prefetched one takes its space from the start of its transfer. Errors are a
// *plan.Infeasible when it is proved that no plan fits, or wrap plan.ErrNoPlan
// when the method found none though one may exist.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the
// chain's input.
package combined

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.RematOffload

// Errors of instances that mean nothing.
var (
	ErrChain    = errors.New("chain unfit for rematerialization with offloading")
	ErrPlatform = errors.New("platform unfit for rematerialization with offloading")
)

// rounding is what sums of sizes, added up in another order, may differ by, as
// part of the memory.
const rounding = 1e-12

// instance is a chain in flat slices indexed by layer as in the papers: 1..N,
// and 0 for the input; and the platform.
type instance struct {
	c    *chain.Chain
	p    platform.Platform
	n    int
	beta float64 // bytes per second
	// memory is the limit that sums of sizes are compared with.
	memory                 float64
	uF, uB                 []float64 // seconds; index 0 unused
	a, abar, delta, oF, oB []float64 // bytes
	until                  []float64 // until[ℓ] = Σ uF_1..ℓ
}

// newInstance checks c and p. The errors wrap ErrChain or ErrPlatform; a
// *plan.Infeasible says that no plan fits. O(N).
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: chain %q: %w", ErrChain, c.Name, err)
	}
	if !(p.Memory >= 0) || math.IsInf(p.Memory, 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be finite and not negative", ErrPlatform, p.Memory)
	}
	if !(p.Bandwidth >= 0) || math.IsInf(p.Bandwidth, 0) {
		return nil, fmt.Errorf("%w: bandwidth is %v bytes per second, it must be finite and not negative (0: no link)", ErrPlatform, p.Bandwidth)
	}
	in := newView(c)
	in.p, in.beta, in.memory = p, p.Bandwidth, p.Memory*(1+rounding)
	total, longest := 0.0, float64(in.n)*c.TotalTime()
	for l := range in.a {
		total += in.a[l] + in.abar[l] + in.delta[l] + in.oF[l] + in.oB[l]
	}
	if in.beta > 0 {
		longest += 4 * total / in.beta
	}
	if math.IsInf(2*total, 1) || math.IsInf(longest, 1) {
		return nil, fmt.Errorf("%w: chain %q: its sizes or times add up to more than a float64 holds", ErrChain, c.Name)
	}
	if least, why := in.least(); least > in.memory {
		return nil, &plan.Infeasible{Problem: Problem, Memory: least, Given: p.Memory, Why: why}
	}
	return in, nil
}

// newView copies c. O(N).
func newView(c *chain.Chain) *instance {
	n := c.Len()
	flat := make([]float64, 8*(n+1))
	part := func(k int) []float64 { return flat[k*(n+1) : (k+1)*(n+1) : (k+1)*(n+1)] }
	v := &instance{c: c, n: n, uF: part(0), uB: part(1), a: part(2), abar: part(3), delta: part(4), oF: part(5), oB: part(6), until: part(7)}
	v.a[0], v.abar[0], v.delta[0] = c.Input.Activation, c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		v.uF[i+1], v.uB[i+1] = l.ForwardTime, l.BackwardTime
		v.a[i+1], v.abar[i+1], v.delta[i+1] = l.Activation, l.Saved, l.Gradient
		v.oF[i+1], v.oB[i+1] = l.ForwardOverhead, l.BackwardOverhead
		v.until[i+1] = v.until[i] + l.ForwardTime
	}
	return v
}

// input is I_s^x, the size of what layer s reads: ā_{s-1} if x, else a_{s-1}.
func (in *instance) input(s int, x bool) float64 {
	if x {
		return in.abar[s-1]
	}
	return in.a[s-1]
}

// needAll is what F_all ℓ takes beside its input, without any gradient.
func (in *instance) needAll(l int) float64 { return in.abar[l] + in.oF[l] }

// needBackward is what B ℓ takes beside its input.
func (in *instance) needBackward(l int) float64 {
	return in.abar[l] + in.delta[l] + in.delta[l-1] + in.oB[l]
}
