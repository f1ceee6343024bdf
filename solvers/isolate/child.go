package isolate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"workbench/solvers"
	"workbench/solvers/process"
)

// Main runs the solve that a parent requests of this process and exits, or returns at once if there is no such
// parent. Call it before anything else reads the arguments or prints.
func Main(engines map[string]solvers.Engine) {
	if len(os.Args) != 3 || os.Args[1] != command {
		return
	}
	if err := serve(engines, os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(engines map[string]solvers.Engine, name string) error {
	process.NoCoreDumps()
	w := &messageWriter{w: process.Answers()}
	e, ok := engines[name]
	if !ok {
		return w.write(&message{Err: remote(fmt.Errorf("%w: child has no engine %q", solvers.ErrMissing, name))})
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	p, err := readProblem(in)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if p.Memory > 0 {
		process.LimitMemory(p.Memory)
		if e.Can()&solvers.CanMemory == 0 {
			p.Memory = 0
		}
	}
	p.OnProgress = func(q solvers.Progress) { w.mustWrite(&message{Progress: &q}) }
	if p.Log != nil {
		p.Log = logWriter{w}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.Time > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.Time)
		defer cancel()
	}
	go awaitEOF(in, cancel)
	a, err := e.Run(ctx, p)
	if err != nil {
		return w.write(&message{Err: remote(err)})
	}
	return w.write(&message{Answer: a})
}

// awaitEOF cancels when the parent closes the input, because it has stopped the solve or has died. A process whose
// engine ignores the cancellation exits by itself in case no parent can kill it.
func awaitEOF(in io.Reader, cancel context.CancelFunc) {
	_, _ = io.Copy(io.Discard, in)
	cancel()
	time.AfterFunc(2*grace, func() { os.Exit(1) })
}

// messageWriter writes messages from several goroutines.
type messageWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *messageWriter) write(m *message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return writeMessage(w.w, m)
}

// mustWrite writes a message and exits the process if the parent no longer reads.
func (w *messageWriter) mustWrite(m *message) {
	if w.write(m) != nil {
		os.Exit(1)
	}
}

type logWriter struct{ w *messageWriter }

func (l logWriter) Write(b []byte) (int, error) {
	l.w.mustWrite(&message{Log: b})
	return len(b), nil
}

// remoteError is an error that crosses processes: its text and the sentinels that it wraps.
type remoteError struct {
	Text  string
	Kinds []int // positions in sentinels
}

func sentinels() []error {
	return []error{solvers.ErrUnsupported, solvers.ErrModel, solvers.ErrOption, solvers.ErrSolver, solvers.ErrMissing}
}

func remote(err error) *remoteError {
	r := &remoteError{Text: err.Error()}
	for i, s := range sentinels() {
		if errors.Is(err, s) {
			r.Kinds = append(r.Kinds, i)
		}
	}
	return r
}

func (r *remoteError) Error() string { return r.Text }

func (r *remoteError) Unwrap() []error {
	var errs []error
	for _, k := range r.Kinds {
		if all := sentinels(); uint(k) < uint(len(all)) {
			errs = append(errs, all[k])
		}
	}
	return errs
}
