package testcase

import (
	"math/rand/v2"

	optimum "workbench/model/exhaustive/join"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Join is the subject of joins.
func Join() *Subject {
	return &Subject{
		Kind: join.Kind, Units: "branches", Usual: 3, Most: 3,
		Draw: func(r *rand.Rand) *Trial {
			j := random.Join(r, 1+r.IntN(3), r.IntN(7))
			least, _ := optimum.LeastSlots(j, drawn) // 0 where it is not known
			return &Trial{In: j, Platform: platform.Platform{Memory: float64(max(1, least-1+r.IntN(4)))}, Pace: 1}
		},
		Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimum.Search(plan.As[*join.Join](t.In), int(t.Platform.Memory), states)
		},
	}
}
