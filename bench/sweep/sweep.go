// Package sweep holds what the parts of a sweep tell each other: tasks, which
// are pure data, and rows, one for each finished task. Everything else about
// sweeps is in the packages beside it: bench/spec reads what is to be done,
// bench/queue hands tasks out, bench/worker does them, bench/store keeps the
// rows, bench/report and bench/compare read them.
package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"workbench/bench"
)

// Formats of the lines of task and result files.
const (
	TaskFormat = "workbench.task/v1"
	RowFormat  = "workbench.row/v1"
)

// Task is one run of one method on one instance. Two tasks with the same fields
// are the same task. Times are in seconds, sizes in bytes.
type Task struct {
	Format  string `json:"format"`
	Problem string `json:"problem"`
	Method  string `json:"method"`
	// Instance is what bench.Load takes: a path, relative to the sweep's folder,
	// or zoo:NAME?…. SHA256 is of its canonical JSON.
	Instance string `json:"instance"`
	SHA256   string `json:"sha256"`

	Memory       float64 `json:"memory"`
	MemoryName   string  `json:"memory_name"` // as the specification has it: "40%", "8GiB"
	Bandwidth    float64 `json:"bandwidth,omitempty"`
	Processors   int     `json:"processors,omitempty"`
	WeightCopies int     `json:"weight_copies,omitempty"`
	MemoryModel  string  `json:"memory_model,omitempty"`
	Slots        int     `json:"slots,omitempty"`

	Backend    string  `json:"backend,omitempty"` // of methods that need one
	Threads    int     `json:"threads,omitempty"`
	TimeLimit  float64 `json:"time_limit,omitempty"`
	Gap        float64 `json:"gap,omitempty"`
	Seed       int     `json:"seed"`
	Repetition int     `json:"repetition"`        // 0, 1, …: the same again
	Version    string  `json:"version,omitempty"` // of the code: its git revision
}

// ID returns the name of the task: the first 24 hexadecimal digits of the
// SHA-256 of its JSON. Where an instance lies does not count, what it is does.
func (t Task) ID() string {
	t.Instance = ""
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and numbers; NaN is refused by the specification
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// Row is one line of a store: a finished task. A task that could not be run to
// its end is finished, too: Failure says how.
type Row struct {
	Format   string    `json:"format"`
	Sweep    string    `json:"sweep"` // name of the sweep
	ID       string    `json:"id"`    // of the task
	Task     Task      `json:"task"`
	Attempt  int       `json:"attempt"` // 1, 2, …
	Worker   string    `json:"worker"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	// Environment is the digest of the Environment under which it ran.
	Environment string `json:"environment"`

	// Result is that of bench.Run without its plan; nil if there is none because
	// of Failure.
	Result *bench.Result `json:"result"`
	// Plan is the SHA-256 of the plan's JSON, under which the store has it
	// compressed; empty: there is none.
	Plan    string   `json:"plan,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	PeakRSS int64    `json:"peak_rss,omitempty"` // bytes, of the child process
}

// Reasons of failures.
const (
	Crashed     = "crashed"     // the child ended by a signal or with an unexpected status
	OutOfMemory = "memory"      // it took more memory than it may
	OutOfTime   = "time"        // it did not answer by its deadline and was killed
	Poisoned    = "poisoned"    // its workers died too many times
	BadInput    = "bad-input"   // the instance cannot be read, or is not the one of the task
	BadAnswer   = "bad-answer"  // what the child wrote is no result
	Interrupted = "interrupted" // never stored: the task will be done again
)

// Failure says why a task has no result.
type Failure struct {
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// Environment is where rows were made.
type Environment struct {
	Digest   string            `json:"digest"`          // of the other fields
	Version  string            `json:"version"`         // of workbench: git revision, "+dirty" if changed
	Go       string            `json:"go"`              // version
	System   string            `json:"system"`          // GOOS/GOARCH
	CPU      string            `json:"cpu"`             // model name
	Cores    int               `json:"cores"`           // that may be used
	Memory   int64             `json:"memory"`          // bytes that may be used
	Backends map[string]string `json:"backends"`        // name to version
	Isolated bool              `json:"isolated"`        // each task in a child process
	Limit    int64             `json:"limit,omitempty"` // memory limit of a child, bytes
}
