package run

import (
	"encoding/json"
	"io"

	"workbench/model/plan"
	"workbench/model/platform"
)

// ResultFormat names the format of [Result].
const ResultFormat = "workbench.result/v1"

// Status of a run. Methods of kind bound have no plan: theirs is optimal when
// the bounding model was solved to the end and limit when it was stopped, the
// bound holding in both cases.
type Status string

const (
	Optimal    Status = "optimal"    // the gap is closed by a proven bound
	Feasible   Status = "feasible"   // a verified plan
	Infeasible Status = "infeasible" // proved: no plan exists
	Limit      Status = "limit"      // no plan within the limits; proves nothing
	Failed     Status = "error"      // no answer: Result.Error says why
)

// Result is one run: what --format json prints and sweeps store. Times are in
// seconds, sizes in bytes. Pointers are nil where there is no such number.
type Result struct {
	Format     string            `json:"format"`
	Problem    string            `json:"problem"`
	Method     string            `json:"method"`
	Kind       Kind              `json:"kind"`
	Instance   plan.InstanceRef  `json:"instance"`
	Platform   platform.Platform `json:"platform"`
	Parameters Parameters        `json:"parameters"`
	Status     Status            `json:"status"`
	Error      string            `json:"error,omitempty"`
	Note       string            `json:"note,omitempty"`
	Objective  *float64          `json:"objective"`
	// Bound is the best that binds the plan, without a plan the best of all; if
	// it has assumptions, Unconditional is the best without.
	Bound         *Bound       `json:"bound"`
	Unconditional *Bound       `json:"unconditional_bound,omitempty"`
	Gap           *float64     `json:"gap"` // (objective − bound) / objective
	Makespan      *float64     `json:"makespan"`
	PeakMemory    *float64     `json:"peak_memory"`
	Throughput    *float64     `json:"throughput"` // samples per second
	WallTime      float64      `json:"wall_time"`
	CPUTime       float64      `json:"cpu_time"` // of this process and its solver children
	Backend       *BackendRef  `json:"backend,omitempty"`
	Formulation   *Formulation `json:"formulation,omitempty"`
	Nodes         *int64       `json:"nodes,omitempty"`
	Seed          int          `json:"seed"`
	Plan          *plan.Plan   `json:"plan,omitempty"`

	// Bounds are all that are known: JudgeTogether shares them.
	Bounds []Bound `json:"-"`
	// Report is the verifier's replay of Plan; not stored.
	Report *plan.Report `json:"-"`
	// OwnBound is the best bound that the method itself proved; Bound may be
	// another's, or a closed form.
	OwnBound *Bound `json:"-"`
	// Unverified says that the method is known for plans that break the limit.
	Unverified bool `json:"-"`
	// Err is the error behind Status infeasible, limit or error.
	Err error `json:"-"`
}

// Parameters are the options of the run that can change its result.
type Parameters struct {
	TimeLimit float64 `json:"time_limit,omitempty"` // seconds; 0: none
	Gap       float64 `json:"gap,omitempty"`
	Threads   int     `json:"threads,omitempty"`
	Slots     int     `json:"slots,omitempty"`
}

// BackendRef names a MILP backend.
type BackendRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// WriteJSON writes r as one indented JSON document.
func (r *Result) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
