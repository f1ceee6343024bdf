// Package queuetest says what a queue of tasks has to do, as tests that any
// implementation can be put to, and has the simplest one that passes.
package queuetest

import (
	"context"
	"sync"
	"time"

	"workbench/bench/sweep"
	"workbench/bench/sweep/worker"
)

// Memory is a queue in memory: for tests of what uses queues, and the model of
// what others have to do. It works under [testing/synctest].
type Memory struct {
	lease time.Duration

	mu      sync.Mutex
	order   []string // names of tasks that wait, in their order
	tasks   map[string]*entry
	changed chan struct{} // closed and replaced when something has happened
}

// entry is a task that is not done.
type entry struct {
	task     sweep.Task
	attempts int       // that count
	holder   *delivery // nil: it waits
}

var _ worker.Queue = (*Memory)(nil)

// NewMemory returns an empty queue with that lease; 0: for ever.
func NewMemory(lease time.Duration) *Memory {
	return &Memory{lease: lease, tasks: map[string]*entry{}, changed: make(chan struct{})}
}

// Add implements [worker.Queue].
func (q *Memory) Add(_ context.Context, tasks []sweep.Task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range tasks {
		id := t.ID()
		if q.tasks[id] == nil {
			q.tasks[id] = &entry{task: t}
			q.order = append(q.order, id)
		}
	}
	q.happened()
	return nil
}

// Fetch implements [worker.Queue].
func (q *Memory) Fetch(ctx context.Context) (worker.Delivery, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		q.mu.Lock()
		if len(q.tasks) == 0 {
			q.mu.Unlock()
			return nil, worker.ErrDrained
		}
		if d := q.first(ctx); d != nil {
			q.mu.Unlock()
			return d, nil
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// first hands out the first task that waits; nil: there is none.
func (q *Memory) first(ctx context.Context) *delivery {
	for len(q.order) > 0 {
		e := q.tasks[q.order[0]]
		q.order = q.order[1:]
		if e == nil {
			continue // a late acknowledgement took it
		}
		e.attempts++
		d := &delivery{q: q, ctx: ctx, task: e.task, attempt: e.attempts}
		e.holder = d
		if q.lease > 0 {
			d.timer = time.AfterFunc(q.lease, d.expire)
		}
		return d
	}
	return nil
}

// happened wakes those who wait.
func (q *Memory) happened() {
	close(q.changed)
	q.changed = make(chan struct{})
}

type delivery struct {
	q       *Memory
	ctx     context.Context // of Fetch: it has ended when the worker is to stop
	task    sweep.Task
	attempt int
	timer   *time.Timer
	ended   bool
}

func (d *delivery) Task() sweep.Task     { return d.task }
func (d *delivery) Attempt() int         { return d.attempt }
func (d *delivery) Lease() time.Duration { return d.q.lease }

func (d *delivery) InProgress() error {
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	if !d.ended && d.timer != nil && d.timer.Stop() {
		d.timer.Reset(d.q.lease)
	}
	return nil
}

// expire gives the task to somebody else.
func (d *delivery) expire() {
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	if e := d.q.tasks[d.task.ID()]; e != nil && e.holder == d && !d.ended {
		e.holder = nil
		d.q.order = append([]string{d.task.ID()}, d.q.order...)
		d.q.happened()
	}
}

// end ends the delivery; the entry is nil if there is nothing to do.
func (d *delivery) end(do func(id string, e *entry)) error {
	d.q.mu.Lock()
	defer d.q.mu.Unlock()
	if d.ended {
		return nil
	}
	d.ended = true
	if d.timer != nil {
		d.timer.Stop()
	}
	if e := d.q.tasks[d.task.ID()]; e != nil {
		do(d.task.ID(), e)
		d.q.happened()
	}
	return nil
}

func (d *delivery) Ack() error {
	return d.end(func(id string, _ *entry) { delete(d.q.tasks, id) })
}

func (d *delivery) Nak() error {
	return d.end(func(id string, e *entry) {
		if e.holder == d {
			e.holder = nil
			if d.ctx.Err() != nil {
				e.attempts--
			}
			d.q.order = append(d.q.order, id)
		}
	})
}
