package flush

import (
	"math"
	"slices"

	"workbench/model/instance/stages"
	"workbench/model/platform"
)

// mostOwn is the maximum number of combinations that are enumerated for the stages of one GPU.
const mostOwn = 64

// AnyChoice returns a lower bound, in seconds, on the objective over all choices among pipelines
// with the same stages. Each stage chooses one of them: to keep all saved activations, to
// recompute, or to offload to the host. choices[0] keeps everything. AnyChoice returns +Inf if no
// choice fits.
//
// Proof. Each GPU makes some choice. The minimum over its own choices of a bound that is valid
// whatever the other GPUs choose is therefore a bound, and so is the maximum over the GPUs. A stage
// whose choice is open gets the best of each: the times of choices[0] and the minimum memory that
// remains on the GPU ([Instance.Resident]). Any schedule of the true choice is a schedule of this
// relaxation: B and then W run in the last part of a backward that recomputes, end no later and
// hold no more.
//
// O(GPUs·pipelines^(stages of a GPU)) calls of [Instance.Bounds]. GPUs with more than mostOwn
// choices add no bound. The bound is our own.
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

// atLeast returns the best lower bound, +Inf if nothing fits.
func (v *Instance) atLeast() float64 {
	if v.Fits() != nil {
		return math.Inf(1)
	}
	return v.Bound().Value
}
