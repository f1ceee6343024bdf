package testcase

import (
	"math/rand/v2"

	optimum "workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Training is the subject of training steps with storages for rematerialization.
func Training() *Subject {
	return &Subject{
		Kind: training.Kind, Units: "forward nodes", Usual: 3, Most: 4, Draw: drawTraining, Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimum.Search(plan.As[*training.Graph](t.In), t.Platform.Memory, states)
		},
	}
}

func drawTraining(r *rand.Rand) *Trial {
	g := random.Training(r, 1+r.IntN(3))
	least, _ := optimum.LeastMemory(g, drawn) // 0 where it is not known
	return &Trial{In: g, Platform: platform.Platform{Memory: nearBreakpoint(r, least+float64(r.IntN(4)))}, Pace: 1}
}
