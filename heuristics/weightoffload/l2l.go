package weightoffload

import (
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
)

// L2L returns the plan of Pudipeddi et al., "Training Large Neural Networks with Constant Memory
// using a New Execution Algorithm", 2020, as described in [001] §7. The weights of one layer are on
// the GPU. Each is prefetched just before its operation, without overlap, except for F_1, which
// follows B_1 with the same weights, and is deleted after it. With uniform weights T = Σu +
// (2L−1)·|w|/β, the column of [001] Table 1.
//
// Uploads overlap prefetches and computations if memory holds both layers. Otherwise the prefetch
// waits for the upload and the deletion, so there is a plan for every memory from the low
// end of Range on. O(L) placements.
func L2L(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return solve(c, p, "l2l", func(in *instance) (*weightoffload.Schedule, error) {
		s, ok := in.layerByLayer()
		if !ok {
			return nil, fmt.Errorf("l2l: %w: a layer does not fit alone in %s", plan.ErrNoPlan, in.Chain.Unit.Exactly(in.Memory))
		}
		return s, nil
	})
}

// layerByLayer returns the schedule of L2L.
func (in *instance) layerByLayer() (*weightoffload.Schedule, bool) {
	s, m := weightoffload.NewSchedule(in.Instance), newMachine(in)
	gone := make([]float64, in.L) // when w_k was last deleted
	first := 0                    // the layer whose weight is resident from its B to its F
	for first < in.L-1 && in.W[first] == 0 {
		first++
	}
	for g := range s.Away {
		s.Away[g] = in.W[g>>1] > 0 && g != 2*first
	}
	// At the start of the cycle every weight is on the host.
	if !m.start(0) {
		return nil, false
	}
	s.T = 0
	for j := range in.N {
		k := in.Layer(j)
		g := in.Gap(j)
		ready := m.free
		if s.Away[g] {
			s.Pre[g] = m.prefetch(k, max(m.free, gone[k]))
			ready = s.Pre[g] + in.Move[k]
		}
		s.Op[j] = m.compute(j, ready)
		if math.IsInf(s.Op[j], 1) {
			return nil, false
		}
		if j == in.B(k) && s.Uploads(k) {
			s.Up[k] = m.upload(k, m.free)
		}
		if s.Away[g^1] {
			gone[k] = s.Deleted(in.Instance, g^1)
			m.remove(k, gone[k])
			s.T = max(s.T, gone[k])
		}
	}
	s.T = max(s.T, m.free, m.off)
	// The prefetch before B_k ends the gap that began after F_k a cycle ago.
	shift := s.Op[0]
	for k := range in.L {
		s.Pre[2*k+1] += s.T
	}
	s.Shift(-shift)
	return s, true
}
