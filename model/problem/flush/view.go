// Package flush is the model of synchronous pipeline schedules: m micro-batches pass forward and
// backward through stages on several GPUs, and then the weights change. F, B and W of a stage are
// separate operations (Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism, ICLR 2024). With
// one operation at a time on each GPU this is a job shop with recirculation and a memory limit for
// each machine.
//
// All micro-batches are identical. So some optimal schedule processes them in the order of their
// numbers at every kind of operation of every stage. Proof: number the micro-batches at each
// operation by their order there. The j-th predecessor to end still ends no later than the j-th
// successor starts, since at least as many predecessors have ended as successors have started; and
// memory depends on the counts only. So the order of a GPU is a sequence of [Operation] values, and
// the number of a micro-batch is the number of earlier occurrences of the operation.
//
// A stage may offload a part of what its F saves to the host, the same for every micro-batch. O
// copies it out after F, and P copies it in before B, on a link of the GPU that makes one copy at a
// time in either direction. The memory is free when O has ended and allocated when P starts. Each
// operation changes memory at one time: F and P at their start, B, W and O at their end. The
// sequence of a GPU has all its operations in the order of these times. It determines the order of
// the GPU, that of its link, and the memory held; and F and P start no earlier than everything
// freed before them in the sequence is available. Every schedule has such a sequence, and timing
// that sequence is never later than the schedule.
package flush

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem.
const Problem = plan.Flush

// Kinds of operation.
const (
	F = iota
	B
	W
	O // copy to the host
	P // copy from the host

	Kinds // number of kinds
)

// Operation is a kind of operation of a stage, Kinds·stage + kind; stages count from 0.
type Operation int32

// OperationOf returns the operation of a kind and stage.
func OperationOf(stage, kind int) Operation { return Operation(Kinds*stage + kind) }

func (l Operation) Stage() int { return int(l) / Kinds }
func (l Operation) Kind() int  { return int(l) % Kinds }

// Copies reports whether an operation runs on the link to the host.
func (l Operation) Copies() bool { return l.Kind() >= O }

// Takes reports whether an operation allocates memory, at its start. Others free it at their end.
func (l Operation) Takes() bool { return l.Kind() == F || l.Kind() == P }

// Order has the sequence of operations of each GPU.
type Order [][]Operation

// Instance is a partition on GPUs with the data that methods need.
type Instance struct {
	Partition *stages.Partition
	Platform  platform.Platform // with all defaults filled in
	GPUs      int
	Stages    int
	Jobs      int     // micro-batches
	GPU       []int   // of each stage
	On        [][]int // the stages of each GPU, in pipeline order
	Time      [][Kinds]float64
	Delay     []float64      // between a stage and the next, in either direction
	Memory    [][Kinds]int64 // change by each kind of operation
	Overhead  []int64        // of each GPU: the largest of its stages
	Room      []int64        // memory of each GPU less weights and overhead; negative: these do not fit
	Split     []bool         // the stage has W
	Sends     []bool         // the stage has O and P
	Moves     []bool         // by GPU: some stage on it offloads
	Stop      plan.Stop      // once closed, ends Bounds early; nil: never
	// Fused makes a W directly after the B of its micro-batch one operation with it, as PyTorch
	// runs them. Other stages get the gradient when both have ended, and B allocates no memory for
	// W. See [stages.Torch].
	Fused bool
	// Separate has the Bs, by operation and micro-batch, that are not fused with a W that follows
	// directly. It may be nil.
	Separate map[[2]int]bool
}

// DefaultMicroBatches is the number of micro-batches if none is given.
const DefaultMicroBatches = 8

// Complete returns the platform with defaults filled in. The number of GPUs follows from stages and
// placement: one stage on each GPU for the straight placement, otherwise two.
func Complete(in *stages.Partition, p platform.Platform) platform.Platform {
	p.MicroBatches = cmp.Or(p.MicroBatches, DefaultMicroBatches)
	p.Placement = cmp.Or(p.Placement, plan.Straight)
	p.Objective = cmp.Or(p.Objective, plan.SpanObjective)
	if p.Processors == 0 {
		p.Processors = len(in.Stages)
		if p.Placement != plan.Straight {
			p.Processors = (len(in.Stages) + 1) / 2
		}
	}
	return p
}

// MostOperations is the maximum number of operations of an instance. Timing, planning and replay
// cannot be interrupted and take about 5 µs for each.
const MostOperations = 1 << 18

// New returns the instance of a valid partition. The error says why the placement or the platform
// is not valid for it.
func New(in *stages.Partition, p platform.Platform) (*Instance, error) {
	p = Complete(in, p)
	n := len(in.Stages)
	v := &Instance{Partition: in, Platform: p, GPUs: p.Processors, Stages: n, Jobs: p.MicroBatches, Fused: in.Runtime == stages.Torch}
	if p.MicroBatches < 1 || p.MicroBatches > stages.MostMicroBatches {
		return nil, fmt.Errorf("%d micro-batches; there are from 1 to %d", p.MicroBatches, stages.MostMicroBatches)
	}
	if p.Objective != plan.SpanObjective && p.Objective != plan.MakespanObjective {
		return nil, fmt.Errorf("objective %q; there are %s and %s", p.Objective, plan.SpanObjective, plan.MakespanObjective)
	}
	listed, ok := plan.ListedRanks(p.Placement, n, v.GPUs)
	switch p.Placement {
	case plan.Straight:
		if n != v.GPUs {
			return nil, fmt.Errorf("placement straight has a stage on each GPU: %d stages need %d GPUs, not %d", n, n, v.GPUs)
		}
	case plan.Interleaved:
		if v.GPUs < 1 || n%v.GPUs != 0 {
			return nil, fmt.Errorf("placement interleaved has as many stages on each GPU: %d stages are no multiple of %d GPUs", n, v.GPUs)
		}
	case plan.VShaped:
		if n != 2*v.GPUs {
			return nil, fmt.Errorf("placement v has two stages on each GPU: %d stages need %g GPUs, not %d", n, float64(n)/2, v.GPUs)
		}
	default:
		if !ok {
			return nil, fmt.Errorf("placement %q; there are %s, %s, %s, and a list of the GPU of each of the %d stages, from 0 to %d, such that "+
				"each GPU has one at least",
				p.Placement, plan.Straight, plan.Interleaved, plan.VShaped, n, v.GPUs-1)
		}
	}
	v.fill(listed)
	if ops := v.Ops(); ops > MostOperations {
		return nil, fmt.Errorf("%d stages with %d micro-batches have %d operations; there are at most %d", n, v.Jobs, ops, MostOperations)
	}
	return v, nil
}

// fill computes the data that depends on the placement; listed has the GPU of each stage, nil if
// the placement has a name.
func (v *Instance) fill(listed []int) {
	v.On, v.Room, v.Overhead, v.Moves = make([][]int, v.GPUs), make([]int64, v.GPUs), make([]int64, v.GPUs), make([]bool, v.GPUs)
	const most = 1 << 62
	for g := range v.Room {
		v.Room[g] = int64(min(math.Floor(v.Platform.Memory), most))
	}
	for s := range v.Partition.Stages {
		x, g := &v.Partition.Stages[s], s%v.GPUs
		if v.Platform.Placement == plan.VShaped && s >= v.GPUs {
			g = 2*v.GPUs - 1 - s
		}
		if listed != nil {
			g = listed[s]
		}
		v.GPU, v.On[g] = append(v.GPU, g), append(v.On[g], s)
		copied := 0.0
		if x.Sends() {
			copied = x.OffloadTime
		}
		v.Time = append(v.Time, [Kinds]float64{x.ForwardTime, x.BackwardTime, x.WeightTime, copied, copied})
		sent := int64(x.OffloadMemory)
		v.Memory = append(v.Memory, [Kinds]int64{int64(x.ForwardMemory), int64(x.BackwardMemory), int64(x.WeightMemory), -sent, sent})
		v.Split, v.Sends = append(v.Split, x.Split()), append(v.Sends, x.Sends())
		v.Moves[g] = v.Moves[g] || x.Sends()
		v.Room[g] -= int64(x.Weight)
		if more := int64(x.Overhead) - v.Overhead[g]; more > 0 {
			v.Room[g], v.Overhead[g] = v.Room[g]-more, v.Overhead[g]+more
		}
		delay := 0.0
		if s > 0 && v.GPU[s-1] != g {
			delay = v.Partition.CommunicationTime
		}
		if s > 0 {
			v.Delay = append(v.Delay, delay)
		}
	}
}

// Kinds returns the kinds of operation that a stage has.
func (v *Instance) Kinds(stage int) []int {
	kinds := [...]int{F, B, W, O, P}
	switch {
	case v.Split[stage] && v.Sends[stage]:
		return kinds[:]
	case v.Split[stage]:
		return kinds[:3]
	case v.Sends[stage]:
		return append(kinds[:2], O, P)
	}
	return kinds[:2]
}

// Predecessor returns the operation of the same stage that l comes after for each micro-batch: O
// after F, P after O, B after P or, without offloading, after F, W after B. It returns -1 for F.
func (v *Instance) Predecessor(l Operation) Operation {
	s := l.Stage()
	switch l.Kind() {
	case B:
		if v.Sends[s] {
			return OperationOf(s, P)
		}
		return OperationOf(s, F)
	case W:
		return OperationOf(s, B)
	case O:
		return OperationOf(s, F)
	case P:
		return OperationOf(s, O)
	}
	return -1
}

// Span reports whether the objective is the span; otherwise it is the makespan.
func (v *Instance) Span() bool { return v.Platform.Objective == plan.SpanObjective }

// Need returns the minimum memory, beyond weights and overhead, with which a GPU has a schedule:
// the most it holds for one micro-batch on the way forward through all its stages, each earlier
// stage having offloaded its part. It is sufficient, one micro-batch after the other. It is
// necessary, since B of the last stage comes after all Fs.
func (v *Instance) Need(gpu int) int64 {
	need, held := int64(0), int64(0)
	for _, s := range v.On[gpu] {
		more := v.Memory[s][F]
		if !v.Fused {
			more += max(0, v.Memory[s][B])
		}
		need = max(need, held+more)
		held += v.Memory[s][F] + v.Memory[s][O]
	}
	return need
}

// MinMemory returns the minimum memory of a GPU for which there is a schedule, in memory units.
func (v *Instance) MinMemory() float64 {
	least := 0.0
	for g := range v.On {
		weights := float64(v.Overhead[g])
		for _, s := range v.On[g] {
			weights += v.Partition.Stages[s].Weight
		}
		least = max(least, weights+float64(v.Need(g)))
	}
	return least
}

// Fits returns why no schedule exists, nil if one does.
func (v *Instance) Fits() error {
	for g := range v.On {
		if v.Room[g] < v.Need(g) {
			return &plan.Infeasible{
				Problem: Problem, Memory: v.MinMemory(), Given: v.Platform.Memory, Unit: v.Partition.Unit,
				Why: fmt.Sprintf("gpu%d holds its weights and one micro-batch", g),
			}
		}
	}
	return nil
}

// Ops returns the number of operations.
func (v *Instance) Ops() int {
	n := 0
	for s := range v.Stages {
		n += len(v.Kinds(s)) * v.Jobs
	}
	return n
}

// KeepsMemory reports whether an order respects the memory of every GPU. O(operations).
func (v *Instance) KeepsMemory(o Order) bool {
	count := make([]int32, Kinds*v.Stages)
	for g, sequence := range o {
		if !v.HoldsOn(g, sequence, count) {
			return false
		}
	}
	return true
}

// HoldsOn reports whether the sequence of one GPU respects its memory. count is scratch, by
// operation, and 0 for those of the GPU. O(operations).
func (v *Instance) HoldsOn(g int, sequence []Operation, count []int32) bool {
	held := int64(0)
	for i, l := range sequence {
		held += v.Memory[l.Stage()][l.Kind()]
		if held > v.Room[g] && !v.Fuses(sequence, i, count) {
			return false
		}
		count[l]++
	}
	return true
}

// Complete reports whether an order has every operation once for each micro-batch, after its
// predecessor on the same GPU. O(operations).
func (v *Instance) Complete(o Order) bool {
	if len(o) != v.GPUs {
		return false
	}
	count := make([]int, Kinds*v.Stages)
	for g, sequence := range o {
		for _, l := range sequence {
			s := l.Stage()
			if s < 0 || s >= v.Stages || v.GPU[s] != g || !slices.Contains(v.Kinds(s), l.Kind()) {
				return false
			}
			if from := v.Predecessor(l); from >= 0 && count[l] >= count[from] {
				return false
			}
			count[l]++
		}
	}
	for s := range v.Stages {
		for _, k := range v.Kinds(s) {
			if count[OperationOf(s, k)] != v.Jobs {
				return false
			}
		}
	}
	return true
}
