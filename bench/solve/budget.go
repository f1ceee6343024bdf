package solve

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Budget divides the memory of a GPU, in bytes: what is resident regardless of the plan, and the remainder, which
// is available to the plan.
type Budget struct {
	GPU       float64 `json:"gpu"`
	Weights   float64 `json:"weights"`
	Gradients float64 `json:"gradients"` // of the weights, where plans do not count them
	Optimizer float64 `json:"optimizer"` // optimizer state
	Inputs    float64 `json:"inputs"`    // and buffers, where plans do not count them
	Reserve   float64 `json:"reserve"`   // CUDA context, fragmentation
	Memory    float64 `json:"memory"`    // available to the plan
}

// Resident returns the bytes that are resident regardless of the plan, including the reserve.
func (b *Budget) Resident() float64 {
	return b.Weights + b.Gradients + b.Optimizer + b.Inputs + b.Reserve
}

// Optimizer is an optimizer and the size of its state as a multiple of the size of the weights.
type Optimizer struct {
	Name   string
	States float64
}

// Optimizers returns the optimizers of budgets, by increasing state. Mixed precision keeps both moments of Adam
// and a copy of the weights in fp32: 12 bytes for each weight of 2.
func Optimizers() []Optimizer {
	return []Optimizer{{"sgd", 0}, {"momentum", 1}, {"adam", 2}, {"adam-mixed", 6}}
}

// Budget divides the memory of a GPU. A chain and a graph/v1 count only activations: weights, their gradients and
// the optimizer's state are resident. A training step has gradients in its plans, and states what is resident,
// including the optimizer's state if it has that phase. Other instances, and problems whose plans contain the
// weights, count everything themselves: only the reserve is subtracted. The error says that nothing remains.
func (p *Problem) Budget(in *Instance, gpu, reserve float64, o Optimizer) (*Budget, error) {
	b := &Budget{GPU: gpu, Reserve: reserve}
	if p.Apart {
		b.residents(in, o)
	}
	b.Memory = in.Unit().Bytes(in.Unit().FromBytes(gpu - b.Resident()))
	if !(b.Memory > 0) {
		return b, InputError(fmt.Errorf("--gpu %s: resident data takes %s, which leaves nothing for a plan; workbench budget lists it",
			platform.Byte.Exactly(gpu), platform.Byte.Exactly(b.Resident())))
	}
	return b, nil
}

// Resident returns the bytes that an instance declares as resident regardless of the plan. It omits optimizer
// state and gradients that the instance does not declare.
func (p *Problem) Resident(in *Instance) float64 {
	b := &Budget{}
	if p.Apart {
		b.residents(in, Optimizer{})
	}
	return b.Weights + b.Optimizer + b.Inputs
}

// residents adds up what is resident in addition to plans of activations.
func (b *Budget) residents(in *Instance, o Optimizer) {
	bytes := in.Unit().Bytes
	switch x := in.Instance.(type) {
	case *chain.Chain:
		b.Weights = bytes(x.Totals().Weight)
		b.Gradients, b.Optimizer = b.Weights, o.States*b.Weights
	case *graph.Graph:
		for v := range x.Nodes {
			b.Weights += bytes(x.Nodes[v].Weight)
		}
		b.Gradients, b.Optimizer = b.Weights, o.States*b.Weights
	case *training.Graph:
		for s := range x.Storages {
			size := bytes(x.Storages[s].Bytes)
			switch kind := x.Storages[s].Kind; {
			case !x.Storages[s].Resident:
			case kind == training.Parameter:
				b.Weights += size
			case kind == training.Gradient:
				b.Gradients += size
			case kind == training.OptimizerState:
				b.Optimizer += size
			default:
				b.Inputs += size
			}
		}
		b.Optimizer = math.Max(b.Optimizer, o.States*b.Weights)
	}
}

// BudgetReport is the output of workbench budget.
type BudgetReport struct {
	Problem  string  `json:"problem"`
	Instance string  `json:"instance"`
	Budget   *Budget `json:"budget"`
	// Least is the minimum memory for which a plan is known, Most the memory of keeping everything.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// Optimizers lists what each optimizer leaves.
	Optimizers []OptimizerFits `json:"optimizers"`
	// LargestBatch is the largest mini-batch for which a plan fits, if sizes of activations are proportional to
	// it; 0: unknown, or none.
	LargestBatch int `json:"largest_batch"`
	Batch        int `json:"batch"`
}

// OptimizerFits is the memory that remains with an optimizer, and what fits in it.
type OptimizerFits struct {
	Name   string  `json:"name"`
	Memory float64 `json:"memory"` // available to the plan; not positive if nothing remains
	Fits   string  `json:"fits"`
}

// BudgetReport divides the memory of a GPU, as Budget does, and reports what fits in the remainder with each
// optimizer. An empty remainder is no error.
func (p *Problem) BudgetReport(in *Instance, gpu, reserve float64, chosen Optimizer) *BudgetReport {
	r := &BudgetReport{Problem: p.Name, Instance: in.Name, Batch: in.Samples()}
	r.Least, r.Most = p.Range(in, Setting{})
	for _, x := range Optimizers() {
		b, _ := p.Budget(in, gpu, reserve, x) // its error means that nothing remains, as Memory shows
		r.Optimizers = append(r.Optimizers, OptimizerFits{x.Name, b.Memory, r.Fits(b.Memory)})
		if x == chosen {
			r.Budget = b
		}
	}
	if r.Budget.Memory > 0 {
		r.LargestBatch = p.LargestBatch(in, r.Budget)
	}
	return r
}

// Fits describes what fits in the given memory of a plan.
func (r *BudgetReport) Fits(memory float64) string {
	switch {
	case platform.Fits(r.Most, memory):
		return "everything is kept"
	case platform.Fits(r.Least, memory):
		return "with a plan"
	}
	return "no plan is known"
}

// LargestBatch returns the largest mini-batch for which a plan may fit a GPU. Sizes of activations are
// proportional to it, and in a training step also those of inputs and workspaces. It returns 0 if the batch is
// unknown: the instance does not state its own batch or is neither a chain nor a graph/v2, or no plan fits with
// one sample. It computes O(log(batch)) memory ranges.
func (p *Problem) LargestBatch(in *Instance, b *Budget) int {
	batched := batches(in)
	if batched == nil || in.Samples() == 0 {
		return 0
	}
	return largest(in.Samples(), func(batch int) float64 {
		x := float64(batch) / float64(in.Samples())
		low, _ := p.Range(&Instance{Instance: batched(x), Name: in.Name}, Setting{})
		memory := b.Memory
		if p.Apart && in.Chain() == nil {
			memory += b.Inputs - b.Inputs*x // they are resident, and grow
		}
		return memory - low
	})
}

// largest returns the largest number ≥ 1 for which left is not negative, 0 if there is none. left decreases almost
// linearly, so regula falsi needs few evaluations, which are expensive on a graph. Every other step bisects, which
// bounds the evaluations by O(log) for any left.
func largest(start int, left func(int) float64) int {
	least, most := 1, start+1
	atLeast := left(least)
	if atLeast < 0 {
		return 0
	}
	atMost := left(most)
	for ; atMost >= 0 && most < 1<<24; atMost = left(most) {
		slope := (atLeast - atMost) / float64(most-least)
		least, atLeast, most = most, atMost, 2*most
		if root := float64(least) + atLeast/slope; root > float64(least) && root < float64(most-1) {
			most = int(root) + 1
		}
	}
	for step := 0; most-least > 1; step++ {
		at := least + (most-least)/2
		if line := float64(least) + float64(most-least)*atLeast/(atLeast-atMost); step%2 == 0 {
			at = min(max(int(line), least+1), most-1)
		}
		if x := left(at); x >= 0 {
			least, atLeast = at, x
		} else {
			most, atMost = at, x
		}
	}
	return least
}

// batches returns how an instance scales with its mini-batch, nil if that is unknown.
func batches(in *Instance) func(x float64) plan.Instance {
	switch made := in.Instance.(type) {
	case *chain.Chain:
		return func(x float64) plan.Instance { return scale(made, x) }
	case *training.Graph:
		return func(x float64) plan.Instance { return scaleStep(made, x) }
	}
	return nil
}

// scaleStep returns g with values, inputs and workspaces multiplied by x, rounded down. Sizes of weights do not
// depend on the mini-batch, and the loss is one number.
func scaleStep(g *training.Graph, x float64) *training.Graph {
	d := *g
	d.Storages, d.Nodes = slices.Clone(g.Storages), slices.Clone(g.Nodes)
	d.Input = math.Floor(d.Input * x)
	for s := range d.Storages {
		if k := d.Storages[s].Kind; k == training.Value || k == training.Input {
			d.Storages[s].Bytes = math.Floor(d.Storages[s].Bytes * x)
		}
	}
	for v := range d.Nodes {
		d.Nodes[v].Workspace = math.Floor(d.Nodes[v].Workspace * x)
	}
	return &d
}

// scale returns c with sizes that depend on the mini-batch multiplied by x, rounded down.
func scale(c *chain.Chain, x float64) *chain.Chain {
	d := c.Copy()
	for _, size := range []*float64{&d.Input.Activation, &d.Input.Gradient} {
		*size = math.Floor(*size * x)
	}
	for k := range d.Layers {
		l := &d.Layers[k]
		for _, size := range []*float64{&l.Activation, &l.Saved, &l.Gradient, &l.ForwardOverhead, &l.CheckpointOverhead, &l.BackwardOverhead} {
			*size = math.Floor(*size * x)
		}
		l.ClampOverhead() // each was rounded on its own
	}
	return d
}
