// Package offload is the problem of activation offloading as methods and
// formulations see it ([000], [004] chapter 3): the validated instance and what
// fits in it, the kernels that turn decisions into times, and closed-form bounds.
//
//   - [Instance] is a chain on a platform; [New] says whether a plan exists.
//   - [NoWait] times a set and its two orders ([004] Proposition 1), all offloads
//     before all prefetches; [Machine] times any order of starts, and [Decoder] a
//     list of which only the order of transfers counts.
//   - [Bounds] are proven for every plan.
//
// [000] is Beaumont, Eyraud-Dubois and Shilova, "Optimal GPU-CPU Offloading
// Strategies for Deep Neural Network Training", 2019; [004] is Shilova's thesis.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the
// chain's input. ā_0..ā_{N-1} may be offloaded. Sizes are whole numbers, so sums
// of them are exact and what fits is compared as it is.
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

// Instance is OFF_int(L, M, β) in flat slices indexed by layer, with what every
// method needs, computed once.
type Instance struct {
	N      int
	UF, UB []float64 // seconds; index 0 unused
	Abar   []float64 // ā_0..ā_N
	Delta  []float64 // δ_0..δ_N
	OF, OB []float64 // index 0 unused
	// NeedF and NeedB are M_{F_ℓ} and M_{B_ℓ} of [004] (3.1), (3.2): what the
	// operation takes beside ā_0..ā_{ℓ-1}.
	NeedF, NeedB []float64
	Before       []float64 // Before[ℓ] = ā_0 + … + ā_{ℓ-1}
	Move         []float64 // Move[i]: seconds to transfer ā_i

	Memory    float64 // M, bytes
	Bandwidth float64 // bytes per second

	Chain    *chain.Chain
	Platform platform.Platform
}

// New checks c and p, and that a plan exists. The errors wrap ErrChain
// or ErrPlatform; a *plan.Infeasible says that no plan fits. O(N).
func New(c *chain.Chain, p platform.Platform) (*Instance, error) {
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
	in := NewView(c)
	in.Bandwidth, in.Memory, in.Platform = p.Bandwidth, p.Memory, p
	sizes, times := 0.0, c.TotalTime()
	for l := range in.Abar {
		in.Move[l] = in.Abar[l] / in.Bandwidth
		sizes += in.Abar[l] + in.NeedF[l] + in.NeedB[l]
		times += 2 * in.Move[l]
	}
	if math.IsInf(2*sizes, 1) || math.IsInf(2*times, 1) {
		return nil, fmt.Errorf("%w: chain %q: its sizes or times, transfers included, add up to more than a float64 holds", ErrChain, c.Name)
	}
	if low, why := in.least(); !platform.Fits(low, p.Memory) {
		return nil, &plan.Infeasible{Problem: Problem, Memory: low, Given: p.Memory, Why: why}
	}
	return in, nil
}

// NewView is the part of an instance that the chain gives. O(N).
func NewView(c *chain.Chain) *Instance {
	n := c.Len()
	flat := make([]float64, 10*(n+1))
	part := func(k int) []float64 { return flat[k*(n+1) : (k+1)*(n+1) : (k+1)*(n+1)] }
	in := &Instance{
		N: n, UF: part(0), UB: part(1), Abar: part(2), Delta: part(3), OF: part(4), OB: part(5),
		NeedF: part(6), NeedB: part(7), Before: part(8), Move: part(9), Chain: c,
	}
	in.Abar[0], in.Delta[0] = c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		in.UF[i+1], in.UB[i+1] = l.ForwardTime, l.BackwardTime
		in.Abar[i+1], in.Delta[i+1] = l.Saved, l.Gradient
		in.OF[i+1], in.OB[i+1] = l.ForwardOverhead, l.BackwardOverhead
		in.NeedF[i+1] = in.OF[i+1] + in.Abar[i+1]
		in.NeedB[i+1] = in.OB[i+1] + in.Abar[i+1] + in.Delta[i+1] + in.Delta[i]
		in.Before[i+1] = in.Before[i] + in.Abar[i]
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

// NewPlan returns a plan of these operations, in order of start, with claims. What
// starts at one instant, but for rounding, is in an order in which it can happen if
// it takes no time, see ranks. O(N log N).
func (in *Instance) NewPlan(method string, ops []plan.Op, makespan float64) *plan.Plan {
	slices.SortStableFunc(ops, func(a, b plan.Op) int { return cmp.Compare(a.Start, b.Start) })
	const rounding = 1e-3 * plan.Tolerance
	for from := 0; from < len(ops); {
		to := from + 1
		for to < len(ops) && ops[to].Start-ops[to-1].Start <= rounding*makespan {
			to++
		}
		in.ranks(ops[from:to])
		from = to
	}
	out := plan.New(Problem, method, in.Chain, in.Platform)
	out.Ops = ops
	out.Claims = plan.Claims{Makespan: makespan, PeakMemory: in.peak(ops, makespan)}
	return out
}

// ranks orders what starts at one instant: an offload right after the forward that
// produces its tensor, or first; a prefetch right before the backward that needs
// it, or last, when the computations have released what they can. O(k·log k) for k
// operations.
func (in *Instance) ranks(ops []plan.Op) {
	if len(ops) == 1 {
		return
	}
	var among []int // numbers as in Machine of the computations that are among them, in order
	number := func(o *plan.Op) int {
		if o.Op == plan.OpFAll {
			return o.Layer
		}
		return 2*in.N + 1 - o.Layer
	}
	for k := range ops {
		if o := &ops[k]; o.Op == plan.OpFAll || o.Op == plan.OpB {
			among = append(among, number(o))
		}
	}
	slices.Sort(among)
	order := func(number int) int { // from 1; 0: it is not among them
		if at, is := slices.BinarySearch(among, number); is {
			return at + 1
		}
		return 0
	}
	rank := func(o *plan.Op) int {
		switch o.Op {
		case plan.OpO:
			return 2*order(o.Layer) + 1
		case plan.OpP:
			if c := order(2*in.N - o.Layer); c > 0 {
				return 2*c - 1
			}
			return 2*len(among) + 2
		}
		return 2 * order(number(o))
	}
	slices.SortStableFunc(ops, func(a, b plan.Op) int { return cmp.Compare(rank(&a), rank(&b)) })
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
func (in *Instance) peak(ops []plan.Op, makespan float64) float64 {
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
	forward := make([]int, in.N+1) // index of F_ℓ
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
	add(0, 0, in.Abar[0])
	for k := range ops {
		o := &ops[k]
		l := o.Layer
		switch o.Op {
		case plan.OpFAll:
			add(o.Start, 2*k+1, in.Abar[l]+in.OF[l])
			add(o.End, stops(k), -in.OF[l])
		case plan.OpB:
			grown := in.Delta[l-1] + in.OB[l]
			if l == in.N {
				grown += in.Delta[l]
			}
			add(o.Start, 2*k+1, grown)
			add(o.End, stops(k), -(in.OB[l] + in.Abar[l] + in.Delta[l]))
		case plan.OpO:
			end, order := o.End, stops(k)
			if f := forward[l+1]; ops[f].End > o.End-same {
				end, order = max(end, ops[f].End), max(order, stops(f))
			}
			add(end, order, -in.Abar[l])
		case plan.OpP:
			starts := last
			if instant(k) {
				starts = 2*k + 1
			}
			add(o.Start, starts, in.Abar[l])
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
