package flush

import (
	"math"
	"slices"

	"workbench/model/instance/stages"
	"workbench/model/platform"
)

// mostOwn is how many choices for the stages of a GPU are tried.
const mostOwn = 64

// AnyChoice returns a bound, in seconds, on the objective of every choice among pipelines of the
// same stages, made for each stage: that keeps all that its layers save, computes forward again, or sends to
// the host. The first is one that keeps. +Inf: no choice fits.
//
// Some choice is made on each GPU, so the least over its own choices of a bound that holds
// whatever the others choose is a bound, and of the GPUs the largest counts. A stage whose choice is
// not known has what is best of all: the times of the first, and the least that stays on the GPU
// ([Instance.Resident]). A schedule of the true choice is one of that: B and then W in the last part of a backward
// that computes forward again, which end no later and hold no more.
//
// O(GPUs·pipelines^(stages of a GPU)) times [Instance.Bounds]; on GPUs of more than mostOwn choices none is
// known. The bound is ours.
func AnyChoice(choices []*stages.Partition, p platform.Platform) (float64, error) {
	open := *choices[0]
	open.Stages = slices.Clone(open.Stages)
	for s := range open.Stages {
		x := &open.Stages[s]
		for _, other := range choices {
			y := &other.Stages[s]
			x.ForwardMemory, x.Overhead = min(x.ForwardMemory, y.ForwardMemory-y.OffloadMemory), min(x.Overhead, y.Overhead)
		}
		x.BackwardMemory, x.WeightMemory, x.OffloadMemory, x.OffloadTime = -x.ForwardMemory, 0, 0, 0
	}
	v, err := New(&open, p)
	if err != nil {
		return 0, err
	}
	most := v.atLeast()
	for _, own := range v.On {
		tries := 1
		for range own {
			tries = min(tries*len(choices), mostOwn+1)
		}
		if tries > mostOwn {
			continue
		}
		least := math.Inf(1)
		for choice := range tries {
			x := open
			x.Stages = slices.Clone(open.Stages)
			for _, s := range own {
				x.Stages[s] = choices[choice%len(choices)].Stages[s]
				choice /= len(choices)
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
