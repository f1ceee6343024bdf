package random

import (
	"math"
	"math/rand/v2"

	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Layout returns a chain of 2 to most layers of small integers and a platform whose layouts exhaustive search answers quickly. Memory is
// often tight.
func Layout(r *rand.Rand, most int) (*chain.Chain, platform.Platform) {
	p := platform.Platform{
		Placement: plan.Straight, Processors: 2, MicroBatches: 1 + r.IntN(2), WeightCopies: 1 + r.IntN(2), Bandwidth: platform.Unlimited,
		Objective: [...]string{plan.SpanObjective, plan.MakespanObjective}[r.IntN(2)], Latency: float64(r.IntN(2)),
		Runtime: [...]string{"", stages.Torch}[r.IntN(2)],
	}
	n := 2 + r.IntN(max(1, most-1))
	if n == 4 && r.IntN(2) == 0 {
		p.Placement, p.MicroBatches = [...]string{plan.VShaped, plan.Interleaved}[r.IntN(2)], 1
	}
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(3))}}
	total := c.Input.Activation
	for range n {
		l := chain.Layer{
			ForwardTime: float64(1 + r.IntN(4)), WeightGradientTime: float64(r.IntN(4)), Activation: float64(1 + r.IntN(3)),
			Weight: float64(r.IntN(3)), BackwardOverhead: float64(r.IntN(2)), OutputDropped: r.IntN(6) == 0,
		}
		l.BackwardTime, l.Saved, l.Gradient = l.WeightGradientTime+float64(r.IntN(4)), l.Activation+float64(r.IntN(4)), l.Activation
		if l.WeightGradientTime > 0 && r.IntN(3) == 0 {
			l.WeightGradientSaved = float64(r.IntN(3))
		}
		if r.IntN(3) == 0 && l.ForwardTime > 1 {
			l.Recompute = []chain.Recomputation{{Name: "selective", Saved: 3, ForwardTime: 1, Splits: r.IntN(2) == 0}}
		}
		total += l.Saved + l.Weight
		c.Layers = append(c.Layers, l)
	}
	p.Memory = max(1, math.Floor(total*[...]float64{0.4, 0.6, 0.8, 1, 1.5, 3}[r.IntN(6)]))
	return c, p
}
