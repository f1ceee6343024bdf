package weights

import (
	"fmt"
	"math"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// L2L keeps the weights of one layer on the GPU: each is prefetched just
// before its operation, without overlap, except for F_1, which follows B_1
// with the same weights, and is deleted after it. With uniform weights that
// takes T = Σu + (2L−1)·|w|/β, the column of [001] Table 1.
//
// Uploads overlap prefetches and computations where the memory holds both
// layers; where it does not, the prefetch waits for the upload and the
// deletion, so that there is a plan for every memory of at least Range().low.
// O(L) placements.
func L2L(c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	s, ok := in.layerByLayer()
	if !ok {
		return nil, fmt.Errorf("l2l: %w: a layer does not fit alone in %.0f bytes", plan.ErrNoPlan, in.memory)
	}
	return s.plan(in, "l2l"), nil
}

// layerByLayer returns the schedule of L2L.
func (in *instance) layerByLayer() (*schedule, bool) {
	s, m := newSchedule(in), newMachine(in)
	gone := make([]float64, in.L) // when w_k was last deleted
	first := 0                    // the layer whose weight stays between its B and its F
	for first < in.L-1 && in.W[first] == 0 {
		first++
	}
	for g := range s.away {
		s.away[g] = in.W[g>>1] > 0 && g != 2*first
	}
	// At the start of the cycle every weight is on the host.
	if !m.start(0) {
		return nil, false
	}
	s.T = 0
	for j := range in.n {
		k := in.Layer(j)
		g := in.gap(j)
		ready := m.free
		if s.away[g] {
			s.pre[g] = m.prefetch(k, max(m.free, gone[k]))
			ready = s.pre[g] + in.move[k]
		}
		s.op[j] = m.compute(j, ready)
		if math.IsInf(s.op[j], 1) {
			return nil, false
		}
		if j == in.B(k) && s.uploads(k) {
			s.up[k] = m.upload(k, m.free)
		}
		if s.away[g^1] {
			gone[k] = s.deleted(in, g^1)
			m.remove(k, gone[k])
			s.T = max(s.T, gone[k])
		}
	}
	s.T = max(s.T, m.free, m.off)
	// The prefetch before B_k ends the gap that began after F_k a cycle ago.
	shift := s.op[0]
	for k := range in.L {
		s.pre[2*k+1] += s.T
	}
	s.shift(-shift)
	return s, true
}

// shift moves everything by d, so that the cycle may start at 0.
func (s *schedule) shift(d float64) {
	for j := range s.op {
		s.op[j] += d
	}
	for g := range s.pre {
		s.pre[g] += d
	}
	for k := range s.up {
		s.up[k] += d
	}
	for k := range s.again {
		s.again[k] += d
	}
}
