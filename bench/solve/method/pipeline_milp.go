package method

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"workbench/bench/solve"
	"workbench/heuristics/pipeline"
	"workbench/ilp/formulation"
	ilppipeline "workbench/ilp/pipeline"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// madPipeMILP is MadPipe as [004] has it: the allocation of 7.1, scheduled by
// the stage ILP of 7.2, which starts from the list scheduler's pattern.
func madPipeMILP(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	o := pipeline.Options{Model: s.MemoryModel, Stop: ctx.Done()}
	allocation, _, err := pipeline.MadPipeAllocation(in.Chain(), s.Platform, pipeline.FineGrid, o)
	if err != nil {
		return nil, inputError(err)
	}
	out := &solve.Outcome{}
	first, err := pipeline.Schedule(in.Chain(), s.Platform, allocation, o)
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, inputError(err)
	}
	out.UpdateIncumbent(in, first)
	program, err := ilppipeline.StageILP(in.Chain(), s.Platform, allocation, s.MemoryModel)
	if err == nil {
		var r *formulation.Result
		r, err = s.Task(in, "stage ILP", out.Plan).Run(ctx, formulation.Phases(&formulation.Phase{Program: program}))
		out.AddResult(r)
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
func pipelineMILP(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
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
			out, err := searchedPipeline(j.ctx, j.in, &j.s, j.UpdateIncumbent)
			if err == nil {
				j.UpdateIncumbent(out.Plan)
				every, stop := context.WithCancel(ctx) // what holds for every k goes on when no 1-periodic pattern is better
				context.AfterFunc(j.ctx, func() {
					if everyMet(j) {
						stop()
					}
				})
				err = branchAndBound(out, every, j.in, &j.s)
				stop()
				*one = out.Plan
			}
			j.addOutcome("branch and bound", out, err)
			return false
		},
		prove: func(j *joint) error {
			several, err := pipeline.Several(j.in.Chain(), j.s.Platform, pipeline.Options{Model: j.s.MemoryModel, Stop: ctx.Done()})
			j.addOutcome("k-periodic", &solve.Outcome{Plan: several}, err)
			if err := annealPipeline(ctx, j); err != nil || !j.unproved() {
				return err
			}
			return solvePipeline(j)
		},
	}
}

// everyMet reports whether the best plan meets a bound of all plans.
func everyMet(j *joint) bool {
	best := j.Best()
	return best != nil && slices.ContainsFunc(j.bounds(), func(b solve.Bound) bool {
		return len(b.Assumptions) == 0 && platform.Closed(best.Claims.Makespan, b.Value, max(j.s.Gap, 2*solve.Tolerance))
	})
}

// annealShare is the part of the time that is left for other orders of the operations of the best plan.
const annealShare = 0.25

// annealPipeline looks for patterns of several mini-batches a period near the best plan.
func annealPipeline(ctx context.Context, j *joint) error {
	best := j.Best()
	if best == nil || ctx.Err() != nil {
		return nil
	}
	if everyMet(j) {
		return nil
	}
	if until, ok := ctx.Deadline(); ok {
		limited, cancel := context.WithTimeout(ctx, time.Duration(annealShare*float64(time.Until(until))))
		defer cancel()
		ctx = limited
	}
	p, err := pipeline.Anneal(j.in.Chain(), j.s.Platform, best, pipeline.Options{Model: j.s.MemoryModel, Stop: ctx.Done()})
	if err != nil {
		return inputError(err)
	}
	j.UpdateIncumbent(p)
	return nil
}

// ilpLayers is the length of the longest chain whose ILP of [004] chapter 6 is solved in addition to branch and bound:
// longer ones are not solved in minutes.
const ilpLayers = 8

// solvePipeline solves the MILPs of pipelines from the best plan: the bounds in closed form, so that these are
// certified whatever follows, and for short chains the ILP of [004] chapter 6.
func solvePipeline(j *joint) error {
	task, c := j.task("ILP"), j.in.Chain()
	known := 0
	if !j.s.Document {
		task.Bounds = j.bounds()
		known = len(task.Bounds)
	}
	r, err := task.Search(j.ctx, pipelinePrograms(c, j.s, c.Len() <= ilpLayers))
	r.Bounds = r.Bounds[known:]
	return j.solved(r, err)
}

// pipelinePrograms solves the bounds in closed form and then, if whole is true, the strengthened ILP of [004]
// chapter 6.
func pipelinePrograms(c *chain.Chain, s solve.Setting, whole bool) func(*formulation.Result, func(*formulation.Phase) (bool, error)) error {
	return func(_ *formulation.Result, solvePhase func(*formulation.Phase) (bool, error)) error {
		o := ilppipeline.MemoryOption{MemoryModel: s.MemoryModel}
		closed, err := ilppipeline.Closed(c, s.Platform, o)
		if err != nil {
			return err
		}
		if more, err := solvePhase(&formulation.Phase{Program: closed}); err != nil || !more || !whole {
			return err
		}
		program, err := ilppipeline.Strong(c, s.Platform, o)
		if err != nil {
			return err
		}
		_, err = solvePhase(&formulation.Phase{Program: program})
		return err
	}
}

// pipelineILP solves the strengthened ILP of [004] chapter 6, from the best pattern of 1F1B*.
func pipelineILP(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	out := &solve.Outcome{}
	first, err := pipeline.OneFOneBStar(in.Chain(), s.Platform, pipeline.Options{Model: s.MemoryModel, Stop: ctx.Done()})
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, inputError(err)
	}
	out.UpdateIncumbent(in, first)
	r, err := s.Task(in, "ILP", out.Plan).Search(ctx, pipelinePrograms(in.Chain(), s, true))
	out.AddResult(r)
	if out.Plan != nil {
		out.Plan.Method = "pipeline-ilp"
	}
	if err != nil {
		return withoutMILP(out, err)
	}
	return out, nil
}
