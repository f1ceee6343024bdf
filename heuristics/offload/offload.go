// Package offload plans activation offloading ([000], [004] chapter 3): which
// activations leave the GPU between their forward and their backward, and when
// they are sent and fetched back, so that a training step fits in the memory
// and takes little longer than its computations.
//
// Every method takes a chain and a platform and returns a plan in the integral
// model, in which whole tensors move; a *plan.Infeasible error when the memory
// is below the least for which any plan exists; or an error wrapping
// plan.ErrNoPlan when the method found none. Methods promise nothing about
// optimality; Bounds says how far from it a plan can be at most.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the
// chain's input. ā_0..ā_{N-1} may be offloaded.
package offload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.ActivationOffload

// Errors of input that means nothing.
var (
	ErrChain    = errors.New("chain unfit for activation offloading")
	ErrPlatform = errors.New("platform unfit for activation offloading")
	ErrChoice   = errors.New("choice of transfers that cannot be")
)

// rounding is what sums of sizes, added up in another order, may differ by, as
// part of the memory. With whole bytes below 2^39 it changes nothing.
const rounding = 1e-12

// instance is OFF_int(L, M, β) in flat slices indexed by layer, with what every
// method needs, computed once.
type instance struct {
	n      int
	uF, uB []float64 // seconds; index 0 unused
	abar   []float64 // ā_0..ā_N
	delta  []float64 // δ_0..δ_N
	oF, oB []float64 // index 0 unused
	// needF and needB are M_{F_ℓ} and M_{B_ℓ} of [004] (3.1), (3.2): what the
	// operation takes beside ā_0..ā_{ℓ-1}.
	needF, needB []float64
	before       []float64 // before[ℓ] = ā_0 + … + ā_{ℓ-1}
	move         []float64 // move[i]: seconds to transfer ā_i

	limit float64 // M and the rounding of sums of sizes
	beta  float64 // bytes per second

	chain    *chain.Chain
	platform platform.Platform
}

// newInstance checks c and p, and that a plan exists. The errors wrap ErrChain
// or ErrPlatform; a *plan.Infeasible says that no plan fits. O(N).
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is none", ErrChain)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: chain %q: %w", ErrChain, c.Name, err)
	}
	if !(p.Memory >= 0) || math.IsInf(p.Memory, 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be finite and not negative", ErrPlatform, p.Memory)
	}
	if !(p.Bandwidth > 0) || math.IsInf(p.Bandwidth, 0) {
		return nil, fmt.Errorf("%w: bandwidth is %v bytes per second, it must be positive and finite", ErrPlatform, p.Bandwidth)
	}
	in := newView(c)
	in.beta, in.limit, in.platform = p.Bandwidth, p.Memory*(1+rounding), p
	sizes, times := 0.0, c.TotalTime()
	for l := range in.abar {
		in.move[l] = in.abar[l] / in.beta
		sizes += in.abar[l] + in.needF[l] + in.needB[l]
		times += 2 * in.move[l]
	}
	if math.IsInf(2*sizes, 1) || math.IsInf(2*times, 1) {
		return nil, fmt.Errorf("%w: chain %q: its sizes or times, transfers included, add up to more than a float64 holds", ErrChain, c.Name)
	}
	if low, why := in.least(); low > in.limit {
		return nil, &plan.Infeasible{Problem: Problem, Memory: low, Given: p.Memory, Why: why}
	}
	return in, nil
}

// newView is the part of an instance that the chain gives. O(N).
func newView(c *chain.Chain) *instance {
	n := c.Len()
	flat := make([]float64, 10*(n+1))
	part := func(k int) []float64 { return flat[k*(n+1) : (k+1)*(n+1) : (k+1)*(n+1)] }
	in := &instance{
		n: n, uF: part(0), uB: part(1), abar: part(2), delta: part(3), oF: part(4), oB: part(5),
		needF: part(6), needB: part(7), before: part(8), move: part(9), chain: c,
	}
	in.abar[0], in.delta[0] = c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		in.uF[i+1], in.uB[i+1] = l.ForwardTime, l.BackwardTime
		in.abar[i+1], in.delta[i+1] = l.Saved, l.Gradient
		in.oF[i+1], in.oB[i+1] = l.ForwardOverhead, l.BackwardOverhead
		in.needF[i+1] = in.oF[i+1] + in.abar[i+1]
		in.needB[i+1] = in.oB[i+1] + in.abar[i+1] + in.delta[i+1] + in.delta[i]
		in.before[i+1] = in.before[i] + in.abar[i]
	}
	return in
}

// opName names a computation: "F_3".
func opName(backward bool, l int) string {
	if backward {
		return fmt.Sprintf("B_%d", l)
	}
	return fmt.Sprintf("F_%d", l)
}

// newPlan returns a plan of these operations, in order of start, with claims.
// Of operations that start at the same instant computations come first. O(N log N).
func (in *instance) newPlan(method string, ops []plan.Op, makespan float64) *plan.Plan {
	slices.SortStableFunc(ops, func(a, b plan.Op) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(isTransfer(&a), isTransfer(&b)))
	})
	out := plan.New(Problem, method, in.chain, in.platform)
	out.Ops = ops
	out.Claims = plan.Claims{Makespan: makespan, PeakMemory: in.peak(ops, makespan)}
	return out
}

func isTransfer(o *plan.Op) int {
	if o.Op == plan.OpO || o.Op == plan.OpP {
		return 1
	}
	return 0
}

// A change of what is stored, at some time.
type change struct {
	time  float64
	order int // at the same time: releases, computations in their order, prefetches
	bytes float64
}

// peak returns the most memory that ops, in order of start, take. The rules are
// those of problems.md 2: ā_i is stored from the start of F_i until an offload
// and F_{i+1} have ended, from the start of its prefetch on, and until the end
// of B_i. Of operations closer than plan.Tolerance of the makespan, what began
// before ends first, what takes no time happens in the order of ops, and
// prefetches come last. O(N log N).
func (in *instance) peak(ops []plan.Op, makespan float64) float64 {
	same := plan.Tolerance * makespan
	last := 2*len(ops) + 1
	// starts and stops are the places of the two ends of operation k.
	instant := func(k int) bool { return ops[k].End-ops[k].Start <= same }
	stops := func(k int) int {
		if instant(k) {
			return 2*k + 2
		}
		return 0
	}
	forward := make([]int, in.n+1) // index of F_ℓ
	for k := range ops {
		if ops[k].Op == plan.OpFAll {
			forward[ops[k].Layer] = k
		}
	}
	changes := make([]change, 0, 2*len(ops)+1)
	add := func(time float64, order int, bytes float64) {
		if bytes != 0 {
			changes = append(changes, change{time, order, bytes})
		}
	}
	add(0, 0, in.abar[0])
	for k := range ops {
		o := &ops[k]
		l := o.Layer
		switch o.Op {
		case plan.OpFAll:
			add(o.Start, 2*k+1, in.abar[l]+in.oF[l])
			add(o.End, stops(k), -in.oF[l])
		case plan.OpB:
			grown := in.delta[l-1] + in.oB[l]
			if l == in.n {
				grown += in.delta[l]
			}
			add(o.Start, 2*k+1, grown)
			add(o.End, stops(k), -(in.oB[l] + in.abar[l] + in.delta[l]))
		case plan.OpO:
			end, order := o.End, stops(k)
			if f := forward[l+1]; ops[f].End > o.End-same {
				end, order = max(end, ops[f].End), max(order, stops(f))
			}
			add(end, order, -in.abar[l])
		case plan.OpP:
			starts := last
			if instant(k) {
				starts = 2*k + 1
			}
			add(o.Start, starts, in.abar[l])
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.time, b.time) })
	peak, stored := 0.0, 0.0
	for i := 0; i < len(changes); {
		j := i + 1
		for j < len(changes) && changes[j].time-changes[j-1].time <= same {
			j++
		}
		slices.SortStableFunc(changes[i:j], func(a, b change) int { return cmp.Compare(a.order, b.order) })
		for ; i < j; i++ {
			stored += changes[i].bytes
			peak = max(peak, stored)
		}
	}
	return peak
}
