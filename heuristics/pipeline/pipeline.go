// Package pipeline plans pipelined model parallelism ([004] chapters 5 to 7):
// which processor computes which layers of a chain, and a periodic pattern of
// their operations that overlaps several mini-batches.
//
// Every method takes a chain and a platform and returns a k-periodic pattern, a
// *plan.Infeasible error when it proved that no pattern fits, or an error
// wrapping plan.ErrNoPlan when it found none though one may exist. Methods
// promise nothing about optimality beyond what their comments say; Bounds says
// how far from it a plan can be at most.
//
// Layers are numbered 1..n as in [004], n = L+1 being the loss; layer 0 is the
// input. A stage is a run of layers on one processor, an item a stage or a
// communication between two of them: Algorithm 6 makes no difference between
// the two. Patterns are kept in absolute times of the mini-batches 0..k-1;
// mini-batch m + jk does the same j periods later.
package pipeline

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Errors of instances that mean nothing.
var (
	ErrChain      = errors.New("chain unfit for pipelining")
	ErrPlatform   = errors.New("platform unfit for pipelining")
	ErrAllocation = errors.New("allocation unfit for the chain")
	ErrOptions    = errors.New("options unfit for pipelining")
)

var (
	errNoncontiguous = fmt.Errorf("%w: a processor has several stages, this method takes contiguous allocations", ErrAllocation)
	errGrid          = fmt.Errorf("%w: a grid needs at least 2 values of time and memory, and 0 or at least 2 of the delay", ErrOptions)
)

// Options of all methods.
type Options struct {
	// Model is the memory model in which plans have to fit: plan.StageModel or
	// plan.TaskModel; "" is the task model.
	Model string
	// Stop, once closed, ends every method with the best so far, if there is one:
	// the Done of a context, or nil. What takes milliseconds is not cut off.
	Stop <-chan struct{}
	// Progress, if not nil, hears what Exact knows so far: the least period that
	// is known to be possible, that of the start included, and a lower bound on
	// those of 1-periodic patterns, seconds.
	Progress func(period, bound float64, allocations int64)
}

// tiny is the relative rounding of sums of times and sizes.
const tiny = 1e-11

// instance is PIPE(L, M, P, β) with what every method needs, computed once.
// Slices are indexed by layer, 0..n.
type instance struct {
	n, procs int     // layers; processors of use, at most n
	memory   float64 // M, bytes, of one processor
	limit    float64 // M and the rounding of sums of sizes: what plans take
	forgiven float64 // M and what the verifier forgives: what proofs reckon with
	copies   float64 // C
	task     bool    // memory is judged in the task model

	uF, uB  []float64 // durations
	a, d, w []float64 // |a_ℓ|, |δ_ℓ|, W_ℓ
	u       []float64 // u[ℓ] = Σ_{k≤ℓ} uF_k + uB_k
	stored  []float64 // stored[ℓ] = Σ_{k≤ℓ} a_{k-1}: inputs kept for the backwards
	weights []float64 // weights[ℓ] = Σ_{k≤ℓ} C·W_k
	cut     []float64 // C(ℓ) = (a_ℓ+δ_ℓ)/β of the cut behind layer ℓ, 1 ≤ ℓ < n
	buffer  []float64 // a_ℓ+δ_ℓ: buffers on each side of that cut
	most    []float64 // the task model's peaks of stages: see peak

	chain    *chain.Chain
	platform platform.Platform
	model    string
	stop     <-chan struct{}
}

// stopRows is how many rows of a table are filled before the caller is asked
// whether it wants more.
const stopRows = 32

// stopped reports whether the caller wants no more.
func (in *instance) stopped() bool {
	select {
	case <-in.stop:
		return true
	default:
		return false
	}
}

// newInstance checks that c and p mean something and that each layer fits
// somewhere.
func newInstance(c *chain.Chain, p platform.Platform, o Options) (*instance, error) {
	in, err := readInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	if err := in.fitsSomewhere(); err != nil {
		return nil, err
	}
	return in, nil
}

func readInstance(c *chain.Chain, p platform.Platform, o Options) (*instance, error) {
	if c == nil || len(c.Layers) == 0 {
		return nil, fmt.Errorf("%w: it has no layers, at least one is needed", ErrChain)
	}
	for i, l := range c.Layers {
		for _, x := range []float64{l.ForwardTime, l.BackwardTime, l.Activation, l.Gradient, l.Weight, c.Input.Activation, c.Input.Gradient} {
			if !(x >= 0) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("%w: layer %d of chain %q has %v, times and sizes must be finite and not negative", ErrChain, i+1, c.Name, x)
			}
		}
	}
	if !(c.TotalTime() > 0) {
		return nil, fmt.Errorf("%w: no layer of chain %q takes any time, a period would be 0", ErrChain, c.Name)
	}
	switch {
	case p.Processors < 1:
		return nil, fmt.Errorf("%w: there are %d processors, at least one is needed", ErrPlatform, p.Processors)
	case !(p.Memory > 0) || math.IsInf(p.Memory, 0):
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", ErrPlatform, p.Memory)
	case p.Processors > 1 && (!(p.Bandwidth > 0) || math.IsInf(p.Bandwidth, 0)):
		return nil, fmt.Errorf("%w: bandwidth is %v bytes per second, with several processors it must be positive and finite", ErrPlatform, p.Bandwidth)
	case p.WeightCopies < 0:
		return nil, fmt.Errorf("%w: %d copies of the weights, the number must not be negative", ErrPlatform, p.WeightCopies)
	}
	model := o.Model
	switch model {
	case "":
		model = plan.TaskModel
	case plan.StageModel, plan.TaskModel:
	default:
		return nil, fmt.Errorf("%w: memory model %q is unknown; there are %q and %q", ErrOptions, model, plan.StageModel, plan.TaskModel)
	}
	n := len(c.Layers)
	in := &instance{
		n: n, procs: min(p.Processors, n), memory: p.Memory, limit: p.Memory * (1 + tiny), forgiven: p.Memory * (1 + plan.Tolerance), copies: float64(p.WeightCopies),
		task: model == plan.TaskModel, chain: c, platform: p, model: model, stop: o.Stop,
	}
	for _, s := range []*[]float64{&in.uF, &in.uB, &in.a, &in.d, &in.w, &in.u, &in.stored, &in.weights, &in.cut, &in.buffer} {
		*s = make([]float64, n+1)
	}
	in.a[0], in.d[0] = c.Input.Activation, c.Input.Gradient
	for i, l := range c.Layers {
		k := i + 1
		in.uF[k], in.uB[k], in.a[k], in.d[k], in.w[k] = l.ForwardTime, l.BackwardTime, l.Activation, l.Gradient, l.Weight
		in.u[k] = in.u[k-1] + l.ForwardTime + l.BackwardTime
		in.stored[k] = in.stored[k-1] + in.a[k-1]
		in.weights[k] = in.weights[k-1] + in.copies*l.Weight
		if k < n {
			in.buffer[k] = l.Activation + l.Gradient
			if p.Processors > 1 {
				in.cut[k] = l.Activation/p.Bandwidth + l.Gradient/p.Bandwidth
			}
		}
	}
	if compute, total := in.u[n], in.latest(); compute < leastTime || !(total <= mostTime) {
		return nil, fmt.Errorf("%w: a mini-batch of chain %q takes %g s, %g s with all communications, choose units in which that is between %g and %g", ErrPlatform, c.Name, compute, total, leastTime, mostTime)
	}
	in.peaks()
	return in, nil
}

// What a mini-batch takes one operation at a time: beyond these, sums and
// quotients of times leave the floating-point numbers.
const leastTime, mostTime = 1e-290, 1e290

// time returns U(i,j), seconds.
func (in *instance) time(i, j int) float64 { return in.u[j] - in.u[i-1] }
