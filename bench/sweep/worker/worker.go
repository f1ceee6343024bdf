package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"workbench/bench/sweep"
)

// Sink receives rows: a store, or a connection to one.
type Sink interface {
	// Has reports whether the task with that name has a row.
	Has(id string) bool
	// Append returns when the row and its plan, nil for none, are durable. A second row of a task does no harm.
	Append(r *sweep.Row, plan []byte) error
}

// Attempts counts how often tasks were started, across runs.
type Attempts interface {
	// Begin records the start of a task, and returns the number of its starts.
	Begin(id string) (int, error)
	// Split separates the tasks during which an earlier run died (suspects) from the others.
	Split([]sweep.Task) (innocent, suspects []sweep.Task)
}

// Worker takes tasks from a queue and does them, several concurrently.
type Worker struct {
	Sweep       string // name
	Name        string // of this worker, in its rows
	Environment string // digest
	Jobs        int    // concurrent tasks; 0: one
	// Runner returns the runner of one job.
	Runner func() Runner
	Sink   Sink
	// Attempts replaces the queue's count of attempts; nil: the queue counts.
	Attempts Attempts
	// Plans reports that plans are stored.
	Plans bool
	// OnRow is called for each finished task, from several goroutines; nil: no calls.
	OnRow func(*sweep.Row)

	mu     sync.Mutex
	flying map[string]bool // names of running tasks
}

// Work does tasks until the queue is drained or closed, or until stop is closed: then it finishes running tasks
// and returns nil. When ctx ends it kills running tasks and returns ctx's error; they have no rows. If a row
// cannot be stored, Work returns an error and the task returns to the queue.
func (w *Worker) Work(ctx context.Context, stop <-chan struct{}, q Queue) error {
	fetching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-stop:
			cancel(errStopped)
		case <-fetching.Done():
		}
	}()
	w.mu.Lock()
	w.flying = map[string]bool{}
	w.mu.Unlock()
	var group sync.WaitGroup
	errs := make([]error, max(w.Jobs, 1))
	for i := range errs {
		group.Go(func() {
			if errs[i] = w.job(ctx, fetching, q); errs[i] != nil {
				cancel(errs[i]) // the others finish their current tasks
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

var errStopped = errors.New("stopped")

// job does one task after the other.
func (w *Worker) job(ctx, fetching context.Context, q Queue) error {
	runner := w.Runner()
	for {
		d, err := q.Fetch(fetching)
		switch {
		case errors.Is(err, ErrDrained), errors.Is(err, ErrClosed), err != nil && fetching.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("queue: %w", err)
		}
		if err := w.task(ctx, runner, d); err != nil {
			return err
		}
	}
}

// task does one task.
func (w *Worker) task(ctx context.Context, runner Runner, d Delivery) error {
	t := d.Task()
	id := t.ID()
	if w.Sink.Has(id) || !w.begin(id) {
		return acked(d) // done before its last worker could acknowledge it, or queued twice
	}
	defer w.end(id)
	attempt := d.Attempt()
	if w.Attempts != nil {
		var err error
		if attempt, err = w.Attempts.Begin(id); err != nil {
			return errors.Join(err, d.Nak())
		}
	}
	quiet := heartbeat(d)
	defer quiet()
	row, plan, err := w.runs(ctx, runner, t, attempt)
	if err != nil {
		return errors.Join(err, d.Nak())
	}
	if row == nil {
		return d.Nak()
	}
	row.Sweep, row.Worker, row.Environment, row.Attempt = w.Sweep, w.Name, w.Environment, attempt
	if !w.Plans {
		row.Plan, plan = "", nil
	}
	if err := w.Sink.Append(row, plan); err != nil {
		return errors.Join(err, d.Nak())
	}
	if w.OnRow != nil {
		w.OnRow(row)
	}
	return acked(d)
}

// runs returns the row of a task; neither row nor error if it must be retried.
func (w *Worker) runs(ctx context.Context, runner Runner, t sweep.Task, attempt int) (*sweep.Row, []byte, error) {
	if attempt > MostAttempts {
		row := &sweep.Row{Format: sweep.RowFormat, ID: t.ID(), Task: t, Started: time.Now()}
		return failed(row, sweep.Poisoned, fmt.Sprintf("given up after %d attempts in which its worker died", attempt-1)), nil, nil
	}
	row, plan, err := runner.Run(ctx, t)
	switch {
	case errors.Is(err, errAgain) && attempt == MostAttempts:
		row.Failure.Detail = cut(fmt.Sprintf("%s; and so %d times", row.Failure.Detail, MostAttempts))
		return row, nil, nil
	case errors.Is(err, errAgain):
		return nil, nil, nil
	}
	return row, plan, err
}

// acked acknowledges a task. The row is durable, so a lost acknowledgement costs one look-up in the store.
func acked(d Delivery) error {
	_ = d.Ack()
	return nil
}

// begin records that a task runs. It returns false if it runs already.
func (w *Worker) begin(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flying[id] {
		return false
	}
	w.flying[id] = true
	return true
}

func (w *Worker) end(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.flying, id)
}

// heartbeat renews the lease of a task until the returned function is called.
func heartbeat(d Delivery) (quiet func()) {
	if d.Lease() <= 0 {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(max(d.Lease()/3, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = d.InProgress() // a lost lease costs only a second run
			}
		}
	}()
	return func() { close(done); <-gone }
}
