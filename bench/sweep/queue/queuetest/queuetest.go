package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"workbench/bench/sweep"
	"workbench/bench/sweep/worker"
)

// Tasks returns n tasks that differ in their seeds.
func Tasks(n int) []sweep.Task {
	tasks := make([]sweep.Task, n)
	for i := range tasks {
		tasks[i] = sweep.Task{
			Format: sweep.TaskFormat, Problem: "remat", Method: "store-all", Instance: "zoo:vgg16", SHA256: "00", Memory: 1e9,
			Seed: i,
		}
	}
	return tasks
}

// Case is one thing that queues have to do.
type Case struct {
	Name  string
	Lease time.Duration // that the queue has to have; 0: a long one
	run   func(*suite, *testing.T)
}

// Run puts an empty queue with the lease of the case to the test.
func (c Case) Run(t *testing.T, q worker.Queue) { c.run(&suite{q, c.Lease}, t) }

// Cases returns all that queues have to do. lease is that of queues whose
// workers die: real time passes unless the test has time of its own.
func Cases(lease time.Duration) []Case {
	return []Case{
		{"each once, in order", 0, (*suite).testOrder},
		{"nothing", 0, (*suite).testEmpty},
		{"never ahead", 0, (*suite).testNeverAhead},
		{"blocks while somebody works", 0, (*suite).testBlocks},
		{"added twice", 0, (*suite).testAddedTwice},
		{"added while waiting", 0, (*suite).testAddedWhileWaiting},
		{"given back", 0, (*suite).testGivenBack},
		{"worker stops", 0, (*suite).testStopped},
		{"acknowledged twice", 0, (*suite).testDuplicateAck},
		{"cancelled", 0, (*suite).testCancelled},
		{"worker dies", lease, (*suite).testWorkerDies},
		{"slow task", 4 * lease, (*suite).testSlowTask}, // a busy machine is late for it, too,
		{"late acknowledgement", lease, (*suite).testLateAck},
		{"late, before it is handed out again", lease, (*suite).testLateAckOfWaiting},
		{"late, given back", lease, (*suite).testLateNak},
		{"poison", lease, (*suite).testPoison},
		{"many workers", lease, (*suite).testManyWorkers},
	}
}

type suite struct {
	q     worker.Queue
	lease time.Duration
}

// soon is when what should happen has happened.
const soon = 24 * time.Hour

func (s *suite) fetch(t *testing.T) worker.Delivery {
	t.Helper()
	d, err := s.q.Fetch(t.Context())
	if err != nil {
		t.Fatalf("Fetch: %v", err)
	}
	return d
}

func (s *suite) drained(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	d, err := s.q.Fetch(ctx)
	if !errors.Is(err, worker.ErrDrained) {
		t.Fatalf("Fetch = %v, %v; want %v", d, err, worker.ErrDrained)
	}
}

// none checks that nothing is handed out for that long.
func (s *suite) none(t *testing.T, long time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	d, err := s.q.Fetch(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Fetch = %v, %v; want %v", d, err, context.DeadlineExceeded)
	}
}

func (s *suite) add(t *testing.T, tasks ...sweep.Task) {
	t.Helper()
	ok(t, s.q.Add(context.Background(), tasks))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, d worker.Delivery, want sweep.Task, attempt int) {
	t.Helper()
	if d.Task() != want || d.Attempt() != attempt {
		t.Fatalf("got task %d for the %d. time, want %d for the %d.", d.Task().Seed, d.Attempt(), want.Seed, attempt)
	}
}

// do fetches the tasks in their order, each for the first time, and acknowledges them.
func (s *suite) do(t *testing.T, tasks ...sweep.Task) {
	t.Helper()
	for _, want := range tasks {
		d := s.fetch(t)
		is(t, d, want, 1)
		ok(t, d.Ack())
	}
}

func (s *suite) testOrder(t *testing.T) {
	tasks := Tasks(25)
	s.add(t, tasks...)
	for _, want := range tasks {
		d := s.fetch(t)
		is(t, d, want, 1)
		ok(t, d.InProgress())
		ok(t, d.Ack())
	}
	s.drained(t)
	s.drained(t)
}

func (s *suite) testEmpty(t *testing.T) {
	s.drained(t)
	s.add(t)
	s.drained(t)
}

func (s *suite) testNeverAhead(t *testing.T) {
	tasks := Tasks(20)
	s.add(t, tasks...)
	first := s.fetch(t)
	s.do(t, tasks[1:]...)
	ok(t, first.Ack())
	s.drained(t)
}

func (s *suite) testBlocks(t *testing.T) {
	s.add(t, Tasks(1)...)
	d := s.fetch(t)
	s.none(t, 100*time.Millisecond)
	done := make(chan error, 1)
	go func() {
		_, err := s.q.Fetch(context.Background())
		done <- err
	}()
	ok(t, d.Ack())
	select {
	case err := <-done:
		if !errors.Is(err, worker.ErrDrained) {
			t.Errorf("got %v, want %v", err, worker.ErrDrained)
		}
	case <-time.After(soon):
		t.Error("Fetch does not see that all is done")
	}
}

func (s *suite) testAddedTwice(t *testing.T) {
	tasks := Tasks(3)
	s.add(t, tasks...)
	s.add(t, tasks...)
	held := s.fetch(t)
	s.add(t, tasks...)
	s.do(t, tasks[1:]...)
	ok(t, held.Ack())
	s.drained(t)
	// Who adds what was done means it: its row was lost.
	s.add(t, tasks[1])
	s.do(t, tasks[1])
	s.drained(t)
}

func (s *suite) testAddedWhileWaiting(t *testing.T) {
	tasks := Tasks(2)
	s.add(t, tasks[0])
	first := s.fetch(t)
	got := make(chan worker.Delivery)
	go func() {
		d, err := s.q.Fetch(context.Background())
		if err != nil {
			t.Error(err)
		}
		got <- d
	}()
	s.add(t, tasks[1])
	select {
	case d := <-got:
		is(t, d, tasks[1], 1)
		ok(t, d.Ack())
	case <-time.After(soon):
		t.Fatal("Fetch does not see what was added")
	}
	ok(t, first.Ack())
	s.drained(t)
}

func (s *suite) testGivenBack(t *testing.T) {
	tasks := Tasks(1)
	s.add(t, tasks...)
	for attempt := 1; attempt <= 5; attempt++ {
		d := s.fetch(t)
		is(t, d, tasks[0], attempt)
		ok(t, d.Nak())
		ok(t, d.Nak())
		ok(t, d.Ack())
	}
	d := s.fetch(t)
	is(t, d, tasks[0], 6)
	ok(t, d.Ack())
	ok(t, d.Nak())
	s.drained(t)
}

// What a worker gives back because it is asked to stop says nothing about the
// task, and is no attempt.
func (s *suite) testStopped(t *testing.T) {
	tasks := Tasks(2)
	s.add(t, tasks...)
	for range 4 {
		for _, want := range tasks {
			ctx, stop := context.WithCancel(t.Context())
			d, err := s.q.Fetch(ctx)
			ok(t, err)
			is(t, d, want, 1)
			stop()
			ok(t, d.Nak())
			ok(t, d.Ack())
		}
	}
	s.do(t, tasks...)
	s.drained(t)
}

func (s *suite) testDuplicateAck(t *testing.T) {
	tasks := Tasks(2)
	s.add(t, tasks...)
	d := s.fetch(t)
	for range 3 {
		ok(t, d.Ack())
	}
	ok(t, d.InProgress())
	s.do(t, tasks[1])
	s.drained(t)
}

func (s *suite) testCancelled(t *testing.T) {
	s.add(t, Tasks(1)...)
	d := s.fetch(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := s.q.Fetch(ctx)
		done <- err
	}()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	case <-time.After(soon):
		t.Error("Fetch does not end with its context")
	}
	ok(t, d.Ack())
	s.drained(t)
}

func (s *suite) testWorkerDies(t *testing.T) {
	tasks := Tasks(1)
	s.add(t, tasks...)
	first := s.fetch(t)
	if first.Lease() != s.lease {
		t.Errorf("lease %v, want %v", first.Lease(), s.lease)
	}
	start := time.Now()
	second := s.fetch(t)
	is(t, second, tasks[0], 2)
	if waited := time.Since(start); waited < s.lease/2 {
		t.Errorf("handed out again after %v of a lease of %v", waited, s.lease)
	}
	ok(t, second.Ack())
	s.drained(t)
}

func (s *suite) testSlowTask(t *testing.T) {
	tasks := Tasks(1)
	s.add(t, tasks...)
	d := s.fetch(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(s.lease / 10):
				if err := d.InProgress(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	func() {
		defer wg.Wait() // whatever comes of it
		defer close(stop)
		s.none(t, 2*s.lease)
	}()
	ok(t, d.Ack())
	s.drained(t)
}

func (s *suite) testLateAck(t *testing.T) {
	tasks := Tasks(2)
	s.add(t, tasks[0])
	dead := s.fetch(t)
	alive := s.fetch(t)
	is(t, alive, tasks[0], 2)
	ok(t, dead.Ack())
	ok(t, dead.InProgress())
	ok(t, alive.InProgress())
	ok(t, alive.Ack())
	s.drained(t)
	s.add(t, tasks[1])
	is(t, s.fetch(t), tasks[1], 1)
}

func (s *suite) testLateAckOfWaiting(t *testing.T) {
	s.add(t, Tasks(1)...)
	dead := s.fetch(t)
	time.Sleep(3 * s.lease)
	ok(t, dead.Ack())
	s.drained(t)
}

// A worker thought dead gives back a task that another has: it may be done
// twice, but it is done.
func (s *suite) testLateNak(t *testing.T) {
	tasks := Tasks(1)
	s.add(t, tasks[0])
	dead := s.fetch(t)
	alive := s.fetch(t)
	ok(t, dead.Nak())
	ok(t, alive.Ack())
	for {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		d, err := s.q.Fetch(ctx)
		cancel()
		if errors.Is(err, worker.ErrDrained) {
			return
		}
		ok(t, err)
		ok(t, d.Ack())
	}
}

// A task that kills all its workers is handed out until somebody gives up on it.
func (s *suite) testPoison(t *testing.T) {
	tasks := Tasks(2)
	s.add(t, tasks...)
	for attempt := 1; attempt <= worker.MostAttempts+2; attempt++ {
		for {
			d := s.fetch(t)
			if d.Task() != tasks[0] {
				ok(t, d.Ack())
				continue
			}
			is(t, d, tasks[0], attempt)
			if attempt > worker.MostAttempts {
				ok(t, d.Ack())
				s.drained(t)
				return
			}
			break
		}
	}
	t.Error("attempts are not counted")
}

// Workers that die, give back, are slow, late and doubled do all tasks.
func (s *suite) testManyWorkers(t *testing.T) {
	tasks := Tasks(60)
	s.add(t, tasks...)
	var mu sync.Mutex
	var done []int
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for {
				d, err := s.q.Fetch(t.Context())
				if errors.Is(err, worker.ErrDrained) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				switch seed := d.Task().Seed; {
				case seed%7 == 1 && d.Attempt() == 1:
					continue // dies
				case seed%7 == 2 && d.Attempt() == 1:
					time.Sleep(2 * s.lease) // is late
				}
				mu.Lock()
				done = append(done, d.Task().Seed)
				mu.Unlock()
				if err := d.Ack(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(done)
	if unique := slices.Compact(slices.Clone(done)); len(unique) != len(tasks) {
		t.Errorf("%d of %d tasks were done: %v", len(unique), len(tasks), fmt.Sprint(done))
	}
}
