// Package activationoffload is the model of activation offloading that methods and formulations
// share ([000], [004] chapter 3): the validated instance and its feasibility, the kernels that
// compute times from decisions, and closed-form bounds.
//
//   - [Instance] is a chain on a platform; [New] reports whether a plan exists.
//   - [NoWait] times a set and its two orders ([004] Proposition 1), all offloads before all
//     prefetches;
//     [Machine] times any order of starts, and [Decoder] a list of which only the order of transfers
//     counts.
//   - [Bounds] hold for every plan.
//
// [000] is O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Optimal GPU-CPU Offloading Strategies for
// Deep Neural Network Training", 2019.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the input of the chain.
// ā_0..ā_{N-1} may be offloaded. Sizes are integers, so their sums are exact and are compared
// without a tolerance.
package activationoffload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/rematoffload"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.ActivationOffload

// Errors of invalid input.
var (
	ErrChain    = errors.New("chain unfit for activation offloading")
	ErrPlatform = errors.New("platform unfit for activation offloading")
	ErrChoice   = errors.New("choice of transfers that cannot be")
)

// Instance is OFF_int(L, M, β) in flat slices indexed by layer, with derived data that every method
// needs.
type Instance struct {
	N      int
	UF, UB []float64 // seconds; index 0 unused
	Abar   []float64 // ā_0..ā_N
	Delta  []float64 // δ_0..δ_N
	OF, OB []float64 // index 0 unused
	// NeedF and NeedB are M_{F_ℓ} and M_{B_ℓ} of [004] (3.1), (3.2): the memory of the operation in
	// addition to ā_0..ā_{ℓ-1}.
	NeedF, NeedB []float64
	Before       []float64 // Before[ℓ] = ā_0 + … + ā_{ℓ-1}
	Move         []float64 // Move[i]: transfer time of ā_i, seconds

	Memory    float64 // M, bytes
	Bandwidth float64 // bytes per second

	Chain    *chain.Chain
	Platform platform.Platform
}

// New validates c and p and returns their instance. The errors wrap ErrChain or ErrPlatform, or are
// a *plan.Infeasible if no plan fits. O(N).
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

// NewView returns the part of an instance that depends on the chain only. O(N).
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

// opName returns the name of a computation: "F_3".
func opName(backward bool, l int) string {
	if backward {
		return fmt.Sprintf("B_%d", l)
	}
	return fmt.Sprintf("F_%d", l)
}

// NewPlan returns a plan of these operations, in order of start, with claims. Ties, within
// rounding, are ordered so that zero-duration events are possible, see ranks. The peak is that of
// the replay. O(N log N).
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
	out.Claims.Makespan = makespan
	if report, err := rematoffload.Verify(in.Chain, out); err == nil { // New has rejected what it cannot read
		out.Claims.PeakMemory = report.PeakMemory
	}
	return out
}

// ranks orders a tie: an offload right after the forward that produces its tensor, or first; a
// prefetch right before the backward that needs it, or last, when the computations have released
// memory. O(k·log k) for k operations.
func (in *Instance) ranks(ops []plan.Op) {
	if len(ops) == 1 {
		return
	}
	var among []int // the computations of the tie, as numbers of Machine plus 1, in order
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
	order := func(number int) int { // from 1; 0: not in the tie
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
