package worker

import (
	"context"
	"fmt"
	"time"

	"workbench/bench/solve"
	"workbench/bench/sweep"
)

// InProcess runs tasks in this process, without the cost and the safety of a child. A method that crashes the
// process ends the sweep, which can be resumed; one that hangs keeps its goroutine; memory is not limited. A panic
// is a failed row. Processor times include those of concurrent jobs. It is for one goroutine at a time, because
// instances cache computed values.
type InProcess struct {
	Instances Instances
	Solve     SolveFunc     // nil: [Solve]
	Grace     time.Duration // see Isolated

	last *solve.Instance
}

// Run implements [Runner].
func (x *InProcess) Run(ctx context.Context, t sweep.Task) (*sweep.Row, []byte, error) {
	type answer struct {
		row  *sweep.Row
		plan []byte
		used *solve.Instance
	}
	solveTask := x.Solve
	if solveTask == nil {
		solveTask = Solve
	}
	begun := sweep.Row{Format: sweep.RowFormat, ID: t.ID(), Task: t, Started: time.Now()}
	done := make(chan answer, 1)
	last := x.last
	x.last = nil // in use; kept once the task is done, but not if it is abandoned
	go func(row sweep.Row) {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a = answer{row: failed(&row, sweep.Crashed, fmt.Sprintf("panic: %v", p))}
			}
			done <- a
		}()
		a.row, a.plan = attempt(ctx, solveTask, t, func() (*solve.Instance, error) {
			in, err := x.instance(last, t)
			if err == nil {
				a.used = in
			}
			return in, err
		})
	}(begun)
	var late <-chan time.Time
	if d := deadline(x.Grace, t); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case a := <-done:
		x.last = a.used
		if ctx.Err() != nil {
			return nil, nil, ctx.Err() // the state of a stopped method is not its result
		}
		return a.row, a.plan, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-late:
		return failed(&begun, sweep.OutOfTime, fmt.Sprintf("no answer within %v, its time limit is %g s; left behind", deadline(x.Grace, t),
			t.TimeLimit)), nil, nil
	}
}

// instance returns the instance of a task; it reuses that of the previous task if it is the same.
func (x *InProcess) instance(last *solve.Instance, t sweep.Task) (*solve.Instance, error) {
	if last != nil && last.SHA256 == t.SHA256 {
		return last, nil
	}
	doc, err := x.Instances.Document(t)
	if err != nil {
		return nil, err
	}
	return parse(doc, t)
}

var (
	_ Runner = (*InProcess)(nil)
	_ Runner = (*Isolated)(nil)
)
