package worker

import (
	"context"
	"errors"
	"fmt"

	"workbench/bench/sweep"
	"workbench/model/plan"
)

// ErrStopped is the error of a run that was asked to stop and has tasks left.
var ErrStopped = errors.New("stopped before all tasks were done")

// mostRounds is how often a run looks for tasks that have no row although the
// queue is drained: a queue may lose some, but not all, again and again.
const mostRounds = 10

// Missing is the part of a store that a run asks for what is left.
type Missing interface {
	Missing([]sweep.Task) []sweep.Task
}

// Run does all tasks that have no row: it begins and ends by comparing the
// tasks with the rows, and gives the queue what is missing. Stop and ctx as in
// [Worker.Work]; after a stop the error is ErrStopped unless nothing is left.
//
// Tasks in which an earlier run has died come last and one at a time: so the
// others are done whatever they do, and none is blamed for another.
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
			return fmt.Errorf("the queue has lost %d tasks again and again", len(missing))
		}
		if err := q.Add(ctx, missing); err != nil {
			return fmt.Errorf("queue: %w", err)
		}
		if err := w.Work(ctx, stop, q); err != nil {
			return err
		}
	}
}
