//go:build unix

package worker_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/queue/queuetest"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
)

// The test binary is its own child, and its own runner of a sweep, to be killed.
func TestMain(m *testing.M) {
	worker.ServeChild(pretend)
	if dir := os.Getenv("WORKBENCH_TEST_SWEEP"); dir != "" {
		if err := runSweep(context.Background(), dir, nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// pretend is a solve that does what the method's name says.
func pretend(ctx context.Context, in *solve.Instance, t sweep.Task) (*solve.Result, error) {
	switch t.Method {
	case "answers", "real":
	case "refuses":
		return nil, fmt.Errorf("no such method")
	case "sleeps":
		time.Sleep(time.Duration(5+t.Seed%16) * time.Millisecond)
	case "polite":
		<-ctx.Done()
	case "hangs":
		select {}
	case "late": // ignores its deadline, but not for ever
		time.Sleep(time.Second)
	case "spins":
		for n := 0; ; n++ {
			if n < 0 {
				return nil, nil
			}
		}
	case "exits":
		fmt.Fprintln(os.Stderr, "terminate called after throwing an instance of 'int'")
		os.Exit(3)
	case "leaves": // ends well without an answer
		os.Exit(0)
	case "panics":
		panic("a bug in the method")
	case "segv":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		select {}
	case "eats":
		for eaten := [][]byte{}; ; {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			if eaten = append(eaten, b); len(eaten) == 1<<12 {
				panic("4 GiB eaten, nobody minded")
			}
		}
	case "always killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "killed once":
		name := filepath.Join(os.Getenv("WORKBENCH_TEST_MARKS"), t.ID())
		if f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o644); err == nil {
			f.Close()
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	case "prints":
		fmt.Println("a banner on standard output")
	case "babbles": // a frame that is no row
		f := os.NewFile(3, "answers")
		_, _ = f.Write(binary.LittleEndian.AppendUint64(nil, 5))
		_, _ = f.WriteString("hello")
		_, _ = f.Write(binary.LittleEndian.AppendUint64(nil, 0))
		select {}
	case "kills its runner":
		_ = syscall.Kill(os.Getppid(), syscall.SIGKILL)
		select {}
	case "takes long":
		time.Sleep(time.Second)
	case "stray": // kills the process group of its parent's other children: its own only
		_ = syscall.Kill(0, syscall.SIGTERM)
		select {}
	}
	objective := float64(100 + t.Seed)
	return &solve.Result{
		Format: solve.ResultFormat, Problem: t.Problem, Method: t.Method, Kind: solve.Heuristic, Instance: in.Ref(),
		Status: solve.Feasible, Objective: &objective, Makespan: &objective, Seed: t.Seed, WallTime: 0.001,
		Bound: &solve.Bound{Value: 50, By: "the sum of the computations", Assumptions: []string{}},
	}, nil
}

// tiny is an instance that takes no time.
const tiny = "zoo:rnn?seq=2&hidden=8&inputs=8&batch=1"

func instance(t testing.TB) *solve.Instance {
	t.Helper()
	in, err := solve.Load(tiny, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// task returns a task of the pretended method.
func task(t testing.TB, method string, seed int) sweep.Task {
	return sweep.Task{
		Format: sweep.TaskFormat, Problem: "remat", Method: method, Instance: tiny, SHA256: instance(t).SHA256,
		Memory: 1e6, MemoryName: "1e6", TimeLimit: 60, Seed: seed, TaskMemory: 1 << 30, Version: "test",
	}
}

func tasks(t testing.TB, method string, n int) (list []sweep.Task) {
	one := task(t, method, 0)
	for i := range n {
		one.Seed = i
		list = append(list, one)
	}
	return list
}

// begin makes the folder of a sweep.
func begin(t testing.TB, list []sweep.Task) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "sweep")
	if err := store.WriteTasks(dir, &store.Sweep{Name: "test", Tasks: list}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runSweep does what is left of the sweep in dir.
func runSweep(ctx context.Context, dir string, change func(*worker.Worker)) error {
	list, err := store.ReadTasks(dir)
	if err != nil {
		return err
	}
	s, err := store.Open(dir, list.Name)
	if err != nil {
		return err
	}
	defer s.Close()
	attempts, err := store.OpenAttempts(s, s.Missing(list.Tasks))
	if err != nil {
		return err
	}
	defer func() { _ = attempts.Close(nil) }()
	w := &worker.Worker{
		Attempts: attempts,
		Sweep:    list.Name, Name: "local", Environment: "here", Jobs: 2, Sink: s,
		Runner: func() worker.Runner {
			return &worker.Isolated{Instances: &worker.Folder{Dir: dir}, Grace: 300 * time.Millisecond}
		},
	}
	if change != nil {
		change(w)
	}
	return worker.Run(ctx, make(chan struct{}), w, queuetest.NewMemory(0), s, list.Tasks)
}

// outcome is what must not depend on what happened to a sweep.
func outcome(r *sweep.Row) string {
	if r.Failure != nil {
		return r.Failure.Reason
	}
	return fmt.Sprintf("%s %v", r.Result.Status, *r.Result.Objective)
}

// outcomes checks that every task has one row and returns them by task.
func outcomes(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := store.ReadTasks(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.Repeated != 0 || len(c.Damaged) != 0 || len(c.Torn) != 0 || len(c.Rows) != len(list.Tasks) {
		t.Errorf("%d rows of %d tasks, %d repeated, damaged %v, torn %v", len(c.Rows), len(list.Tasks), c.Repeated, c.Damaged, c.Torn)
	}
	all := map[string]string{}
	for _, r := range c.Rows {
		all[r.ID] = outcome(r)
	}
	for i := range list.Tasks {
		if all[list.Tasks[i].ID()] == "" {
			t.Errorf("task %s (seed %d) has no row", list.Tasks[i].ID(), list.Tasks[i].Seed)
		}
	}
	return all
}
