package queue

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/model/zoo"
)

// Coordinator is the side of a sweep that owns its tasks and its store, independent of the workers.
type Coordinator struct {
	Queue *Queue
	Store *store.Store
	Tasks []sweep.Task
	// Instances provides the instances of tasks that are files.
	Instances worker.Instances
	// OnRow is called for each finished task; nil: no calls.
	OnRow func(*sweep.Row)
	// Warn is called for rows that cannot be read; nil: no calls.
	Warn func(error)

	left map[string]bool // names of tasks without a row; changed by keep only
	done chan struct{}   // closed when left is empty
}

// mostRounds limits how often tasks are added to a queue that loses them.
const mostRounds = 10

// Run adds the tasks without rows to the queue, and returns when all have rows. It first collects the rows that an
// earlier run left in the queue, and at the end compares tasks with rows. If ctx ends, the queue remains and the
// next run continues.
func (c *Coordinator) Run(ctx context.Context) error {
	c.note()
	if err := c.putInstances(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var collecting sync.WaitGroup
	collecting.Go(func() {
		if err := c.Queue.Collect(ctx, c.keep, c.warn); err != nil {
			cancel(err)
		}
	})
	defer collecting.Wait()
	defer cancel(nil)
	if err := c.dispatch(ctx); err != nil {
		return err
	}
	return c.Queue.Finish(ctx)
}

// note records which tasks have no row.
func (c *Coordinator) note() {
	c.left, c.done = map[string]bool{}, make(chan struct{})
	for _, t := range c.Store.Missing(c.Tasks) {
		c.left[t.ID()] = true
	}
	if len(c.left) == 0 {
		close(c.done)
	}
}

// dispatch adds missing tasks until there are none.
func (c *Coordinator) dispatch(ctx context.Context) error {
	for round := 0; ; round++ {
		// A task leaves the queue after its row has entered it, and a row leaves after it is in the store. In this
		// order no task is missed, and none in transit is done twice.
		there, err := c.Queue.waiting(ctx)
		if err == nil {
			err = c.waitUntilStored(ctx)
		}
		if err != nil {
			return cause(ctx, err)
		}
		missing := c.Store.Missing(c.Tasks)
		switch {
		case len(missing) == 0:
			return nil
		case round == 0:
			if err := c.Queue.Keep(ctx, missing); err != nil {
				return cause(ctx, err)
			}
		case round == mostRounds:
			return fmt.Errorf("queue: %d tasks are lost repeatedly", len(missing))
		}
		var lost []sweep.Task
		for _, t := range missing {
			if !there[c.Queue.taskSubject(t.ID())] {
				lost = append(lost, t)
			}
		}
		if err := c.Queue.Add(ctx, lost); err != nil {
			return cause(ctx, err)
		}
		if err := c.quiet(ctx); err != nil {
			return cause(ctx, err)
		}
	}
}

// cause returns the cause of ctx's end rather than the fact, if ctx has ended.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// waitUntilStored waits until all rows that are in the queue are in the store.
func (c *Coordinator) waitUntilStored(ctx context.Context) error {
	return c.poll(ctx, func(ctx context.Context) (bool, error) {
		n, err := c.Queue.Uncollected(ctx)
		return n == 0, err
	})
}

// quiet waits until all tasks have rows, or the queue is empty.
func (c *Coordinator) quiet(ctx context.Context) error {
	return c.poll(ctx, func(ctx context.Context) (bool, error) {
		select {
		case <-c.done:
			return true, nil
		default:
			return c.Queue.drained(ctx)
		}
	})
}

// poll calls f at intervals until it returns true; it tolerates a server that is temporarily unreachable.
func (c *Coordinator) poll(ctx context.Context, f func(context.Context) (bool, error)) error {
	var gone absence
	for wait := shortestWait; ; wait = min(2*wait, longestWait) {
		yes, err := f(ctx)
		switch {
		case err != nil:
			if err := c.Queue.wait(ctx, &gone, err); err != nil {
				return err
			}
			continue
		case yes:
			return nil
		}
		gone = absence{}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done: // the rest takes milliseconds
			time.Sleep(shortestWait)
		case <-time.After(wait):
		}
	}
}

// keep stores a row that came through the queue.
func (c *Coordinator) keep(p Parcel) error {
	if p.Row.Sweep != c.Store.Name() {
		c.warn(fmt.Errorf("queue: a row of sweep %q came to %q and was dropped", p.Row.Sweep, c.Store.Name()))
		return nil
	}
	if err := c.Store.AppendEnvironment(p.Environment); err != nil {
		return err
	}
	if err := c.Store.Append(p.Row, p.Plan); err != nil {
		return err
	}
	if !c.left[p.Row.ID] {
		return nil // a second row of its task
	}
	delete(c.left, p.Row.ID)
	if c.OnRow != nil {
		c.OnRow(p.Row)
	}
	if len(c.left) == 0 {
		close(c.done)
	}
	return nil
}

func (c *Coordinator) warn(err error) {
	if c.Warn != nil {
		c.Warn(err)
	}
}

// putInstances puts the instances that workers cannot generate into the queue.
func (c *Coordinator) putInstances(ctx context.Context) error {
	offered := map[string]bool{}
	for _, t := range c.Store.Missing(c.Tasks) {
		if offered[t.SHA256] || strings.HasPrefix(t.Instance, zoo.Scheme) {
			continue
		}
		offered[t.SHA256] = true
		doc, err := c.Instances.Document(t)
		if err != nil {
			return err
		}
		if err := c.Queue.PutInstance(ctx, t.SHA256, doc); err != nil {
			return err
		}
	}
	return nil
}

// waiting returns the subjects of the tasks in the queue, including those being processed.
func (q *Queue) waiting(ctx context.Context) (map[string]bool, error) {
	info, err := q.tasks.Info(ctx, jetstream.WithSubjectFilter(q.taskSubject("*")))
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	there := make(map[string]bool, len(info.State.Subjects))
	for s := range info.State.Subjects {
		there[s] = true
	}
	return there, nil
}

// FolderName returns the name of a folder that identifies its queue; the first call creates it.
func FolderName(dir string) (string, error) {
	path := filepath.Join(dir, "queue.name")
	if name, err := os.ReadFile(path); err == nil && len(name) > 0 {
		return string(name), nil
	}
	name := rand.Text()
	return name, store.WriteFile(path, []byte(name))
}
