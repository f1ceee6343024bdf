package strategy

import (
	"context"
	"errors"
	"math"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	heuristics "workbench/heuristics/layout"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/layout"
)

// GPUs describes the devices of a step. A step is MicroBatches times the instance.
type GPUs struct {
	N            int
	MicroBatches int
	Link         float64 // bytes per second between two of them, in each direction
}

// stepsWithoutLimit limits the search for a pipeline without a time limit.
const stepsWithoutLimit = 100_000

// splitOfBackward is the default share of weight gradients in a backward.
const splitOfBackward = 0.5

// layouts lays the chain out as a pipeline. Its memory includes weights, gradients and optimizer state if it is
// that of a whole GPU.
func (o *Options) layouts(ctx context.Context, row Row, in *solve.Instance) Row {
	c := in.Chain()
	p := platform.Platform{
		Memory: math.Floor(c.Unit.FromBytes(row.Memory)), Bandwidth: c.Unit.Rate(o.GPUs.Link), Processors: o.GPUs.N,
		MicroBatches: o.GPUs.MicroBatches, Placement: row.placement,
	}
	if o.GPU > 0 {
		p.WeightCopies = 2 + int(o.Optimizer.States)
	}
	goal := heuristics.Goal{Seed: uint64(o.Setting.Seed), Steps: stepsWithoutLimit}
	if limit := o.Setting.Time - o.Setting.Time/grace; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
		goal.Steps = 0
	}
	began := time.Now()
	made, bound, proved, err := method.Layout(ctx, c, p, layout.Setting{Split: splitOfBackward, Torch: true}, row.Method, goal)
	row.Result = &solve.Result{Err: err, WallTime: time.Since(began).Seconds()}
	row.Error = ""
	switch {
	case err != nil:
		row.Status, row.Error = solve.Failed, err.Error()
		if errors.As(err, new(*plan.Infeasible)) {
			row.Status = solve.Infeasible
		} else if errors.Is(err, plan.ErrNoPlan) {
			row.Status = solve.Limit
		}
		return row
	case proved:
		row.Status = solve.Optimal
	default:
		row.Status = solve.Feasible
	}
	made.Instance = in.Ref()
	row.Result.Plan, row.Bound = made, &bound
	row.set(made.Claims.Makespan, made.Converted(platform.Byte).Claims.PeakMemory, o.reference(in))
	return row
}

// replicate turns the plan of one GPU into that of data-parallel replicas: each runs an equal part of the
// micro-batches, and a ring sums their gradients. Only the part of the ring that exceeds the last backward counts.
func (o *Options) replicate(row *Row, in *solve.Instance) {
	if row.Bound != nil {
		bound := *row.Bound
		bound.Value = o.replicas(in, bound.Value)
		row.Bound = &bound
	}
	if row.StepTime != nil {
		row.set(o.replicas(in, *row.StepTime), *row.Peak, o.reference(in))
	}
}

// reference returns the step time of keeping everything with unlimited memory.
func (o *Options) reference(in *solve.Instance) float64 { return o.replicas(in, in.Compute()) }

// replicas returns the step time of replicas that each take t for one micro-batch; with one GPU, t.
func (o *Options) replicas(in *solve.Instance, t float64) float64 {
	c := in.Chain()
	if o.GPUs.N < 2 || c == nil {
		return t
	}
	n, totals := float64(o.GPUs.N), c.Totals()
	ring := 2 * (n - 1) / n * in.Unit().Bytes(totals.Weight) / o.GPUs.Link
	return math.Ceil(float64(o.GPUs.MicroBatches)/n)*t + max(0, ring-totals.BackwardTime)
}

// pipelines returns the strategies of several GPUs.
func pipelines() (list []Strategy) {
	for _, x := range []struct{ name, placement string }{
		{"pipeline, one stage a GPU", plan.Straight}, {"pipeline, interleaved", plan.Interleaved}, {"pipeline, V", plan.VShaped},
	} {
		list = append(list, Strategy{Name: x.name, Allow: Pipeline, Method: "exact", Kinds: []string{chain.Kind}, Placement: x.placement})
	}
	return list
}
