// Package worker does the tasks of a sweep: takes them from a queue, runs each
// in a child process with a memory limit and a deadline, and stores a row for
// each before it lets go of it. A task that crashes, hangs or takes too much
// memory is a row that says so, and the sweep goes on.
package worker

import (
	"context"
	"errors"
	"time"

	"workbench/bench/sweep"
)

// ErrDrained is what Fetch returns when no task waits and none is in anybody's
// hands: there will be no more.
var ErrDrained = errors.New("worker: no tasks left")

// ErrClosed is what Fetch returns when the queue is no longer there.
var ErrClosed = errors.New("worker: queue is closed")

// Queue hands out tasks, each to one worker at a time, and again if that worker
// dies or gives it back. It may lose or repeat tasks: what is done is decided
// by the store alone, and a run ends by comparing its tasks with the rows and
// adding what is missing. Its methods may be called from any goroutine.
type Queue interface {
	// Add appends tasks, to be handed out in this order. Tasks that wait
	// already may be added again without harm.
	Add(ctx context.Context, tasks []sweep.Task) error
	// Fetch returns the next task, and blocks while there is none but one that
	// somebody holds might come back. It returns ErrDrained when that cannot
	// happen, ErrClosed when the queue is gone, ctx's error when ctx ends.
	// It never fetches ahead.
	Fetch(ctx context.Context) (Delivery, error)
}

// Delivery is one task in the hands of one worker: Ack or Nak ends it.
// Calls after that have no effect, and late ones of a worker that was thought
// dead do no harm.
type Delivery interface {
	Task() sweep.Task
	// Attempt is 1 when the task is handed out for the first time. Queues hand
	// out as often as it takes: it is the worker that gives up, after
	// MostAttempts, with a row that says so.
	Attempt() int
	// Lease is how long the worker may be silent before the task is given to
	// somebody else; 0: for ever. Workers call InProgress every third of it.
	Lease() time.Duration
	InProgress() error // still alive
	Ack() error        // done: the row is stored
	Nak() error        // not done: give it to somebody else, or to me later
}

// MostAttempts is how often a task may be handed out. One more and its row says
// that it is poisoned.
const MostAttempts = 3
