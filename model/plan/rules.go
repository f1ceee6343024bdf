package plan

import (
	"fmt"
	"math/bits"
	"strings"
)

// Rules are what is special to the plans of one problem: what they may say, and who
// replays them. The table of them, problems, is all that this package says of a
// problem outside the files of its verifier.
type Rules struct {
	Problem string
	// Ops are the operations there are, Fields what the plan may say beside them,
	// its platform and its period. A plan that says more is not written, nor read:
	// nothing that somebody said is ignored.
	Ops    []Operation
	Fields Fields
	Link   bool // something is transferred; else a plan has no bandwidth
	Slots  bool // memory is counted in slots, not in bytes
	Copies bool // the platform says how many copies of weights there are
	// Memory says that the peak of memory is what is minimised, and not time.
	Memory bool
}

// An Operation is a kind of operation and what it says beside when it runs.
type Operation struct {
	Op     string
	Fields Fields
}

// Fields is a set of fields of an operation or a plan.
type Fields uint32

const (
	FieldTensor Fields = 1 << iota
	FieldLayer
	FieldBranch
	FieldNode
	FieldFunction
	FieldVariable
	FieldResource
	FieldShift
	FieldStorage
	FieldStage
	FieldMicroBatch

	// Of the plan as a whole.
	FieldK
	FieldAllocation
	FieldMemoryModel
	FieldRecompute
	FieldOrder
	FieldOffsets
)

var fieldNames = [...]string{
	"tensor", "layer", "branch", "node", "function", "variable", "resource", "shift", "storage", "stage", "micro_batch",
	"k", "allocation", "memory_model", "recompute", "order", "offsets",
}

// String lists the fields by their names in files.
func (f Fields) String() string {
	var names []string
	for ; f != 0; f &= f - 1 {
		names = append(names, fieldNames[bits.TrailingZeros32(uint32(f))])
	}
	return strings.Join(names, ", ")
}

// problems is the table.
var problems = []Rules{
	{
		Problem: Remat,
		Ops: append(each(FieldLayer, OpFAll, OpFCk, OpFNone, OpB), Operation{OpC, FieldNode},
			Operation{OpD, FieldTensor | FieldLayer | FieldNode | FieldStorage}),
	},
	{
		Problem: Join,
		Ops: append(each(FieldLayer|FieldBranch, OpF, OpB, OpS), Operation{OpLoss, FieldLayer},
			Operation{OpD, FieldTensor | FieldLayer | FieldBranch}),
		Slots: true,
	},
	{
		Problem: ActivationOffload,
		Ops:     append(each(FieldLayer, OpFAll, OpB), each(FieldTensor|FieldLayer, OpO, OpP)...),
		Link:    true,
	},
	{
		Problem: RematOffload,
		Ops: append(append(each(FieldLayer, OpFAll, OpFCk, OpFNone, OpB), each(FieldTensor|FieldLayer|FieldStorage, OpD, OpO, OpP)...),
			Operation{OpC, FieldNode}),
		Link: true,
	},
	{
		Problem: Swap,
		Ops:     append(each(FieldVariable, OpIn, OpOut, OpDrop), Operation{OpRun, FieldFunction}),
		Link:    true,
	},
	{
		Problem: Pipeline,
		Ops:     each(FieldLayer|FieldResource|FieldShift, OpF, OpB, OpCF, OpCB, OpAR),
		Fields:  FieldK | FieldAllocation | FieldMemoryModel | FieldOrder,
		Link:    true, Copies: true,
	},
	{
		Problem: Flush,
		Ops:     each(FieldResource|FieldStage|FieldMicroBatch, OpF, OpB, OpW, OpO, OpP),
	},
	{
		Problem: Layout,
		Ops:     each(FieldResource|FieldStage|FieldMicroBatch, OpF, OpB, OpW),
		Fields:  FieldAllocation | FieldRecompute,
		Link:    true, Copies: true,
	},
	{
		Problem: Placement,
		Fields:  FieldOffsets,
		Memory:  true,
	},
	{
		Problem: WeightOffload,
		Ops:     append(each(FieldLayer, OpF, OpB), each(FieldTensor|FieldLayer, OpO, OpP, OpD)...),
		Link:    true,
	},
}

// each returns operations of the same fields.
func each(fields Fields, ops ...string) (list []Operation) {
	for _, op := range ops {
		list = append(list, Operation{op, fields})
	}
	return list
}

// RulesOf returns the rules of a problem, nil if there is none of that name.
func RulesOf(problem string) *Rules {
	for k := range problems {
		if problems[k].Problem == problem {
			return &problems[k]
		}
	}
	return nil
}

// MinimisesMemory reports whether the peak of memory is what is minimised in a
// problem, and not time.
func MinimisesMemory(problem string) bool {
	rules := RulesOf(problem)
	return rules != nil && rules.Memory
}

// Objective returns what is minimised of a plan for a problem: the makespan or, of a
// pipeline that flushes, the span, in seconds, or the peak of memory in the unit of
// the plan; of a placement what its objective says.
func (r *Report) Objective(problem string) float64 {
	switch {
	case r.Placement != nil:
		return r.Placement.value(r.PeakMemory)
	case MinimisesMemory(problem):
		return r.PeakMemory
	case r.Flush != nil && r.Flush.Objective == SpanObjective:
		return r.Flush.Span
	}
	return r.Makespan
}

// said returns which fields of an operation are set.
func (o *Op) said() (f Fields) {
	set := func(is bool, field Fields) {
		if is {
			f |= field
		}
	}
	set(o.Tensor != "", FieldTensor)
	set(o.Layer != 0, FieldLayer)
	set(o.Branch != 0, FieldBranch)
	set(o.Node != "", FieldNode)
	set(o.Function != 0, FieldFunction)
	set(o.Variable != "", FieldVariable)
	set(o.Resource != "", FieldResource)
	set(o.Shift != 0, FieldShift)
	set(o.Storage != "", FieldStorage)
	set(o.Stage != 0, FieldStage)
	set(o.MicroBatch != 0, FieldMicroBatch)
	return f
}

// said returns which fields of the plan are set that not every plan has.
func (p *Plan) said() (f Fields) {
	if p.K != 0 {
		f |= FieldK
	}
	if p.Allocation != nil {
		f |= FieldAllocation
	}
	if p.MemoryModel != "" {
		f |= FieldMemoryModel
	}
	if p.Recompute != nil {
		f |= FieldRecompute
	}
	if p.Order != nil {
		f |= FieldOrder
	}
	if p.Offsets != nil {
		f |= FieldOffsets
	}
	return f
}

// undeclared returns what p says that plans of its problem do not have, as a path
// and a sentence, "" if nothing. Of a problem or an operation that is not known
// anything may be said: it is for the verifier to refuse.
func (p *Plan) undeclared() (path, wrong string) {
	rules := RulesOf(p.Problem)
	if rules == nil {
		return "", ""
	}
	if f := p.said() &^ rules.Fields; f != 0 {
		return f.String(), fmt.Sprintf("plans of %s do not have it", p.Problem)
	}
	for k := range p.Ops {
		o := &p.Ops[k]
		for _, x := range rules.Ops {
			if f := o.said() &^ x.Fields; x.Op == o.Op && f != 0 {
				return fmt.Sprintf("ops[%d]", k), fmt.Sprintf("%s has %s; of %s in plans of %s there is %s", o, f, x.Op, p.Problem, x.Fields)
			}
		}
	}
	return "", ""
}
