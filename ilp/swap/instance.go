package swap

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// swapInstance is an instance of swapping as the model needs it: sizes in
// thousandths of the memory, times in units of unit seconds. Variables of no
// bytes are left out.
type swapInstance struct {
	s    *functions.Sequence
	p    platform.Platform
	n    int
	u    []float64 // of functions
	move []float64 // of variables

	unit, size float64 // seconds, bytes

	gaps   []swapGap
	epochs []swapEpoch
	// excess[k]: what must be away while f_k runs; 0: all fits.
	excess []float64
}

// A swapGap is the time between two functions that use a variable, one after the
// other. In it the variable may be away.
type swapGap struct {
	v          int
	after, use int // functions; after is −1 before the first
	epoch      int // −1: the host holds the value before the first function
	fetched    bool
	// fetched: it is on the host before the first function, so it has to come
}

// A swapEpoch is the time from a write of a variable to the next one: an out in
// it serves all its gaps.
type swapEpoch struct {
	v     int
	write int // the function that wrote or made v; −1: on the device at the start
	until int // the last use that ends a gap of it
}

func newSwapInstance(s *functions.Sequence, p platform.Platform) (*swapInstance, error) {
	switch {
	case s == nil:
		return nil, fmt.Errorf("%w: there is no sequence of functions", formulation.ErrInstance)
	case !(p.Memory > 0) || math.IsInf(p.Memory, 0):
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", formulation.ErrInstance, p.Memory)
	case !(p.Bandwidth > 0) || math.IsInf(p.Bandwidth, 0):
		return nil, fmt.Errorf("%w: bandwidth is %v bytes per second, it must be positive and finite", formulation.ErrInstance, p.Bandwidth)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	if least := s.LeastMemory(); least > p.Memory*(1+plan.Tolerance) {
		return nil, &plan.Infeasible{Problem: plan.Swap, Memory: least, Given: p.Memory, Why: "what one function uses, or is on the device at the start"}
	}
	in := &swapInstance{s: s, p: p, n: s.Len(), u: make([]float64, s.Len()), move: make([]float64, len(s.Variables)), size: p.Memory / 1000}
	in.unit = s.TotalTime()
	for v := range s.Variables {
		in.unit += 2 * s.Variables[v].Size / p.Bandwidth
	}
	if math.IsInf(in.unit, 0) {
		return nil, fmt.Errorf("%w: its times, transfers included, add up to more than a float64 holds", formulation.ErrInstance)
	}
	if in.unit /= 1000; in.unit == 0 {
		in.unit = 1
	}
	for i := range in.u {
		in.u[i] = s.Functions[i].Time / in.unit
	}
	for v := range in.move {
		in.move[v] = s.Variables[v].Size / p.Bandwidth / in.unit
	}
	in.read()
	return in, nil
}

func (in *swapInstance) bytes(v int) float64 { return in.s.Variables[v].Size / in.size }

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
		switch in.s.Variables[v].Initial {
		case functions.Host:
			made[v], epoch[v] = true, -1
		case functions.Device:
			made[v] = true
			if in.move[v] > 0 {
				begin(v, -1)
			}
		}
	}
	in.excess = make([]float64, in.n)
	for i := range in.n {
		f := &in.s.Functions[i]
		for _, v := range f.Uses {
			in.excess[i] += in.bytes(v)
			if made[v] && in.move[v] > 0 {
				g := swapGap{v: v, after: last[v], use: i, epoch: epoch[v], fetched: last[v] < 0 && epoch[v] < 0}
				for k := g.after + 1; k < i; k++ {
					in.excess[k] += in.bytes(v)
				}
				in.gaps = append(in.gaps, g)
				if g.epoch >= 0 {
					in.epochs[g.epoch].until = i
				}
			}
		}
		for _, v := range f.Uses {
			if !made[v] && in.move[v] > 0 {
				begin(v, i)
			}
			made[v], last[v] = true, i
		}
		for _, v := range f.Written() {
			if in.move[v] > 0 && (epoch[v] < 0 || in.epochs[epoch[v]].write < i) {
				begin(v, i)
			}
		}
	}
	for k, x := range in.excess {
		if in.excess[k] = x - in.p.Memory/in.size; in.excess[k] <= 1000*plan.Tolerance {
			in.excess[k] = 0
		}
	}
}
