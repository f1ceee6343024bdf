// Package plantest makes chains and plans of weight offloading, for tests of
// several packages.
package plantest

import (
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Small is the file of a small plan.
const Small = `{
  "format": "workbench.plan/v1",
  "problem": "weight-offload",
  "method": "by hand",
  "instance": {
    "name": "one <layer> & a loss",
    "sha256": "00"
  },
  "platform": {
    "memory": 8589934592,
    "bandwidth": 12000000000
  },
  "period": 2.5,
  "ops": [
    {"op":"B","layer":1,"start":0,"end":1},
    {"op":"O","tensor":"w","layer":1,"start":1,"end":1.25}
  ],
  "claims": {
    "makespan": 2.5,
    "peak_memory": 10
  }
}
`

// Network returns a chain of layers with forward and backward time, activation
// and weight each.
func Network(input float64, layers ...[4]float64) *chain.Chain {
	c := &chain.Chain{Name: "test", Input: chain.Input{Activation: input}}
	for _, l := range layers {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: l[0], BackwardTime: l[1], Activation: l[2], Weight: l[3]})
	}
	return c
}

// Cyclic returns a plan with bandwidth 1. Operations without tensor but of a
// weight's kind get it.
func Cyclic(memory, period float64, ops ...plan.Op) *plan.Plan {
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

// Op returns an operation on a layer.
func Op(kind string, layer int, start, end float64) plan.Op {
	return plan.Op{Op: kind, Layer: layer, Start: start, End: end}
}

// TwoLayers is a valid plan in which each weight leaves the GPU once and the
// memory is full while a backward runs.
//
//	compute  |B_2  |           |B_1  |F_1  |F_2  |
//	upload         |w_2  |           |w_1  |
//	prefetch             |w_1  |     |w_2  |
//	         0     2     4     6     8     10    12
func TwoLayers() (*chain.Chain, *plan.Plan) {
	return Network(0, [4]float64{2, 2, 0, 2}, [4]float64{2, 2, 0, 2}),
		Cyclic(4, 12,
			Op("B", 2, 0, 2), Op("O", 2, 2, 4), Op("D", 2, 4, 4),
			Op("P", 1, 4, 6), Op("B", 1, 6, 8), Op("O", 1, 8, 10), Op("P", 2, 8, 10),
			Op("F", 1, 8, 10), Op("D", 1, 10, 10), Op("F", 2, 10, 12))
}
