// Package rematoffload is the model of rematerialization with offloading on chains that methods and
// formulations share ([004] chapter 4): the validated instance and its feasibility, the replay of a
// sequence of computations, the timing of the sequence with its transfers, and closed-form bounds.
//
//   - [Instance] is a chain on a platform; [New] reports whether a plan exists.
//   - [NewProfile] replays a sequence of [Step]s without transfers.
//   - [Retime] computes the times of a profile and of the tensors that are offloaded.
//   - [Bounds] hold for every plan.
//
// [004] is A. Shilova, "Memory Saving Strategies for Deep Neural Network Training", thesis,
// Université de Bordeaux, 2021. Layers are numbered 1..N as there, N being the loss; index 0 is the
// input of the chain. Sizes are integers, so their sums are exact and are compared without a
// tolerance.
package rematoffload

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.RematOffload

// Errors of invalid instances.
var (
	ErrChain    = errors.New("chain unfit for rematerialization with offloading")
	ErrPlatform = errors.New("platform unfit for rematerialization with offloading")
)

// Instance is a chain on a platform in flat slices indexed by layer as in the papers: 1..N, and 0
// for the input.
type Instance struct {
	Chain                  *chain.Chain
	Platform               platform.Platform
	N                      int
	Bandwidth              float64   // bytes per second
	Memory                 float64   // M, bytes
	UF, UB                 []float64 // seconds; index 0 unused
	A, Abar, Delta, OF, OB []float64 // bytes; OF is the overhead of F_all
	OC                     []float64 // overhead of F_ck and F_none
	Until                  []float64 // Until[ℓ] = Σ uF_1..ℓ
}

// New validates c and p and returns their instance. The errors wrap ErrChain or ErrPlatform, or are
// a *plan.Infeasible if no plan fits. O(N).
func New(c *chain.Chain, p platform.Platform) (*Instance, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: chain %q: %w", ErrChain, c.Name, err)
	}
	if !(p.Memory >= 0) || math.IsInf(p.Memory, 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be finite and not negative", ErrPlatform, p.Memory)
	}
	if !(p.Bandwidth >= 0) || math.IsInf(p.Bandwidth, 0) {
		return nil, fmt.Errorf("%w: bandwidth is %v bytes per second, it must be finite and not negative (0: no link)", ErrPlatform, p.Bandwidth)
	}
	in := NewView(c)
	in.Platform, in.Bandwidth, in.Memory = p, p.Bandwidth, p.Memory
	total, longest := 0.0, float64(in.N)*c.TotalTime()
	for l := range in.A {
		total += in.A[l] + in.Abar[l] + in.Delta[l] + in.OC[l] + in.OB[l]
	}
	if in.Bandwidth > 0 {
		longest += 4 * total / in.Bandwidth
	}
	if math.IsInf(2*total, 1) || math.IsInf(longest, 1) {
		return nil, fmt.Errorf("%w: chain %q: its sizes or times add up to more than a float64 holds", ErrChain, c.Name)
	}
	if least, why := in.least(); !platform.Fits(least, p.Memory) {
		return nil, &plan.Infeasible{Problem: Problem, Memory: least, Given: p.Memory, Why: why}
	}
	return in, nil
}

// NewView returns the arrays of c without a platform. O(N).
func NewView(c *chain.Chain) *Instance {
	n := c.Len()
	flat := make([]float64, 9*(n+1))
	part := func(k int) []float64 { return flat[k*(n+1) : (k+1)*(n+1) : (k+1)*(n+1)] }
	v := &Instance{
		Chain: c, N: n, UF: part(0), UB: part(1), A: part(2), Abar: part(3), Delta: part(4), OF: part(5), OB: part(6),
		Until: part(7), OC: part(8),
	}
	v.A[0], v.Abar[0], v.Delta[0] = c.Input.Activation, c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		v.UF[i+1], v.UB[i+1] = l.ForwardTime, l.BackwardTime
		v.A[i+1], v.Abar[i+1], v.Delta[i+1] = l.Activation, l.Saved, l.Gradient
		v.OF[i+1], v.OC[i+1], v.OB[i+1] = l.Overhead(true), l.Overhead(false), l.BackwardOverhead
		v.Until[i+1] = v.Until[i] + l.ForwardTime
	}
	return v
}

// Input returns I_s^x, the size of the input of layer s: ā_{s-1} if x, else a_{s-1}.
func (in *Instance) Input(s int, x bool) float64 {
	if x {
		return in.Abar[s-1]
	}
	return in.A[s-1]
}

// NeedAll returns the memory of F_all ℓ in addition to its input, without gradients.
func (in *Instance) NeedAll(l int) float64 { return in.Abar[l] + in.OF[l] }

// NeedBackward returns the memory of B ℓ in addition to its input.
func (in *Instance) NeedBackward(l int) float64 {
	return in.Abar[l] + in.Delta[l] + in.Delta[l-1] + in.OB[l]
}
