package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"workbench/model/chain"
	"workbench/model/functions"
	"workbench/model/graph"
	"workbench/model/join"
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// maxBytes is the most a plan file may have: a wrong file is refused before it
// fills the memory.
const maxBytes = 1 << 30

// New returns a plan without operations for c, named and digested as files
// name it, in the unit of c, as m must be. An instance that is not valid has no
// digest.
func New(problem, method string, c *chain.Chain, m platform.Platform) *Plan {
	digest, err := c.Digest()
	return blank(problem, method, c.Name, digest, err, m, c.Unit)
}

// NewGraph returns a plan without operations for the rematerialization of g.
func NewGraph(method string, g *graph.Graph, m platform.Platform) *Plan {
	digest, err := g.Digest()
	return blank(Remat, method, g.Name, digest, err, m, g.Unit)
}

// NewPattern returns a plan of a pipeline without operations for c.
func NewPattern(method string, c *chain.Chain, m platform.Platform) *Plan {
	return New(Pipeline, method, c, m)
}

// NewJoin returns a plan without operations for j; m.Memory is in slots.
func NewJoin(method string, j *join.Join, m platform.Platform) *Plan {
	digest, err := j.Digest()
	return blank(Join, method, j.Name, digest, err, m, platform.Byte)
}

// NewSwap returns a plan of swapping without operations for s.
func NewSwap(method string, s *functions.Sequence, m platform.Platform) *Plan {
	digest, err := s.Digest()
	return blank(Swap, method, s.Name, digest, err, m, s.Unit)
}

func blank(problem, method, name, digest string, err error, m platform.Platform, unit platform.Unit) *Plan {
	if err != nil {
		digest = ""
	}
	if problem == Remat || problem == Join {
		m.Bandwidth = 0 // nothing is transferred
	}
	return &Plan{Format: Format, Problem: problem, Method: method, Instance: InstanceRef{Name: name, SHA256: digest}, Platform: m, Unit: unit}
}

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

	Ops    []fileOp `json:"ops"`
	Claims Claims   `json:"claims"`
}

type filePlatform struct {
	Memory       float64 `json:"memory"`
	Bandwidth    float64 `json:"bandwidth"`
	Processors   int     `json:"processors"`
	WeightCopies *int    `json:"weight_copies"`
}

// of returns the platform of a plan for a problem.
func (f *filePlatform) of(problem string) platform.Platform {
	p := platform.Platform{Memory: f.Memory, Bandwidth: f.Bandwidth, Processors: f.Processors}
	switch {
	case f.WeightCopies != nil:
		p.WeightCopies = *f.WeightCopies
	case problem == Pipeline:
		p.WeightCopies = platform.DefaultWeightCopies
	}
	return p
}

type fileStage struct {
	Processor *int `json:"processor"`
	From      *int `json:"from"`
	To        *int `json:"to"`
}

// stage returns the stage, or what is wrong with it.
func (f *fileStage) stage() (s Stage, wrong string) {
	switch {
	case f.Processor == nil:
		return s, "processor is missing; they are numbered from 0"
	case f.From == nil:
		return s, "from is missing; it is the stage's first layer"
	case f.To == nil:
		return s, "to is missing; it is the stage's last layer"
	}
	return Stage{Processor: *f.Processor, From: *f.From, To: *f.To}, ""
}

type fileOp struct {
	Op     string  `json:"op"`
	Tensor string  `json:"tensor,omitempty"`
	Layer  *int    `json:"layer,omitempty"`
	Branch int     `json:"branch,omitempty"`
	Node   *string `json:"node,omitempty"`
	// Of swapping.
	Function *int     `json:"function,omitempty"`
	Variable *string  `json:"variable,omitempty"`
	Start    *float64 `json:"start"`
	End      *float64 `json:"end"`

	Resource string `json:"resource,omitempty"`
	Shift    int    `json:"shift,omitempty"`
}

// op returns the operation, or what is wrong with it.
func (f *fileOp) op() (o Op, wrong string) {
	switch {
	case f.Op == "":
		return o, "op is missing"
	case f.Node != nil && *f.Node == "":
		return o, "node is empty; it is the id of a node of the graph"
	case f.Variable != nil && *f.Variable == "":
		return o, "variable is empty; it is the id of a variable of the sequence"
	case f.Layer == nil && f.Node == nil && f.Function == nil && f.Variable == nil && f.Op != OpLoss:
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
	}
	o = Op{Op: f.Op, Tensor: f.Tensor, Branch: f.Branch, Start: *f.Start, End: *f.End, Resource: f.Resource, Shift: f.Shift}
	if f.Layer != nil {
		o.Layer = *f.Layer
	}
	if f.Node != nil {
		o.Node = *f.Node
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
// name a node of a graph, a function or a variable, and the loss of a join.
func (o Op) MarshalJSON() ([]byte, error) { return json.Marshal(o.file()) }

// file returns o as it is written.
func (o *Op) file() *fileOp {
	f := &fileOp{Op: o.Op, Tensor: o.Tensor, Branch: o.Branch, Start: &o.Start, End: &o.End, Resource: o.Resource, Shift: o.Shift}
	if o.Layer != 0 || o.Node == "" && o.Function == 0 && o.Variable == "" && o.Op != OpLoss {
		f.Layer = &o.Layer
	}
	if o.Function != 0 {
		f.Function = &o.Function
	}
	if o.Variable != "" {
		f.Variable = &o.Variable
	}
	if o.Node != "" {
		f.Node = &o.Node
	}
	return f
}

// Read reads a plan/v1 document. Name is for errors, which say the file, the
// line, the field and what would be right. Whether the plan keeps the rules of
// its problem is for [Verify] to say. O(size of the file).
func Read(r io.Reader, name string) (*Plan, error) {
	return strictjson.ReadFormat(r, name, Format, maxBytes, (*file).plan)
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
	case f.Platform.Processors < 0:
		return fail("platform.processors", "%d is negative", f.Platform.Processors)
	case f.Platform.WeightCopies != nil && *f.Platform.WeightCopies < 0:
		return fail("platform.weight_copies", "%d is negative", *f.Platform.WeightCopies)
	case f.K != nil && *f.K < 1:
		return fail("k", "%d is not positive; it is the number of mini-batches in a period", *f.K)
	case f.MemoryModel != nil && *f.MemoryModel != StageModel && *f.MemoryModel != TaskModel:
		return fail("memory_model", "%q is unknown; there are %q and %q", *f.MemoryModel, StageModel, TaskModel)
	case f.Period != nil && *f.Period <= 0:
		return fail("period", "%g s is not positive; it is null for plans that do not repeat", *f.Period)
	case f.Ops == nil:
		return fail("ops", "missing; it lists the operations of the plan")
	}
	p := &Plan{
		Format: f.Format, Problem: f.Problem, Method: f.Method, Instance: f.Instance, Platform: f.Platform.of(f.Problem),
		Period: f.Period, Ops: make([]Op, len(f.Ops)), Claims: f.Claims,
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
	for k := range f.Ops {
		var wrong string
		if p.Ops[k], wrong = f.Ops[k].op(); wrong != "" {
			return fail(fmt.Sprintf("ops[%d]", k), "%s", wrong)
		}
	}
	return p, nil
}

// Write writes p as a plan/v1 document, one operation a line. Numbers that are
// not finite are an error: JSON has none.
func (p *Plan) Write(w io.Writer) error {
	for k := range p.Ops {
		if o := &p.Ops[k]; !finite(o.Start) || !finite(o.End) {
			return fmt.Errorf("plan cannot be written: ops[%d], %s, runs from %g to %g", k, o, o.Start, o.End)
		}
	}
	// All but the operations, indented; then these in the place kept for them.
	shell := *p.In(platform.Byte)
	shell.Format, shell.Ops = Format, []Op{}
	head, err := json.MarshalIndent(&shell, "", "  ")
	if err != nil {
		return fmt.Errorf("plan cannot be written: %w", err)
	}
	b := bufio.NewWriter(w)
	before, after, _ := bytes.Cut(head, []byte("\n  \"ops\": []"))
	b.Write(before) // errors stay in b until Flush
	b.WriteString("\n  \"ops\": [")
	for k := range p.Ops {
		if k > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		line, err := json.Marshal(p.Ops[k].file())
		if err != nil {
			return fmt.Errorf("plan cannot be written: ops[%d]: %w", k, err)
		}
		b.Write(line)
	}
	if len(p.Ops) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteByte(']')
	b.Write(after)
	b.WriteByte('\n')
	return b.Flush()
}
