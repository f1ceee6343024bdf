package testcase

import (
	"fmt"
	"math/rand/v2"
	"slices"

	optimumactivationoffload "workbench/model/exhaustive/activationoffload"
	optimumrematoffload "workbench/model/exhaustive/rematoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Offload is the subject of chains for activation offloading.
func Offload() *Subject {
	return &Subject{
		Kind: chain.Kind, Units: "layers", Usual: 5, Most: 8,
		Random: func(r *rand.Rand, layers int) (*Trial, error) {
			c, memory, bandwidth := random.Offload(r, layers)
			return &Trial{In: c, Platform: platform.Platform{Memory: max(1, memory), Bandwidth: bandwidth}, Pace: 1}, nil
		},
		Draw: func(r *rand.Rand) *Trial { return drawOffload(r, 1+r.IntN(5)) }, Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimumactivationoffload.Search(t.Chain(), t.Platform.Memory, t.Platform.Bandwidth, states)
		},
		Smaller: smallerOffload,
		Text:    func(t *Trial, _ *plan.Plan) string { return offloadText(t) },
	}
}

// RematOffload is the subject of chains for rematerialization with offloading.
func RematOffload() *Subject {
	return &Subject{
		Kind: chain.Kind, Units: "layers", Usual: 4, Most: 5, Random: RandomRematOffload,
		Draw: func(r *rand.Rand) *Trial { return drawOffload(r, 1+r.IntN(3)) }, Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			c, p := t.whole()
			least, best, err := optimumrematoffload.Search(c, p.Memory, p.Bandwidth, states)
			if t.Pace != 1 {
				best = nil
			}
			return least * t.Pace, best, err
		},
		Covers:  wholeTimes,
		Smaller: smallerOffload,
		Text:    func(t *Trial, best *plan.Plan) string { return offloadText(t) + bestPlan(best) },
	}
}

// wholeTimes reports whether no offload of p ends right after a computation has started, as in the plans of
// exhaustive/rematoffload.Search. O(operations²).
func wholeTimes(_ *Trial, p *plan.Plan) bool {
	if p == nil {
		return true
	}
	instant := plan.Tolerance * p.Claims.Makespan
	for i := range p.Ops {
		for k := range p.Ops {
			late := p.Ops[i].End - p.Ops[k].Start
			if p.Ops[i].Op == plan.OpO && p.Ops[k].Tensor == "" && late > instant && late < 100*instant {
				return false
			}
		}
	}
	return true
}

// RandomRematOffload returns a chain with a link. The memory is between the minima for rematerialization alone and
// without transfers, sometimes less.
func RandomRematOffload(r *rand.Rand, layers int) (*Trial, error) {
	x, err := randomRemat(r, layers)
	if err != nil {
		return nil, err
	}
	p := platform.Platform{Memory: max(1, x.Platform.Memory-float64(r.IntN(3)/2)), Bandwidth: []float64{1, 1, 0.5, 0}[r.IntN(4)]}
	return &Trial{In: x.In, Platform: p, Pace: 1}, nil
}

func drawOffload(r *rand.Rand, layers int) *Trial {
	c, memory, bandwidth := random.Offload(r, layers)
	c, memory, bandwidth = random.Magnify(r, c, memory, bandwidth)
	x := pace(r)
	return &Trial{In: random.Pace(c, x), Platform: platform.Platform{Memory: memory, Bandwidth: bandwidth / x}, Pace: x}
}

// smallerOffload is smallerRemat with a link.
func smallerOffload(x *Trial) []*Trial {
	all := smallerRemat(x)
	s := &shrinker{x: x}
	s.number(func(y *Trial) *float64 { return &y.Platform.Bandwidth })
	return append(all, slices.DeleteFunc(s.all, func(y *Trial) bool { return y.Platform.Bandwidth <= 0 })...)
}

func offloadText(x *Trial) string {
	return fmt.Sprintf("bandwidth %g, ", x.Platform.Bandwidth) + rematText(x)
}
