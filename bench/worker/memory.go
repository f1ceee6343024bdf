package worker

import (
	"context"
	"sync"
	"time"

	"workbench/bench/sweep"
)

// MemoryQueue is a queue in this process, for tests and for sweeps that nobody
// else takes part in. The zero value is empty.
type MemoryQueue struct {
	mu       sync.Mutex
	waiting  []*held
	known    map[string]bool // names of those that wait or are held
	held     int
	changed  chan struct{} // closed at the next change; nil: nobody waits for one
	finished bool
}

// held is a task with its history.
type held struct {
	queue   *MemoryQueue
	task    sweep.Task
	attempt int
	settled bool // this delivery is over
}

// Add implements [Queue].
func (q *MemoryQueue) Add(_ context.Context, tasks []sweep.Task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known == nil {
		q.known = map[string]bool{}
	}
	for _, t := range tasks {
		if id := t.ID(); !q.known[id] {
			q.known[id] = true
			q.waiting = append(q.waiting, &held{queue: q, task: t})
		}
	}
	q.signal()
	return nil
}

// Close makes Fetch return ErrClosed.
func (q *MemoryQueue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true
	q.signal()
	return nil
}

// signal wakes those who wait. The caller holds the lock.
func (q *MemoryQueue) signal() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// Fetch implements [Queue].
func (q *MemoryQueue) Fetch(ctx context.Context) (Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d, wait, err := q.next()
		if d != nil || err != nil {
			return d, err
		}
		select {
		case <-ctx.Done():
		case <-wait:
		}
	}
}

// next returns the next task, an error, or what to wait for.
func (q *MemoryQueue) next() (Delivery, <-chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.finished:
		return nil, nil, ErrClosed
	case len(q.waiting) > 0:
		h := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.held++
		h.attempt++
		return h, nil, nil
	case q.held == 0:
		return nil, nil, ErrDrained
	}
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return nil, q.changed, nil
}

// Task implements [Delivery].
func (h *held) Task() sweep.Task { return h.task }

// Attempt implements [Delivery].
func (h *held) Attempt() int { return h.attempt }

// Lease implements [Delivery]: nobody else can take the task.
func (h *held) Lease() time.Duration { return 0 }

// InProgress implements [Delivery].
func (h *held) InProgress() error { return nil }

// Ack implements [Delivery].
func (h *held) Ack() error { return h.settle(false) }

// Term implements [Delivery].
func (h *held) Term() error { return h.settle(false) }

// Nak implements [Delivery].
func (h *held) Nak() error { return h.settle(true) }

func (h *held) settle(again bool) error {
	q := h.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if h.settled {
		return nil
	}
	h.settled = true
	q.held--
	if again {
		q.waiting = append(q.waiting, &held{queue: q, task: h.task, attempt: h.attempt})
	} else {
		delete(q.known, h.task.ID())
	}
	q.signal()
	return nil
}

var (
	_ Queue    = (*MemoryQueue)(nil)
	_ Delivery = (*held)(nil)
)
