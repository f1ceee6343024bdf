package worker

import (
	"context"
	"fmt"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/sweep"
)

// Solve runs a task on its instance, in this process, including its MILP backend. The error says that the task
// cannot be run; failures of a run are in the result.
func Solve(ctx context.Context, in *solve.Instance, t sweep.Task) (*solve.Result, error) {
	p, err := catalog.FindProblem(t.Problem)
	if err != nil {
		return nil, err
	}
	m, err := catalog.FindMethod(p, t.Method)
	if err != nil {
		return nil, err
	}
	s := solve.Setting{
		Platform: t.Platform(),
		Time:     time.Duration(t.TimeLimit * float64(time.Second)),
		Gap:      t.Gap, Seed: t.Seed, Threads: max(t.Threads, 1), MemoryModel: t.MemoryModel, Slots: t.Slots,
	}
	if err := p.Accepts(in); err != nil {
		return nil, err
	}
	if p.Models {
		if in, err = in.Counted(t.Model); err != nil {
			return nil, err
		}
	}
	if err := p.Fit(in, s.Platform); err != nil {
		return nil, err
	}
	if m.Solver {
		if err = backends.Use(&s, t.Backend, false); err != nil {
			return nil, err
		}
	}
	return solve.Run(ctx, p, m, in, s), nil
}

// check returns an error for an instance other than that of the task.
func check(in *solve.Instance, t sweep.Task) error {
	if in.SHA256 != t.SHA256 {
		return fmt.Errorf("instance %s has the digest %.12s, that of the task is %.12s: it has changed since the tasks were made", t.Instance,
			in.SHA256, t.SHA256)
	}
	return nil
}
