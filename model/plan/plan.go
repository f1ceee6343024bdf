// Package plan holds plans, the artefacts methods return, and the verifiers
// that replay them. A verifier is written from the rules of its problem and
// shares no code with any method.
package plan

import (
	"fmt"

	"workbench/model/platform"
)

// Format names the file format written by this package.
const Format = "workbench.plan/v1"

// Plan is what a method returns and a verifier replays.
type Plan struct {
	Format   string            `json:"format"`
	Problem  string            `json:"problem"`
	Method   string            `json:"method"`
	Instance InstanceRef       `json:"instance"`
	Platform platform.Platform `json:"platform"`
	Period   *float64          `json:"period"` // T of a cyclic plan, seconds; else null
	// Of a pipeline: how many mini-batches a period processes (0: one), who
	// computes what, and by which memory model the plan is judged ("": task).
	K           int     `json:"k,omitempty"`
	Allocation  []Stage `json:"allocation,omitempty"`
	MemoryModel string  `json:"memory_model,omitempty"`
	Ops         []Op    `json:"ops"`
	Claims      Claims  `json:"claims"`
	// Unit is what Platform and Claims are in: that of the instance, of a plan
	// that was read the byte, as files are. See [Plan.In].
	Unit platform.Unit `json:"-"`
}

// A Stage is the layers From..To, inclusive, on one processor of a pipeline.
// Processors are numbered from 0 and may have several stages.
type Stage struct {
	Processor int `json:"processor"`
	From      int `json:"from"`
	To        int `json:"to"`
}

// Memory models of pipelines.
const (
	StageModel = "stage" // [004] 7.1.1: every layer at its most at the same time
	TaskModel  = "task"  // [004] 6.3: what is stored while each operation runs
)

// InstanceRef names the instance a plan is for.
type InstanceRef struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitempty"` // of the instance's canonical JSON
	// Source is how the instance was named when it was read: a path or
	// zoo:NAME?…; empty: unknown. A convenience for drawing the plan again.
	Source string `json:"source,omitempty"`
}

// Kinds of operation. Which occur depends on the problem.
const (
	OpF = "F" // forward of a layer
	OpB = "B" // backward of a layer
	OpO = "O" // transfer GPU→host
	OpP = "P" // transfer host→GPU
	OpD = "D" // discard on the GPU

	// Forwards of rematerialization, [004] Table 2.1.
	OpFAll  = "F_all"  // keeps its input, adds ā
	OpFCk   = "F_ck"   // keeps its input, adds a
	OpFNone = "F_none" // consumes its input, adds a

	OpC    = "C"    // computation of a node of a graph
	OpS    = "S"    // copy of an activation of a join
	OpLoss = "LOSS" // loss of a join

	// Communications of a pipeline.
	OpCF = "CF" // sends the activation of a layer to the next layer's processor
	OpCB = "CB" // sends the gradient of a layer's output back to its processor

	// Of swapping.
	OpRun  = "run"  // a function of the sequence
	OpIn   = "in"   // transfer of a variable host→GPU
	OpOut  = "out"  // transfer of a variable GPU→host
	OpDrop = "drop" // discard of a variable that the host holds, too
)

// Tensors of transfers and discards.
const (
	TensorW     = "w"     // the weights of a layer
	TensorA     = "a"     // the output of a layer
	TensorAbar  = "abar"  // ā, everything F_all keeps
	TensorDelta = "delta" // the gradient of a layer's output; joins discard δ_0
)

// Op is one operation of a plan. Start and End are seconds; for cyclic plans
// they are read modulo the period.
type Op struct {
	Op     string `json:"op"`
	Tensor string `json:"tensor,omitempty"`
	// Layer is 1-based, as in the papers; of a transfer or discard, the
	// tensor's own index. Plans for graphs have none, they name a node; plans of
	// swapping name a function or a variable.
	Layer  int    `json:"layer"`
	Branch int    `json:"branch,omitempty"` // of a join, 1-based
	Node   string `json:"node,omitempty"`   // of a graph: its id
	// Of swapping: the function that runs, f_1 being 1, or the id of the variable
	// that moves.
	Function int     `json:"function,omitempty"`
	Variable string  `json:"variable,omitempty"`
	Start    float64 `json:"start"`
	End      float64 `json:"end"`
	// Of a pipeline: where the operation runs ("gpu0"; "link0-1", the smaller
	// number first), and its shift h: in the j-th period it starts at j·T + Start
	// and processes mini-batch j·k + h.
	Resource string `json:"resource,omitempty"`
	Shift    int    `json:"shift,omitempty"`
}

// String names the operation as the papers do: "B_3", "P w_3", "D abar_2",
// "F_2 of branch 1", "C conv1", "run f_3", "in w1".
func (o *Op) String() string {
	s := o.Op
	switch {
	case o.Node != "":
		s += " " + o.Node
	case o.Variable != "":
		s += " " + o.Variable
	case o.Op == OpRun:
		s += fmt.Sprintf(" f_%d", o.Function)
	case o.Op == OpLoss && o.Layer == 0:
	case o.Tensor == "":
		s += fmt.Sprintf("_%d", o.Layer)
	default:
		s += fmt.Sprintf(" %s_%d", o.Tensor, o.Layer)
	}
	if o.Branch != 0 {
		s += fmt.Sprintf(" of branch %d", o.Branch)
	}
	return s
}

// Claims are what the method says of its plan; the verifier compares them with
// the replay.
type Claims struct {
	Makespan   float64 `json:"makespan"`    // seconds; T of a cyclic plan, T/k of a pipeline
	PeakMemory float64 `json:"peak_memory"` // units; in files, bytes
}

// Report is what a verifier found by replaying a plan, its memory in the unit of
// the plan.
type Report struct {
	Makespan   float64     // seconds; T of a cyclic plan, T/k of a pipeline
	PeakMemory float64     // units
	PeakTime   float64     // when memory is first at its peak
	PeakOp     int         // index of the operation that brings it there, -1 if none
	Violations []Violation // broken rules, in order of time; empty: valid
	// ClaimErrors says where Claims differ from the replay; they do not make a
	// plan invalid.
	ClaimErrors []string
	Pattern     *PatternReport // of a pipeline; else nil
}

// PatternReport is what only plans of [Pipeline] have.
type PatternReport struct {
	// StageMemory and TaskMemory are the peaks of each processor in units, by
	// the two memory models.
	StageMemory []float64 `json:"stage_memory"`
	TaskMemory  []float64 `json:"task_memory"`
	// NCA holds for layer ℓ, at ℓ-1, the most activations a_{ℓ-1} that are
	// stored at once ([004] chapter 4).
	NCA []int `json:"nca"`
}

// Valid reports whether no rule is broken.
func (r *Report) Valid() bool { return len(r.Violations) == 0 }

// Violation is one broken rule.
type Violation struct {
	Rule   string  `json:"rule"`   // short stable name: "memory", "link-overlap", "host-stale", …
	Op     int     `json:"op"`     // index of the operation in Plan.Ops, -1 if none
	Time   float64 `json:"time"`   // seconds
	Amount float64 `json:"amount"` // by how much, in the rule's unit: seconds, bytes
	Detail string  `json:"detail"` // one sentence a person understands
}
