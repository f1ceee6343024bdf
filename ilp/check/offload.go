package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
)

func randomOffload(r *rand.Rand, layers int) (*Counterexample, error) {
	c, memory, bandwidth := exhaustive.RandomOffload(r, layers)
	return &Counterexample{Problem: plan.ActivationOffload, Chain: c, Platform: platform.Platform{Memory: max(1, memory), Bandwidth: bandwidth}}, nil
}

func solveOffload(x *Counterexample) (err error) {
	x.Optimum, x.Plan, err = exhaustive.Offload(x.Chain, x.Platform.Memory, x.Platform.Bandwidth, States)
	return orNoPlan(x, err)
}

// smallerOffload is smallerRemat with a link.
func smallerOffload(x *Counterexample) []*Counterexample {
	all := smallerRemat(x)
	s := &shrinker{x: x}
	s.number(func(y *Counterexample) *float64 { return &y.Platform.Bandwidth })
	return append(all, slices.DeleteFunc(s.all, func(y *Counterexample) bool { return y.Platform.Bandwidth <= 0 })...)
}

func (x *Counterexample) printOffload(b *strings.Builder) {
	fmt.Fprintf(b, "bandwidth %g, ", x.Platform.Bandwidth)
	x.printRemat(b)
}
