package activationoffload

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// instance is activation offloading as its formulations need it: the computations in order, and how
// much of what is alive must be on the host during each of them. Layers and tensors have the
// indices of [004]; computation k is F_{k+1} for k < N, then B_{2N−k}. Times are in units of a
// power of two of seconds in which a good plan takes about 2¹⁰, with transfer times rounded down;
// sizes are in bytes.
type instance struct {
	*view.Instance
	unit float64 // seconds

	u      []float64 // of computation k
	move   []float64 // time of the transfer of ā_i
	excess []float64 // bytes that must be on the host during computation k; 0: it fits
}

// target is about the makespan of a good plan in units of a model.
const target = 0x1p10

// newInstance reads an instance. The error wraps formulation.ErrInstance or is a
// *plan.Infeasible.
func newInstance(c *chain.Chain, p platform.Platform) (*instance, error) {
	v, err := view.New(c, p)
	if err != nil {
		return nil, formulation.Unfit(err)
	}
	n := v.N
	in := &instance{Instance: v, u: make([]float64, 2*n), move: make([]float64, n+1), excess: make([]float64, 2*n)}
	scale := milp.PowerOfTwo(v.BestBound(), target)
	in.unit = 1 / scale
	for i, a := range v.Abar {
		in.move[i] = scale * milp.Down.Quo(a, v.Bandwidth)
	}
	x := v.Excess()
	for l := 1; l <= n; l++ {
		in.u[l-1], in.u[2*n-l] = scale*v.UF[l], scale*v.UB[l]
		in.excess[l-1], in.excess[2*n-l] = max(0, x.Forward[l]), max(0, x.Backward[l])
	}
	return in, nil
}

// first is the first computation at which it is useful that ā_i is on the host, F_{i+2}, and last
// the last one, B_{i+2}.
func (in *instance) first(i int) int { return i + 1 }
func (in *instance) last(i int) int  { return 2*in.N - i - 2 }

// movable says whether it can be of use to offload ā_i. Of ā_{N-1} it cannot:
// F_N and B_N use it, between them nothing but prefetches needs memory, and
// with ā_{N-1} they must fit at B_N in any case.
func (in *instance) movable(i int) bool { return i <= in.N-2 && in.Abar[i] > 0 }

// tensors returns the number of tensors that may be moved.
func (in *instance) tensors() int { return max(0, in.N-1) }

// opOf returns the operation of computation k and its layer.
func (in *instance) opOf(k int) (op string, layer int) {
	if k < in.N {
		return plan.OpFAll, k + 1
	}
	return plan.OpB, 2*in.N - k
}

// computing returns the time of all computations, rounded down.
func (in *instance) computing() float64 { return milp.Down.Sum(in.u...) }
