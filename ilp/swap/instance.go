package swap

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/functions"
	"workbench/model/milp"
	"workbench/model/platform"
	view "workbench/model/problem/swap"
)

// swapInstance is an instance of swapping in the units of the model: sizes in bytes, times in a power of two of
// seconds such that a good plan takes about 2¹⁰. Transfer times are rounded down. Variables of zero bytes are left
// out.
type swapInstance struct {
	*view.Instance
	unit float64   // seconds
	u    []float64 // of functions
	move []float64 // of variables

	gaps   []swapGap
	epochs []swapEpoch
	// excess[k] is the number of bytes that must be on the host while f_k runs; 0: all fits.
	excess []float64
}

// swapGap is the time between two consecutive functions that use a variable. The variable may be on the host
// during it.
type swapGap struct {
	v          int
	after, use int // functions; after is −1 before the first
	epoch      int // −1: the host holds the value before the first function
	fetched    bool
	// fetched: the variable is on the host before the first function, so it must come in.
}

// swapEpoch is the time from a write of a variable to the next one: one out serves all its gaps.
type swapEpoch struct {
	v     int
	write int // the function that wrote or created v; −1: on the device at the start
	until int // the last use that ends a gap of the epoch
}

// target is the approximate makespan of a good plan, in units of the model.
const target = 0x1p10

// newSwapInstance reads an instance. The error wraps formulation.ErrInstance or is a *plan.Infeasible.
func newSwapInstance(s *functions.Sequence, p platform.Platform) (*swapInstance, error) {
	v, err := view.New(s, p)
	if err != nil {
		return nil, formulation.Unfit(err)
	}
	in := &swapInstance{Instance: v, u: make([]float64, v.N), move: make([]float64, len(v.Size))}
	scale := milp.PowerOfTwo(v.BestBound(), target)
	in.unit = 1 / scale
	for i := range in.u {
		in.u[i] = scale * v.Times[i]
	}
	for v := range in.move {
		in.move[v] = formulation.Counts(scale * milp.Down.Quo(in.Size[v], p.Bandwidth))
	}
	in.read()
	return in, nil
}

// read finds gaps, epochs and excesses. O(uses + functions · variables).
func (in *swapInstance) read() {
	last, epoch := make([]int, len(in.move)), make([]int, len(in.move))
	made := make([]bool, len(in.move))
	begin := func(v, write int) {
		epoch[v] = len(in.epochs)
		in.epochs = append(in.epochs, swapEpoch{v: v, write: write, until: write})
	}
	for v := range in.move {
		last[v] = -1
		switch in.Sequence.Variables[v].Initial {
		case functions.Host:
			made[v], epoch[v] = true, -1
		case functions.Device:
			made[v] = true
			if in.Size[v] > 0 {
				begin(v, -1)
			}
		}
	}
	in.excess = make([]float64, in.N)
	for i := range in.N {
		f := &in.Sequence.Functions[i]
		for _, v := range f.Uses {
			in.excess[i] += in.Size[v]
			if made[v] && in.Size[v] > 0 {
				g := swapGap{v: v, after: last[v], use: i, epoch: epoch[v], fetched: last[v] < 0 && epoch[v] < 0}
				for k := g.after + 1; k < i; k++ {
					in.excess[k] += in.Size[v]
				}
				in.gaps = append(in.gaps, g)
				if g.epoch >= 0 {
					in.epochs[g.epoch].until = i
				}
			}
		}
		for _, v := range f.Uses {
			if !made[v] && in.Size[v] > 0 {
				begin(v, i)
			}
			made[v], last[v] = true, i
		}
		for _, v := range f.Written() {
			if in.Size[v] > 0 && (epoch[v] < 0 || in.epochs[epoch[v]].write < i) {
				begin(v, i)
			}
		}
	}
	for k, x := range in.excess {
		in.excess[k] = max(0, x-in.Memory)
	}
}
