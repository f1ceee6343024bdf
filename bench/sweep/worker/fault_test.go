//go:build unix

package worker_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"workbench/bench/sweep"
	"workbench/bench/sweep/queue/queuetest"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/model/testfile"
)

// Whatever a child does, its task has one row that says so, and the others are
// not disturbed.
func TestDeathsOfChildren(t *testing.T) {
	t.Setenv("WORKBENCH_TEST_MARKS", t.TempDir())
	const short = 0.3 // seconds
	cases := []struct {
		method  string
		limit   float64
		memory  int64
		reason  string // empty: a result
		detail  string
		attempt int
	}{
		{method: "answers", attempt: 1},
		{method: "prints", attempt: 1},
		{method: "refuses", reason: sweep.BadInput, detail: "no such method", attempt: 1},
		{method: "hangs", limit: short, reason: sweep.OutOfTime, detail: "no answer within", attempt: 1},
		{method: "spins", limit: short, reason: sweep.OutOfTime, detail: "time limit is 0.3 s", attempt: 1},
		{method: "late", limit: short, reason: sweep.OutOfTime, detail: "killed", attempt: 1},
		{method: "exits", reason: sweep.Crashed, detail: "exit status 3: terminate called", attempt: 1},
		{method: "leaves", reason: sweep.BadAnswer, detail: "without an answer", attempt: 1},
		{method: "panics", reason: sweep.Crashed, detail: "a bug in the method", attempt: 1},
		{method: "segv", reason: sweep.Crashed, detail: "SIGSEGV", attempt: 1},
		{method: "eats", memory: 200 << 20, reason: sweep.OutOfMemory, detail: "limit is 200 MiB", attempt: 1},
		{method: "babbles", reason: sweep.BadAnswer, detail: "invalid character", attempt: 1},
		{method: "stray", reason: sweep.Crashed, detail: "terminated", attempt: worker.MostAttempts},
		{method: "killed once", attempt: 2},
		{method: "always killed", reason: sweep.Crashed, detail: "and so 3 times", attempt: worker.MostAttempts},
	}
	var list []sweep.Task
	for _, c := range cases {
		x := task(t, c.method, 0)
		if c.limit > 0 {
			x.TimeLimit = c.limit
		}
		if c.memory > 0 {
			x.TaskMemory = c.memory
		}
		list = append(list, x)
	}
	missing := task(t, "answers", 1)
	missing.SHA256 = strings.Repeat("0", 64)
	list = append(list, missing)
	dir := begin(t, list)
	if err := runSweep(t.Context(), dir, func(w *worker.Worker) { w.Jobs = 4 }); err != nil {
		t.Fatal(err)
	}
	outcomes(t, dir)
	c, err := store.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]*sweep.Row{}
	for _, r := range c.Rows {
		rows[r.ID] = r
	}
	for i, x := range cases {
		r := rows[list[i].ID()]
		switch {
		case r == nil:
			t.Errorf("%s: no row", x.method)
		case r.Attempt != x.attempt:
			t.Errorf("%s: attempt %d, want %d", x.method, r.Attempt, x.attempt)
		case x.reason == "":
			if r.Failure != nil || r.Result == nil || *r.Result.Objective != 100 || r.PeakRSS == 0 {
				t.Errorf("%s: %+v, %+v, peak %d", x.method, r.Failure, r.Result, r.PeakRSS)
			}
		case r.Failure == nil || r.Failure.Reason != x.reason || !strings.Contains(r.Failure.Detail, x.detail):
			t.Errorf("%s: failure %+v, want %s: … %s …", x.method, r.Failure, x.reason, x.detail)
		}
	}
	if r := rows[missing.ID()]; r.Failure == nil || r.Failure.Reason != sweep.BadInput || !strings.Contains(r.Failure.Detail, "changed") {
		t.Errorf("an instance that is another: %+v", r.Failure)
	}
}

// A runner that is killed with SIGKILL at any moment loses nothing and counts
// nothing twice, and its children do not outlive it for long.
func TestRunnerKilled(t *testing.T) {
	list := tasks(t, "sleeps", max(24, testfile.Cases(60)))
	undisturbed := begin(t, list)
	if err := runSweep(t.Context(), undisturbed, nil); err != nil {
		t.Fatal(err)
	}
	want := outcomes(t, undisturbed)

	dir := begin(t, list)
	random := rand.New(rand.NewPCG(1, 2))
	kills := 0
	for round := range 100 {
		rows, runner := countRows(t, dir), startRunner(t, dir)
		ended := make(chan error, 1)
		go func() { ended <- runner.Wait() }()
		// Some are killed at once, when at most two tasks have begun that were not
		// before, the others when they have done something: a task that is killed again
		// and again is given up.
		for round >= 5 && len(ended) == 0 && countRows(t, dir) == rows {
			time.Sleep(time.Millisecond)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(100))*time.Millisecond, func() { _ = runner.Process.Kill() })
		err := <-ended
		timer.Stop()
		if err == nil {
			break
		}
		if !killed(err) {
			t.Fatalf("%v: %s", err, runner.Stderr)
		}
		kills++
	}
	if kills < 2 { // the tasks sleep for longer than the first two runs last
		t.Errorf("killed %d times only", kills)
	}
	if got := outcomes(t, dir); !maps.Equal(got, want) {
		t.Errorf("after %d kills\n%v\nundisturbed\n%v", kills, got, want)
	}
	t.Logf("killed %d times", kills)
}

// startRunner starts a process that does what is left of a sweep.
func startRunner(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WORKBENCH_TEST_SWEEP="+dir)
	cmd.Stderr = &strings.Builder{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func countRows(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "rows.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// A task that kills its runner, as one does that takes all memory of the machine,
// is given up after some runs: the others are done before, and those that ran
// beside it are not blamed.
func TestTaskKillsRunner(t *testing.T) {
	list := append(tasks(t, "kills its runner", 1), tasks(t, "takes long", 1)...)
	list = append(list, tasks(t, "sleeps", 8)...)
	dir := begin(t, list)
	for runs := 1; ; runs++ {
		runner := startRunner(t, dir)
		err := runner.Wait()
		if err == nil {
			if runs != worker.MostAttempts+1 {
				t.Errorf("the task has killed %d runners, want %d", runs-1, worker.MostAttempts)
			}
			break
		}
		if !killed(err) || runs > worker.MostAttempts {
			t.Fatalf("run %d: %v: %s", runs, err, runner.Stderr)
		}
		if n := countRows(t, dir); runs > 1 && n < len(list)-2 {
			t.Errorf("run %d ends with %d rows, want those of all tasks but the two that ran when the first died", runs, n)
		}
	}
	for id, got := range outcomes(t, dir) {
		switch guilty := id == list[0].ID(); {
		case guilty && got != sweep.Poisoned, !guilty && !strings.HasPrefix(got, "feasible"):
			t.Errorf("task %s: %s", id, got)
		}
	}
}

func killed(err error) bool {
	var e *exec.ExitError
	return errors.As(err, &e) && e.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// A child that is killed while it solves is tried again: the results are those
// of an undisturbed run.
func TestChildrenKilled(t *testing.T) {
	list := tasks(t, "killed once", 12)
	t.Setenv("WORKBENCH_TEST_MARKS", t.TempDir())
	dir := begin(t, list)
	if err := runSweep(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	for id, got := range outcomes(t, dir) {
		if !strings.HasPrefix(got, "feasible") {
			t.Errorf("task %s: %s", id, got)
		}
	}
}

// A child whose runner is gone exits by itself.
func TestOrphans(t *testing.T) {
	dir := begin(t, []sweep.Task{task(t, "hangs", 1)})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WORKBENCH_TEST_SWEEP="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := ""
	eventually(t, "no child", func() bool {
		threads, err := filepath.Glob("/proc/" + itoa(cmd.Process.Pid) + "/task/*/children")
		if err != nil || len(threads) == 0 {
			t.Skip("this system does not tell the children of a process")
		}
		for _, name := range threads {
			if children, err := os.ReadFile(name); err == nil {
				child += strings.TrimSpace(string(children))
			}
		}
		return child != ""
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the child lives on", func() bool {
		state, err := os.ReadFile("/proc/" + child + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	})
}

func eventually(t *testing.T, otherwise string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

// A full disk ends the run with an error and leaves a store without a scratch;
// with room again it goes on to the same results.
func TestDiskFull(t *testing.T) {
	dir := testfile.SmallDisk(t, "256k")
	list := tasks(t, "answers", 60)
	folder := filepath.Join(dir, "sweep")
	if err := store.WriteTasks(folder, &store.Sweep{Name: "test", Tasks: list}); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	fillUp(t, ballast, 3*4096)
	err := runSweep(t.Context(), folder, quickly)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the run ends with %v", err)
	}
	c, err := store.Read(folder)
	if err != nil || len(c.Damaged) != 0 || len(c.Torn) != 0 || len(c.Rows) == 0 || len(c.Rows) >= len(list) {
		t.Fatalf("%d rows, damaged %v, torn %v, %v", len(c.Rows), c.Damaged, c.Torn, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := runSweep(t.Context(), folder, quickly); err != nil {
		t.Fatal(err)
	}
	for id, got := range outcomes(t, folder) {
		if !strings.HasPrefix(got, "feasible") {
			t.Errorf("task %s: %s", id, got)
		}
	}
}

// quickly runs the tasks without children.
func quickly(w *worker.Worker) {
	dir := w.Sink.(*store.Store).Dir()
	w.Runner = func() worker.Runner {
		return &worker.InProcess{Instances: &worker.Folder{Dir: dir}, Solve: pretend}
	}
}

// fillUp writes a file that leaves so many bytes of its file system.
func fillUp(t *testing.T, name string, left int64) {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(name), &s); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, make([]byte, int64(s.Bavail)*s.Bsize-left), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What a kill leaves of a store, and what else may happen to it: a torn last
// line, a damaged line in the middle. Both are done again.
func TestCorruptStore(t *testing.T) {
	list := tasks(t, "answers", 20)
	dir := begin(t, list)
	if err := runSweep(t.Context(), dir, quickly); err != nil {
		t.Fatal(err)
	}
	want := outcomes(t, dir)
	name := filepath.Join(dir, "rows.jsonl")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	lines[4] = strings.Replace(lines[4], `"objective":10`, `"objective":20`, 1)
	last := len(lines) - 2
	lines[last] = lines[last][:len(lines[last])/2]
	if err := os.WriteFile(name, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := store.Read(dir)
	if err != nil || len(c.Damaged) != 1 || c.Damaged[0].Line != 5 || len(c.Torn) != 1 || len(c.Rows) != 18 {
		t.Fatalf("%d rows, damaged %v, torn %v, %v", len(c.Rows), c.Damaged, c.Torn, err)
	}
	if err := runSweep(t.Context(), dir, quickly); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(t, dir); !maps.Equal(got, want) {
		t.Errorf("%v\nundisturbed\n%v", got, want)
	}
	aside, err := os.ReadFile(filepath.Join(dir, "damaged.txt"))
	if err != nil || !strings.Contains(string(aside), "rows.jsonl:5:") || !strings.Contains(string(aside), `"objective":20`) {
		t.Errorf("kept aside: %q, %v", aside, err)
	}
}

// starting says when its runner begins with a task.
type starting struct {
	worker.Runner
	started chan<- struct{}
}

func (s starting) Run(ctx context.Context, t sweep.Task) (*sweep.Row, []byte, error) {
	s.started <- struct{}{}
	return s.Runner.Run(ctx, t)
}

// A stop finishes what runs; the end of the context kills it and stores nothing
// of it.
func TestStopAndKill(t *testing.T) {
	for _, hard := range []bool{false, true} {
		name, method := "stop", "sleeps"
		if hard {
			name, method = "kill", "hangs"
		}
		t.Run(name, func(t *testing.T) {
			list := tasks(t, method, 6)
			dir := begin(t, list)
			s, err := store.Open(dir, "test")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			stop := make(chan struct{})
			started := make(chan struct{}, len(list))
			w := &worker.Worker{
				Sweep: "test", Name: "local", Jobs: 2, Sink: s,
				Runner: func() worker.Runner {
					return starting{&worker.Isolated{Instances: &worker.Folder{Dir: dir}}, started}
				},
			}
			go func() {
				<-started
				<-started
				if hard {
					kill()
				} else {
					close(stop)
				}
			}()
			err = worker.Run(ctx, stop, w, queuetest.NewMemory(0), s, list)
			left := len(s.Missing(list))
			switch {
			case hard && (!errors.Is(err, context.Canceled) || left != len(list)):
				t.Errorf("%v, %d tasks left", err, left)
			case !hard && (!errors.Is(err, worker.ErrStopped) || left > len(list)-2 || left == 0):
				t.Errorf("%v, %d tasks left", err, left)
			}
		})
	}
}
