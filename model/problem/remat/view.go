// Package remat is the model of rematerialization on chains ([002], [004] chapter 2): the validated
// instance in arrays, feasibility, the minimum memory with its reason, closed-form bounds, and
// plans built operation by operation. Heuristics and formulations share it; the verifier and
// exhaustive search do not use it.
//
// [002] is O. Beaumont, L. Eyraud-Dubois, J. Herrmann, A. Joly, A. Shilova, "Optimal checkpointing
// for heterogeneous chains: how to train deep neural networks with limited memory", 2019.
//
// Layers are numbered 1..N as in the papers, N being the loss; index 0 is the input of the chain.
// Sizes are integers in the unit of the chain, so their sums are exact; times are in seconds.
package remat

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.Remat

// Errors of invalid instances.
var (
	ErrChain    = errors.New("chain unfit for rematerialization")
	ErrPlatform = errors.New("platform unfit for rematerialization")
)

// View is a chain in flat slices indexed by layer, and the memory limit.
type View struct {
	N                      int
	UF, UB                 []float64 // seconds; index 0 unused
	A, Abar, Delta, OF, OB []float64 // sizes; OF is the overhead of F_all
	OC                     []float64 // overhead of F_ck and F_none
	Memory                 float64   // also an integer
	Unit                   platform.Unit
}

// FromChain returns the view of a valid chain without a memory limit. O(N).
func FromChain(c *chain.Chain) *View {
	n := c.Len()
	flat := make([]float64, 8*(n+1))
	part := func(k int) []float64 { return flat[k*(n+1) : (k+1)*(n+1) : (k+1)*(n+1)] }
	v := &View{
		N: n, UF: part(0), UB: part(1), A: part(2), Abar: part(3), Delta: part(4), OF: part(5), OB: part(6), OC: part(7),
		Memory: math.Inf(1), Unit: c.Unit,
	}
	v.A[0], v.Abar[0], v.Delta[0] = c.Input.Activation, c.Input.Activation, c.Input.Gradient
	for i := range c.Layers {
		l := &c.Layers[i]
		v.UF[i+1], v.UB[i+1] = l.ForwardTime, l.BackwardTime
		v.A[i+1], v.Abar[i+1], v.Delta[i+1] = l.Activation, l.Saved, l.Gradient
		v.OF[i+1], v.OC[i+1], v.OB[i+1] = l.Overhead(true), l.Overhead(false), l.BackwardOverhead
	}
	return v
}

// New validates c and the memory and returns their view, with the memory rounded down to an
// integer. The errors wrap [ErrChain] or [ErrPlatform], or are a *plan.Infeasible if no plan fits,
// by [View.LeastBound]. O(N).
func New(c *chain.Chain, memory float64) (*View, error) {
	v, err := Checked(c)
	if err != nil {
		return nil, err
	}
	if !(memory >= 0) || math.IsInf(memory, 0) {
		return nil, fmt.Errorf("%w: memory is %v, it must be finite and not negative", ErrPlatform, memory)
	}
	v.Memory = math.Floor(memory)
	if least, why := v.LeastBound(); !platform.Fits(least, memory) {
		return nil, v.TooLittle(least, why)
	}
	return v, nil
}

// Checked is [FromChain] for any chain. The error wraps [ErrChain].
func Checked(c *chain.Chain) (*View, error) {
	if c == nil {
		return nil, fmt.Errorf("%w: there is no chain", ErrChain)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%w: chain %q: %w", ErrChain, c.Name, err)
	}
	if n := float64(c.Len()); math.IsInf(8*n*n*c.TotalTime(), 1) {
		return nil, fmt.Errorf("%w: chain %q: its times add up to more than a float64 holds", ErrChain, c.Name)
	}
	return FromChain(c), nil
}

// Fits reports whether a plan with the given peak fits in memory.
func (v *View) Fits(used float64) bool { return platform.Fits(used, v.Memory) }

// TooLittle returns the error that no plan fits, since every plan needs at least least.
func (v *View) TooLittle(least float64, why string) *plan.Infeasible {
	return &plan.Infeasible{Problem: Problem, Memory: least, Given: v.Memory, Why: why}
}

// RoundedDown returns v with times rounded down to multiples of a power of two, such that sums are
// exact in which each layer is computed at most runs times. So equal sums compare equal, and the
// optimum of this chain is at most that of v, as no operation takes longer. This is the only place
// where the rounding of times enters a proof by search. A plan in which layers run r times in total
// takes less than r·runs·2^-51 Σ(uF+uB) longer in v. O(N).
func (v *View) RoundedDown(runs int) *View {
	w := *v
	w.UF, w.UB = slices.Clone(v.UF), slices.Clone(v.UB)
	total := 0.0
	for l := 1; l <= v.N; l++ {
		total += v.UF[l] + v.UB[l]
	}
	if total == 0 {
		return &w
	}
	_, e := math.Frexp(2 * float64(runs) * total) // the factor covers the rounding of total
	q := math.Ldexp(1, max(e-53, -1074))
	for l := 1; l <= v.N; l++ {
		w.UF[l], w.UB[l] = math.Floor(v.UF[l]/q)*q, math.Floor(v.UB[l]/q)*q
	}
	return &w
}

// Time returns the total time of the operations of a plan, in seconds, with the times of v.
func (v *View) Time(ops []plan.Op) float64 {
	t := 0.0
	for i := range ops {
		switch o := &ops[i]; {
		case o.Layer < 1 || o.Layer > v.N:
		case o.Op == plan.OpB:
			t += v.UB[o.Layer]
		case o.Op != plan.OpD:
			t += v.UF[o.Layer]
		}
	}
	return t
}

// Input returns the memory of the inputs of layer ℓ: a_0, which every plan keeps until B_1 since
// nothing can recompute it, and a_{ℓ-1}.
func (v *View) Input(l int) float64 {
	if l <= 1 {
		return v.A[0]
	}
	return v.A[0] + v.A[l-1]
}

// AllNeed returns the minimum memory of F_all ℓ with δ_h as the gradient in memory.
func (v *View) AllNeed(l, h int) float64 { return v.Input(l) + v.Abar[l] + v.OF[l] + v.Delta[h] }

// ForwardNeed returns the minimum memory of F_ck ℓ with δ_h as the gradient in memory, and so of
// any forward of ℓ.
func (v *View) ForwardNeed(l, h int) float64 { return v.Input(l) + v.A[l] + v.OC[l] + v.Delta[h] }

// BackwardNeed returns the minimum memory of B_ℓ.
func (v *View) BackwardNeed(l int) float64 {
	return v.Input(l) + v.Abar[l] + v.Delta[l] + v.Delta[l-1] + v.OB[l]
}
