package offload

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// offloadInstance is activation offloading as its formulations see it: the
// computations in their order, and how much of what is alive must be away
// during each of them. Layers and tensors have the numbers of [004];
// computation k is F_{k+1} for k < N, then B_{2N−k}. Times are in units of unit
// seconds, thousandths of the time of everything one after the other, and sizes
// in thousandths of the memory: so no coefficient is out of a solver's reach,
// whatever the bandwidth.
type offloadInstance struct {
	c *chain.Chain
	p platform.Platform
	n int

	unit float64 // seconds
	size float64 // bytes

	u      []float64 // of computation k
	abar   []float64 // size of tensor i = 0..N
	move   []float64 // time of its transfer
	need   []float64 // during computation k, with everything alive on the device
	excess []float64 // what of it must be away; 0 if it fits
	total  float64   // Σu
}

// first is the first computation at which it is of use that ā_i is away,
// F_{i+2}, and last the last one, B_{i+2}.
func (in *offloadInstance) first(i int) int { return i + 1 }
func (in *offloadInstance) last(i int) int  { return 2*in.n - i - 2 }

// movable says whether it can be of use to offload ā_i. Of ā_{N-1} it cannot:
// F_N and B_N use it, between them nothing but prefetches needs memory, and
// with ā_{N-1} they must fit at B_N in any case.
func (in *offloadInstance) movable(i int) bool {
	return i <= in.n-2 && in.abar[i] > 0 && in.p.Bandwidth > 0
}

// worth says whether the transfer of ā_i takes longer than what counts as an
// instant in plans. Others are tiny, or the bandwidth is huge; a search leaves
// them alone if it can.
func (in *offloadInstance) worth(i int) bool { return in.move[i] > 10*Instantly }

// tensors is the number of tensors that may be movable.
func (in *offloadInstance) tensors() int { return max(0, in.n-1) }

// opOf returns the operation of computation k and its layer.
func (in *offloadInstance) opOf(k int) (op string, layer int) {
	if k < in.n {
		return plan.OpFAll, k + 1
	}
	return plan.OpB, 2*in.n - k
}

// newOffloadInstance reads an instance. The error wraps ErrInstance or is a
// *plan.Infeasible.
func newOffloadInstance(c *chain.Chain, p platform.Platform) (*offloadInstance, error) {
	if err := CheckLink(c, p); err != nil {
		return nil, err
	}
	in := &offloadInstance{c: c, p: p, n: c.Len()}
	in.read()
	return in, in.feasible()
}

// CheckLink reports what no model of a device with a link can be built for. A
// link of bandwidth 0 carries nothing.
func CheckLink(c *chain.Chain, p platform.Platform) error {
	switch {
	case c == nil || c.Len() == 0:
		return fmt.Errorf("%w: the chain has no layers, at least one is needed", formulation.ErrInstance)
	case !(p.Memory > 0) || math.IsInf(p.Memory, 0):
		return fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", formulation.ErrInstance, p.Memory)
	case !(p.Bandwidth >= 0) || math.IsInf(p.Bandwidth, 0):
		return fmt.Errorf("%w: bandwidth is %v bytes per second, it must be finite and not negative", formulation.ErrInstance, p.Bandwidth)
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	return nil
}

// read copies the chain.
func (in *offloadInstance) read() {
	n := in.n
	in.size = in.p.Memory / 1000
	in.abar, in.move = make([]float64, n+1), make([]float64, n+1)
	in.abar[0] = in.c.Input.Activation / in.size
	for i := range in.c.Layers {
		in.abar[i+1] = in.c.Layers[i].Saved / in.size
	}
	seconds := in.c.TotalTime()
	for i, a := range in.abar {
		if in.movable(i) {
			in.move[i] = a * in.size / in.p.Bandwidth
			seconds += 2 * in.move[i]
		}
	}
	if in.unit = seconds / 1000; in.unit == 0 {
		in.unit = 1
	}
	for i := range in.move {
		in.move[i] /= in.unit
	}
	in.total = in.c.TotalTime() / in.unit

	in.u = make([]float64, 2*n)
	in.need, in.excess = make([]float64, 2*n), make([]float64, 2*n)
	alive, gradient := in.abar[0], in.c.Input.Gradient
	for i := range in.c.Layers {
		l := &in.c.Layers[i]
		in.u[i], in.u[2*n-1-i] = l.ForwardTime/in.unit, l.BackwardTime/in.unit
		alive += in.abar[i+1]
		in.need[i] = alive + l.ForwardOverhead/in.size
		in.need[2*n-1-i] = alive + (l.Gradient+gradient+l.BackwardOverhead)/in.size
		gradient = l.Gradient
	}
	for k := range in.need {
		if x := in.need[k] - 1000; x > 1e-6 {
			in.excess[k] = x
		}
	}
}

// feasible returns the proof that no plan exists, if there is none: a
// computation that does not fit although all is away that can be. If each one
// fits, a plan offloads everything, and each computation waits for all
// transfers before it.
func (in *offloadInstance) feasible() error {
	least, why := 0.0, ""
	for k := range in.need {
		if here := in.least(k); here > least {
			op, layer := in.opOf(k)
			least, why = here, fmt.Sprintf("during %s_%d", op, layer)
		}
	}
	if least > in.p.Memory {
		return &plan.Infeasible{Problem: plan.ActivationOffload, Memory: least, Given: in.p.Memory, Why: why}
	}
	return nil
}

// least returns the memory, bytes, that computation k needs at least.
func (in *offloadInstance) least(k int) float64 {
	op, layer := in.opOf(k)
	l := &in.c.Layers[layer-1]
	sum := l.ForwardOverhead
	if op == plan.OpB {
		gradient := in.c.Input.Gradient
		if layer > 1 {
			gradient = in.c.Layers[layer-2].Gradient
		}
		sum = l.BackwardOverhead + l.Gradient + gradient
	}
	for i := 0; i <= layer; i++ {
		switch {
		case in.movable(i) && i <= layer-2: // away
		case i == 0:
			sum += in.c.Input.Activation
		default:
			sum += in.c.Layers[i-1].Saved
		}
	}
	return sum
}
