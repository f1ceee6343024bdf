package weightoffload

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ErrInstance is wrapped by the error for a chain or platform that is invalid for weight
// offloading.
var ErrInstance = errors.New("instance unfit for weight offloading")

// Instance is OFF(L, M, β): a cycle on a platform on which a plan exists. Sizes are integers in the
// unit of the chain, so their sums are exact.
type Instance struct {
	*Cycle
	N        int       // 2L operations
	Memory   float64   // M
	Move     []float64 // Move[k]: transfer time of w_k, seconds
	Total    float64   // Σ|w_k|
	Chain    *chain.Chain
	Platform platform.Platform
}

// New validates c and p and returns their instance. The error wraps ErrInstance if the input is
// invalid. It is a *plan.Infeasible, returned together with the instance, if memory is below the
// minimum. O(L).
func New(c *chain.Chain, p platform.Platform) (*Instance, error) {
	if err := check(c, p); err != nil {
		return nil, err
	}
	c = c.Count(p.Model)
	y := FromChain(c)
	in := &Instance{Cycle: y, N: 2 * y.L, Memory: p.Memory, Move: make([]float64, y.L), Chain: c, Platform: p}
	for k, w := range y.W {
		in.Move[k] = w / p.Bandwidth
		in.Total += w
	}
	return in, in.Fits(p.Memory)
}

// MostAway returns the maximum over the operations of the bytes of weights that do not fit. At
// least this much is offloaded and prefetched in every cycle.
func (in *Instance) MostAway() float64 {
	most := 0.0
	for j := range in.U {
		most = max(most, in.Total-in.Room(j))
	}
	return most
}

// check returns an error for input that no method can use.
func check(c *chain.Chain, p platform.Platform) error {
	if c == nil || len(c.Layers) == 0 {
		return fmt.Errorf("%w: the chain has no layers, at least one is needed", ErrInstance)
	}
	for i, l := range c.Layers {
		for _, x := range [...]float64{l.ForwardTime, l.BackwardTime, l.Activation, l.Weight, c.Input.Activation} {
			if !(x >= 0) || math.IsInf(x, 0) {
				return fmt.Errorf("%w: layer %d of chain %q has %v, times and sizes must be finite and not negative", ErrInstance, i+1, c.Name, x)
			}
		}
	}
	if !(p.Memory > 0) || math.IsInf(p.Memory, 0) {
		return fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", ErrInstance, p.Memory)
	}
	if !(p.Bandwidth > 0) || math.IsInf(p.Bandwidth, 0) {
		return fmt.Errorf("%w: bandwidth is %v bytes per second, it must be positive and finite", ErrInstance, p.Bandwidth)
	}
	return nil
}

// Fits returns nil if a plan exists for the given memory, else a *plan.Infeasible with the minimum
// memory and its reason. O(L).
func (y *Cycle) Fits(memory float64) error {
	least, why := y.least()
	if platform.Fits(least, memory) {
		return nil
	}
	return &plan.Infeasible{Problem: plan.WeightOffload, Memory: least, Given: memory, Why: why}
}

// OpName returns the name of operation j as in the paper: "B_3".
func (y *Cycle) OpName(j int) string {
	if y.Backward(j) {
		return fmt.Sprintf("B_%d", y.Layer(j)+1)
	}
	return fmt.Sprintf("F_%d", y.Layer(j)+1)
}

// least returns the minimum memory for which a plan exists, and the first reason for it.
//
// It is exact. Every operation j needs Peak[j]. Just before operation j its weight is resident
// while the activations of operation j-1 are still held. With both, the plan fits that handles one
// layer at a time without overlap of transfers and computations.
func (y *Cycle) least() (memory float64, why string) {
	needs := func(m float64, j int, what string) {
		if m > memory {
			memory, why = m, fmt.Sprintf("%s needs its weight%s", y.OpName(j), what)
		}
	}
	for j := range y.U {
		if y.Backward(j) {
			needs(y.Peak[j], j, ", its gradient and the activations held")
		} else {
			needs(y.Peak[j], j, " and the activations held")
		}
		if w := y.W[y.Layer(j)]; w > 0 {
			needs(y.Act[y.Predecessor(j)]+w, j, " there before "+y.OpName(y.Predecessor(j))+" releases its activations")
		}
	}
	return memory, why
}

// Range returns the minimum memory for which a plan exists and the memory with which all weights
// are resident, beyond which more is useless. O(L).
func (y *Cycle) Range() (least, most float64) {
	total := 0.0
	for _, w := range y.W {
		total += w
	}
	least, _ = y.least()
	for j := range y.U {
		most = max(most, y.Peak[j]+total-y.W[y.Layer(j)])
	}
	return least, most
}

// Room returns the memory for weights at the start of operation j, including its own: M − M_j +
// |w_own| of [001].
func (in *Instance) Room(j int) float64 { return in.Memory - (in.Peak[j] - in.W[in.Layer(j)]) }

// RoomBefore returns the memory for weights just before operation j, while the activations of the
// previous operation are held.
func (in *Instance) RoomBefore(j int) float64 { return in.Memory - in.Act[in.Predecessor(j)] }
