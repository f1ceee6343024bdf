package queue

import (
	"bytes"
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

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/queue/queuetest"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/model/testfile"
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
	row.Result = &solve.Result{Status: solve.Feasible}
	return row, nil, nil
}

// process is a child that may be killed.
type process struct {
	cmd   *exec.Cmd
	ended chan error
}

func spawn(t testing.TB, out io.Writer, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout = out
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	return begin(t, cmd)
}

func begin(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd, make(chan error, 1)}
	if err := cmd.Start(); err != nil {
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
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// natsServer builds the server of NATS as a program of its own.
func natsServer(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "nats-server")
	if out, err := exec.Command("go", "build", "-o", name, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return name
}

// soak is a sweep whose processes are killed.
type soak struct {
	t      testing.TB
	dir    string
	listen string
	nats   string // program of a server outside the coordinator; "": it is within
	tasks  int
	rng    *rand.Rand
	says   bytes.Buffer // what coordinators print: how many seconds it took
}

func (s *soak) startServer() *process {
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil {
		s.t.Fatal(err)
	}
	return begin(s.t, exec.Command(s.nats, "--jetstream", "--store_dir", filepath.Join(s.dir, "nats"), "--addr", host, "--port", port))
}

func (s *soak) startCoordinator() *process {
	where := "LISTEN=" + s.listen
	if s.nats != "" {
		where = "URL=nats://" + s.listen
	}
	return spawn(s.t, &s.says, roleVariable+"=coordinator", "DIR="+filepath.Join(s.dir, "sweep"), where, fmt.Sprint("TASKS=", s.tasks))
}

func (s *soak) workerDir(i int) string { return filepath.Join(s.dir, fmt.Sprint("worker", i)) }

func (s *soak) startWorker(i int, takes time.Duration) *process {
	return spawn(s.t, io.Discard, roleVariable+"=worker", "DIR="+s.workerDir(i), "URL=nats://"+s.listen,
		fmt.Sprint("MICROSECONDS=", takes.Microseconds()))
}

// tiny is how long the tasks of a worker take.
func (s *soak) tiny() time.Duration { return time.Duration(500+s.rng.IntN(1000)) * time.Microsecond }

// soakTasks is how many tasks a soak has: as many as a test of every day may
// take, or WORKBENCH_SOAK.
func soakTasks(t *testing.T, usual int) int {
	text := os.Getenv("WORKBENCH_SOAK")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("WORKBENCH_SOAK=%q: a number of tasks is needed, as 5000", text)
	}
	return n
}

// Workers and the coordinator, with the server in it, are killed at random
// moments and started again. Every task has one row in the end.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := &soak{t: t, tasks: soakTasks(t, testfile.Cases(400)), rng: rand.New(rand.NewPCG(1, 2))}
	s.runs()
}

// The same with a server of NATS in a process of its own, which is killed, too.
func TestSoakExternal(t *testing.T) {
	testfile.Long(t)
	s := &soak{t: t, tasks: soakTasks(t, testfile.Cases(300)), rng: rand.New(rand.NewPCG(3, 4)), nats: natsServer(t)}
	s.runs()
}

// Tasks that sleep for 5 and 20 ms, by so many workers through a server of NATS in a
// process of its own: how much the queue costs, and whether it is in the way.
func BenchmarkWorkers(b *testing.B) {
	program := natsServer(b)
	for _, takes := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond} {
		for _, workers := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("task=%v/workers=%d", takes, workers), func(b *testing.B) {
				s := &soak{t: b, tasks: b.N, nats: program, dir: b.TempDir(), listen: freePort(b)}
				server := s.startServer()
				defer server.kill()
				for { // the server may not be there yet
					coordinator := s.startCoordinator()
					time.Sleep(200 * time.Millisecond)
					if !coordinator.over() {
						for i := range workers {
							w := s.startWorker(i, takes)
							defer w.kill()
						}
						if err := <-coordinator.ended; err != nil {
							b.Fatal(err)
						}
						break
					}
				}
				var seconds float64
				if _, err := fmt.Sscan(s.says.String(), &seconds); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(1e3*seconds/float64(b.N), "ms/task")
				b.ReportMetric(0, "ns/op") // says nothing
			})
		}
	}
}

func (s *soak) runs() {
	t := s.t
	const workers = 4
	s.dir, s.listen = t.TempDir(), freePort(t)
	begun := time.Now()
	var server *process
	if s.nats != "" {
		server = s.startServer()
		defer func() { server.kill() }()
	}
	coordinator := s.startCoordinator()
	var running [workers]*process
	for i := range running {
		running[i] = s.startWorker(i, s.tiny())
	}
	killed := map[string]int{}
	// Later each time, or a machine on which starting takes longer than that would
	// never come to an end.
	soon := func() time.Time {
		return time.Now().Add(time.Second + time.Duration(s.rng.IntN(2000))*time.Millisecond + time.Since(begun)/10)
	}
	nextRunner, nextServer := time.Now().Add(time.Second), time.Now().Add(1500*time.Millisecond)
	for most := 2*time.Minute + time.Duration(s.tasks)*20*time.Millisecond; ; {
		time.Sleep(time.Duration(20+s.rng.IntN(80)) * time.Millisecond)
		if coordinator.over() {
			if err := <-coordinator.ended; err == nil {
				break
			}
			coordinator = s.startCoordinator() // it was killed between two steps, or found no server
		}
		if time.Now().After(nextRunner) {
			coordinator.kill()
			coordinator = s.startCoordinator()
			killed["coordinators"]++
			nextRunner = soon()
		}
		if server != nil && time.Now().After(nextServer) {
			server.kill()
			time.Sleep(time.Duration(s.rng.IntN(300)) * time.Millisecond)
			server = s.startServer()
			killed["servers"]++
			nextServer = soon()
		}
		i := s.rng.IntN(workers)
		if s.rng.IntN(3) == 0 && !running[i].over() {
			running[i].kill()
			killed["workers"]++
		}
		for i, p := range running {
			if p.over() {
				running[i] = s.startWorker(i, s.tiny())
			}
		}
		if time.Since(begun) > most {
			coordinator.kill()
			t.Error("no end")
			break
		}
	}
	for _, p := range running {
		p.kill()
	}
	s.check(time.Since(begun), killed)
}

// check compares the rows with the tasks.
func (s *soak) check(took time.Duration, killed map[string]int) {
	t := s.t
	c, err := store.Read(filepath.Join(s.dir, "sweep"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{}
	for _, task := range queuetest.Tasks(s.tasks) {
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
	dirs, err := filepath.Glob(filepath.Join(s.dir, "worker*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		own, err := store.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		done += len(own.Rows)
	}
	t.Logf("%d tasks in %v: killed %v; %d rows, %d of a second attempt; %d rows in the stores of workers", s.tasks,
		took.Round(time.Millisecond), killed, len(c.Rows), again, done)
	if len(wanted) > 0 || c.Repeated > 0 || len(c.Damaged) > 0 || failed > 0 {
		t.Errorf("%d tasks lost, %d rows twice, %d damaged, %d failed", len(wanted), c.Repeated, len(c.Damaged), failed)
	}
}
