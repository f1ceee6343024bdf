package subject

import (
	"math/rand/v2"

	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/training"
)

// Linked are training steps with storages and a link to the host.
func Linked() *Subject {
	return &Subject{
		Kind: training.Kind, Units: "forward nodes", Usual: 2, Most: 2, Draw: drawLinked, Searched: drawn / 8,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return exhaustive.TrainingOffload(plan.As[*training.Graph](t.In), t.Platform.Memory, t.Platform.Bandwidth, states)
		},
	}
}

// drawLinked returns a step of one or two forward nodes that travel for whole seconds, some
// of them not at all, in about the least memory without a link or less.
func drawLinked(r *rand.Rand) *Trial {
	g := exhaustive.RandomTraining(r, 1+r.IntN(2))
	slower := float64(1 + r.IntN(3))
	for v := range g.Nodes {
		g.Nodes[v].Time *= slower
	}
	for s := range g.Storages {
		g.Storages[s].NoOffload = r.IntN(10) == 0
	}
	least, _ := exhaustive.TrainingLeastMemory(g, drawn) // 0 where it is not known
	memory := max(0, least+float64(r.IntN(7)-3))
	return &Trial{In: g, Platform: platform.Platform{Memory: memory, Bandwidth: []float64{1, 1, 0.5, platform.NoLink}[r.IntN(4)]}, Pace: 1}
}
