// Package isolate runs solves in child processes of the same binary, so that a
// library that hangs, crashes or takes all memory costs one solve and nothing
// else: the incumbents it has streamed survive it.
//
// The binary has to lend itself to this: main, and TestMain of tests, call
// [Main] first thing.
//
//	func main() {
//		isolate.Main(map[string]solvers.Engine{"highs": highs.Engine{}})
//		…
//	}
//
// The cost is about 10 ms a solve, and a quarter of a second for a million
// nonzeros (BenchmarkSolve).
package isolate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"workbench/solvers"
	"workbench/solvers/process"
)

// grace is how long a child may take to answer once it has been asked to stop.
// It is well below what package solvers grants an engine.
const grace = 500 * time.Millisecond

// command is the first argument of a child, its engine's name the second.
const command = "__solve"

// New returns a backend that runs e in a child process for each solve. name is
// what the child's Main knows e by. Everything [solvers.New] does is done in
// this process; only the library runs in the other. Where the system allows
// (Unix), Options.Memory is honoured for any engine.
func New(e solvers.Engine, name string) solvers.Backend {
	return solvers.New(&parent{e, name})
}

// parent is the engine on this side.
type parent struct {
	engine solvers.Engine
	name   string
}

func (p *parent) Name() string          { return p.engine.Name() }
func (p *parent) Can() solvers.Features { return p.engine.Can() | memoryFeature }

// Why children are killed.
var (
	errMemory   = errors.New("memory limit")
	errAnswered = errors.New("has answered, is wanted no more")
)

// Run implements [solvers.Engine].
func (p *parent) Run(ctx context.Context, problem *solvers.Problem) (*solvers.Answer, error) {
	c, err := spawn(p.name)
	if err != nil {
		return nil, fmt.Errorf("%w: child process: %w", solvers.ErrSolver, err)
	}
	defer c.reap()
	go c.send(problem)

	// ended is closed when the child has said all it will.
	ended := make(chan struct{})
	defer close(ended)
	go c.supervise(ctx, ended)
	if problem.Memory > 0 {
		go process.WatchMemory(c.pid(), problem.Memory, ended, func(int64) {}, func() { c.kill(errMemory) })
	}
	answer, err := c.listen(problem)
	if answer != nil || err == nil {
		return answer, err
	}
	return c.postMortem(ctx, err)
}

// child is the process on the other side.
type child struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers *os.File
	stderr  process.LastWords

	mu     sync.Mutex
	killed error // why; nil: not killed
	dead   bool  // waited for: its number may be another's by now
}

func spawn(name string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self, command, name)}
	// A crash dump of a process that is expected to crash helps nobody; and
	// solvers run on one thread unless told otherwise.
	c.cmd.Env = append(os.Environ(), "GOTRACEBACK=none", "GOMAXPROCS=2")
	c.cmd.Stderr = &c.stderr
	c.cmd.WaitDelay = grace
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	process.Attach(c.cmd, w, &c.stderr)
	err = c.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	c.answers = r
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// send writes the request. A child that does not read it has died, which
// listen notices.
func (c *child) send(p *solvers.Problem) {
	w := bufio.NewWriterSize(c.stdin, 1<<16)
	if writeProblem(w, p) == nil {
		_ = w.Flush()
	}
}

// supervise asks the child to stop when ctx ends, by closing its input, and
// kills it if it takes longer than the grace.
func (c *child) supervise(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	c.stdin.Close()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		c.kill(fmt.Errorf("killed: no answer within %v of being asked to stop", grace))
	}
}

// kill ends the child and all it started, for the first reason given.
func (c *child) kill(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed == nil && !c.dead {
		c.killed = why
		process.KillGroup(c.cmd.Process)
	}
}

// wait waits for the end of the child.
func (c *child) wait() (exit, killed error) {
	exit = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	return exit, c.killed
}

// listen passes on what the child says until it answers.
func (c *child) listen(p *solvers.Problem) (*solvers.Answer, error) {
	r := bufio.NewReaderSize(c.answers, 1<<16)
	for {
		m, err := readMessage(r)
		if err != nil {
			return nil, err
		}
		switch {
		case m.Progress != nil:
			p.OnProgress(*m.Progress)
		case m.Log != nil:
			if p.Log != nil {
				_, _ = p.Log.Write(m.Log) // never fails, see Problem.Log
			}
		case m.Err != nil:
			return nil, &notDead{m.Err}
		case m.Answer != nil:
			return m.Answer, nil
		}
	}
}

// notDead is an error that the engine in the child returned.
type notDead struct{ *remoteError }

// postMortem makes an answer or an error of the end of a child: those that we
// brought about are limits.
func (c *child) postMortem(ctx context.Context, err error) (*solvers.Answer, error) {
	var said *notDead
	if errors.As(err, &said) {
		return nil, said.remoteError
	}
	if !errors.Is(err, io.EOF) {
		c.kill(err) // it lives, but talks nonsense
	}
	// The exit status tells more than a broken pipe does.
	c.stdin.Close()
	exit, killed := c.wait()
	text := strings.TrimSpace(c.stderr.String())
	switch {
	case errors.Is(killed, errMemory), killed == nil && process.OutOfMemory(text):
		return &solvers.Answer{Status: solvers.NoSolution, Stop: solvers.Memory, Bound: math.NaN(), Raw: "out of memory"}, nil
	case killed != nil || ctx.Err() != nil:
		a := &solvers.Answer{Status: solvers.NoSolution, Stop: solvers.Unknown, Bound: math.NaN(), Raw: "killed"}
		if killed != nil {
			a.Note = killed.Error()
		}
		return a, nil
	}
	if exit == nil {
		exit = err
	}
	if text != "" {
		text = ": " + text
	}
	return nil, fmt.Errorf("%w: child process: %w%s", solvers.ErrSolver, exit, text)
}

// reap ends the child if it still runs and frees what it held.
func (c *child) reap() {
	c.stdin.Close()
	if c.cmd.ProcessState == nil {
		c.kill(errAnswered)
		_, _ = c.wait()
	}
	c.answers.Close()
}
