package worker

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/solvers/process"
)

// command is the only argument of a child.
const command = "__task"

// SolveFunc runs a task on its instance: Solve, or a substitute in tests.
type SolveFunc func(context.Context, *solve.Instance, sweep.Task) (*solve.Result, error)

// ServeChild runs the task that a worker requests of this process and exits, or returns at once if there is no
// such worker. Programs whose workers use child processes, including tests, call it first.
//
// A child reads two frames on standard input, the task and the document of its instance. It writes two frames on
// descriptor 3, the row and the compressed plan. A frame is its length in 8 bytes, little-endian, followed by that
// many bytes. Standard input stays open while the worker lives.
func ServeChild(solveTask SolveFunc) {
	if len(os.Args) != 2 || os.Args[1] != command {
		return
	}
	if err := serve(solveTask); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(solveTask SolveFunc) error {
	process.NoCoreDumps()
	out := process.Answers()
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	task, err := readFrame(in)
	if err != nil {
		return fmt.Errorf("task: %w", err)
	}
	doc, err := readFrame(in)
	if err != nil {
		return fmt.Errorf("instance: %w", err)
	}
	go exitAtEOF(in)
	var t sweep.Task
	if err := json.Unmarshal(task, &t); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	if t.TaskMemory > 0 {
		process.LimitMemory(t.TaskMemory)
		debug.SetMemoryLimit(t.TaskMemory / 10 * 9)
	}
	row, plan := attempt(context.Background(), solveTask, t, func() (*solve.Instance, error) { return parse(doc, t) })
	row.PeakRSS = peakMemory()
	text, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("row: %w", err)
	}
	w := bufio.NewWriter(out)
	return errors.Join(writeFrame(w, text), writeFrame(w, plan), w.Flush())
}

// attempt runs a task and returns its row, without the fields that only the worker knows, and the compressed plan.
func attempt(ctx context.Context, solveTask SolveFunc, t sweep.Task, instance func() (*solve.Instance, error)) (*sweep.Row, []byte) {
	row := &sweep.Row{Format: sweep.RowFormat, ID: t.ID(), Task: t, Started: time.Now()}
	in, err := instance()
	if err != nil {
		return failed(row, sweep.BadInput, err.Error()), nil
	}
	r, err := solveTask(ctx, in, t)
	if err != nil {
		return failed(row, sweep.BadInput, err.Error()), nil
	}
	row.Finished = time.Now()
	var compressed []byte
	if r.Plan != nil {
		if row.Plan, compressed, err = store.EncodePlan(r.Plan); err != nil {
			return failed(row, sweep.BadAnswer, "plan: "+err.Error()), nil
		}
	}
	lean := *r
	lean.Plan, lean.Report = nil, nil
	lean.Error, lean.Note = cut(lean.Error), cut(lean.Note)
	row.Result = &lean
	return row, compressed
}

// failed turns a row into a failure.
func failed(row *sweep.Row, reason, detail string) *sweep.Row {
	row.Finished, row.Result, row.Plan = time.Now(), nil, ""
	row.Failure = &sweep.Failure{Reason: reason, Detail: cut(detail)}
	return row
}

// longestText is the maximum length of an explanation in a row, in bytes.
const longestText = 300

func cut(s string) string {
	if len(s) <= longestText {
		return s
	}
	const mark = " … "
	return toValid(s[:longestText*2/3]) + mark + toValid(s[len(s)-longestText/3+len(mark):])
}

// exitAtEOF ends this process when its worker has died.
func exitAtEOF(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	os.Exit(1)
}

// longestFrame exceeds the size of any instance or plan.
const longestFrame = 1 << 31

func writeFrame(w io.Writer, b []byte) error {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
	if _, err := w.Write(n[:]); err != nil {
		return err
	}
	_, err := w.Write(b)
	return err
}

func readFrame(r io.Reader) ([]byte, error) {
	var n [8]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint64(n[:])
	if size > longestFrame {
		return nil, fmt.Errorf("a frame of %d bytes", size)
	}
	// The buffer grows as bytes arrive: the length may be wrong.
	b, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && uint64(len(b)) < size {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
