// Package isolate runs solves in child processes of the same binary. A library that hangs, crashes or exhausts the
// memory costs one solve only, and the incumbents that it has streamed survive.
//
// The binary must support this: main, and TestMain of tests, call [Main] first.
//
//	func main() {
//		isolate.Main(map[string]solvers.Engine{"highs": highs.Engine{}})
//		…
//	}
//
// The cost is about 10 ms per solve, and a quarter of a second for a million nonzeros (BenchmarkSolve).
package isolate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
	"workbench/solvers/process"
)

// grace is how long a child may take to answer after it has been asked to stop. It is well below the time that
// package solvers grants an engine.
const grace = 500 * time.Millisecond

// command is the first argument of a child, its engine's name the second.
const command = "__solve"

// New returns a backend that runs e in a child process for each solve. name is the key of e in the child's Main.
// [solvers.New] runs in this process; only the library runs in the child. Where the system allows (Unix),
// Options.Memory is honoured for any engine.
func New(e solvers.Engine, name string) solvers.Backend {
	return solvers.New(&parent{e, name})
}

// parent is the engine in the parent process.
type parent struct {
	engine solvers.Engine
	name   string
}

func (p *parent) Name() string          { return p.engine.Name() }
func (p *parent) Can() solvers.Features { return p.engine.Can() | memoryFeature }

// Run implements [solvers.Engine].
func (p *parent) Run(ctx context.Context, problem *solvers.Problem) (*solvers.Answer, error) {
	c, err := spawn(p.name)
	if err != nil {
		return nil, fmt.Errorf("%w: child process: %w", solvers.ErrSolver, err)
	}
	defer c.Reap()
	go c.send(problem)

	// ended is closed after the last message of the child.
	ended := make(chan struct{})
	defer close(ended)
	go c.supervise(ctx, ended)
	if problem.Memory > 0 {
		go c.WatchMemory(problem.Memory, ended)
	}
	answer, err := c.listen(problem)
	if answer != nil || err == nil {
		return answer, err
	}
	return c.postMortem(ctx, err)
}

// child is the child process.
type child struct{ *process.Child }

// spawn starts a child for one thread, the default of solvers.
func spawn(name string) (child, error) {
	c, err := process.Start(1, grace, command, name)
	return child{c}, err
}

// send writes the request. A child that does not read it has died, which listen detects.
func (c child) send(p *solvers.Problem) {
	w := bufio.NewWriterSize(c.Stdin, 1<<16)
	if writeProblem(w, p) == nil {
		_ = w.Flush()
	}
}

// supervise asks the child to stop when ctx ends, by closing its input, and kills it after the grace period.
func (c child) supervise(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	c.Stdin.Close()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		c.Kill(fmt.Errorf("killed: no answer within %v of being asked to stop", grace))
	}
}

// listen passes on the child's messages until it answers.
func (c child) listen(p *solvers.Problem) (*solvers.Answer, error) {
	r := bufio.NewReaderSize(c.Answers, 1<<16)
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

// postMortem turns the end of a child into an answer or an error: ends that the parent caused are limits.
func (c child) postMortem(ctx context.Context, err error) (*solvers.Answer, error) {
	if said, ok := errors.AsType[*notDead](err); ok {
		return nil, said.remoteError
	}
	if !errors.Is(err, io.EOF) {
		c.Kill(err) // it lives, but sends invalid messages
	}
	// The exit status is more informative than a broken pipe.
	exit, killed := c.Wait()
	text := strings.TrimSpace(c.Words.String())
	switch {
	case errors.Is(killed, process.ErrMemory), killed == nil && process.OutOfMemory(text):
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

// Presolve implements [solvers.Presolver], in this process.
func (p *parent) Presolve(ctx context.Context, problem *solvers.Problem) (solvers.Presolved, error) {
	if e, ok := p.engine.(solvers.Presolver); ok {
		return e.Presolve(ctx, problem)
	}
	return solvers.Presolved{}, fmt.Errorf("%s: %w: the size after presolve", p.Name(), solvers.ErrUnsupported)
}

// OpenLP implements [solvers.LPEngine], in this process.
func (p *parent) OpenLP(d *milp.Data) (solvers.LP, error) {
	if e, ok := p.engine.(solvers.LPEngine); ok {
		return e.OpenLP(d)
	}
	return nil, fmt.Errorf("%s: %w: incremental linear programs", p.Name(), solvers.ErrUnsupported)
}
