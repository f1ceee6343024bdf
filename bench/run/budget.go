package run

import (
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/graph"
	"workbench/model/platform"
	"workbench/model/training"
)

// A Budget says what the memory of a GPU goes to, in bytes: what is resident beside
// any plan, and the rest, which is the memory that a plan may take.
type Budget struct {
	GPU       float64 `json:"gpu"`
	Weights   float64 `json:"weights"`
	Gradients float64 `json:"gradients"` // of the weights, where no plan counts them
	Optimizer float64 `json:"optimizer"` // state that it keeps of the weights
	Inputs    float64 `json:"inputs"`    // and buffers, where no plan counts them
	Reserve   float64 `json:"reserve"`   // the driver's context, fragmentation
	Memory    float64 `json:"memory"`    // for the plan
}

// Resident is what is there beside any plan, and the reserve.
func (b *Budget) Resident() float64 {
	return b.Weights + b.Gradients + b.Optimizer + b.Inputs + b.Reserve
}

// An Optimizer keeps so many times the size of the weights.
type Optimizer struct {
	Name   string
	States float64
}

// Optimizers returns those that budgets know, the one that keeps least first.
func Optimizers() []Optimizer {
	return []Optimizer{{"sgd", 0}, {"momentum", 1}, {"adam", 2}}
}

// Budget divides the memory of a GPU. A chain and a graph/v1 count activations
// alone: weights, their gradients and the optimizer's state are resident. A
// training step has gradients in its plans; it says itself what is resident, its
// optimizer's state too, if it has that phase. Other instances, and problems whose
// plans hold the weights, count everything themselves: there only the reserve is
// taken off. The error says that nothing is left.
func (p *Problem) Budget(in *Instance, gpu, reserve float64, o Optimizer) (*Budget, error) {
	b := &Budget{GPU: gpu, Reserve: reserve}
	if p.Apart {
		b.residents(in, o)
	}
	b.Memory = in.Unit().Bytes(in.Unit().FromBytes(gpu - b.Resident()))
	if !(b.Memory > 0) {
		return b, InputError(fmt.Errorf("%.15g bytes of GPU: what is resident takes %.15g, so nothing is left for a plan; workbench budget lists it", gpu, b.Resident()))
	}
	return b, nil
}

// Resident returns the bytes that an instance itself says are resident beside any
// plan, without what its optimizer or its gradients take if it does not say so.
func (p *Problem) Resident(in *Instance) float64 {
	b := &Budget{}
	if p.Apart {
		b.residents(in, Optimizer{})
	}
	return b.Weights + b.Optimizer + b.Inputs
}

// residents adds up what is resident beside plans that hold activations.
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

// BudgetReport is what workbench budget says.
type BudgetReport struct {
	Problem  string  `json:"problem"`
	Instance string  `json:"instance"`
	Budget   *Budget `json:"budget"`
	// Least is the least memory for which a plan is known, Most that of keeping
	// everything.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// Optimizers are those with which a plan fits.
	Optimizers []OptimizerFits `json:"optimizers"`
	// LargestBatch is the largest mini-batch at which a plan fits, sizes of
	// activations being in proportion to it; 0: unknown, or none.
	LargestBatch int `json:"largest_batch"`
	Batch        int `json:"batch"`
}

// OptimizerFits says what an optimizer leaves, and what fits there.
type OptimizerFits struct {
	Name   string  `json:"name"`
	Memory float64 `json:"memory"` // for the plan, not positive if nothing is left
	Fits   string  `json:"fits"`
}

// BudgetReport divides the memory of a GPU, as Budget does, and says what fits in the
// rest with each optimizer. Nothing left is no error.
func (p *Problem) BudgetReport(in *Instance, gpu, reserve float64, chosen Optimizer) *BudgetReport {
	r := &BudgetReport{Problem: p.Name, Instance: in.Name, Batch: in.Samples()}
	r.Least, r.Most = p.Range(in)
	for _, x := range Optimizers() {
		b, _ := p.Budget(in, gpu, reserve, x) // its error: nothing is left, which Memory says
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

// Fits says what fits in so much memory for the plan.
func (r *BudgetReport) Fits(memory float64) string {
	switch {
	case platform.Fits(r.Most, memory):
		return "everything is kept"
	case platform.Fits(r.Least, memory):
		return "with a plan"
	}
	return "no plan is known"
}

// LargestBatch returns the largest mini-batch of a chain at which a plan may fit a
// GPU, sizes of activations being in proportion to it, 0 if that is unknown: the
// chain does not say its own, or no plan fits with one sample.
func (p *Problem) LargestBatch(in *Instance, b *Budget) int {
	c := in.Chain()
	if c == nil || c.Samples == 0 {
		return 0
	}
	fits := func(batch int) bool {
		scaled := scale(c, float64(batch)/float64(c.Samples))
		low, _ := p.Range(&Instance{Instance: scaled, Name: in.Name})
		return low <= b.Memory
	}
	if !fits(1) {
		return 0
	}
	least, most := 1, 2 // fits, does not
	for ; fits(most) && most < 1<<24; most *= 2 {
		least = most
	}
	for most-least > 1 {
		if at := least + (most-least)/2; fits(at) {
			least = at
		} else {
			most = at
		}
	}
	return least
}

// scale returns c with sizes that depend on the mini-batch times x, rounded down.
func scale(c *chain.Chain, x float64) *chain.Chain {
	d := *c
	d.Layers = append([]chain.Layer(nil), c.Layers...)
	for _, size := range []*float64{&d.Input.Activation, &d.Input.Gradient} {
		*size = math.Floor(*size * x)
	}
	for k := range d.Layers {
		l := &d.Layers[k]
		for _, size := range []*float64{&l.Activation, &l.Saved, &l.Gradient, &l.ForwardOverhead, &l.BackwardOverhead} {
			*size = math.Floor(*size * x)
		}
	}
	return &d
}
