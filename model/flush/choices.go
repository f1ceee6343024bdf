package flush

import (
	"math"
	"slices"

	"workbench/model/partition"
	"workbench/model/platform"
)

// mostOwn is how many stages of a GPU all choices are tried of.
const mostOwn = 6

// AnyChoice returns a bound, in seconds, on the objective of every choice of stages that keep
// all that their layers save, as in none, or compute forward again, as in all: two pipelines of the
// same stages. +Inf: no choice fits.
//
// Some choice is made on each GPU, so the least over its own choices of a bound that holds
// whatever the others choose is a bound, and of the GPUs the largest counts. A stage whose choice is
// not known has what is better of both: the times of none and the memory of all. A schedule
// of the true choice is one of that: B and then W in the last part of a backward that computes
// forward again, which end no later and hold no more.
//
// O(GPUs·2^stages of a GPU) times [Instance.Bounds]; on GPUs of more than mostOwn stages no choice is
// known. The bound is ours.
func AnyChoice(none, all *partition.Partition, p platform.Platform) (float64, error) {
	open := *none
	open.Stages = slices.Clone(none.Stages)
	for s := range open.Stages {
		x, again := &open.Stages[s], &all.Stages[s]
		x.ForwardMemory, x.BackwardMemory, x.WeightMemory = again.ForwardMemory, -again.ForwardMemory, 0
		x.Overhead = min(x.Overhead, again.Overhead)
	}
	v, err := New(&open, p)
	if err != nil {
		return 0, err
	}
	most := v.atLeast()
	for _, own := range v.On {
		if len(own) > mostOwn {
			continue
		}
		least := math.Inf(1)
		for choice := range 1 << len(own) {
			x := open
			x.Stages = slices.Clone(open.Stages)
			for k, s := range own {
				if x.Stages[s] = none.Stages[s]; choice>>k&1 > 0 {
					x.Stages[s] = all.Stages[s]
				}
			}
			of, err := New(&x, p)
			if err != nil {
				return 0, err
			}
			least = min(least, of.atLeast())
		}
		most = max(most, least)
	}
	return most, nil
}

// atLeast returns the best bound, +Inf where nothing fits.
func (v *Instance) atLeast() float64 {
	if v.Fits() != nil {
		return math.Inf(1)
	}
	return v.Bound().Value
}
