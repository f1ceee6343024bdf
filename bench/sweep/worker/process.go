package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"workbench/bench/sweep"
	"workbench/model/platform"
	"workbench/solvers/process"
)

// Runner runs one task to its end, successful or not. It returns a row, without the fields that only the worker
// knows (the names of sweep and worker, attempt, environment), and the compressed plan. The error says that there
// is no row because the context ended, or that the task should be retried.
type Runner interface {
	Run(ctx context.Context, t sweep.Task) (*sweep.Row, []byte, error)
}

// errAgain is wrapped by the error of a task that another process killed; the task is retried.
var errAgain = errors.New("killed from outside")

// Isolated runs each task in a child process of this program (see [ServeChild]), in a process group of its own,
// with the memory limit of the task. It kills the child if it has not answered by its deadline.
type Isolated struct {
	Instances Instances
	// Grace is the time that a task may exceed its time limit, to read the instance and to verify the plan; 0:
	// [DefaultGrace].
	Grace time.Duration
}

// DefaultGrace is the fixed time by which a task may exceed its time limit; a tenth of the limit is added.
const DefaultGrace = 30 * time.Second

func grace(fixed time.Duration, t sweep.Task) time.Duration {
	if fixed == 0 {
		fixed = DefaultGrace
	}
	return fixed + time.Duration(t.TimeLimit/10*float64(time.Second))
}

// deadline returns the maximum duration of a task; 0: no limit.
func deadline(fixed time.Duration, t sweep.Task) time.Duration {
	if t.TimeLimit == 0 {
		return 0
	}
	return time.Duration(t.TimeLimit*float64(time.Second)) + grace(fixed, t)
}

// Run implements [Runner].
func (x *Isolated) Run(ctx context.Context, t sweep.Task) (*sweep.Row, []byte, error) {
	started := time.Now()
	begun := func() *sweep.Row {
		return &sweep.Row{Format: sweep.RowFormat, ID: t.ID(), Task: t, Started: started}
	}
	doc, err := x.Instances.Document(t)
	if err != nil {
		return failed(begun(), sweep.BadInput, err.Error()), nil, nil
	}
	request, err := json.Marshal(t)
	if err != nil {
		return nil, nil, err
	}
	c, err := spawn(t)
	if err != nil {
		return nil, nil, fmt.Errorf("child process: %w", err)
	}
	defer c.Reap()
	go c.send(request, doc)
	ended := make(chan struct{})
	defer close(ended)
	go c.supervise(ctx, deadline(x.Grace, t), ended)
	if t.TaskMemory > 0 {
		go c.WatchMemory(t.TaskMemory, ended)
	}
	row, plan, err := c.listen(t)
	if err == nil {
		row.Started, row.Finished = started, time.Now()
		return row, plan, nil
	}
	return c.postMortem(ctx, begun(), err, deadline(x.Grace, t))
}

// errDeadline is the reason for killing a child that did not answer in time.
var errDeadline = errors.New("deadline")

// child is the child process.
type child struct{ *process.Child }

func spawn(t sweep.Task) (child, error) {
	c, err := process.Start(max(t.Threads, 1), time.Second, command)
	return child{c}, err
}

// send writes the request. A child that does not read it has died, which listen detects.
func (c child) send(request, doc []byte) {
	w := bufio.NewWriterSize(c.Stdin, 1<<16)
	if writeFrame(w, request) == nil && writeFrame(w, doc) == nil {
		_ = w.Flush()
	}
}

// supervise kills the child at its deadline, or when ctx ends.
func (c child) supervise(ctx context.Context, deadline time.Duration, ended <-chan struct{}) {
	var late <-chan time.Time
	if deadline > 0 {
		timer := time.NewTimer(deadline)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-ended:
	case <-ctx.Done():
		c.Kill(ctx.Err())
	case <-late:
		c.Kill(errDeadline)
	}
}

// listen reads the answer.
func (c child) listen(t sweep.Task) (*sweep.Row, []byte, error) {
	r := bufio.NewReaderSize(c.Answers, 1<<16)
	text, err := readFrame(r)
	if err != nil {
		return nil, nil, err
	}
	plan, err := readFrame(r)
	if err != nil {
		return nil, nil, err
	}
	row := &sweep.Row{}
	if err := json.Unmarshal(text, row); err != nil {
		return nil, nil, &nonsense{err}
	}
	if row.ID != t.ID() {
		return nil, nil, &nonsense{fmt.Errorf("the row is of task %s", row.ID)}
	}
	if row.Plan == "" {
		plan = nil
	}
	return row, plan, nil
}

// nonsense is the error of an invalid answer.
type nonsense struct{ err error }

func (e *nonsense) Error() string { return e.err.Error() }

// postMortem turns the end of a child into a row, or returns an error if the task did not cause it.
func (c child) postMortem(ctx context.Context, row *sweep.Row, err error, allowed time.Duration) (*sweep.Row, []byte, error) {
	var talk *nonsense
	if errors.As(err, &talk) {
		c.Kill(err)
	}
	exit, killed := c.Wait()
	row.PeakRSS = c.Peak()
	words := strings.TrimSpace(c.Words.String())
	limit := "its limit is " + platform.FormatBytes(float64(row.Task.TaskMemory))
	switch {
	case ctx.Err() != nil && errors.Is(killed, ctx.Err()):
		return nil, nil, ctx.Err()
	case errors.Is(killed, errDeadline):
		return failed(row, sweep.OutOfTime, fmt.Sprintf("killed: no answer within %v, its time limit is %g s", allowed, row.Task.TimeLimit)), nil,
			nil
	case errors.Is(killed, process.ErrMemory):
		return failed(row, sweep.OutOfMemory, "killed: "+limit), nil, nil
	case killed == nil && process.OutOfMemory(words):
		return failed(row, sweep.OutOfMemory, limit+": "+firstLine(words)), nil, nil
	case killed == nil && row.Task.TaskMemory > 0 && faultOfRuntime(words):
		return failed(row, sweep.OutOfMemory, limit+": a fault inside Go's runtime, which happens where memory is refused: "+firstLine(words)),
			nil, nil
	case talk != nil:
		return failed(row, sweep.BadAnswer, talk.Error()), nil, nil
	}
	if exit == nil {
		return failed(row, sweep.BadAnswer, strings.TrimSpace("ended without an answer: "+words)), nil, nil
	}
	detail := exit.Error()
	if words != "" {
		detail += ": " + words
	}
	if killedFromOutside(exit) {
		return failed(row, sweep.Crashed, detail), nil, fmt.Errorf("%w: %s", errAgain, detail)
	}
	return failed(row, sweep.Crashed, detail), nil, nil
}

// runtimeFault matches the last output of a process that crashed inside Go's runtime, in no function of this
// program. Under a memory limit that is a failed allocation that the runtime did not expect.
var runtimeFault = regexp.MustCompile(`(?s)^[^\n]*SIG(?:SEGV|BUS).*?\ngoroutine \d+ [^\n]*:\nruntime\.([\w(*]+)`)

// sentSignal matches the report of a signal that a process sent, as opposed to a fault.
var sentSignal = regexp.MustCompile(`sigcode=0\b`)

// faultOfRuntime reports whether a process ended in this way: not by a signal that was sent to it (sigcode 0), and
// not in a library that it called.
func faultOfRuntime(words string) bool {
	m := runtimeFault.FindStringSubmatch(words)
	return m != nil && !strings.HasPrefix(m[1], "cgocall") && !sentSignal.MatchString(words)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func toValid(s string) string { return strings.ToValidUTF8(s, "?") }
