package sweep

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// Row is one line of a store: a finished task. A task that could not be run to
// its end is finished, too: Failure says how.
//
// Its JSON is lean, well below a kilobyte: the result has nothing that the task
// says already or that follows from something else, and reading puts that back.
// Times are kept to the millisecond, measured durations to the microsecond.
// Unknown fields are errors.
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

	// Result is that of solve.Run without its plan; nil if there is none because
	// of Failure. Its Err, Report and Unverified are lost in the store; of
	// OwnBound only the value is kept.
	Result *solve.Result `json:"result"`
	// Plan is the digest of the plan's JSON, under which the store has it
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

// Better reports whether r stands rather than other, another row of the same
// task: one with a result before a failure, then the first that was finished.
// So it does not matter in which order files are merged.
func (r *Row) Better(other *Row) bool {
	switch {
	case (r.Failure == nil) != (other.Failure == nil):
		return r.Failure == nil
	case !r.Finished.Equal(other.Finished):
		return r.Finished.Before(other.Finished)
	case r.Attempt != other.Attempt:
		return r.Attempt < other.Attempt
	}
	return r.Worker < other.Worker
}

// lean is a Row as it is written.
type lean struct {
	Format      string      `json:"format"`
	Sweep       string      `json:"sweep"`
	ID          string      `json:"id"`
	Task        leanTask    `json:"task"`
	Attempt     int         `json:"attempt"`
	Worker      string      `json:"worker"`
	Started     time.Time   `json:"started"`
	Took        float64     `json:"took"` // seconds, from Started to Finished
	Environment string      `json:"environment"`
	Units       *Units      `json:"units,omitempty"` // where they are not those of the environment
	Result      *leanResult `json:"result,omitempty"`
	Plan        string      `json:"plan,omitempty"`
	Failure     *Failure    `json:"failure,omitempty"`
	PeakRSS     int64       `json:"peak_rss,omitempty"`
}

// Units are those of a row's numbers: of its objective and bounds, of its memories, of its times. Sizes of the worker are
// bytes, bandwidths bytes per second.
type Units struct {
	Objective string `json:"objective"` // s or B
	Memory    string `json:"memory"`    // B or slots
	Time      string `json:"time"`      // s
}

// UnitsOf returns the units of the rows of a problem.
func UnitsOf(problem string) Units {
	u := Units{Objective: "s", Memory: "B", Time: "s"}
	if rules := plan.RulesOf(problem); rules != nil && rules.Slots {
		u.Memory = "slots"
	}
	if plan.MinimisesMemory(problem) {
		u.Objective = u.Memory
	}
	return u
}

// leanTask is a Task without a format and without zeros.
type leanTask struct {
	Task
	Seed       int `json:"seed,omitempty"`
	Repetition int `json:"repetition,omitempty"`
}

// leanResult is a solve.Result without what the task says, without the
// makespan, which is the objective, and without the gap, which follows from
// objective and bound.
type leanResult struct {
	Name        string       `json:"name"` // of the instance
	Kind        solve.Kind   `json:"kind"`
	Status      solve.Status `json:"status"`
	Error       string       `json:"error,omitempty"`
	Note        string       `json:"note,omitempty"`
	Objective   *float64     `json:"objective,omitempty"`
	Bound       *leanBound   `json:"bound,omitempty"`
	Conditional *leanBound   `json:"conditional_bound,omitempty"`
	// Of rows before bounds had proofs: then the bound is the conditional one.
	Unconditional *leanBound    `json:"unconditional_bound,omitempty"`
	Claims        []proof.Claim `json:"claims,omitempty"`
	Ended         proof.Ended   `json:"ended,omitempty"`
	OwnBound      *float64      `json:"own_bound,omitempty"`
	PeakMemory    *float64      `json:"peak_memory,omitempty"`
	// Of a pipeline that flushes; Makespan where it is not the objective.
	Makespan    *float64         `json:"makespan,omitempty"`
	Span        *float64         `json:"span,omitempty"`
	GPUMemory   []float64        `json:"gpu_memory,omitempty"`
	Throughput  *float64         `json:"throughput,omitempty"`
	WallTime    float64          `json:"wall_time"`
	CPUTime     float64          `json:"cpu_time"`
	Slots       int              `json:"slots,omitempty"`   // that were used
	Backend     string           `json:"backend,omitempty"` // name and version
	Formulation *leanFormulation `json:"formulation,omitempty"`
	Nodes       *int64           `json:"nodes,omitempty"`
}

type leanBound struct {
	Value       float64    `json:"value"`
	By          string     `json:"by"`
	Proof       proof.Kind `json:"proof,omitempty"`
	Assumptions []string   `json:"assumptions,omitempty"`
}

// leanFormulation is a list: name, version, and the numbers of variables,
// integers, constraints and nonzeros.
type leanFormulation solve.Formulation

// MarshalJSON implements [json.Marshaler].
func (f *leanFormulation) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{f.Name, f.Version, f.Variables, f.Integers, f.Constraints, f.Nonzeros})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *leanFormulation) UnmarshalJSON(data []byte) error {
	fields := []any{&f.Name, &f.Version, &f.Variables, &f.Integers, &f.Constraints, &f.Nonzeros}
	n := len(fields)
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if len(fields) != n {
		return fmt.Errorf("a formulation has %d fields, not %d", n, len(fields))
	}
	return nil
}

// MarshalJSON implements [json.Marshaler]. [json.Marshal] writes & as \u0026,
// this does not.
func (r *Row) MarshalJSON() ([]byte, error) {
	started := r.Started.UTC().Truncate(time.Millisecond)
	took := r.Finished.Sub(started).Milliseconds()
	var units *Units
	if u := UnitsOf(r.Task.Problem); u != (Units{"s", "B", "s"}) {
		units = &u
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // & is in the names of instances
	task := leanTask{r.Task, r.Task.Seed, r.Task.Repetition}
	task.Format = "" // the row's implies it
	err := enc.Encode(&lean{
		Format: RowFormat, Sweep: r.Sweep, ID: r.ID, Task: task, Attempt: r.Attempt, Worker: r.Worker,
		Started: started, Took: float64(took) / 1000,
		Environment: r.Environment, Units: units, Result: thin(r.Result), Plan: r.Plan, Failure: r.Failure, PeakRSS: r.PeakRSS,
	})
	return bytes.TrimSpace(b.Bytes()), err
}

func thin(r *solve.Result) *leanResult {
	if r == nil {
		return nil
	}
	l := &leanResult{
		Name: r.Instance.Name, Kind: r.Kind, Status: r.Status, Error: r.Error, Note: r.Note,
		Objective: r.Objective, PeakMemory: r.PeakMemory, Throughput: r.Throughput,
		WallTime: microseconds(r.WallTime), CPUTime: microseconds(r.CPUTime), Slots: r.Parameters.Slots,
		Formulation: (*leanFormulation)(r.Formulation), Nodes: r.Nodes, Span: r.Span, GPUMemory: r.GPUMemory,
	}
	if r.Span != nil {
		l.Makespan = r.Makespan
	}
	if b := r.Backend; b != nil {
		l.Backend = b.Name + " " + b.Version
	}
	l.Bound, l.Conditional = thinBound(r.Bound), thinBound(r.Conditional)
	l.Claims, l.Ended = r.Claims, r.Ended
	if b := r.OwnBound; b != nil {
		l.OwnBound = &b.Value
	}
	return l
}

func thinBound(b *solve.Bound) *leanBound {
	if b == nil {
		return nil
	}
	return &leanBound{b.Value, b.By, b.Proof, b.Assumptions}
}

// full is nil for nil.
func (b *leanBound) full() *solve.Bound {
	if b == nil {
		return nil
	}
	return &solve.Bound{Value: b.Value, By: b.By, Proof: b.Proof, Assumptions: append([]string{}, b.Assumptions...)}
}

func microseconds(seconds float64) float64 { return math.Round(seconds*1e6) / 1e6 }

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Row) UnmarshalJSON(data []byte) error {
	var l lean
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return err
	}
	if l.Format != RowFormat {
		return &FormatError{Want: RowFormat, Got: l.Format}
	}
	task := l.Task.Task
	task.Format, task.Seed, task.Repetition = TaskFormat, l.Task.Seed, l.Task.Repetition
	if id := task.ID(); id != l.ID {
		return fmt.Errorf("its task has the name %s, not %q", id, l.ID)
	}
	if (l.Result == nil) == (l.Failure == nil) {
		return fmt.Errorf("a row has either a result or a failure")
	}
	if u := UnitsOf(task.Problem); l.Units != nil && *l.Units != u { // else they are those of the environment, or of older rows
		return fmt.Errorf("its units are %+v, rows of %s are in %+v", *l.Units, task.Problem, u)
	}
	if err := l.checkTimes(); err != nil {
		return err
	}
	*r = Row{
		Format: RowFormat, Sweep: l.Sweep, ID: l.ID, Task: task, Attempt: l.Attempt, Worker: l.Worker,
		Started: l.Started, Finished: l.Started.Add(time.Duration(math.Round(l.Took*1000)) * time.Millisecond), Environment: l.Environment,
		Result: l.Result.full(&task), Plan: l.Plan, Failure: l.Failure, PeakRSS: l.PeakRSS,
	}
	return nil
}

// checkTimes returns an error that names a negative duration.
func (l *lean) checkTimes() error {
	type duration struct {
		name  string
		value float64
	}
	all := []duration{{"took", l.Took}}
	if r := l.Result; r != nil {
		all = append(all, duration{"result.wall_time", r.WallTime}, duration{"result.cpu_time", r.CPUTime})
	}
	for _, d := range all {
		if d.value < 0 {
			return fmt.Errorf("%s is %g s; a duration is 0 or longer", d.name, d.value)
		}
	}
	return nil
}

// full puts back what the task says.
func (l *leanResult) full(t *Task) *solve.Result {
	if l == nil {
		return nil
	}
	r := &solve.Result{
		Format: solve.ResultFormat, Problem: t.Problem, Method: t.Method, Kind: l.Kind,
		Instance:   plan.InstanceRef{Name: l.Name, SHA256: t.SHA256, Source: t.Instance},
		Platform:   t.Platform(),
		Parameters: solve.Parameters{TimeLimit: t.TimeLimit, Gap: t.Gap, Threads: t.Threads, Slots: l.Slots},
		Status:     l.Status, Error: l.Error, Note: l.Note,
		Objective: l.Objective, Makespan: cmp.Or(l.Makespan, l.Objective), Span: l.Span, GPUMemory: l.GPUMemory, PeakMemory: l.PeakMemory,
		Throughput: l.Throughput,
		WallTime:   l.WallTime, CPUTime: l.CPUTime, Formulation: (*solve.Formulation)(l.Formulation), Nodes: l.Nodes, Seed: t.Seed,
	}
	if name, version, ok := strings.Cut(l.Backend, " "); ok {
		r.Backend = &solve.BackendRef{Name: name, Version: version}
	}
	r.Bound, r.Conditional = l.Bound.full(), l.Conditional.full()
	if l.Unconditional != nil {
		r.Bound, r.Conditional = l.Unconditional.full(), l.Bound.full()
	}
	r.Claims, r.Ended = l.Claims, l.Ended
	if c := r.Conditional; c != nil && r.Objective != nil && platform.Closed(*r.Objective, c.Value, solve.Tolerance) &&
		r.Status != solve.Optimal {
		r.OptimalWithin = c.Assumptions
	}
	if r.Objective != nil && r.Bound != nil && r.Status != solve.Failed {
		gap := platform.Gap(*r.Objective, r.Bound.Value)
		r.Gap = &gap
	}
	if l.OwnBound != nil {
		r.OwnBound = &solve.Bound{Value: *l.OwnBound, By: t.Method, Assumptions: []string{}}
	}
	return r
}

// FormatError is the error of a line that is of another format, perhaps a newer
// version of it.
type FormatError struct{ Want, Got string }

func (e *FormatError) Error() string {
	return fmt.Sprintf("its format is %q, this program knows %q", e.Got, e.Want)
}
