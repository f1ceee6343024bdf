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

// Status of a run. Methods of kind bound have no plan: theirs is optimal when
// the bounding model was solved to the end and limit when it was stopped, the
// bound holding in both cases.
type Status string

const (
	Optimal    Status = "optimal"    // the gap to a certified bound, or one of a search of ours, is closed
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
	Budget     *Budget           `json:"budget,omitempty"` // what --gpu was divided into
	Parameters Parameters        `json:"parameters"`
	Status     Status            `json:"status"`
	Error      string            `json:"error,omitempty"`
	Note       string            `json:"note,omitempty"`
	Objective  *float64          `json:"objective"`
	// Bound is the best that holds for every plan, certified or by a search of
	// ours; Gap is the gap to it. Conditional is a better one that holds for plans
	// like this one only.
	Bound       *Bound   `json:"bound"`
	Conditional *Bound   `json:"conditional_bound,omitempty"`
	Gap         *float64 `json:"gap"` // (objective − bound) / objective
	// Explanations say why Bound and Conditional hold, where a search proved them; Explain fills them in.
	Explanations []Explanation `json:"explanations,omitempty"`
	// OptimalWithin are the assumptions under which the plan is optimal, where it
	// is not proved to be so among all plans.
	OptimalWithin []string      `json:"optimal_within,omitempty"`
	Claims        []proof.Claim `json:"claims,omitempty"` // of solvers, unchecked
	Ended         proof.Ended   `json:"ended,omitempty"`
	Makespan      *float64      `json:"makespan"`
	PeakMemory    *float64      `json:"peak_memory"`
	// Of a pipeline that flushes: the span, and the peak of each GPU.
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

	// Model is what Formulation describes.
	Model *milp.Model `json:"-"`
	// Disproof certifies that there is no plan.
	Disproof *certificate.Certificate `json:"-"`
	// Keeps tests an assumption on Plan.
	Keeps func(assumption string) bool `json:"-"`
	// Bounds are all that are known: JudgeTogether shares them.
	Bounds []Bound `json:"-"`
	// Report is the verifier's replay of Plan; not stored.
	Report *plan.Report `json:"-"`
	// Refused are plans of parts of the method that break a rule.
	Refused []Refusal `json:"-"`
	// OwnBound is the best bound that the method itself proved; Bound may be
	// another's, or a closed form.
	OwnBound *Bound `json:"-"`
	// Unverified says that the method is known for plans that break the limit.
	Unverified bool `json:"-"`
	// Err is the error behind Status infeasible, limit or error.
	Err error `json:"-"`
}

// Explanation is why a bound holds that a search proved: which argument excluded which part of it.
type Explanation struct {
	Value       float64       `json:"value"`
	Assumptions []string      `json:"assumptions"`
	Why         []proof.Share `json:"why"`
}

// Explain fills in the explanations of the bounds.
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

// Certificate returns that of the best bound that has one, or of infeasibility;
// nil: there is none.
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
