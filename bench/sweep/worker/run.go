package worker

import (
	"context"
	"errors"
	"fmt"

	"workbench/bench/sweep"
	"workbench/model/plan"
)

// ErrStopped is the error of a run that was asked to stop before all tasks were done.
var ErrStopped = errors.New("stopped before all tasks were done")

// mostRounds limits how often a run adds tasks that have no row although the queue is drained: a queue may lose
// some tasks, but not all, repeatedly.
const mostRounds = 10

// Missing is the part of a store that lists the tasks to do.
type Missing interface {
	Missing([]sweep.Task) []sweep.Task
}

// Run does all tasks that have no row: before and after, it compares the tasks with the rows and adds the missing
// ones to the queue. Stop and ctx are as in [Worker.Work]; after a stop the error is ErrStopped unless all tasks
// are done.
//
// Tasks during which an earlier run died come last and one at a time. The others are then done in any case, and
// the cause of another death is unambiguous.
func Run(ctx context.Context, stop <-chan struct{}, w *Worker, q Queue, rows Missing, tasks []sweep.Task) error {
	if w.Attempts != nil {
		innocent, suspects := w.Attempts.Split(tasks)
		if err := runs(ctx, stop, w, q, rows, innocent); err != nil || len(suspects) == 0 {
			return err
		}
		w.Jobs, tasks = 1, suspects
	}
	return runs(ctx, stop, w, q, rows, tasks)
}

func runs(ctx context.Context, stop <-chan struct{}, w *Worker, q Queue, rows Missing, tasks []sweep.Task) error {
	for round := 0; ; round++ {
		missing := rows.Missing(tasks)
		switch {
		case len(missing) == 0:
			return nil
		case plan.Stop(stop).Given():
			return ErrStopped
		case round == mostRounds:
			return fmt.Errorf("the queue has repeatedly lost %d tasks", len(missing))
		}
		if err := q.Add(ctx, missing); err != nil {
			return fmt.Errorf("queue: %w", err)
		}
		if err := w.Work(ctx, stop, q); err != nil {
			return err
		}
	}
}
