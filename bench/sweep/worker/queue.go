// Package worker does the tasks of a sweep. It takes them from a queue, runs each in a child process with a memory
// limit and a deadline, and stores a row for each before it acknowledges it. A task that crashes, hangs or exceeds
// the memory limit yields a row that says so, and the sweep continues.
package worker

import (
	"context"
	"errors"
	"time"

	"workbench/bench/sweep"
)

// ErrDrained is returned by Fetch when no task waits and none is being processed: no more will come.
var ErrDrained = errors.New("worker: no tasks left")

// ErrClosed is returned by Fetch when the queue no longer exists.
var ErrClosed = errors.New("worker: queue is closed")

// Queue hands out tasks, each to one worker at a time, and redelivers a task if its worker dies or returns it. It
// may lose or repeat tasks: the store alone decides what is done. A run ends by comparing its tasks with the rows
// and adding the missing ones. Its methods may be called from any goroutine.
type Queue interface {
	// Add appends tasks, to be handed out in this order. Adding a waiting task has no effect.
	Add(ctx context.Context, tasks []sweep.Task) error
	// Fetch returns the next task. It blocks while none waits but one that is being processed might come back. It
	// returns ErrDrained when that cannot happen, ErrClosed when the queue no longer exists, ctx's error when ctx
	// ends. It never prefetches.
	Fetch(ctx context.Context) (Delivery, error)
}

// Delivery is one task held by one worker: Ack or Nak ends it. Later calls have no effect, and those of a worker
// that was presumed dead do no harm.
type Delivery interface {
	Task() sweep.Task
	// Attempt is 1 when the task is first delivered. Queues redeliver without limit: the worker gives up after
	// MostAttempts, with a row that says so.
	Attempt() int
	// Lease is how long the worker may be silent before the task is redelivered; 0: unlimited. Workers call
	// InProgress every third of it.
	Lease() time.Duration
	InProgress() error // still alive
	Ack() error        // done: the row is stored
	Nak() error        // not done: redeliver it, to any worker
}

// MostAttempts limits the deliveries of a task. After another one its row says that it is poisoned.
const MostAttempts = 3
