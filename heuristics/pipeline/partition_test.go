package pipeline

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

func smallChain(t *rapid.T) (*chain.Chain, platform.Platform) {
	number := func(name string, low int) float64 { return float64(rapid.IntRange(low, 6).Draw(t, name)) }
	c := &chain.Chain{Name: "small", Input: chain.Input{Activation: number("a0", 0), Gradient: number("d0", 0)}}
	for range rapid.IntRange(1, 6).Draw(t, "layers") {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: number("uF", 1), BackwardTime: number("uB", 0),
			Activation: number("a", 0), Gradient: number("d", 0), Weight: number("w", 0),
		})
	}
	return c, platform.Platform{
		Memory: 10 * number("M", 1), Bandwidth: number("β", 1), Processors: rapid.IntRange(1, 4).Draw(t, "P"),
		WeightCopies: 3,
	}
}

// The partition is the best of all contiguous ones whose r-th stage from the
// end fits with r mini-batches, written out layer by layer.
func TestFittingPartition(t *testing.T) {
	t.Parallel()
	some, none := 0, 0
	testfile.Property(t, func(t *rapid.T) {
		c, p := smallChain(t)
		n := c.Len()
		load := func(stages []plan.Stage) float64 {
			most := 0.0
			for k, s := range stages {
				r := float64(len(stages) - k)
				time, memory := 0.0, 0.0
				for l := s.From; l <= s.To; l++ {
					x, before := c.Layers[l-1], c.Input.Activation
					if l > 1 {
						before = c.Layers[l-2].Activation
					}
					time += x.ForwardTime + x.BackwardTime
					memory += 3*x.Weight + r*before
				}
				if s.From > 1 {
					memory += c.Layers[s.From-2].Activation + c.Layers[s.From-2].Gradient
				}
				if s.To < n {
					x := c.Layers[s.To-1]
					memory += x.Activation + x.Gradient
					time = max(time, 2*x.Activation/p.Bandwidth)
				}
				if memory > p.Memory {
					return math.Inf(1)
				}
				most = max(most, time)
			}
			return most
		}
		best := math.Inf(1)
		for mask := range 1 << (n - 1) {
			var stages []plan.Stage
			from := 1
			for l := 1; l <= n; l++ {
				if l == n || mask>>(l-1)&1 == 1 {
					stages = append(stages, plan.Stage{Processor: len(stages), From: from, To: l})
					from = l + 1
				}
			}
			if len(stages) <= p.Processors {
				best = min(best, load(stages))
			}
		}
		got, err := FittingPartition(c, p)
		if err != nil {
			t.Skip(err) // no layer takes time
		}
		if got == nil {
			none++
			if !math.IsInf(best, 1) {
				t.Fatalf("none, best %v", best)
			}
			return
		}
		some++
		from := 1
		for k, s := range got {
			if s.Processor != k || s.From != from || s.To < s.From {
				t.Fatalf("%+v is no contiguous allocation", got)
			}
			from = s.To + 1
		}
		if from != n+1 || len(got) > p.Processors || load(got) != best {
			t.Fatalf("%+v with load %v, best %v", got, load(got), best)
		}
	})
	if some == 0 || none == 0 {
		t.Errorf("%d with a partition, %d without", some, none)
	}
}
