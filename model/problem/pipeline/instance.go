// Package pipeline is the model of asynchronous pipelined model parallelism that methods and
// formulations share: [004] chapters 5 to 7 (Beaumont, Eyraud-Dubois and Shilova, "Pipelined model
// parallelism: complexity results and memory considerations", and Shilova's thesis). It holds the
// validated instance with prefix sums, the memory of stages, the minimum memory and its proof, the
// delay ⊕ of 7.1.2, closed-form bounds, and periodic patterns with their timing, memory and
// conversion to plans. The verifier (model/verify/pipeline) and the exhaustive search do not use it.
//
// Layers are numbered 1..N as in [004], where N = L+1 is the loss; layer 0 is the input. A stage
// s(i,j), or a run, is layers i..j on one processor whose neighbours are on other processors. Times
// are in seconds. Sizes are integers in the unit of the instance, so that sums of sizes are exact
// below 2^53.
package pipeline

import (
	"errors"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Errors of invalid instances.
var (
	ErrChain    = errors.New("chain unfit for pipelining")
	ErrPlatform = errors.New("platform unfit for pipelining")
	ErrModel    = errors.New("unknown memory model")
)

// Rounding is a relative bound on the error of sums and quotients of times of an instance. Numbers
// of periods and bounds are rounded down by it.
const Rounding = 1e-11

// mostSize is an upper bound on the total of all sizes of an instance, so that sums are exact.
const mostSize = 1 << 53

// Instance is PIPE(L, M, P, β) with derived data. Slices are indexed by layer, 0..N.
type Instance struct {
	Chain    *chain.Chain
	Platform platform.Platform
	Model    string // plan.StageModel or plan.TaskModel
	Task     bool   // Model is plan.TaskModel

	N      int     // layers
	Procs  int     // usable processors, at most N
	Memory float64 // M, of one processor
	Copies float64 // C of [004] (6.33)

	UF, UB  []float64 // durations of F_ℓ and B_ℓ
	A, D, W []float64 // |a_ℓ|, |δ_ℓ|, W_ℓ
	OwnF    []float64 // memory of F_ℓ while it runs, beyond kept inputs: a_ℓ and its overhead
	OwnB    []float64 // the same for B_ℓ: δ_ℓ, δ_{ℓ-1} and its overhead
	Kept    []float64 // memory that F_ℓ keeps for B_ℓ: a_{ℓ-1} (see chain.Kept)
	U       []float64 // U[ℓ] = Σ_{k≤ℓ} uF_k + uB_k
	Stored  []float64 // Stored[ℓ] = Σ_{k≤ℓ} Kept[k]: inputs kept for the backward operations
	Weights []float64 // Weights[ℓ] = Σ_{k≤ℓ} C·W_k
	Cut     []float64 // C(ℓ) = (a_ℓ+δ_ℓ)/β of the cut after layer ℓ, 1 ≤ ℓ < N
	Buffer  []float64 // a_ℓ+δ_ℓ: buffers on each side of that cut

	// Stop, once closed, ends the search for the minimum memory, which then returns an interval.
	// With nil only its own limits end it.
	Stop plan.Stop

	most  [][]float64 // peaks of stages in the task model: see peaks
	least *Least      // cached
}

// New returns the instance of a chain, a platform and a memory model; "" is the task model. The
// error wraps ErrChain, ErrPlatform or ErrModel. [Instance.Infeasible] reports whether anything
// fits. O(n·log n).
func New(c *chain.Chain, p platform.Platform, model string) (*Instance, error) {
	if model == "" {
		model = plan.TaskModel
	}
	if err := check(c, p, model); err != nil {
		return nil, err
	}
	c = c.Count(p.Model)
	n := len(c.Layers)
	in := &Instance{
		Chain: c, Platform: p, Model: model, Task: model == plan.TaskModel,
		N: n, Procs: min(p.Processors, n), Memory: p.Memory, Copies: float64(p.WeightCopies),
	}
	for _, s := range []*[]float64{
		&in.UF, &in.UB, &in.A, &in.D, &in.W, &in.Kept, &in.OwnF, &in.OwnB, &in.U, &in.Stored, &in.Weights, &in.Cut,
		&in.Buffer,
	} {
		*s = make([]float64, n+1)
	}
	in.A[0], in.D[0] = c.Input.Activation, c.Input.Gradient
	sizes := in.A[0] + in.D[0]
	for i, l := range c.Layers {
		k := i + 1
		in.UF[k], in.UB[k], in.A[k], in.D[k], in.W[k] = l.ForwardTime, l.BackwardTime, l.Activation, l.Gradient, l.Weight
		in.U[k] = in.U[k-1] + l.ForwardTime + l.BackwardTime
		in.Kept[k] = c.KeptBy(k)
		forward, backward := c.Overheads(k)
		in.OwnF[k], in.OwnB[k] = in.A[k]+forward, in.D[k]+in.D[k-1]+backward
		in.Stored[k] = in.Stored[k-1] + in.Kept[k]
		in.Weights[k] = in.Weights[k-1] + in.Copies*l.Weight
		sizes += 2*(l.Activation+l.Gradient) + l.Saved + forward + backward
		if k < n {
			in.Buffer[k] = l.Activation + l.Gradient
			if p.Processors > 1 {
				in.Cut[k] = l.Activation/p.Bandwidth + l.Gradient/p.Bandwidth
			}
		}
	}
	if total := sizes + in.Weights[n]; !(total < mostSize) {
		return nil, fmt.Errorf("%w: the tensors, buffers and %d copies of the weights of chain %q take %g together, it must be less than "+
			"2^53 for sums to be exact", ErrPlatform, p.WeightCopies, c.Name, total)
	}
	if compute, total := in.U[n], in.Latest(); compute < platform.MinTime || !(total <= platform.MaxTime) {
		return nil, fmt.Errorf("%w: a mini-batch of chain %q takes %g s, %g s with all communications, choose units in which that is between "+
			"%g and %g", ErrPlatform, c.Name, compute, total, platform.MinTime, platform.MaxTime)
	}
	in.peaks()
	return in, nil
}

// MostLayers is the maximum number of layers of a chain in a pipeline. Bounds, minimum memory and
// the best contiguous allocation take O(P·n²), one second for 2,000 layers.
const MostLayers = 4000

// check returns an error if an instance is invalid.
func check(c *chain.Chain, p platform.Platform, model string) error {
	if c == nil || len(c.Layers) == 0 {
		return fmt.Errorf("%w: it has no layers, at least one is needed", ErrChain)
	}
	if n := len(c.Layers); n > MostLayers {
		return fmt.Errorf("%w: chain %q has %d layers, pipelines are planned for at most %d: join layers", ErrChain, c.Name, n, MostLayers)
	}
	for i, l := range c.Layers {
		for _, x := range []float64{l.ForwardTime, l.BackwardTime} {
			if !(x >= 0) || math.IsInf(x, 0) {
				return fmt.Errorf("%w: layer %d of chain %q takes %v s, times must be finite and not negative", ErrChain, i+1, c.Name, x)
			}
		}
		for _, x := range []float64{l.Activation, l.Gradient, l.Weight, c.Input.Activation, c.Input.Gradient} {
			if !(x >= 0) || x != math.Trunc(x) || math.IsInf(x, 0) {
				return fmt.Errorf("%w: layer %d of chain %q has size %v, sizes must be integers and not negative", ErrChain, i+1, c.Name, x)
			}
		}
	}
	if !(c.TotalTime() > 0) {
		return fmt.Errorf("%w: every layer of chain %q has zero duration, so that a period would be 0", ErrChain, c.Name)
	}
	switch {
	case p.Processors < 1:
		return fmt.Errorf("%w: there are %d processors, at least one is needed", ErrPlatform, p.Processors)
	case !(p.Memory > 0) || math.IsInf(p.Memory, 0):
		return fmt.Errorf("%w: memory is %v bytes, it must be positive and finite", ErrPlatform, p.Memory)
	case p.Processors > 1 && (!(p.Bandwidth > 0) || math.IsInf(p.Bandwidth, 0)):
		return fmt.Errorf("%w: bandwidth is %v bytes per second, with several processors it must be positive and finite", ErrPlatform,
			p.Bandwidth)
	case p.WeightCopies < 0:
		return fmt.Errorf("%w: %d copies of the weights, the number must not be negative", ErrPlatform, p.WeightCopies)
	case model != plan.StageModel && model != plan.TaskModel:
		return fmt.Errorf("%w: memory model %q is unknown; there are %q and %q", ErrModel, model, plan.StageModel, plan.TaskModel)
	}
	return nil
}

// Fits reports whether a peak fits in the memory of a processor.
func (in *Instance) Fits(peak float64) bool { return platform.Fits(peak, in.Memory) }

// Time returns U(i,j) = Σ uF_ℓ + uB_ℓ of layers i..j, seconds.
func (in *Instance) Time(i, j int) float64 { return in.U[j] - in.U[i-1] }

// Latest returns U(1,N) + ΣC, a period with which nothing needs to overlap.
func (in *Instance) Latest() float64 {
	t := in.U[in.N]
	for _, c := range in.Cut {
		t += c
	}
	return t
}

// Periods returns ⌈x/T⌉, rounded down by [Rounding].
func Periods(x, period float64) int {
	return int(min(math.Ceil(x/period-Rounding), math.MaxInt32))
}

// Plus returns x ⊕ y of [004] 7.1.2: the delay x followed by an item of time y, which starts a new
// group one period later if it does not fit in the group of x.
func Plus(x, y, period float64) float64 {
	g := Periods(x, period)
	if g == Periods(x+y, period) {
		return x + y
	}
	return period*float64(g) + y
}
