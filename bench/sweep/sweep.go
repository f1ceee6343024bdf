// Package sweep holds what the parts of a sweep tell each other: tasks, which
// are pure data, and rows, one for each finished task. Everything else about
// sweeps is in the packages beside it: bench/sweep/specification reads what is to be done,
// bench/sweep/queue hands tasks out, bench/sweep/worker does them, bench/sweep/store keeps the
// rows, bench/report and bench/compare read them.
package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"workbench/model/instance/stages"
	"workbench/model/platform"
)

// Formats of the lines of task and result files.
const (
	TaskFormat        = "workbench.task/v1"
	RowFormat         = "workbench.row/v1"
	EnvironmentFormat = "workbench.environment/v1"
)

// Task is one run of one method on one instance. Two tasks with the same fields
// are the same task. Times are in seconds, sizes in bytes.
type Task struct {
	Format  string `json:"format,omitempty"`
	Problem string `json:"problem"`
	Method  string `json:"method"`
	// Instance is what bench.Load takes: a path, relative to the specification,
	// or zoo:NAME?…. SHA256 is of its canonical JSON, of which the sweep's folder
	// has a copy if it came from a file.
	Instance string `json:"instance"`
	SHA256   string `json:"sha256"`

	Memory       float64 `json:"memory"`
	MemoryName   string  `json:"memory_name"` // as the specification has it: "range 40%", "8GiB"; until November 2026 "40%" for the former
	Bandwidth    float64 `json:"bandwidth,omitempty"`
	Processors   int     `json:"processors,omitempty"`
	WeightCopies int     `json:"weight_copies,omitempty"`
	Replicas     bool    `json:"replicas,omitempty"` // stages may be on several processors
	MemoryModel  string  `json:"memory_model,omitempty"`
	MicroBatches int     `json:"micro_batches,omitempty"`
	Placement    string  `json:"placement,omitempty"`
	Minimised    string  `json:"minimised,omitempty"` // span or makespan, where there is a choice
	// Model is what is counted as memory: of plans of pipelines and weight offloading saved or paper, of layouts torch or [PaperRuntime];
	// "": paper, or the problem has no such choice.
	Model string `json:"model,omitempty"`
	Slots int    `json:"slots,omitempty"`

	Backend    string  `json:"backend,omitempty"` // of methods that need one
	Threads    int     `json:"threads,omitempty"`
	TimeLimit  float64 `json:"time_limit,omitempty"`
	Gap        float64 `json:"gap,omitempty"`
	Seed       int     `json:"seed"`
	Repetition int     `json:"repetition"` // 0, 1, …: the same again
	// TaskMemory is the most bytes its process may take; 0: no limit.
	TaskMemory int64  `json:"task_memory,omitempty"`
	Version    string `json:"version,omitempty"` // of the code: its git revision
}

// ID returns the name of the task: the first 24 hexadecimal digits of the
// SHA-256 of its JSON. Where an instance lies does not count, what it is does.
func (t Task) ID() string {
	t.Instance = ""
	t.Format = TaskFormat
	return digest(t)
}

// Platform returns what the task runs on.
func (t *Task) Platform() platform.Platform {
	p := platform.Platform{
		Memory: t.Memory, Bandwidth: t.Bandwidth, Processors: t.Processors, WeightCopies: t.WeightCopies, Replicas: t.Replicas,
		MicroBatches: t.MicroBatches, Placement: t.Placement, Objective: t.Minimised,
		Model: t.Model,
	}
	if t.Runtime() != "" { // the default split of solve
		if p.Model, p.Split = "", 0.5; t.Model == stages.Torch {
			p.Runtime = t.Model
		}
	}
	return p
}

// PaperRuntime is the Model of layouts by the rules of the papers.
const PaperRuntime = "paper-runtime"

// Runtime returns the flag --runtime of a layout, "" of other tasks.
func (t *Task) Runtime() string {
	switch t.Model {
	case stages.Torch:
		return t.Model
	case PaperRuntime:
		return platform.PaperModel
	}
	return ""
}

// Key is as ID, but the same for every version of the code: what two nights
// are compared by.
func (t Task) Key() string {
	t.Version = ""
	if t.Model == platform.PaperModel { // as before there was a choice
		t.Model = ""
	}
	return t.ID()
}

// digest returns the first 24 hexadecimal digits of the SHA-256 of v's JSON.
func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers; NaN is refused by the specification
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}
