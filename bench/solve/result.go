package solve

import (
	"encoding/json"
	"io"

	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// ResultFormat names the format of [Result].
const ResultFormat = "workbench.result/v1"

// Status of a run. Methods of kind bound have no plan: their status is optimal when the bounding model was solved
// to optimality and limit when it was stopped. The bound is valid in both cases.
type Status string

const (
	Optimal    Status = "optimal"    // the gap to a bound proved by a certificate or by search is closed
	Feasible   Status = "feasible"   // a verified plan
	Infeasible Status = "infeasible" // proved: no plan exists
	Limit      Status = "limit"      // no plan within the limits; proves nothing
	Failed     Status = "error"      // no result: Result.Error says why
)

// Result is the result of one run: the output of --format json and the content of sweeps. Times are in seconds,
// sizes in bytes. Pointers are nil where no such number exists.
type Result struct {
	Format     string            `json:"format"`
	Problem    string            `json:"problem"`
	Method     string            `json:"method"`
	Kind       Kind              `json:"kind"`
	Instance   plan.InstanceRef  `json:"instance"`
	Platform   platform.Platform `json:"platform"`
	Budget     *Budget           `json:"budget,omitempty"` // the division of --gpu
	Parameters Parameters        `json:"parameters"`
	Status     Status            `json:"status"`
	Error      string            `json:"error,omitempty"`
	Note       string            `json:"note,omitempty"`
	Objective  *float64          `json:"objective"`
	// Bound is the best lower bound on all plans, certified or proved by search; Gap is the gap to it. Conditional
	// is a better one, valid for the plans that satisfy its assumptions.
	Bound       *Bound   `json:"bound"`
	Conditional *Bound   `json:"conditional_bound,omitempty"`
	Gap         *float64 `json:"gap"` // (objective − bound) / objective
	// Explanations justify Bound and Conditional, where a search proved them; Explain sets them.
	Explanations []Explanation `json:"explanations,omitempty"`
	// OptimalWithin lists the assumptions under which the plan is optimal, where optimality among all plans is not
	// proved.
	OptimalWithin []string      `json:"optimal_within,omitempty"`
	Claims        []proof.Claim `json:"claims,omitempty"` // uncertified bounds of solvers
	Ended         proof.Ended   `json:"ended,omitempty"`
	Makespan      *float64      `json:"makespan"`
	PeakMemory    *float64      `json:"peak_memory"`
	// Of a synchronous pipeline schedule: the span, and the peak of each GPU.
	Span        *float64     `json:"span,omitempty"`
	GPUMemory   []float64    `json:"gpu_memory,omitempty"`
	Throughput  *float64     `json:"throughput"` // samples per second
	WallTime    float64      `json:"wall_time"`
	CPUTime     float64      `json:"cpu_time"` // of this process and its solver children
	Backend     *BackendRef  `json:"backend,omitempty"`
	Formulation *Formulation `json:"formulation,omitempty"`
	Nodes       *int64       `json:"nodes,omitempty"`
	Seed        int          `json:"seed"`
	Plan        *plan.Plan   `json:"plan,omitempty"`

	// Model is the model described by Formulation.
	Model *milp.Model `json:"-"`
	// Disproof certifies infeasibility.
	Disproof *certificate.Certificate `json:"-"`
	// Keeps reports whether Plan satisfies an assumption.
	Keeps func(assumption string) bool `json:"-"`
	// Bounds holds all known bounds: JudgeTogether shares them.
	Bounds []Bound `json:"-"`
	// Report is the verifier's replay of Plan; not stored.
	Report *plan.Report `json:"-"`
	// Refused lists plans of parts of the method that violate a rule.
	Refused []Refusal `json:"-"`
	// OwnBound is the best bound that the method itself proved; Bound may come from another method or a closed
	// form.
	OwnBound *Bound `json:"-"`
	// Unverified reports that the plans of the method are known to exceed the limit.
	Unverified bool `json:"-"`
	// Err is the error behind Status infeasible, limit or error.
	Err error `json:"-"`
}

// Explanation justifies a bound that a search proved: which argument excluded which part of the search space.
type Explanation struct {
	Value       float64       `json:"value"`
	Assumptions []string      `json:"assumptions"`
	Why         []proof.Share `json:"why"`
}

// Explain sets the explanations of the bounds.
func (r *Result) Explain() {
	for _, b := range []*Bound{r.Bound, r.Conditional} {
		if b != nil && len(b.Why) > 0 {
			r.Explanations = append(r.Explanations, Explanation{b.Value, b.Assumptions, b.Why})
		}
	}
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

// Certificate returns the certificate of the best bound that has one, or of infeasibility; nil: none.
func (r *Result) Certificate() *certificate.Certificate {
	if r.Disproof != nil {
		return r.Disproof
	}
	var best *Bound
	for i := range r.Bounds {
		if b := &r.Bounds[i]; b.Certificate != nil && (best == nil || proof.Compare(b, best) < 0) {
			best = b
		}
	}
	if best == nil {
		return nil
	}
	return best.Certificate
}
