package plan_test

// A plan of weight offloading, for what has nothing to do with the problem.

import (
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// network returns a chain of layers with forward and backward time, activation
// and weight each.
func network(input float64, layers ...[4]float64) *chain.Chain {
	c := &chain.Chain{Name: "test", Input: chain.Input{Activation: input}}
	for _, l := range layers {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: l[0], BackwardTime: l[1], Activation: l[2], Weight: l[3]})
	}
	return c
}

// cyclic returns a plan with bandwidth 1. Operations without tensor but of a
// weight's kind get it.
func cyclic(memory, period float64, ops ...plan.Op) *plan.Plan {
	for k := range ops {
		switch ops[k].Op {
		case plan.OpP, plan.OpO, plan.OpD:
			ops[k].Tensor = plan.TensorW
		}
	}
	return &plan.Plan{
		Format: plan.Format, Problem: plan.WeightOffload, Method: "test",
		Platform: platform.Platform{Memory: memory, Bandwidth: 1},
		Period:   &period, Ops: ops,
	}
}

func op(kind string, layer int, start, end float64) plan.Op {
	return plan.Op{Op: kind, Layer: layer, Start: start, End: end}
}

// twoLayers is a valid plan in which each weight leaves the GPU once and the
// memory is full while a backward runs.
//
//	compute  |B_2  |           |B_1  |F_1  |F_2  |
//	upload         |w_2  |           |w_1  |
//	prefetch             |w_1  |     |w_2  |
//	         0     2     4     6     8     10    12
func twoLayers() (*chain.Chain, *plan.Plan) {
	return network(0, [4]float64{2, 2, 0, 2}, [4]float64{2, 2, 0, 2}),
		cyclic(4, 12,
			op("B", 2, 0, 2), op("O", 2, 2, 4), op("D", 2, 4, 4),
			op("P", 1, 4, 6), op("B", 1, 6, 8), op("O", 1, 8, 10), op("P", 2, 8, 10),
			op("F", 1, 8, 10), op("D", 1, 10, 10), op("F", 2, 10, 12))
}

// broken is a violation that a mutation must produce, without its words.
type broken struct {
	rule   string
	op     int
	time   float64
	amount float64
}
