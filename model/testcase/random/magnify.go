package random

import (
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
)

// magnitudes are what Magnify multiplies sizes by.
var magnitudes = [...]float64{1, 10, 1e3, 1e6, 1e9, 1e12}

// Magnify returns a random instance of large sizes near a small one: all sizes,
// the memory and the bandwidth are multiplied by one magnitude, so that transfers
// take what they took, then gradients and overheads of some layers, and mostly
// the memory, change by 1 or a few. So what fits is decided by the last digits.
func Magnify(r *rand.Rand, c *chain.Chain, memory, bandwidth float64) (large *chain.Chain, m, b float64) {
	k := magnitudes[r.IntN(len(magnitudes))]
	near := func(x float64) float64 {
		if x *= k; r.IntN(2) == 0 {
			x = max(0, x+float64(r.IntN(3)-1))
		}
		return x
	}
	d := c.Copy()
	d.Input.Activation *= k
	d.Input.Gradient = near(c.Input.Gradient)
	for i := range d.Layers {
		l := &d.Layers[i]
		l.Activation *= k
		l.Saved *= k
		l.Gradient, l.ForwardOverhead, l.BackwardOverhead = near(l.Gradient), near(l.ForwardOverhead), near(l.BackwardOverhead)
		l.CheckpointOverhead *= k
		l.ClampOverhead()
	}
	return d, max(0, memory*k+offset(r)), bandwidth * k
}

// MagnifySequence is Magnify for swapping, where every size is that of a transfer
// and only the memory changes.
func MagnifySequence(r *rand.Rand, s *functions.Sequence, memory, bandwidth float64) (large *functions.Sequence, m, b float64) {
	k := magnitudes[r.IntN(len(magnitudes))]
	q := *s
	q.Variables = slices.Clone(s.Variables)
	for v := range q.Variables {
		q.Variables[v].Size *= k
	}
	return &q, max(0, memory*k+offset(r)), bandwidth * k
}

// offset is what a memory differs from a breakpoint by.
func offset(r *rand.Rand) float64 { return [...]float64{0, 0, -1, 1, -2, 3}[r.IntN(6)] }

// Paces are lengths of a unit of time, seconds, for tests of what must not depend
// on it.
var Paces = [...]float64{1, 1e-3, 1e-6, 1e-9, 1e-12, 3600, 1e6}

// Pace returns the chain with times multiplied by seconds. A bandwidth that is
// divided by as much gives the same problem at another pace.
func Pace(c *chain.Chain, seconds float64) *chain.Chain {
	d := c.Copy()
	for i := range d.Layers {
		d.Layers[i].ForwardTime *= seconds
		d.Layers[i].BackwardTime *= seconds
	}
	return d
}

// PaceSequence is Pace for swapping.
func PaceSequence(s *functions.Sequence, seconds float64) *functions.Sequence {
	q := *s
	q.Functions = slices.Clone(s.Functions)
	for i := range q.Functions {
		q.Functions[i].Time *= seconds
	}
	return &q
}

// MixSizes multiplies sizes of a chain by magnitudes of their own, for problems
// that need no whole times of transfers, and returns a memory at, or next to,
// what some operation of activation offloading takes together with some activations.
func MixSizes(r *rand.Rand, c *chain.Chain) (mixed *chain.Chain, memory float64) {
	d := c.Copy()
	mix := func(x float64) float64 {
		if x == 0 {
			return 0
		}
		return x*magnitudes[r.IntN(len(magnitudes))] + float64(r.IntN(3))
	}
	d.Input.Activation, d.Input.Gradient = mix(c.Input.Activation), mix(c.Input.Gradient)
	for i := range d.Layers {
		l := &d.Layers[i]
		more, above := l.Saved-l.Activation, l.Overhead(false)-l.Overhead(true)
		l.Activation = mix(l.Activation)
		l.Saved = l.Activation + mix(more)
		l.Gradient, l.ForwardOverhead, l.BackwardOverhead = mix(l.Gradient), mix(l.ForwardOverhead), mix(l.BackwardOverhead)
		l.CheckpointOverhead = l.ForwardOverhead + math.Floor((l.Saved-l.Activation)*min(1, above/max(1, more)))
	}
	l := 1 + r.IntN(len(d.Layers))
	at := func(i int) *chain.Layer { return &d.Layers[i-1] }
	gradient, saved := d.Input.Gradient, d.Input.Activation
	if l > 1 {
		gradient, saved = at(l-1).Gradient, at(l-1).Saved
	}
	memory = saved + at(l).Saved
	if r.IntN(2) == 0 {
		memory += at(l).ForwardOverhead
	} else {
		memory += at(l).BackwardOverhead + at(l).Gradient + gradient
	}
	for i := range l - 1 {
		if kept := d.Input.Activation; r.IntN(2) == 0 {
			if i > 0 {
				kept = at(i).Saved
			}
			memory += kept
		}
	}
	memory = max(memory, OffloadLeastMemory(d)-1) + offset(r)
	return d, math.Max(0, memory)
}
