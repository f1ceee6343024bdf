package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"workbench/bench/run"
	"workbench/heuristics/pipeline"
	"workbench/ilp/formulation"
	ilppipeline "workbench/ilp/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// madPipeMILP is MadPipe as [004] has it: the allocation of 7.1, scheduled by
// the stage ILP of 7.2, which starts from the list scheduler's pattern.
func madPipeMILP(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	o := pipeline.Options{Model: s.MemoryModel, Stop: ctx.Done()}
	allocation, _, err := pipeline.MadPipeAllocation(in.Chain(), s.Platform, pipeline.FineGrid, o)
	if err != nil {
		return nil, inputError(err)
	}
	out := &run.Outcome{}
	first, err := pipeline.Schedule(in.Chain(), s.Platform, allocation, o)
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, inputError(err)
	}
	out.Offer(in, first)
	program, err := ilppipeline.StageILP(in.Chain(), s.Platform, allocation, s.MemoryModel)
	if err == nil {
		var r *formulation.Result
		r, err = s.Task(in, "stage ILP", out.Plan).Run(ctx, formulation.Phases(&formulation.Phase{Program: program}))
		out.Take(r)
		if out.Plan == nil && r.Solver != nil && r.Solver.Status == solvers.Infeasible {
			return nil, fmt.Errorf("%w: MadPipe's allocation has no pattern", plan.ErrNoPlan)
		}
	}
	if out.Plan != nil {
		out.Plan.Method = "madpipe-milp"
	}
	if err != nil {
		return withoutMILP(out, err)
	}
	return out, nil
}

// pipelineMILP closes in on the least period: search, then branch and bound among
// 1-periodic patterns; and beside them patterns of several mini-batches a period and
// MILPs.
func pipelineMILP(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	var one *plan.Plan // the best 1-periodic pattern
	out, err := pipelineCombination(ctx, &one).run(ctx, in, s)
	if err == nil && out.Plan != nil && out.Plan.K > 1 && one != nil && one.K <= 1 {
		out.Remark(fmt.Sprintf("the best 1-periodic pattern that was found takes %s", platform.FormatSeconds(one.Claims.Makespan)))
	}
	return out, err
}

// pipelineCombination sets one to the best 1-periodic pattern. Patterns of several
// mini-batches a period are looked for until ctx ends: that no 1-periodic one is
// better does not end them.
func pipelineCombination(ctx context.Context, one **plan.Plan) *combination {
	return &combination{
		name: "pipeline-milp", bound: pipelineBound(), always: true,
		search: func(j *joint, _ int) bool {
			out, err := searchedPipeline(j.ctx, j.in, &j.s, j.Offer)
			if err == nil {
				j.Offer(out.Plan)
				every, stop := context.WithCancel(ctx) // what holds for every k goes on when no 1-periodic pattern is better
				context.AfterFunc(j.ctx, func() {
					if everyMet(j) {
						stop()
					}
				})
				err = branchAndBound(out, every, j.in, &j.s, 1)
				stop()
				*one = out.Plan
			}
			j.take("branch and bound", out, err)
			return false
		},
		prove: func(j *joint) error {
			several, err := pipeline.Several(j.in.Chain(), j.s.Platform, pipeline.Options{Model: j.s.MemoryModel, Stop: ctx.Done()})
			j.take("k-periodic", &run.Outcome{Plan: several}, err)
			if err := reorderPipeline(ctx, j); err != nil || !j.unproved() {
				return err
			}
			return solvePipeline(j)
		},
	}
}

// everyMet reports whether the best plan meets a bound of all plans.
func everyMet(j *joint) bool {
	best := j.Best()
	return best != nil && slices.ContainsFunc(j.bounds(), func(b run.Bound) bool {
		return len(b.Assumptions) == 0 && solvers.Gap(best.Claims.Makespan, b.Value) <= max(j.s.Gap, 2*run.Tolerance)
	})
}

// forOrders is the part of the time that is left for other orders of the operations of the best plan.
const forOrders = 0.25

// reorderPipeline looks for patterns of several mini-batches a period near the best plan.
func reorderPipeline(ctx context.Context, j *joint) error {
	best := j.Best()
	if best == nil || ctx.Err() != nil {
		return nil
	}
	if everyMet(j) {
		return nil
	}
	if until, ok := ctx.Deadline(); ok {
		limited, cancel := context.WithTimeout(ctx, time.Duration(forOrders*float64(time.Until(until))))
		defer cancel()
		ctx = limited
	}
	p, err := pipeline.Reorder(j.in.Chain(), j.s.Platform, best, pipeline.Options{Model: j.s.MemoryModel, Stop: ctx.Done()})
	if err != nil {
		return inputError(err)
	}
	j.Offer(p)
	return nil
}

// Parts of the time that is left, for the models of allocations without patterns:
// for every pattern, and for 1-periodic ones that are shorter than the best plan.
const (
	forEvery   = 0.15
	forShorter = 0.4
)

// solvePipeline solves the MILPs of pipelines, from the best plan and beside the
// bounds of branch and bound, if that has ended: the bounds in closed form, so that
// these are certified whatever follows; allocations without patterns, which bound all
// plans; and the decomposition into allocations and patterns.
func solvePipeline(j *joint) error {
	task, c, p := j.task("allocations"), j.in.Chain(), j.s.Platform
	known := 0
	if !j.s.Document {
		task.Bounds = j.bounds()
		known = len(task.Bounds)
	}
	o := ilppipeline.MemoryOption{MemoryModel: j.s.MemoryModel}
	r, err := task.Search(j.ctx, func(sofar *formulation.Result, solve func(*formulation.Phase) (bool, error)) error {
		closed, err := ilppipeline.Closed(c, p, o)
		if err != nil {
			return err
		}
		if more, err := solve(&formulation.Phase{Program: closed}); err != nil || !more {
			return err
		}
		for _, x := range []struct{ limit, share float64 }{{0, forEvery}, {sofar.Objective, forShorter}} {
			if math.IsInf(x.limit, 1) {
				continue
			}
			program, err := ilppipeline.Allocations(c, p, ilppipeline.AllocationOptions{MemoryOption: o, Limit: x.limit})
			if err != nil {
				return err
			}
			if more, err := solve(&formulation.Phase{Program: program, Share: x.share}); err != nil || !more {
				return err
			}
		}
		d, err := ilppipeline.Decompose(c, p, j.s.MemoryModel)
		if err != nil {
			return err
		}
		return closeIn(j.ctx, d, max(j.s.Gap, run.Tolerance), sofar, solve)
	})
	r.Bounds = r.Bounds[known:]
	return j.solved(r, err)
}
