package check

import (
	"math/rand/v2"

	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
)

// RandomRematOffload returns a chain with a link. The memory is between the least
// for rematerialization alone and for no transfers, at times less.
func RandomRematOffload(r *rand.Rand, layers int) (*Counterexample, error) {
	x, err := randomRemat(r, layers)
	if err != nil {
		return nil, err
	}
	p := platform.Platform{Memory: max(1, x.Platform.Memory-float64(r.IntN(3)/2)), Bandwidth: []float64{1, 1, 0.5, 0}[r.IntN(4)]}
	return &Counterexample{Problem: plan.RematOffload, Chain: x.Chain, Platform: p}, nil
}

func SolveRematOffload(x *Counterexample) (err error) {
	x.Optimum, x.Plan, err = exhaustive.RematOffload(x.Chain, x.Platform.Memory, x.Platform.Bandwidth, States)
	return orNoPlan(x, err)
}
