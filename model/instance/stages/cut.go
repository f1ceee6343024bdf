package stages

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/instance/chain"
)

// Cutting says how a chain becomes stages.
type Cutting struct {
	Stages int
	// Weight is the share of the backward that is W, time and memory, from 0, not split,
	// to below 1.
	Weight, WeightMemory float64
	Bandwidth            float64 // units per second between GPUs; 0: nothing takes time to send
	Copies               float64 // how often a GPU holds each weight: gradients, state of the optimizer
	// Recompute says which stages keep only their input and compute forward again in the backward;
	// nil: none.
	Recompute []bool
	// Send says which stages send SendShare, from 0 to 1, of what they keep of a micro-batch to the host, over a link of
	// HostBandwidth units per second; nil: none.
	Send                     []bool
	SendShare, HostBandwidth float64
	// Torch cuts for the runtime of PyTorch ([Torch]): nothing is freed before W, and
	// the first computes no gradient of its input, so that all of its backward is W.
	Torch bool
}

// ErrCut is wrapped by the error of [Cut] for a chain that cannot be cut so.
var ErrCut = errors.New("chain cannot be cut into these stages")

// Cut cuts a chain into stages of layers in a row, the longest as short as
// possible; where two cuts tie on the way, that of less memory is kept. A stage holds
// of a micro-batch its input and all that its layers save; beside that Copies of its
// weights, and its overhead is the largest of a layer, since one operation runs at a time.
// A stage that computes forward again holds the input only, and has what its layers save as
// overhead. Its backward is one operation: a W that came later would hold what has been
// computed again. The communication time is that of the largest tensor that is sent.
// O(stages·layers²).
func Cut(c *chain.Chain, o Cutting) (*Partition, error) {
	n := c.Len()
	switch {
	case o.Stages < 1 || o.Stages > n:
		return nil, fmt.Errorf("%w: %d stages of %d layers; there are from 1 to %d", ErrCut, o.Stages, n, n)
	case !(o.Weight >= 0 && o.Weight < 1) || !(o.WeightMemory >= 0 && o.WeightMemory <= 1):
		return nil, fmt.Errorf("%w: the share of W is %g of the time and %g of the memory; the former is from 0 to below 1, the latter to 1",
			ErrCut, o.Weight, o.WeightMemory)
	case o.Recompute != nil && len(o.Recompute) != o.Stages:
		return nil, fmt.Errorf("%w: recomputation is set for %d stages; there are %d", ErrCut, len(o.Recompute), o.Stages)
	case o.Send != nil && (len(o.Send) != o.Stages || !(o.SendShare >= 0 && o.SendShare <= 1) || !(o.HostBandwidth > 0)):
		return nil, fmt.Errorf("%w: offloading of %[3]g of the kept values at %[4]g bytes/s is set for %[2]d stages; there are %[5]d, "+
			"a share is from 0 to 1, and a bandwidth above 0", ErrCut, len(o.Send), o.SendShare, c.Unit.Bytes(o.HostBandwidth), o.Stages)
	case !(o.Copies >= 0) || o.Copies != math.Trunc(o.Copies):
		return nil, fmt.Errorf("%w: %g copies of the weights; it is an integer ≥ 0", ErrCut, o.Copies)
	}
	ends := balance(c, o.Stages)
	p := &Partition{
		Name: fmt.Sprintf("%s-s%d", c.Name, o.Stages), Unit: c.Unit,
		Source: map[string]any{"kind": "partition", "chain": c.Name, "weight_share": o.Weight, "weight_copies": o.Copies},
	}
	from := 0
	for k, to := range ends {
		s := stage(c, from, to, o)
		if o.Recompute != nil && o.Recompute[k] {
			s = recomputing(s, c.Layers[from:to])
		}
		if o.Send != nil && o.Send[k] {
			s.OffloadMemory = math.Floor(o.SendShare * s.ForwardMemory)
			s.OffloadTime = s.OffloadMemory / o.HostBandwidth
		}
		if o.Torch {
			p.Runtime = Torch
			s = s.torch(k == 0)
		}
		p.Stages = append(p.Stages, s)
		if k < len(ends)-1 && o.Bandwidth > 0 {
			l := &c.Layers[to-1]
			p.CommunicationTime = max(p.CommunicationTime, max(l.Activation, l.Gradient)/o.Bandwidth)
		}
		from = to
	}
	return p, p.Validate()
}

// stage returns the layers from+1 to to as a stage.
func stage(c *chain.Chain, from, to int, o Cutting) Stage {
	s := Stage{Name: c.Layers[from].Name}
	if to > from+1 {
		s.Name += " to " + c.Layers[to-1].Name
	}
	backward := 0.0
	s.ForwardMemory = c.Input.Activation
	if from > 0 {
		s.ForwardMemory = c.Layers[from-1].Activation
	}
	for i := from; i < to; i++ {
		l := &c.Layers[i]
		s.ForwardTime += l.ForwardTime
		backward += l.BackwardTime
		s.ForwardMemory += l.Saved
		s.Weight += o.Copies * l.Weight
		s.Overhead = max(s.Overhead, l.ForwardOverhead, l.BackwardOverhead)
	}
	s.WeightTime = o.Weight * backward
	s.BackwardTime = backward - s.WeightTime
	if s.WeightMemory = -math.Floor(o.WeightMemory * s.ForwardMemory); o.Weight == 0 {
		s.WeightMemory = 0
	}
	s.BackwardMemory = -s.ForwardMemory - s.WeightMemory
	return s
}

// torch returns a stage as PyTorch 2.15 runs it. What it holds has its output, which is sent, already.
func (s Stage) torch(first bool) Stage {
	if s.BackwardMemory, s.WeightMemory = -s.ForwardMemory, 0; s.WeightTime > 0 {
		s.BackwardMemory, s.WeightMemory = 0, -s.ForwardMemory
		if first {
			s.BackwardTime, s.WeightTime = 0, s.BackwardTime+s.WeightTime
		}
	}
	return s
}

// recomputing returns a stage that computes forward again: all that its layers save is overhead.
func recomputing(s Stage, layers []chain.Layer) Stage {
	saved := 0.0
	for i := range layers {
		saved += layers[i].Saved
	}
	s.RecomputeTime = s.ForwardTime
	s.BackwardTime += s.ForwardTime + s.WeightTime
	s.WeightTime, s.WeightMemory = 0, 0
	s.ForwardMemory -= saved
	s.BackwardMemory = -s.ForwardMemory
	s.Overhead += saved
	return s
}

// balance returns after how many layers each of so many stages ends.
func balance(c *chain.Chain, stages int) []int {
	n := c.Len()
	time, memory := make([]float64, n+1), make([]float64, n+1)
	for i := range c.Layers {
		time[i+1] = time[i] + c.Layers[i].ForwardTime + c.Layers[i].BackwardTime
		memory[i+1] = memory[i] + c.Layers[i].Saved
	}
	type cost struct{ time, memory float64 }
	less := func(a, b cost) bool { return a.time < b.time || a.time == b.time && a.memory < b.memory }
	best, cut := make([][]cost, stages+1), make([][]int, stages+1)
	for k := range best {
		best[k], cut[k] = make([]cost, n+1), make([]int, n+1)
	}
	for to := 1; to <= n; to++ {
		best[0][to] = cost{math.Inf(1), 0}
	}
	for k := 1; k <= stages; k++ {
		for to := range best[k] {
			best[k][to] = cost{math.Inf(1), 0}
			for from := k - 1; from < to; from++ {
				x := best[k-1][from]
				x = cost{max(x.time, time[to]-time[from]), max(x.memory, memory[to]-memory[from])}
				if less(x, best[k][to]) {
					best[k][to], cut[k][to] = x, from
				}
			}
		}
	}
	ends := make([]int, stages)
	for k, to := stages, n; k > 0; k-- {
		ends[k-1], to = to, cut[k][to]
	}
	return ends
}
