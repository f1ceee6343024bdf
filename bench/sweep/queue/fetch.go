package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"workbench/bench/sweep"
	"workbench/bench/sweep/worker"
)

// The interval between polls of an idle queue starts at shortestWait and doubles each time. No request is
// cancelled before its time: a task delivered to a cancelled request would be redelivered only after its lease.
const (
	shortestWait = 20 * time.Millisecond
	longestWait  = time.Second
)

// Fetch implements [worker.Queue]. For workers that have joined, the queue is drained when the coordinator says
// so: until then it may add lost tasks.
func (q *Queue) Fetch(ctx context.Context) (worker.Delivery, error) {
	var gone absence
	for wait := shortestWait; ; wait = min(2*wait, longestWait) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := q.next(wait)
		var drained bool
		if m == nil && err == nil {
			drained, err = q.drained(ctx)
		}
		switch {
		case m != nil:
			d, err := q.delivery(ctx, m)
			if err == nil {
				return d, nil
			}
			// An unreadable task cannot be done; the comparison with the rows finds it.
			if err := m.TermWithReason(err.Error()); err != nil && !q.nc.IsReconnecting() {
				return nil, q.closed(err)
			}
		case drained:
			return nil, worker.ErrDrained
		case err != nil:
			if err := q.wait(ctx, &gone, err); err != nil {
				return nil, err
			}
		default:
			gone = absence{}
		}
	}
}

// next requests one task and waits at most wait.
func (q *Queue) next(wait time.Duration) (jetstream.Msg, error) {
	batch, err := q.workers.Fetch(1, jetstream.FetchMaxWait(wait))
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		return m, nil
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, jetstream.ErrNoMessages) {
		return nil, err
	}
	return nil, nil
}

// drained reports whether no task waits or is being processed: acknowledged ones are removed.
func (q *Queue) drained(ctx context.Context) (bool, error) {
	info, err := q.tasks.Info(ctx)
	if err != nil {
		return false, err
	}
	if q.coordinator {
		return info.State.Msgs == 0, nil
	}
	return info.Config.Metadata[stateKey] == stateDone, nil
}

// ErrEnded is wrapped by the error of a queue whose server no longer holds the sweep: it is done or was removed.
var ErrEnded = errors.New("has ended or was removed")

// absence records since when a server is unreachable.
type absence struct{ since time.Time }

// wait decides whether an error of the server may be temporary, and then waits briefly; otherwise it returns the
// error.
func (q *Queue) wait(ctx context.Context, gone *absence, err error) error {
	if q.nc.IsConnected() && q.removed(ctx) {
		return q.closed(fmt.Errorf("sweep %q: %w", q.Sweep, ErrEnded))
	}
	if q.nc.IsClosed() {
		return q.closed(err)
	}
	if gone.since.IsZero() {
		gone.since = time.Now()
	}
	if time.Since(gone.since) > q.options.Patience {
		return q.closed(fmt.Errorf("it has not answered for %v: %w", q.options.Patience, err))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(reconnectWait):
		return nil
	}
}

// removed reports whether the server is reachable and has no such queue.
func (q *Queue) removed(ctx context.Context) bool {
	_, err := q.tasks.Info(ctx)
	return errors.Is(err, jetstream.ErrStreamNotFound)
}

// closed returns the error of a queue that no longer exists, and keeps it for Err.
func (q *Queue) closed(err error) error {
	if last := q.nc.LastError(); last != nil && q.nc.IsClosed() {
		err = fmt.Errorf("the connection is closed: %w", last)
	}
	err = fmt.Errorf("%w: %s: %w", worker.ErrClosed, q.address, err)
	q.err.Store(&err)
	return err
}

// Err returns why the queue is closed; nil: it is not. Workers stop without printing it.
func (q *Queue) Err() error {
	if err := q.err.Load(); err != nil {
		return *err
	}
	return nil
}

// persist calls f until it succeeds, the server is unreachable for too long, or ctx ends.
func (q *Queue) persist(ctx context.Context, f func(context.Context) error) error {
	var gone absence
	for {
		try, cancel := context.WithTimeout(ctx, connectTimeout)
		err := f(try)
		cancel()
		if err == nil {
			return nil
		}
		if err := q.wait(ctx, &gone, err); err != nil {
			return err
		}
	}
}

// Acknowledgements of a task, in the protocol of NATS.
const (
	done     = "+ACK"
	giveBack = "-NAK"
)

// delivery is a task held by a worker.
type delivery struct {
	q       *Queue
	ctx     context.Context // of Fetch: it has ended when the worker must stop
	m       jetstream.Msg
	task    sweep.Task
	attempt int
	ended   atomic.Bool
}

func (q *Queue) delivery(ctx context.Context, m jetstream.Msg) (*delivery, error) {
	d := &delivery{q: q, ctx: ctx, m: m}
	if err := json.Unmarshal(m.Data(), &d.task); err != nil {
		return nil, err
	}
	if want := q.taskSubject(d.task.ID()); m.Subject() != want {
		return nil, fmt.Errorf("task under %s, its own is %s", m.Subject(), want)
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	before, _ := strconv.Atoi(m.Headers().Get(attemptsHeader))
	d.attempt = before + int(meta.NumDelivered)
	return d, nil
}

func (d *delivery) Task() sweep.Task     { return d.task }
func (d *delivery) Attempt() int         { return d.attempt }
func (d *delivery) Lease() time.Duration { return d.q.options.Lease }

func (d *delivery) InProgress() error {
	if d.ended.Load() {
		return nil
	}
	return d.m.InProgress()
}

// Ack waits until the server has recorded it, and waits for an unreachable server: it may be restarting, and hours
// of work should not be repeated.
func (d *delivery) Ack() error { return d.end(done) }

func (d *delivery) end(how string) error {
	if d.ended.Swap(true) {
		return nil
	}
	return d.acknowledge(how)
}

// Nak returns the task for redelivery. A task returned by a worker that must stop goes to the end of the queue
// without counting this attempt, which says nothing about the task. If this process ends between the two steps,
// the comparison of tasks with rows finds the task.
func (d *delivery) Nak() error {
	if d.ctx.Err() == nil {
		return d.end(giveBack)
	}
	if d.ended.Swap(true) {
		return nil
	}
	m, err := d.q.taskMessage(d.task, d.attempt-1)
	if err != nil {
		return err
	}
	if err := d.acknowledge(done); err != nil {
		return err
	}
	return d.insist(func(ctx context.Context) error {
		_, err := d.q.js.PublishMsg(ctx, m)
		if waitsAlready(err) {
			return nil
		}
		return err
	})
}

// answerTimeout limits how long a server may take to record an answer.
const answerTimeout = 2 * time.Second

// acknowledge sends an answer and waits until the server has it. A server that was killed may have lost the
// delivery, and then ignores the answer. If the task is done, it is then removed from the stream.
func (d *delivery) acknowledge(how string) error {
	return d.insist(func(ctx context.Context) error {
		ask, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		_, err := d.q.nc.RequestWithContext(ask, d.m.Reply(), []byte(how))
		if !errors.Is(err, context.DeadlineExceeded) || !d.q.nc.IsConnected() {
			return err
		}
		if how == giveBack {
			return nil // it was removed already
		}
		return d.q.removeTask(ctx, d.m.Subject())
	})
}

// insist calls f until it succeeds or the server is unreachable for too long; for a worker that must stop the
// limit is short.
func (d *delivery) insist(f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer context.AfterFunc(d.ctx, func() {
		time.AfterFunc(connectTimeout, cancel)
	})()
	return d.q.persist(ctx, f)
}
