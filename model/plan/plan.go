// Package plan holds plans, the artefacts methods return, with their files and operations,
// and the reports of those who replay them.
package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"workbench/model/strictjson"

	"workbench/model/platform"
)

// mostTime is the largest absolute time in a plan file, seconds: many operations of the
// longest time of an instance.
const mostTime = 1e15 * platform.MaxTime

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
	// Recompute, of a layout, is what of each layer is computed again, by the names of the chain's options.
	Recompute []string `json:"recompute,omitempty"`
	// Order, of a pipeline on a graph, is the ids of the forward operations: layers 1, 2, …
	Order []string `json:"order,omitempty"`
	// Offsets are where the buffers of a placement begin, which has no operations.
	Offsets []Offset `json:"offsets,omitempty"`
	Ops     []Op     `json:"ops"`
	Claims  Claims   `json:"claims"`
	// Unit is what Platform and Claims are in: that of the instance, of a plan
	// that was read the byte, as files are. See [Plan.In].
	Unit platform.Unit `json:"-"`
}

// Converted returns p with its platform, offsets and claims in another unit. The memory is
// rounded down to a whole number of it, and a peak that is none stays as it is,
// so that it equals no peak. A plan of that unit is returned itself.
func (p *Plan) Converted(u platform.Unit) *Plan {
	if p == nil || p.Unit == u {
		return p
	}
	q := *p
	q.Unit = u
	q.Platform.Memory = p.Unit.Convert(u, p.Platform.Memory)
	q.Platform.Bandwidth = u.Rate(p.Unit.Bytes(p.Platform.Bandwidth))
	if p.Offsets != nil {
		q.Offsets = make([]Offset, len(p.Offsets))
		for k, o := range p.Offsets {
			q.Offsets[k] = Offset{o.ID, u.Exact(p.Unit.Bytes(o.Offset))} // one between two integers stays so
		}
	}
	if q.Claims.PeakMemory = p.Unit.Convert(u, p.Claims.PeakMemory); u.Convert(p.Unit, q.Claims.PeakMemory) != p.Claims.PeakMemory {
		q.Claims.PeakMemory = u.Exact(p.Unit.Bytes(p.Claims.PeakMemory))
	}
	return &q
}

// A Stage is the layers From..To, inclusive, on one processor of a pipeline.
// Processors are numbered from 0 and may have several stages. A stage with replicas is
// on as many processors, from Processor on, which have no other stage: mini-batch m is on
// the (m modulo Replicas)-th of them.
type Stage struct {
	Processor int `json:"processor"`
	From      int `json:"from"`
	To        int `json:"to"`
	Replicas  int `json:"replicas,omitempty"` // 0: one
}

// Copies returns on how many processors the stage is, 1 or more.
func (s *Stage) Copies() int { return max(1, s.Replicas) }

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
	OpAR = "AR" // a replica's share of adding up the gradients of the weights of a stage, which the layer begins

	// Of swapping.
	OpRun  = "run"  // a function of the sequence
	OpIn   = "in"   // transfer of a variable host→GPU
	OpOut  = "out"  // transfer of a variable GPU→host
	OpDrop = "drop" // discard of a variable that the host holds, too

	OpW = "W" // gradient of the weights of a stage
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
	// Storage is the id of what is discarded, of graphs in which nodes write
	// storages.
	Storage string `json:"storage,omitempty"`
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
	// Of a pipeline that flushes: stage and micro-batch, both from 1 on.
	Stage      int `json:"stage,omitempty"`
	MicroBatch int `json:"micro_batch,omitempty"`
}

// Moves reports whether anything goes over a link. O(len(p.Ops)).
func (p *Plan) Moves() bool {
	return slices.ContainsFunc(p.Ops, func(o Op) bool {
		return slices.Contains([]string{OpO, OpP, OpIn, OpOut, OpCF, OpCB}, o.Op)
	})
}

// String names the operation as the papers do: "B_3", "P w_3", "D abar_2",
// "F_2 of branch 1", "C conv1", "run f_3", "in w1".
func (o *Op) String() string {
	s := o.Op
	switch {
	case o.Node != "":
		s += " " + o.Node
	case o.Storage != "":
		s += " " + o.Storage
	case o.Variable != "":
		s += " " + o.Variable
	case o.Op == OpRun:
		s += fmt.Sprintf(" f_%d", o.Function)
	case o.Op == OpLoss && o.Layer == 0:
	case o.Stage != 0:
		s += fmt.Sprintf("_%d of micro-batch %d", o.Stage, o.MicroBatch)
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
	Pattern     *PatternReport   // of a pipeline; else nil
	Flush       *FlushReport     // of a pipeline that flushes; else nil
	Placement   *PlacementReport // of a placement; else nil
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

// What follows is how all that is written in files.

// file mirrors the format; what must be there is a pointer.
type file struct {
	Format   string        `json:"format"`
	Problem  string        `json:"problem"`
	Method   string        `json:"method"`
	Instance InstanceRef   `json:"instance"`
	Platform *filePlatform `json:"platform"`
	Period   *float64      `json:"period"`

	K           *int        `json:"k,omitempty"`
	Allocation  []fileStage `json:"allocation,omitempty"`
	MemoryModel *string     `json:"memory_model,omitempty"`
	Recompute   []string    `json:"recompute,omitempty"`
	Order       []string    `json:"order,omitempty"`

	Offsets []fileOffset `json:"offsets,omitempty"`

	Ops    []fileOp `json:"ops"`
	Claims Claims   `json:"claims"`
}

type filePlatform struct {
	Memory       float64 `json:"memory"`
	Bandwidth    float64 `json:"bandwidth"`
	Processors   int     `json:"processors"`
	WeightCopies *int    `json:"weight_copies"`
	Replicas     bool    `json:"replicas,omitempty"`
	MicroBatches int     `json:"micro_batches,omitempty"`
	Placement    string  `json:"placement,omitempty"`
	Objective    string  `json:"objective,omitempty"`
	Model        string  `json:"model,omitempty"`
	Split        float64 `json:"split,omitempty"`
	Latency      float64 `json:"latency,omitempty"`
	Runtime      string  `json:"runtime,omitempty"`
}

// platform returns the platform of a plan for a problem.
func (f *filePlatform) platform(problem string) platform.Platform {
	p := platform.Platform{
		Memory: f.Memory, Bandwidth: f.Bandwidth, Processors: f.Processors, Replicas: f.Replicas,
		MicroBatches: f.MicroBatches, Placement: f.Placement, Objective: f.Objective, Model: f.Model,
		Split: f.Split, Latency: f.Latency, Runtime: f.Runtime,
	}
	if f.WeightCopies != nil {
		p.WeightCopies = *f.WeightCopies
	} else if rules := RulesOf(problem); rules != nil && rules.Copies {
		p.WeightCopies = platform.DefaultWeightCopies
	}
	return p
}

type fileStage struct {
	Processor *int `json:"processor"`
	From      *int `json:"from"`
	To        *int `json:"to"`
	Replicas  int  `json:"replicas,omitempty"`
}

// stage returns the stage, or what is wrong with it.
func (f *fileStage) stage() (s Stage, wrong string) {
	if f.Processor == nil || f.From == nil || f.To == nil {
		return s, "processor, from or to is missing: where the stage is, counted from 0, its first layer and its last"
	}
	return Stage{Processor: *f.Processor, From: *f.From, To: *f.To, Replicas: f.Replicas}, ""
}

type fileOffset struct {
	ID     json.RawMessage `json:"id"`
	Offset *float64        `json:"offset"`
}

// offset returns the offset, or what is wrong with it.
func (f *fileOffset) offset() (o Offset, wrong string) {
	if f.ID == nil || f.Offset == nil {
		return o, "id or offset is missing"
	}
	id, err := strictjson.ReadID(f.ID)
	if err != nil {
		return o, err.Error()
	}
	return Offset{ID: id, Offset: *f.Offset}, ""
}

type fileOp struct {
	Op     string  `json:"op"`
	Tensor string  `json:"tensor,omitempty"`
	Layer  *int    `json:"layer,omitempty"`
	Branch int     `json:"branch,omitempty"`
	Node   *string `json:"node,omitempty"`
	// Of graphs in which nodes write storages.
	Storage *string `json:"storage,omitempty"`
	// Of swapping.
	Function *int     `json:"function,omitempty"`
	Variable *string  `json:"variable,omitempty"`
	Start    *float64 `json:"start"`
	End      *float64 `json:"end"`

	Resource string `json:"resource,omitempty"`
	Shift    int    `json:"shift,omitempty"`
	// Of a pipeline that flushes.
	Stage      int `json:"stage,omitempty"`
	MicroBatch int `json:"micro_batch,omitempty"`
}

// op returns the operation, or what is wrong with it.
func (f *fileOp) op() (o Op, wrong string) {
	switch {
	case f.Op == "":
		return o, "op is missing"
	case f.Node != nil && *f.Node == "":
		return o, "node is empty; it is the id of a node of the graph"
	case f.Storage != nil && *f.Storage == "":
		return o, "storage is empty; it is the id of a storage of the graph"
	case f.Variable != nil && *f.Variable == "":
		return o, "variable is empty; it is the id of a variable of the sequence"
	case f.Layer == nil && f.Node == nil && f.Storage == nil && f.Function == nil && f.Variable == nil && f.Stage == 0 && f.Op != OpLoss:
		switch f.Op {
		case OpC:
			return o, "node is missing"
		case OpRun:
			return o, "function is missing"
		case OpIn, OpOut, OpDrop:
			return o, "variable is missing"
		}
		return o, "layer is missing"
	}
	switch {
	case f.Start == nil:
		return o, "start is missing"
	case f.End == nil:
		return o, "end is missing"
	case math.Abs(*f.Start) > mostTime || math.Abs(*f.End) > mostTime:
		return o, fmt.Sprintf("it runs from %g to %g s: times are from %g to %g s", *f.Start, *f.End, -mostTime, mostTime)
	}
	o = Op{
		Op: f.Op, Tensor: f.Tensor, Branch: f.Branch, Start: *f.Start, End: *f.End, Resource: f.Resource, Shift: f.Shift, Stage: f.Stage,
		MicroBatch: f.MicroBatch,
	}
	if f.Layer != nil {
		o.Layer = *f.Layer
	}
	if f.Node != nil {
		o.Node = *f.Node
	}
	if f.Storage != nil {
		o.Storage = *f.Storage
	}
	if f.Function != nil {
		o.Function = *f.Function
	}
	if f.Variable != nil {
		o.Variable = *f.Variable
	}
	return o, ""
}

// MarshalJSON leaves out the layer of operations that have none: those that
// name a node or storage of a graph, a function or a variable, and the loss of a join.
func (o Op) MarshalJSON() ([]byte, error) { return json.Marshal(o.file()) }

// file returns o as it is written.
func (o *Op) file() *fileOp {
	f := &fileOp{
		Op: o.Op, Tensor: o.Tensor, Branch: o.Branch, Start: &o.Start, End: &o.End, Resource: o.Resource, Shift: o.Shift,
		Stage: o.Stage, MicroBatch: o.MicroBatch,
	}
	if o.Layer != 0 || o.Node == "" && o.Storage == "" && o.Function == 0 && o.Variable == "" && o.Stage == 0 && o.Op != OpLoss {
		f.Layer = &o.Layer
	}
	f.Function, f.Variable, f.Node, f.Storage = given(&o.Function), given(&o.Variable), given(&o.Node), given(&o.Storage)
	return f
}

// given returns x, nil for one that is zero.
func given[T comparable](x *T) *T {
	if *x == *new(T) {
		return nil
	}
	return x
}

// plan checks the values that no plan may have and returns the rest as it is.
// Fields of the user's own are not kept.
func (f *file) plan([]strictjson.Extra) (*Plan, error) {
	fail := func(path, format string, args ...any) (*Plan, error) {
		return nil, &strictjson.FieldError{Path: path, Msg: fmt.Sprintf(format, args...)}
	}
	switch {
	case f.Problem == "":
		return fail("problem", "missing; it names the problem that the plan solves, as %q does", WeightOffload)
	case f.Platform == nil:
		return fail("platform", "missing; it says on what the plan runs")
	case f.Platform.Memory < 0:
		return fail("platform.memory", "%g bytes is negative", f.Platform.Memory)
	case f.Platform.Bandwidth < 0:
		return fail("platform.bandwidth", "%g bytes per second is negative", f.Platform.Bandwidth)
	case f.Platform.Memory > platform.MaxTime || f.Platform.Bandwidth > platform.MaxTime:
		return fail("platform", "memory %g or bandwidth %g is above %g", f.Platform.Memory, f.Platform.Bandwidth, platform.MaxTime)
	case f.Platform.MicroBatches < 0:
		return fail("platform.micro_batches", "%d is negative", f.Platform.MicroBatches)
	case f.Platform.Processors < 0:
		return fail("platform.processors", "%d is negative", f.Platform.Processors)
	case f.Platform.WeightCopies != nil && *f.Platform.WeightCopies < 0:
		return fail("platform.weight_copies", "%d is negative", *f.Platform.WeightCopies)
	case f.K != nil && *f.K < 1:
		return fail("k", "%d is not positive; it is the number of mini-batches in a period", *f.K)
	case f.MemoryModel != nil && *f.MemoryModel != StageModel && *f.MemoryModel != TaskModel:
		return fail("memory_model", "%q is unknown; there are %q and %q", *f.MemoryModel, StageModel, TaskModel)
	case !slices.Contains([]string{"", platform.SavedModel, platform.PaperModel}, f.Platform.Model):
		return fail("platform.model", "%q is unknown; there are %q and %q", f.Platform.Model, platform.SavedModel, platform.PaperModel)
	case !(f.Platform.Split >= 0 && f.Platform.Split < 1):
		return fail("platform.split", "%g; it is a share from 0 to below 1", f.Platform.Split)
	case !(f.Platform.Latency >= 0 && f.Platform.Latency <= platform.MaxTime):
		return fail("platform.latency", "%g s; it is from 0 to %g", f.Platform.Latency, platform.MaxTime)
	case f.Platform.Runtime != "" && f.Platform.Runtime != "torch":
		return fail("platform.runtime", "%q is unknown; there is %q, or leave it out for the rules of the papers", f.Platform.Runtime, "torch")
	case f.Period != nil && *f.Period <= 0:
		return fail("period", "%g s is not positive; it is null for plans that do not repeat", *f.Period)
	case f.Period != nil && *f.Period > mostTime:
		return fail("period", "%g s is above %g s", *f.Period, mostTime)
	case math.Abs(f.Claims.Makespan) > mostTime || math.Abs(f.Claims.PeakMemory) > mostTime:
		return fail("claims", "%g s and %g bytes: neither is above %g", f.Claims.Makespan, f.Claims.PeakMemory, mostTime)
	case f.Ops == nil:
		return fail("ops", "missing; it lists the operations of the plan")
	}
	p := &Plan{
		Format: f.Format, Problem: f.Problem, Method: f.Method, Instance: f.Instance, Platform: f.Platform.platform(f.Problem),
		Period: f.Period, Ops: make([]Op, len(f.Ops)), Claims: f.Claims, Order: f.Order,
		Recompute: f.Recompute,
	}
	if f.K != nil {
		p.K = *f.K
	}
	if f.MemoryModel != nil {
		p.MemoryModel = *f.MemoryModel
	}
	for k := range f.Allocation {
		s, wrong := f.Allocation[k].stage()
		if wrong != "" {
			return fail(fmt.Sprintf("allocation[%d]", k), "%s", wrong)
		}
		p.Allocation = append(p.Allocation, s)
	}
	for k := range f.Offsets {
		o, wrong := f.Offsets[k].offset()
		if wrong != "" {
			return fail(fmt.Sprintf("offsets[%d]", k), "%s", wrong)
		}
		p.Offsets = append(p.Offsets, o)
	}
	for k := range f.Ops {
		var wrong string
		if p.Ops[k], wrong = f.Ops[k].op(); wrong != "" {
			return fail(fmt.Sprintf("ops[%d]", k), "%s", wrong)
		}
	}
	if path, wrong := p.undeclared(); wrong != "" {
		return fail(path, "%s", wrong)
	}
	return p, nil
}
