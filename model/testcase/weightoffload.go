package testcase

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	optimum "workbench/model/exhaustive/weightoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
	"workbench/model/testcase/random"
)

// Weights is the subject of chains for weight offloading.
func Weights() *Subject {
	return &Subject{
		Kind: chain.Kind, Units: "layers", Usual: 4, Most: 4,
		Random: func(r *rand.Rand, layers int) (*Trial, error) { return RandomWeights(r, layers), nil },
		Draw:   drawWeights, Searched: drawn,
		Search: searchWeights, Smaller: smallerWeights, Text: weightsText,
	}
}

// largest is the largest number in random instances of weight offloading.
const largest = 3

// RandomWeights returns an instance of small integers, with bandwidth 1, for which plans of weight offloading
// exist. The total time of computations is positive.
func RandomWeights(r *rand.Rand, layers int) *Trial {
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(2))}}
	for range layers {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: float64(r.IntN(largest + 1)), BackwardTime: float64(r.IntN(largest + 1)),
			Activation: float64(r.IntN(largest)), Weight: float64(r.IntN(largest + 1)),
		})
	}
	c.Layers[r.IntN(layers)].BackwardTime++
	low, high := weightoffload.FromChain(c).Range()
	p := platform.Platform{Memory: max(1, low+float64(r.IntN(int(high-low)+1))), Bandwidth: 1}
	return &Trial{In: c, Platform: p, Pace: 1}
}

func drawWeights(r *rand.Rand) *Trial {
	c, p := random.Weights(r, 1+r.IntN(3))
	if p.Model != platform.SavedModel {
		for i := range c.Layers { // used by no other problem
			l := &c.Layers[i]
			l.Saved, l.Gradient = l.Activation, l.Activation
		}
		c.Input.Gradient = c.Input.Activation
	}
	x := pace(r)
	c, p = random.InUnits(c, p, x)
	if w := c.Layers[r.IntN(c.Len())].Weight; w > 0 && r.IntN(3) == 0 {
		p.Bandwidth = w / (c.TotalTime() * shares[r.IntN(len(shares))])
	}
	return &Trial{In: c, Platform: p, Pace: x}
}

// shares are durations of transfers relative to the computations: below, at and above the tolerance for ties.
var shares = [...]float64{
	1e-15, 1e-12, 1e-10, 1e-9 / 2, math.Nextafter(plan.Tolerance, 0), plan.Tolerance, math.Nextafter(plan.Tolerance, 1), 2e-9, 1e-3,
}

// short is a fraction of the computations that the minimum period does not show.
const short = 1e-7

// whole returns a chain and a platform whose durations are integers, as some searches require: those of the trial
// divided by its pace.
func (t *Trial) whole() (*chain.Chain, platform.Platform) {
	c, p := t.Chain(), t.Platform
	if t.Pace == 1 {
		return c, p
	}
	c = random.Pace(c, 1)
	for i := range c.Layers {
		l := &c.Layers[i]
		l.ForwardTime, l.BackwardTime = math.Round(l.ForwardTime/t.Pace), math.Round(l.BackwardTime/t.Pace)
	}
	p.Bandwidth = math.Round(2*p.Bandwidth*t.Pace) / 2
	return c, p
}

func searchWeights(t *Trial, states int) (float64, *plan.Plan, error) {
	c, p := t.whole()
	hurried := slices.ContainsFunc(c.Layers, func(l chain.Layer) bool { return l.Weight > 0 && l.Weight/p.Bandwidth <= short*c.TotalTime() })
	if hurried {
		p.Bandwidth = math.Inf(1)
	}
	least, best, err := optimum.Search(c, p, states)
	if t.Pace != 1 || hurried {
		best = nil
	}
	return least * t.Pace, best, err
}

func smallerWeights(x *Trial) []*Trial {
	s := &shrinker{x: x}
	s.dropLayers()
	for i := range x.Chain().Layers {
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].Weight })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].Activation })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].ForwardTime })
		s.number(func(y *Trial) *float64 { return &y.Chain().Layers[i].BackwardTime })
	}
	s.number(func(y *Trial) *float64 { return &y.Chain().Input.Activation })
	s.number(func(y *Trial) *float64 { return &y.Platform.Memory })
	return slices.DeleteFunc(s.all, func(y *Trial) bool {
		low, _ := weightoffload.FromChain(y.Chain()).Range()
		return y.Chain().Len() == 0 || y.Chain().TotalTime() == 0 || y.Platform.Memory < max(1, low)
	})
}

func weightsText(x *Trial, _ *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory %g, bandwidth %g, |a_0| = %g\n", x.Platform.Memory, x.Platform.Bandwidth, x.Chain().Input.Activation)
	for i := range x.Chain().Layers {
		l := &x.Chain().Layers[i]
		fmt.Fprintf(&b, "layer %d: u_F = %g, u_B = %g, |a| = %g, |w| = %g\n", i+1, l.ForwardTime, l.BackwardTime, l.Activation, l.Weight)
	}
	return b.String()
}
