package queue

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/queue/queuetest"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
)

func row(task sweep.Task, attempt int) *sweep.Row {
	return &sweep.Row{
		Format: sweep.RowFormat, Sweep: "rows", ID: task.ID(), Task: task, Attempt: attempt, Worker: "w", Environment: "test",
		Started: time.Unix(1, 0), Finished: time.Unix(2, 0), Result: &solve.Result{Status: solve.Feasible},
	}
}

var environment = &sweep.Environment{Format: sweep.EnvironmentFormat, Digest: "test"}

// Rows stay in the queue until they are stored, plans of any size come with
// them, and what nobody can read is reported.
func TestRows(t *testing.T) {
	t.Parallel()
	s := start(t, ServerOptions{})
	q := create(t, s.Address(), "rows", Options{Lease: shortLease})
	w := join(t, s.Address(), "rows")
	tasks := queuetest.Tasks(3)
	large := make([]byte, maxMessage)
	for i := range large {
		large[i] = byte(i * i >> 8)
	}
	for i, plan := range [][]byte{nil, []byte("small"), large} {
		for range 2 { // a repeated row is dropped by the server or by the store
			if err := w.Send(t.Context(), Parcel{Row: row(tasks[i], 1), Environment: environment, Plan: plan}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := q.js.Publish(t.Context(), q.rowSubject("x"), []byte("{")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	full := errors.New("disk is full")
	refused, unread := 0, 0
	plans := map[string]string{}
	keep := func(p Parcel) error {
		if refused++; refused <= 2 {
			return full
		}
		plans[p.Row.ID] = string(p.Plan)
		if len(plans) == len(tasks) && unread > 0 {
			cancel()
		}
		return nil
	}
	bad := func(error) {
		if unread++; len(plans) == len(tasks) {
			cancel()
		}
	}
	for range 2 {
		if err := q.Collect(ctx, keep, bad); !errors.Is(err, full) {
			t.Fatalf("Collect = %v, want %v", err, full)
		}
	}
	if n, err := q.Uncollected(ctx); err != nil || n != len(tasks)+1-unread {
		t.Errorf("%d rows in the queue, %v; none was stored", n, err)
	}
	if err := q.Collect(ctx, keep, bad); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "small", string(large)} {
		if plans[tasks[i].ID()] != want {
			t.Errorf("row %d comes with a plan of %d bytes, not of %d", i, len(plans[tasks[i].ID()]), len(want))
		}
	}
	if unread != 1 {
		t.Errorf("%d rows could not be read, want 1", unread)
	}
}

func TestInstances(t *testing.T) {
	s := start(t, ServerOptions{})
	q := create(t, s.Address(), "files", Options{})
	w := join(t, s.Address(), "")
	if w.Sweep != "files" {
		t.Errorf("joined %q", w.Sweep)
	}
	large := []byte(strings.Repeat("0123456789abcdef", 1<<20)) // 16 MiB
	for digest, doc := range map[string][]byte{"aa": large, "bb": []byte("b")} {
		for range 2 {
			if err := q.PutInstance(t.Context(), digest, doc); err != nil {
				t.Fatal(err)
			}
		}
		got, err := w.Instance(t.Context(), digest)
		if err != nil || string(got) != string(doc) {
			t.Errorf("instance %s: %d bytes of %d, %v", digest, len(got), len(doc), err)
		}
	}
	if _, err := w.Instance(t.Context(), "cc"); !errors.Is(err, solve.ErrInput) {
		t.Errorf("missing instance: %v", err)
	}
}

// A run begins with what an earlier one left, in its store and in the queue, and
// ends only when tasks and rows agree, though the queue loses one.
func TestCoordinatorComparesTasksWithRows(t *testing.T) {
	s := start(t, ServerOptions{})
	st, err := store.Open(t.TempDir(), "rows")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	tasks := queuetest.Tasks(6)
	q := create(t, s.Address(), "rows", Options{Lease: shortLease})
	// Task 0 has a row, 1 has one in the queue, 2 waits, as do 0 and one that the
	// specification has no longer.
	if err := st.Append(row(tasks[0], 1), nil); err != nil {
		t.Fatal(err)
	}
	if err := q.Send(t.Context(), Parcel{Row: row(tasks[1], 1), Environment: environment}); err != nil {
		t.Fatal(err)
	}
	if err := q.Add(t.Context(), []sweep.Task{tasks[0], tasks[2], queuetest.Tasks(7)[6]}); err != nil {
		t.Fatal(err)
	}
	w := join(t, s.Address(), "rows")
	seen := map[int]int{}
	work := func() {
		for {
			d, err := w.Fetch(t.Context())
			if err != nil {
				if !errors.Is(err, worker.ErrDrained) {
					t.Error(err)
				}
				return
			}
			seed := d.Task().Seed
			seen[seed]++
			if seed != 4 || seen[seed] > 1 { // the row of 4 is lost at first
				if err := w.Send(t.Context(), Parcel{Row: row(d.Task(), d.Attempt()), Environment: environment}); err != nil {
					t.Error(err)
				}
			}
			if err := d.Ack(); err != nil {
				t.Error(err)
			}
		}
	}
	rows := 0
	var working sync.WaitGroup
	c := &Coordinator{Queue: q, Store: st, Tasks: tasks, OnRow: func(*sweep.Row) {
		if rows++; rows == 1 { // that of task 1: what is not wanted has gone when the next comes
			working.Go(func() {
				time.Sleep(shortLease)
				work()
			})
		}
	}}
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	working.Wait()
	if want := map[int]int{2: 1, 3: 1, 4: 2, 5: 1}; !maps.Equal(seen, want) {
		t.Errorf("handed out %v times, want %v", seen, want)
	}
	if left := st.Missing(tasks); len(left) > 0 || rows != 5 {
		t.Errorf("%d tasks are left, %d rows came", len(left), rows)
	}
}

// A worker's own store has every row before the queue has it, and what did not
// arrive is sent again when its task comes again.
func TestRemote(t *testing.T) {
	s := start(t, ServerOptions{})
	q := create(t, s.Address(), "rows", Options{})
	w := join(t, s.Address(), "rows")
	dir := t.TempDir()
	tasks := queuetest.Tasks(2)
	r, err := NewRemote(t.Context(), w, dir, *environment)
	if err != nil {
		t.Fatal(err)
	}
	if r.Has(tasks[0].ID()) {
		t.Error("has a row before there is one")
	}
	if err := r.Append(row(tasks[0], 1), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := q.Remove(t.Context()); err != nil { // the queue is lost
		t.Fatal(err)
	}
	q = create(t, s.Address(), "rows", Options{})
	w = join(t, s.Address(), "rows")
	other := *environment
	other.Digest = "other"
	if r, err = NewRemote(t.Context(), w, dir, other); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Has(tasks[1].ID()) {
		t.Error("has a row of a task that was never done")
	}
	if !r.Has(tasks[0].ID()) {
		t.Error("has forgotten its row")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	came := 0
	err = q.Collect(ctx, func(p Parcel) error {
		came++
		if p.Row.ID != tasks[0].ID() || p.Environment.Digest != environment.Digest {
			t.Errorf("row of %s under environment %q came", p.Row.ID, p.Environment.Digest)
		}
		cancel()
		return nil
	}, func(err error) { t.Error(err) })
	if err != nil || came != 1 {
		t.Errorf("%d rows came, %v", came, err)
	}
}

// Workers leave when the sweep is done, and when its queue is removed.
func TestEnd(t *testing.T) {
	s := start(t, ServerOptions{})
	q := create(t, s.Address(), "end", Options{})
	w := join(t, s.Address(), "end")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.Fetch(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Fetch of an empty queue = %v: more may come", err)
	}
	if err := q.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Fetch(t.Context()); !errors.Is(err, worker.ErrDrained) {
		t.Errorf("Fetch of a finished queue = %v", err)
	}
	if err := q.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Fetch(t.Context()); !errors.Is(err, worker.ErrClosed) || !errors.Is(w.Err(), ErrEnded) {
		t.Errorf("Fetch of a removed queue = %v, Err = %v", err, w.Err())
	}
}
