package queue

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/model/zoo"
)

// Remote is the sink of a worker on another machine: rows go into a store of its own, then into the queue. No row
// is in the queue alone; if the queue is lost, the stores of the workers can be merged with that of the
// coordinator.
type Remote struct {
	ctx          context.Context // ends the waiting for an unreachable server
	queue        *Queue
	store        *store.Store
	environments map[string]sweep.Environment // of the store, by digest

	mu   sync.Mutex
	rows map[string]*sweep.Row // of the store, by task
}

var _ worker.Sink = (*Remote)(nil)

// NewRemote opens the worker's own store in dir. The caller must close it.
func NewRemote(ctx context.Context, q *Queue, dir string, e sweep.Environment) (*Remote, error) {
	s, err := store.Open(dir, q.Sweep)
	if err != nil {
		return nil, err
	}
	r := &Remote{ctx: ctx, queue: q, store: s, rows: map[string]*sweep.Row{}}
	before, err := store.Read(dir)
	if err == nil {
		r.environments = before.Environments
		r.environments[e.Digest] = e
		for _, row := range before.Rows {
			r.rows[row.ID] = row
		}
		err = s.AppendEnvironment(&e)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return r, nil
}

// Close closes the store.
func (r *Remote) Close() error { return r.store.Close() }

// Has implements [worker.Sink]. If a task is delivered although this worker has its row, the row did not arrive:
// it is sent again.
func (r *Remote) Has(id string) bool {
	r.mu.Lock()
	row := r.rows[id]
	r.mu.Unlock()
	if row == nil {
		return false
	}
	plan, err := r.plan(row)
	return err == nil && r.send(row, plan) == nil
}

// plan returns the compressed plan of a row of the store; nil: none.
func (r *Remote) plan(row *sweep.Row) ([]byte, error) {
	if row.Plan == "" {
		return nil, nil
	}
	text, err := store.Plan(r.store.Dir(), row.Plan)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// Append implements [worker.Sink].
func (r *Remote) Append(row *sweep.Row, plan []byte) error {
	if err := r.store.Append(row, plan); err != nil {
		return err
	}
	r.mu.Lock()
	r.rows[row.ID] = row
	r.mu.Unlock()
	if err := r.send(row, plan); err != nil {
		return fmt.Errorf("%w; the row is in %s, for workbench bench merge", err, r.store.Dir())
	}
	return nil
}

func (r *Remote) send(row *sweep.Row, plan []byte) error {
	e := r.environments[row.Environment]
	return r.queue.Send(r.ctx, Parcel{Row: row, Environment: &e, Plan: plan})
}

// Fetching returns a runner that copies the instance of a task from the queue to dir before inner runs it.
// Existing files remain.
func Fetching(q *Queue, dir string, inner worker.Runner) worker.Runner {
	return &fetching{q, dir, inner}
}

type fetching struct {
	queue *Queue
	dir   string
	inner worker.Runner
}

func (f *fetching) Run(ctx context.Context, t sweep.Task) (*sweep.Row, []byte, error) {
	if err := f.get(ctx, t); err != nil {
		return nil, nil, err
	}
	return f.inner.Run(ctx, t)
}

// get copies the instance to the folder, unless it exists. Only an unreachable queue is an error: the runner
// reports missing or wrong instances.
func (f *fetching) get(ctx context.Context, t sweep.Task) error {
	if strings.HasPrefix(t.Instance, zoo.Scheme) {
		return nil
	}
	if _, err := os.Stat(store.InstancePath(f.dir, t.SHA256)); err == nil {
		return nil
	}
	doc, err := f.queue.Instance(ctx, t.SHA256)
	if errors.Is(err, solve.ErrInput) {
		return nil
	}
	if err != nil {
		return err
	}
	in, err := solve.Load("-", bytes.NewReader(doc))
	if err != nil || in.SHA256 != t.SHA256 {
		return nil
	}
	return worker.KeepInstances(f.dir, map[string]*solve.Instance{t.SHA256: in})
}
