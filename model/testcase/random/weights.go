package random

import (
	"fmt"
	"math"
	"math/rand/v2"

	"workbench/model/instance/chain"
	"workbench/model/platform"
)

// Weights returns a random chain with a platform for weight offloading.
// Some computation takes time, times are small integers, and so are the times
// of transfers; sizes are of one magnitude or of two, up to 10¹², and the
// memory is at, one below, or one above what some computation needs together with some
// of the other weights, so it may be too little for any plan.
func Weights(r *rand.Rand, layers int) (*chain.Chain, platform.Platform) {
	unit := math.Pow(10, float64(3*r.IntN(5)))
	small := unit // of some activations
	if r.IntN(2) == 0 {
		small = 1
	}
	equal := r.IntN(3) == 0 // weights are: bounds are sharper then
	size := func(most int) float64 {
		return float64(r.IntN(most+1)) * [...]float64{unit, small}[r.IntN(2)]
	}
	c := &chain.Chain{Name: fmt.Sprintf("random-%d", layers), Input: chain.Input{Activation: size(1)}}
	for range layers {
		l := chain.Layer{
			ForwardTime: float64(r.IntN(4)), BackwardTime: float64(r.IntN(4)),
			Activation: size(2), Weight: float64(r.IntN(4)) * unit,
		}
		if l.Saved = l.Activation; equal && l.Weight > 0 {
			l.Weight = 2 * unit
		}
		c.Layers = append(c.Layers, l)
	}
	model := platform.PaperModel
	if r.IntN(2) == 0 {
		model = platform.SavedModel
		c.Input.Gradient = size(1)
		for i := range c.Layers {
			l := &c.Layers[i]
			l.Saved, l.Gradient, l.ForwardOverhead, l.BackwardOverhead = l.Activation+size(1), size(1), size(1), size(1)
		}
	}
	c = c.Count(model)
	if c.TotalTime() == 0 {
		c.Layers[r.IntN(layers)].BackwardTime = 1
	}
	// What computations need alone, and a random one of them together with some weights.
	memory, alone, held, last := 0.0, 0.0, c.Input.Activation, r.IntN(layers)
	for i := range c.Layers {
		l := &c.Layers[i]
		held += c.SavedSize(i + 1)
		forward, backward := c.TransientSizes(i + 1)
		alone = max(alone, held+l.Weight+forward, held+2*l.Weight+backward)
		if i == last {
			memory += held + float64(1+r.IntN(2))*l.Weight
		} else {
			memory += float64(r.IntN(2)) * l.Weight
		}
	}
	if r.IntN(4) > 0 {
		memory = max(memory, alone)
	}
	memory += [...]float64{-1, 0, 0, 1, 2}[r.IntN(5)]
	return c, platform.Platform{Memory: max(1, memory), Bandwidth: unit, Model: model}
}

// InUnits returns c and p with times in the given unit of seconds.
func InUnits(c *chain.Chain, p platform.Platform, seconds float64) (*chain.Chain, platform.Platform) {
	p.Bandwidth /= seconds
	return Pace(c, seconds), p
}
