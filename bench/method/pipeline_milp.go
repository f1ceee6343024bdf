package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"workbench/bench/run"
	"workbench/heuristics/pipeline"
	"workbench/ilp/formulation"
	ilppipeline "workbench/ilp/pipeline"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
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
	if out.Plan, err = pipeline.Schedule(in.Chain(), s.Platform, allocation, o); err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, inputError(err)
	}
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

// unlimited is the time for branch and bound before MILPs where there is no
// limit.
const unlimited = time.Minute

// incumbent is the best plan of methods that run beside each other.
type incumbent struct {
	lock sync.Mutex
	plan *plan.Plan
}

// offer keeps p if it is better; nil is none.
func (x *incumbent) offer(p *plan.Plan) {
	x.lock.Lock()
	defer x.lock.Unlock()
	if p != nil && (x.plan == nil || p.Claims.Makespan < x.plan.Claims.Makespan) {
		x.plan = p
	}
}

func (x *incumbent) best() *plan.Plan {
	x.lock.Lock()
	defer x.lock.Unlock()
	return x.plan
}

// attempt is what came of a method that ran beside others.
type attempt struct {
	out *run.Outcome
	err error
}

// beside runs a method in a goroutine.
func beside(method func() (*run.Outcome, error)) <-chan attempt {
	done := make(chan attempt, 1)
	go func() {
		out, err := method()
		done <- attempt{out, err}
	}()
	return done
}

// pipelineMILP closes in on the least period. 1F1B* comes first, in milliseconds.
// Then there are search and branch and bound among 1-periodic patterns, to the end of
// the time; and beside them, when they have ended or half of it is over, patterns of
// several mini-batches a period and MILPs, until one of these has closed the gap. So it
// is no worse than each of them alone with the same limit, but for what they take from
// each other of the machine.
func pipelineMILP(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
	s.OnProgress = oneAtATime(s.OnProgress)
	start, half := time.Now(), unlimited
	if deadline, ok := ctx.Deadline(); ok {
		half = time.Until(deadline) / 2
	}
	best := &incumbent{}
	quick, err := pipeline.OneFOneBStar(in.Chain(), s.Platform, pipeline.Options{Model: s.MemoryModel, Stop: ctx.Done()})
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, inputError(err)
	}
	best.offer(quick)
	if quick != nil && ctx.Err() != nil {
		quick.Method = "pipeline-milp"
		return &run.Outcome{Plan: quick, Stopped: true}, nil
	}
	tell(&s, start, "1F1B*", quick, pipelineBound()(in, s).Value, 0)

	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	searched := beside(func() (*run.Outcome, error) {
		out, err := searchedPipeline(inner, in, &s)
		if err != nil {
			return &run.Outcome{}, err
		}
		best.offer(out.Plan)
		if err = branchAndBound(out, inner, in, &s); closedWithin(out, &s) && !s.Document {
			cancel()
		}
		best.offer(out.Plan)
		return out, err
	})
	var first attempt
	select {
	case first = <-searched:
	case <-time.After(half - time.Since(start)):
	}
	several, failed := pipeline.Several(in.Chain(), s.Platform, pipeline.Options{Model: s.MemoryModel, Stop: ctx.Done()})
	best.offer(several)
	solved := attempt{out: &run.Outcome{}}
	if inner.Err() == nil {
		solved = solvePipeline(inner, in, &s, best.best(), first.out)
		best.offer(solved.out.Plan)
	}
	if closedWithin(solved.out, &s) {
		cancel()
	}
	if first.out == nil {
		first = <-searched
	}
	return together(ctx, best, []attempt{first, {err: failed}, solved})
}

// together makes one outcome of those of branch and bound, of patterns of several
// mini-batches a period, and of MILPs, in this order.
func together(ctx context.Context, best *incumbent, attempts []attempt) (*run.Outcome, error) {
	searched, solved := attempts[0], attempts[2]
	out := solved.out
	out.Plan = best.best()
	var infeasible *plan.Infeasible
	for _, x := range attempts {
		switch {
		case errors.As(x.err, &infeasible) && out.Plan != nil:
			return nil, fmt.Errorf("a pattern of %v s was found, but: %w", out.Plan.Claims.Makespan, x.err)
		case errors.As(x.err, &infeasible), x.err != nil && out.Plan == nil:
			return nil, inputError(x.err)
		}
	}
	if solved.err != nil {
		out.Remark("no MILP bound: " + solved.err.Error())
	}
	out.Bounds = append(searched.out.Bounds, out.Bounds...)
	if out.Ended == proof.Interrupted && ctx.Err() == nil { // by another that closed the gap
		out.Ended = proof.NoProof
	}
	if out.Plan == nil {
		return out, nil
	}
	if one := searched.out.Plan; out.Plan.K > 1 && one != nil && one.K <= 1 {
		out.Remark(fmt.Sprintf("the best 1-periodic pattern that was found takes %s", platform.FormatSeconds(one.Claims.Makespan)))
	}
	out.Plan.Method = "pipeline-milp"
	return out, nil
}

// oneAtATime lets goroutines call tell.
func oneAtATime(tell func(run.Progress)) func(run.Progress) {
	if tell == nil {
		return nil
	}
	var lock sync.Mutex
	return func(p run.Progress) {
		lock.Lock()
		defer lock.Unlock()
		tell(p)
	}
}

// Parts of the time that is left, for the models of allocations without patterns:
// for every pattern, and for 1-periodic ones that are shorter than the best plan.
const (
	forEvery   = 0.15
	forShorter = 0.4
)

// solvePipeline solves the MILPs of pipelines, from a plan or nil, and beside the
// bounds of searched, if that is not nil: the bounds in closed form, so that these
// are certified whatever follows; allocations without patterns, which bound all
// plans; and the decomposition into allocations and patterns.
func solvePipeline(ctx context.Context, in *run.Instance, s *run.Setting, start *plan.Plan, searched *run.Outcome) attempt {
	task := s.Task(in, "allocations", start)
	if searched != nil && !s.Document {
		task.Bounds = searched.Bounds
	}
	o := ilppipeline.MemoryOption{MemoryModel: s.MemoryModel}
	r, err := task.Search(ctx, func(sofar *formulation.Result, solve func(*formulation.Phase) (bool, error)) error {
		closed, err := ilppipeline.Closed(in.Chain(), s.Platform, o)
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
			program, err := ilppipeline.Allocations(in.Chain(), s.Platform, ilppipeline.AllocationOptions{MemoryOption: o, Limit: x.limit})
			if err != nil {
				return err
			}
			if more, err := solve(&formulation.Phase{Program: program, Share: x.share}); err != nil || !more {
				return err
			}
		}
		d, err := ilppipeline.Decompose(in.Chain(), s.Platform, s.MemoryModel)
		if err != nil {
			return err
		}
		return closeIn(ctx, d, max(s.Gap, run.Tolerance), sofar, solve)
	})
	out := &run.Outcome{}
	out.Take(r)
	return attempt{out, err}
}
