//go:build unix

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/sweep"
	"workbench/bench/sweep/queue/queuetest"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/model/testfile"
)

func itoa(n int) string { return strconv.Itoa(n) }

// memorySink keeps rows in memory.
type memorySink struct {
	mu    sync.Mutex
	rows  map[string]*sweep.Row
	count int
}

func (s *memorySink) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[id] != nil
}

func (s *memorySink) Append(r *sweep.Row, _ []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string]*sweep.Row{}
	}
	s.rows[r.ID] = r
	s.count++
	return nil
}

func (s *memorySink) Missing(tasks []sweep.Task) (list []sweep.Task) {
	for _, t := range tasks {
		if !s.Has(t.ID()) {
			list = append(list, t)
		}
	}
	return list
}

// rude is a queue that loses tasks, hands them out twice, forgets who has them
// and answers late.
type rude struct {
	*queuetest.Memory
	mu     sync.Mutex
	choose func(n int) int // from 0 to n−1
}

func (q *rude) roll(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.choose(n) == 0
}

func (q *rude) Add(ctx context.Context, tasks []sweep.Task) error {
	var some []sweep.Task
	for _, t := range tasks {
		if !q.roll(4) {
			some = append(some, t)
		}
	}
	if len(some) == 0 {
		some = tasks
	}
	return q.Memory.Add(ctx, some)
}

func (q *rude) Fetch(ctx context.Context) (worker.Delivery, error) {
	d, err := q.Memory.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	if q.roll(4) { // the same again, to somebody else
		_ = d.Ack()
		_ = q.Memory.Add(ctx, []sweep.Task{d.Task(), d.Task()})
	}
	return forgetful{d}, nil
}

// forgetful has a lease and is often not heard.
type forgetful struct{ worker.Delivery }

func (forgetful) Lease() time.Duration { return 3 * time.Millisecond }
func (forgetful) InProgress() error    { return errors.New("nobody listens") }

// Whatever the queue does, every task has a row in the end.
func TestRunWithRudeQueue(t *testing.T) {
	list := tasks(t, "answers", 30)
	testfile.Property(t, func(rt *rapid.T) {
		var choices []int
		for range 200 {
			choices = append(choices, rapid.IntRange(0, 11).Draw(rt, "choice"))
		}
		next := 0
		q := &rude{Memory: queuetest.NewMemory(0), choose: func(n int) int { next++; return choices[next%len(choices)] % n }}
		sink := &memorySink{}
		w := &worker.Worker{Sweep: "test", Jobs: rapid.IntRange(1, 4).Draw(rt, "jobs"), Sink: sink, Runner: func() worker.Runner {
			return &worker.InProcess{Instances: &worker.Folder{}, Solve: pretend}
		}}
		err := worker.Run(t.Context(), nil, w, q, sink, list)
		if err != nil || len(sink.rows) != len(list) {
			rt.Fatalf("%d rows of %d tasks: %v", len(sink.rows), len(list), err)
		}
	})
}

// A task whose workers died too often gets a row without being run.
func TestPoisoned(t *testing.T) {
	x := task(t, "panics", 0)
	q := queuetest.NewMemory(0)
	if err := q.Add(t.Context(), []sweep.Task{x}); err != nil {
		t.Fatal(err)
	}
	for range worker.MostAttempts { // taken by workers that die
		d, err := q.Fetch(t.Context())
		if err != nil || d.Nak() != nil {
			t.Fatal(err)
		}
	}
	sink := &memorySink{}
	w := &worker.Worker{Sweep: "test", Sink: sink, Runner: func() worker.Runner {
		return &worker.InProcess{Instances: &worker.Folder{}, Solve: pretend}
	}}
	if err := w.Work(t.Context(), nil, q); err != nil {
		t.Fatal(err)
	}
	if r := sink.rows[x.ID()]; r == nil || r.Failure == nil || r.Failure.Reason != sweep.Poisoned || r.Attempt != worker.MostAttempts+1 {
		t.Errorf("row %+v", r)
	}
}

func TestInProcess(t *testing.T) {
	list := []sweep.Task{task(t, "answers", 0), task(t, "panics", 0), task(t, "late", 0), task(t, "refuses", 0)}
	list[2].TimeLimit = 0.1
	want := []string{"feasible 100", sweep.Crashed, sweep.OutOfTime, sweep.BadInput}
	x := &worker.InProcess{Instances: &worker.Folder{}, Solve: pretend, Grace: 100 * time.Millisecond}
	for i := range list {
		r, _, err := x.Run(t.Context(), list[i])
		if err != nil || outcome(r) != want[i] {
			t.Errorf("%s: %v, %v, want %s", list[i].Method, outcome(r), err, want[i])
		}
	}
	time.Sleep(time.Second) // the late one was left behind
}

// Real methods give the same in a child and in this process, plans included.
func TestSolve(t *testing.T) {
	if err := backendThere(); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ problem, method, instance string }{
		{"remat", "persistent", "zoo:rnn?seq=8"},
		{"remat", "chain-milp", "zoo:rnn?seq=3"},
		{"join", "join-dp", "zoo:siamese?as=join&length=3"},
		{"pipeline", "madpipe", "zoo:resnet18?image=1000&batch=8"},
		{"weight-offload", "greedy", "zoo:table1-gpt2?depth=6&batch=16"},
	} {
		in, err := solve.Load(c.instance, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := catalog.FindProblem(c.problem)
		if err != nil {
			t.Fatal(err)
		}
		low, high := p.Range(in, solve.Setting{})
		x := sweep.Task{
			Problem: c.problem, Method: c.method, Instance: c.instance, SHA256: in.SHA256, Memory: math.Floor((low + high) / 2), MemoryName: "50%",
			TimeLimit: 20, TaskMemory: 2 << 30, Backend: "highs", Threads: 1,
		}
		if p.Bandwidth != "" {
			x.Bandwidth = 12e9
		}
		if p.Parallel {
			x.Processors, x.WeightCopies, x.MemoryModel = 2, 3, "task"
		}
		r, plan, err := (&worker.InProcess{Instances: &worker.Folder{}}).Run(t.Context(), x)
		if err != nil || r.Failure != nil || r.Result.Objective == nil || len(plan) == 0 || r.Plan == "" {
			t.Errorf("%s: %v, %+v, %+v, plan of %d bytes", c.method, err, r.Failure, r.Result, len(plan))
		}
	}
}

func backendThere() error {
	for _, b := range backends.All() {
		if err := b.Available(); err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
	}
	return nil
}

// One task in each mode: what the runner adds to a solve that takes no time, the
// row on the disk included; what the queue of bench run adds is in its benchmark.
func BenchmarkTask(b *testing.B) {
	for _, mode := range []string{"in-process", "isolated"} {
		b.Run(mode, func(b *testing.B) {
			list := tasks(b, "answers", b.N)
			dir := b.TempDir()
			s, err := store.Open(dir, "test")
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			w := &worker.Worker{
				Sweep: "test", Name: "local", Environment: "d01eef50ed30789ef007d189", Sink: s, Jobs: 1,
				Runner: func() worker.Runner {
					if mode == "isolated" {
						return &worker.Isolated{Instances: &worker.Folder{Dir: dir}}
					}
					return &worker.InProcess{Instances: &worker.Folder{Dir: dir}, Solve: pretend}
				},
			}
			b.ResetTimer()
			if err := worker.Run(b.Context(), nil, w, queuetest.NewMemory(0), s, list); err != nil {
				b.Fatal(err)
			}
		})
	}
}
