package queue

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"workbench/bench"
	"workbench/bench/queue/queuetest"
	"workbench/bench/store"
	"workbench/bench/sweep"
	"workbench/bench/worker"
)

// The test binary also stands in for coordinators and workers, which can be
// killed then. roleVariable says for which.
const roleVariable = "WORKBENCH_TEST_ROLE"

func childOrContinue() bool {
	var err error
	switch os.Getenv(roleVariable) {
	case "":
		return false
	case "coordinator":
		err = childCoordinator()
	case "worker":
		err = childWorker()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Getenv(roleVariable), err)
		os.Exit(1)
	}
	return true
}

func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		panic(err)
	}
	return n
}

// childCoordinator is bench serve without a command line, on a server of its own
// or on that of URL.
func childCoordinator() error {
	ctx, dir := context.Background(), os.Getenv("DIR")
	st, err := store.Open(dir, "soak")
	if err != nil {
		return err
	}
	to := Address{URL: os.Getenv("URL")}
	var s *Server
	if listen := os.Getenv("LISTEN"); listen != "" {
		if s, err = Start(ServerOptions{Dir: filepath.Join(dir, "queue"), Listen: listen}); err != nil {
			return err
		}
		defer s.Stop()
		to = s.Address()
	}
	q, err := Create(ctx, to, Identity{Sweep: "soak", Folder: "soak"}, Options{Lease: time.Second})
	if err != nil {
		return err
	}
	defer q.Close()
	c := &Coordinator{Queue: q, Store: st, Tasks: queuetest.Tasks(number("TASKS"))}
	begun := time.Now()
	if err := c.Run(ctx); err != nil {
		return err
	}
	fmt.Println(time.Since(begun).Seconds())
	if s == nil {
		time.Sleep(2 * longestWait)
		return q.Remove(ctx)
	}
	wait, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s.WaitForClients(wait)
	return nil
}

// childWorker is bench work without a command line.
func childWorker() error {
	ctx := context.Background()
	q, err := Join(ctx, Address{URL: os.Getenv("URL")}, "soak", "", Options{Patience: 10 * time.Second})
	if err != nil {
		return err
	}
	defer q.Close()
	r, err := NewRemote(ctx, q, os.Getenv("DIR"), sweep.Environment{Format: sweep.EnvironmentFormat, Digest: "test"})
	if err != nil {
		return err
	}
	w := &worker.Worker{
		Sweep: "soak", Name: os.Getenv("DIR"), Environment: "test", Sink: r,
		Runner: func() worker.Runner { return tiny(time.Duration(number("MICROSECONDS")) * time.Microsecond) },
	}
	return w.Work(ctx, nil, q)
}

// tiny is a runner whose tasks take that long, and no processor.
type tiny time.Duration

func (x tiny) Run(_ context.Context, t sweep.Task) (*sweep.Row, []byte, error) {
	row := &sweep.Row{Format: sweep.RowFormat, ID: t.ID(), Task: t, Started: time.Now()}
	time.Sleep(time.Duration(x))
	row.Finished = time.Now()
	row.Result = &bench.Result{Status: bench.Feasible}
	return row, nil, nil
}

// process is a child that may be killed.
type process struct {
	cmd   *exec.Cmd
	ended chan error
}

func spawn(t *testing.T, out io.Writer, env ...string) *process {
	t.Helper()
	p := &process{exec.Command(os.Args[0]), make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, os.Stderr
	if testing.Verbose() {
		p.cmd.Stderr = os.Stderr
	} else {
		p.cmd.Stderr = nil
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p
}

// kill kills the process as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.ended <- <-p.ended
}

func (p *process) over() bool {
	select {
	case err := <-p.ended:
		p.ended <- err
		return true
	default:
		return false
	}
}

// freePort returns an address of this machine that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Workers and the coordinator, with the server in it, are killed at random
// moments and started again. Every task has one row in the end.
// WORKBENCH_SOAK=5000 makes it as long as it takes.
func TestSoak(t *testing.T) {
	tasks := 400
	if text := os.Getenv("WORKBENCH_SOAK"); text != "" {
		tasks, _ = strconv.Atoi(text)
	}
	const workers = 4
	dir, listen := t.TempDir(), freePort(t)
	rng := rand.New(rand.NewPCG(1, 2))
	workerDir := func(i int) string { return filepath.Join(dir, fmt.Sprint("worker", i)) }
	startCoordinator := func() *process {
		return spawn(t, io.Discard, roleVariable+"=coordinator", "DIR="+filepath.Join(dir, "sweep"), "LISTEN="+listen, fmt.Sprint("TASKS=", tasks))
	}
	startWorker := func(i int) *process {
		return spawn(t, io.Discard, roleVariable+"=worker", "DIR="+workerDir(i), "URL=nats://"+listen, fmt.Sprint("MICROSECONDS=", 500+rng.IntN(1000)))
	}
	begun := time.Now()
	coordinator := startCoordinator()
	var running [workers]*process
	for i := range running {
		running[i] = startWorker(i)
	}
	killed, runnersKilled := 0, 0
	nextRunner := time.Now().Add(time.Second)
	for {
		time.Sleep(time.Duration(20+rng.IntN(80)) * time.Millisecond)
		if coordinator.over() {
			if err := <-coordinator.ended; err == nil {
				break
			}
			coordinator = startCoordinator() // it was killed between two steps
		}
		if time.Now().After(nextRunner) {
			coordinator.kill()
			coordinator = startCoordinator()
			runnersKilled++
			nextRunner = time.Now().Add(time.Second + time.Duration(rng.IntN(2000))*time.Millisecond)
		}
		i := rng.IntN(workers)
		if rng.IntN(3) == 0 && !running[i].over() {
			running[i].kill()
			killed++
		}
		for i, p := range running {
			if p.over() {
				running[i] = startWorker(i)
			}
		}
		if time.Since(begun) > 2*time.Minute {
			coordinator.kill()
			t.Error("no end")
			break
		}
	}
	for _, p := range running {
		p.kill()
	}
	took := time.Since(begun)
	c, err := store.Read(filepath.Join(dir, "sweep"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{}
	for _, task := range queuetest.Tasks(tasks) {
		wanted[task.ID()] = true
	}
	again, failed := 0, 0
	for _, r := range c.Rows {
		if !wanted[r.ID] {
			t.Errorf("row of task %s, which is none or has one already", r.ID)
		}
		delete(wanted, r.ID)
		if r.Attempt > 1 {
			again++
		}
		if r.Failure != nil {
			failed++
		}
	}
	done := 0
	for i := range workers {
		if own, err := store.Read(workerDir(i)); err == nil {
			done += len(own.Rows)
		}
	}
	t.Logf("%d tasks in %v: %d workers and %d runners with their server killed, %d rows of a second attempt, %d rows in the stores of workers", tasks, took.Round(time.Millisecond), killed, runnersKilled, again, done)
	if len(wanted) > 0 || c.Repeated > 0 || len(c.Damaged) > 0 || failed > 0 {
		t.Errorf("%d tasks lost, %d rows twice, %d damaged, %d failed", len(wanted), c.Repeated, len(c.Damaged), failed)
	}
}
