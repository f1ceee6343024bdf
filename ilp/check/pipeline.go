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

// randomPattern returns an instance of pipelines: a chain of small integers on
// up to three processors. About one in five has no plan.
func randomPattern(r *rand.Rand, layers int) (*Counterexample, error) {
	c := exhaustive.RandomChain(r, layers)
	total := 1.0
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Weight = float64(r.IntN(2))
		total += 2*l.Activation + l.Gradient + l.Weight
	}
	c.Layers[r.IntN(layers)].BackwardTime++
	p := platform.Platform{
		Memory:    1 + float64(r.IntN(int(2*total)+1)),
		Bandwidth: []float64{0.5, 1, 4}[r.IntN(3)], Processors: 1 + r.IntN(3), WeightCopies: 1 + r.IntN(2),
	}
	return &Counterexample{Problem: plan.Pipeline, Chain: c, Platform: p}, nil
}

func solvePattern(x *Counterexample) (err error) {
	x.Optimum, x.Plan, err = exhaustive.Pipeline(x.Chain, x.Platform, plan.TaskModel, States)
	return orNoPlan(x, err)
}

func smallerPattern(x *Counterexample) []*Counterexample {
	s := &shrinker{x: x}
	s.dropLayers()
	s.change(func(y *Counterexample) { y.Platform.Processors-- })
	for i := range x.Chain.Layers {
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Weight })
		s.size(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Gradient })
		s.size(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].Activation })
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].ForwardTime })
		s.number(func(y *Counterexample) *float64 { return &y.Chain.Layers[i].BackwardTime })
	}
	s.size(func(y *Counterexample) *float64 { return &y.Chain.Input.Gradient })
	s.size(func(y *Counterexample) *float64 { return &y.Chain.Input.Activation })
	s.number(func(y *Counterexample) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Counterexample) bool {
		return y.Chain.Validate() != nil || y.Chain.TotalTime() == 0 || y.Platform.Memory <= 0 || y.Platform.Processors < 1
	})
}

func (x *Counterexample) printPattern(b *strings.Builder) {
	fmt.Fprintf(b, "%d processors of memory %g, bandwidth %g, %d copies of weights, |a_0| = %g, |δ_0| = %g\n",
		x.Platform.Processors, x.Platform.Memory, x.Platform.Bandwidth, x.Platform.WeightCopies, x.Chain.Input.Activation, x.Chain.Input.Gradient)
	for i := range x.Chain.Layers {
		l := &x.Chain.Layers[i]
		fmt.Fprintf(b, "layer %d: u_F = %g, u_B = %g, |a| = %g, |δ| = %g, |w| = %g\n", i+1, l.ForwardTime, l.BackwardTime, l.Activation, l.Gradient, l.Weight)
	}
}
