// Package flush is the view of pipelines that flush: m micro-batches pass forward and
// backward through stages on several GPUs, and then the weights change. F, B and W of a
// stage are operations of their own (Qi, Wan, Huang and Lin, Zero Bubble Pipeline
// Parallelism, ICLR 2024); with one operation at a time on a GPU it is a job shop in
// which jobs come back to their machines, with a memory on each of them.
//
// All micro-batches are alike. So some best schedule takes them in the order of their
// numbers at every kind of operation of every stage: let the j-th F of a stage be that
// of micro-batch j, and so on. The j-th to end before an operation still ends no later
// than the j-th to start after it starts, since as many have started as have ended
// before them; who holds memory is not asked, only how many do. So the order of a GPU
// is a word of [Letter]s, and the number of a micro-batch is how often the letter has
// been there before.
//
// A stage may send a part of what its F keeps to the host, of every micro-batch alike: O copies it out
// behind F, P copies it in before B, on a link that each GPU has to its host and that takes
// one copy at a time, either way, as everywhere in workbench. The memory is free when O has ended and taken
// when P starts. Each operation changes the memory at one instant: F and P at their start, B, W and
// O at their end. The word of a GPU has the letters of all of them in the order of these instants. So it says in which order GPU and
// link run theirs, and what is held; and an F or P starts no earlier than what is before it in
// the word has been given back. Any schedule reads as such a word, and no word's schedule is later than it.
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
	O // copies to the host
	P // copies from the host

	Kinds // how many there are
)

// A Letter is a kind of operation of a stage, Kinds·stage + kind, stages from 0.
type Letter int32

// On returns the letter of a kind of a stage.
func LetterOf(stage, kind int) Letter { return Letter(Kinds*stage + kind) }

func (l Letter) Stage() int { return int(l) / Kinds }
func (l Letter) Kind() int  { return int(l) % Kinds }

// Copies reports whether an operation runs on the link to the host.
func (l Letter) Copies() bool { return l.Kind() >= O }

// Takes reports whether it takes memory, at its start; others give it back, at their end.
func (l Letter) Takes() bool { return l.Kind() == F || l.Kind() == P }

// An Order has a word for each GPU.
type Order [][]Letter

// Instance is a partition on GPUs, and what methods ask of it.
type Instance struct {
	Partition *stages.Partition
	Platform  platform.Platform // as plans have it, nothing left open
	GPUs      int
	Stages    int
	Jobs      int     // micro-batches
	GPU       []int   // of each stage
	On        [][]int // the stages of each GPU, the first first
	Time      [][Kinds]float64
	Delay     []float64      // from a stage to the next, either way
	Memory    [][Kinds]int64 // change by each kind of operation
	Overhead  []int64        // of each GPU: the largest of its stages
	Room      []int64        // of each GPU beside its weights and overhead; negative: less than these
	Split     []bool         // there is a W
	Sends     []bool         // there are O and P
	Moves     []bool         // by GPU: some stage of it sends
	Stop      plan.Stop      // once closed, ends Bounds early; nil: never
	// Fused says that a W directly behind the B of its micro-batch is one operation with it, as PyTorch runs them: other
	// stages get the gradient when both have ended, and B takes no memory for W. See [stages.Torch].
	Fused bool
	// Separate has the Bs, by letter and micro-batch, that are not one operation with a W behind them all the same; it may be nil.
	Separate map[[2]int]bool
}

// DefaultMicroBatches is how many there are where nothing is said.
const DefaultMicroBatches = 8

// Complete returns the platform with what follows from the rest where nothing is said:
// the GPUs from stages and placement, two stages on each unless the placement is
// straight.
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

// MostOperations is how many operations an instance may have: what times, plans and replays them cannot be interrupted and takes about
// 5 µs for each.
const MostOperations = 1 << 18

// New returns the view of a valid partition. The error says which stages the placement
// has no GPU for, or what else is no such pipeline.
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

// fill computes what depends on where the stages are: listed has the GPU of each, nil if the placement has a name.
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

// Predecessor returns the letter of the same stage that one comes after, for each micro-batch: O after F, P
// after O, B after P or, if nothing is sent, after F, W after B; -1: F comes after none.
func (v *Instance) Predecessor(l Letter) Letter {
	s := l.Stage()
	switch l.Kind() {
	case B:
		if v.Sends[s] {
			return LetterOf(s, P)
		}
		return LetterOf(s, F)
	case W:
		return LetterOf(s, B)
	case O:
		return LetterOf(s, F)
	case P:
		return LetterOf(s, O)
	}
	return -1
}

// Span reports whether the span is minimised, and not the makespan.
func (v *Instance) Span() bool { return v.Platform.Objective == plan.SpanObjective }

// Need returns the most that a GPU holds of one micro-batch on its way forward through all its stages,
// those before having sent what they send: the least room with which there is a schedule, one
// micro-batch after the other. With less there is none, since B of the last stage comes after
// all F, and of these each holds what it takes.
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

// Least returns the least memory of a GPU for which there is a schedule, in units.
func (v *Instance) Least() float64 {
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

// Fits returns why there is no schedule, nil if there is one.
func (v *Instance) Fits() error {
	for g := range v.On {
		if v.Room[g] < v.Need(g) {
			return &plan.Infeasible{
				Problem: Problem, Memory: v.Least(), Given: v.Platform.Memory, Unit: v.Partition.Unit,
				Why: fmt.Sprintf("gpu%d holds its weights and one micro-batch", g),
			}
		}
	}
	return nil
}

// Ops returns how many operations there are.
func (v *Instance) Ops() int {
	n := 0
	for s := range v.Stages {
		n += len(v.Kinds(s)) * v.Jobs
	}
	return n
}

// KeepsMemory reports whether an order keeps every GPU within its room. O(operations).
func (v *Instance) KeepsMemory(o Order) bool {
	count := make([]int32, Kinds*v.Stages)
	for g, word := range o {
		if !v.HoldsOn(g, word, count) {
			return false
		}
	}
	return true
}

// HoldsOn does the same of one GPU. Count, by letter and 0 for those of the GPU, is scratch. O(operations).
func (v *Instance) HoldsOn(g int, word []Letter, count []int32) bool {
	held := int64(0)
	for i, l := range word {
		held += v.Memory[l.Stage()][l.Kind()]
		if held > v.Room[g] && !v.Fuses(word, i, count) {
			return false
		}
		count[l]++
	}
	return true
}

// Complete reports whether an order has every operation, after what it needs on its
// own GPU. O(operations).
func (v *Instance) Complete(o Order) bool {
	if len(o) != v.GPUs {
		return false
	}
	count := make([]int, Kinds*v.Stages)
	for g, word := range o {
		for _, l := range word {
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
			if count[LetterOf(s, k)] != v.Jobs {
				return false
			}
		}
	}
	return true
}
