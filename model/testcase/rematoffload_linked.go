package testcase

import (
	"fmt"
	"math/rand/v2"
	"strings"

	optimumrematgraph "workbench/model/exhaustive/rematgraph"
	optimumrematoffload "workbench/model/exhaustive/rematoffload"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Linked is the subject of training steps with storages and a link to the host.
func Linked() *Subject {
	return &Subject{
		Kind: training.Kind, Units: "forward nodes", Usual: 2, Most: 2, Draw: func(r *rand.Rand) *Trial { return drawLinked(r, 1+r.IntN(2)) },
		Searched: drawn / 8,
		Random: func(r *rand.Rand, units int) (*Trial, error) {
			t := drawLinked(r, 1+r.IntN(units))
			t.Platform.Bandwidth = []float64{1, 0.5, 0.25}[r.IntN(3)]
			t.Platform.Memory = max(0, t.Platform.Memory-float64(r.IntN(4))) // a few bytes on the host decide
			return t, nil
		},
		Smaller: func(*Trial) []*Trial { return nil },
		Text: func(t *Trial, _ *plan.Plan) string {
			var s strings.Builder
			if err := plan.As[*training.Graph](t.In).Write(&s); err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%sin %g bytes, %g a second\n", s.String(), t.Platform.Memory, t.Platform.Bandwidth)
		},
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimumrematoffload.SearchGraph(plan.As[*training.Graph](t.In), t.Platform.Memory, t.Platform.Bandwidth, states)
		},
	}
}

// drawLinked returns a step with the given number of forward nodes. Transfers of its values take integer seconds,
// some of them none, and its memory is about the minimum without a link or less.
func drawLinked(r *rand.Rand, nodes int) *Trial {
	g := random.Training(r, nodes)
	slower := float64(1 + r.IntN(3))
	for v := range g.Nodes {
		g.Nodes[v].Time *= slower
	}
	for s := range g.Storages {
		g.Storages[s].NoOffload = r.IntN(10) == 0
	}
	least, _ := optimumrematgraph.LeastMemory(g, drawn) // 0 where it is not known
	memory := max(0, least+float64(r.IntN(7)-3))
	return &Trial{In: g, Platform: platform.Platform{Memory: memory, Bandwidth: []float64{1, 1, 0.5, platform.NoLink}[r.IntN(4)]}, Pace: 1}
}
