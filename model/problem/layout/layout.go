// Package layout is the model of laying out a synchronous pipeline: where a chain is cut into
// stages, which GPU has which stages, what each layer recomputes, and in which order the GPUs run
// forwards and backwards. It holds the validated instance, the stages of a layout, and lower bounds
// that hold for every layout, cut, recomputation and schedule.
package layout

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ErrInstance is wrapped by the errors of invalid instances and settings.
var ErrInstance = errors.New("no pipeline can be laid out")

// Names of the options that every layer has.
const (
	None = "none" // recomputes nothing
	Full = "full" // keeps its input only
)

// Setting has the parameters of a layout in addition to chain and platform.
type Setting struct {
	Chunks  int     // stages on each GPU if interleaved; 0: two. A V has two
	Split   float64 // share of a backward for weight gradients, for layers that do not specify it
	Latency float64 // seconds of each transfer in addition to its bytes
	Torch   bool    // the rules of PyTorch's runtime, see [stages.Torch]
}

// Instance is a chain on GPUs. Layers are numbered from 0. Times are in seconds, sizes in units of the chain.
type Instance struct {
	Chain    *chain.Chain
	Platform platform.Platform // with all defaults filled in
	Setting  Setting
	GPUs     int
	Jobs     int // micro-batches
	Stages   int
	Layers   []Layer
	Cut      []float64 // transfer time after each layer, in either direction; 0 after the last
	Output   []float64 // bytes of that transfer
}

// Layer has the data of a layer for one micro-batch, which a stage adds up.
type Layer struct {
	F, I, W float64 // forward, gradient of the input, gradient of the weights
	Weight  float64 // resident, copies counted
	Kept    float64 // gradients held from I to W
	Options []Option
}

// Option is a choice of what a layer recomputes; the first recomputes nothing.
type Option struct {
	Name      string
	Held      float64 // memory from forward to backward
	Again     float64 // recomputation time in the backward, seconds
	Transient float64 // memory while the backward runs
	Splits    bool    // W may run later
}

// Layout has cuts and options. The GPUs of its stages follow from the placement.
type Layout struct {
	Ends    []int // by stage: the index after its last layer
	Options []int // by layer
}

// New returns the instance of a chain, platform and setting. The error wraps [ErrInstance] and says
// what would be valid.
func New(c *chain.Chain, p platform.Platform, s Setting) (*Instance, error) {
	p.MicroBatches, p.Placement, p.Objective = cmp.Or(p.MicroBatches, 8), cmp.Or(p.Placement, plan.Straight),
		cmp.Or(p.Objective, plan.MakespanObjective)
	in := &Instance{Chain: c, Platform: p, Setting: s, GPUs: p.Processors, Jobs: p.MicroBatches}
	switch p.Placement {
	case plan.Straight:
		in.Stages = in.GPUs
	case plan.VShaped:
		in.Stages = 2 * in.GPUs
	case plan.Interleaved:
		in.Stages = in.GPUs * cmp.Or(s.Chunks, 2)
	default:
		return nil, fmt.Errorf("%w: placement %q; there are %s, %s and %s", ErrInstance, p.Placement, plan.Straight, plan.Interleaved,
			plan.VShaped)
	}
	switch n := c.Len(); {
	case in.GPUs < 1:
		return nil, fmt.Errorf("%w: %d GPUs; there is one at least", ErrInstance, in.GPUs)
	case in.Stages > n:
		return nil, fmt.Errorf("%w: %d stages of %d layers; placement %s on %d GPUs has a layer on each of its stages at least", ErrInstance,
			in.Stages, n, p.Placement, in.GPUs)
	case in.Jobs < 1 || in.Jobs > stages.MostMicroBatches:
		return nil, fmt.Errorf("%w: %d micro-batches; there are from 1 to %d", ErrInstance, in.Jobs, stages.MostMicroBatches)
	case !(s.Split >= 0 && s.Split < 1):
		return nil, fmt.Errorf("%w: a share of %g of the backward for the gradients of weights; it is from 0 to below 1", ErrInstance, s.Split)
	case !(s.Latency >= 0) || math.IsInf(s.Latency, 0):
		return nil, fmt.Errorf("%w: a latency of %g s; it is a number from 0 on", ErrInstance, s.Latency)
	}
	for i := range c.Layers {
		if err := in.layer(i); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// layer adds layer i of the chain.
func (in *Instance) layer(i int) error {
	l := &in.Chain.Layers[i]
	input, kept := in.Chain.Input.Activation, true
	if i > 0 {
		before := &in.Chain.Layers[i-1]
		input, kept = before.Activation, !before.OutputDropped
	}
	x := Layer{F: l.ForwardTime, W: l.WeightGradientTime, Weight: float64(in.Platform.WeightCopies) * l.Weight, Kept: l.WeightGradientSaved}
	if x.W == 0 {
		x.W = in.Setting.Split * l.BackwardTime
	}
	x.I = l.BackwardTime - x.W
	held := l.Saved - l.Activation
	if kept {
		held += input
	}
	over := max(l.ForwardOverhead, l.BackwardOverhead)
	x.Options = []Option{{None, held, 0, over, x.W > 0}}
	full := true
	for _, r := range l.Recompute {
		if r.Saved+r.Transient < input && r.Name != Full {
			return fmt.Errorf("%w: layer %d (%s): %s frees more than the layer holds: %v with what is computed again, of an input of %v bytes",
				ErrInstance, i+1, l.Name, r.Name, r.Saved+r.Transient, input)
		}
		full = full && r.Name != Full
		x.Options = append(x.Options, Option{r.Name, r.Saved, r.ForwardTime, over + r.Transient, r.Splits && x.W > 0})
	}
	// It may help where it frees memory, and where the backward is split: then nothing is kept from I to W.
	if full && (held > input || x.W > 0 && x.Kept > 0) {
		x.Options = append(x.Options, Option{Full, input, l.ForwardTime, over + max(0, held-input), false})
	}
	in.Layers = append(in.Layers, x)
	cut := 0.0
	if i < in.Chain.Len()-1 {
		if cut = in.Setting.Latency; in.Platform.Bandwidth > 0 {
			cut += max(l.Activation, l.Gradient) / in.Platform.Bandwidth
		}
	}
	in.Cut, in.Output = append(in.Cut, cut), append(in.Output, l.Activation)
	return nil
}

// GPU returns the GPU of a stage.
func (in *Instance) GPU(stage int) int {
	if in.Platform.Placement == plan.VShaped {
		return min(stage, 2*in.GPUs-1-stage)
	}
	return stage % in.GPUs
}

// Sum has the totals of a stage for one micro-batch.
type Sum struct {
	F, I, W, Weight, Held, Kept, Transient float64
}

// Add adds a layer with an option.
func (s *Sum) Add(l *Layer, option int) {
	o := &l.Options[option]
	s.F, s.Weight, s.Held = s.F+l.F, s.Weight+l.Weight, s.Held+o.Held
	s.Transient = max(s.Transient, o.Transient)
	if o.Splits {
		s.I, s.W, s.Kept = s.I+l.I+o.Again, s.W+l.W, s.Kept+l.Kept
	} else {
		s.I += l.I + o.Again + l.W
	}
}

// Sum returns the totals of layers from..to−1 with their options.
func (in *Instance) Sum(from, to int, options []int) Sum {
	var s Sum
	for i := from; i < to; i++ {
		s.Add(&in.Layers[i], options[i])
	}
	return s
}

// Partition returns the stages of a layout. Nothing is freed before W, as in PyTorch 2.15, and
// every transfer takes as long as the longest of all cuts. In the runtime of PyTorch a stage also
// holds its output until its backward, and the first computes no gradient of its input: all of its
// backward is W.
func (in *Instance) Partition(x *Layout) *stages.Partition {
	p := &stages.Partition{Name: in.Chain.Name, Unit: in.Chain.Unit, Source: map[string]any{"kind": "layout", "chain": in.Chain.Name}}
	if in.Setting.Torch {
		p.Runtime = stages.Torch
	}
	from := 0
	for k, to := range x.Ends {
		s := in.Sum(from, to, x.Options)
		if in.Setting.Torch {
			if k < len(x.Ends)-1 {
				s.Held += in.Output[to-1]
			}
			if k == 0 && s.W > 0 {
				s.I, s.W = 0, s.I+s.W
			}
		}
		y := stages.Stage{
			Name: in.Chain.Layers[from].Name, ForwardTime: s.F, BackwardTime: s.I, WeightTime: s.W,
			ForwardMemory: s.Held, Weight: s.Weight, Overhead: s.Transient,
		}
		if to > from+1 {
			y.Name += " to " + in.Chain.Layers[to-1].Name
		}
		if y.BackwardMemory = -s.Held; s.W > 0 {
			y.BackwardMemory, y.WeightMemory = s.Kept, -s.Held-s.Kept
		}
		p.Stages = append(p.Stages, y)
		if k < len(x.Ends)-1 && in.GPU(k) != in.GPU(k+1) {
			p.CommunicationTime = max(p.CommunicationTime, in.Cut[to-1])
		}
		from = to
	}
	return p
}

// Fits returns nil if the bounds allow some layout to fit in memory, else a *plan.Infeasible with
// the memory and reason of [Instance.Least].
func (in *Instance) Fits() error {
	least, why := in.Least()
	if platform.Fits(least, in.Platform.Memory) {
		return nil
	}
	return &plan.Infeasible{Problem: plan.Layout, Memory: least, Given: in.Platform.Memory, Unit: in.Chain.Unit, Why: why}
}

// Most returns a memory beyond which more is useless: that of all weights and of all micro-batches
// on one GPU.
func (in *Instance) Most() float64 {
	most, over := 0.0, 0.0
	for i := range in.Layers {
		l := &in.Layers[i]
		most += l.Weight + float64(in.Jobs)*(l.Options[0].Held+l.Kept+in.Output[i])
		for _, o := range l.Options {
			over = max(over, o.Transient)
		}
	}
	return most + over
}

// Least returns a proven lower bound on the memory of a GPU, below which no layout fits, and the
// layer or sum that needs it.
func (in *Instance) Least() (least float64, why string) {
	weights, held, alone := 0.0, 0.0, false
	for i := range in.Layers {
		l := &in.Layers[i]
		own := math.Inf(1)
		hold := math.Inf(1)
		for _, o := range l.Options {
			own, hold = min(own, o.Held+o.Transient), min(hold, o.Held)
		}
		weights, held = weights+l.Weight, held+hold
		if own += l.Weight; own > least {
			alone = !platform.Fits(own, in.Platform.Memory)
			least, why = own, fmt.Sprintf("layer %d (%s) with its weights and one micro-batch fits on no GPU: %.f bytes", i+1,
				in.Chain.Layers[i].Name, in.Chain.Unit.Bytes(own))
		}
	}
	if all := math.Ceil((weights + held) / float64(in.GPUs)); all > least && !alone {
		least, why = all, fmt.Sprintf("an equal part of all weights and of one micro-batch on %d GPUs", in.GPUs)
	}
	return least, why
}
