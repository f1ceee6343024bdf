package activationoffload

import (
	"math"
	"math/rand/v2"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testcase/random"
)

// dynProgCase draws a chain, with small numbers or long ones, and a platform whose
// memory is in the range where it matters.
func dynProgCase(r *rand.Rand, layers int) (*chain.Chain, platform.Platform) {
	c := random.Chain(r, layers)
	p := platform.Platform{Bandwidth: []float64{0.5, 1, 1, 2, 4}[r.IntN(5)]}
	low, high := view.Range(c)
	p.Memory = low + float64(r.IntN(int(high-low)+1))
	if r.IntN(2) == 0 {
		for i := range c.Layers {
			l := &c.Layers[i]
			for _, x := range []*float64{&l.ForwardTime, &l.BackwardTime, &l.Saved, &l.Gradient, &l.ForwardOverhead, &l.BackwardOverhead} {
				*x *= 0.2 + r.Float64()
			}
			l.Activation = 0
		}
		longSizes(c)
		p.Memory, p.Bandwidth = between(r, c), 1000*p.Bandwidth
	}
	return c, p
}

// A sent is a transfer of so many bytes that has ended at a time, in a phase
// whose transfers follow each other in the order of indices.
type sent struct {
	index      int
	start, end float64
}

// ordered is the ordered no-wait schedule of a set in the model of fractional
// communications, simulated event by event in seconds: nothing of Algorithm 5 is
// used. Of the backward phase times are counted from the end of the plan.
type ordered struct {
	in                   *instance
	startF, endF         []float64
	startB, endB         []float64
	offloads, prefetches []sent
}

// arrives is the time when x bytes of the transfers before number count have been
// sent; +Inf if they are less.
func (o *ordered) arrives(transfers []sent, x float64) float64 {
	for _, s := range transfers {
		size := o.in.Abar[s.index]
		if x <= 0 {
			break
		}
		if x <= size {
			return s.start + x/size*(s.end-s.start)
		}
		x -= size
		if x <= 0 {
			return s.end
		}
	}
	if x > o.in.Memory*1e-11 {
		return math.Inf(1)
	}
	return 0
}

// phase simulates one phase; ok false if something never fits. lag 0: ā_i can be
// sent when F_i has ended; lag 1: when B_{i+1} has, in reversed time.
func (o *ordered) phase(away []bool, u, need []float64, lag int) (start, end []float64, transfers []sent, ok bool) {
	in := o.in
	start, end = make([]float64, in.N+1), make([]float64, in.N+1)
	link := 0.0
	next := 0
	enqueue := func(upTo int) { // transfers of ā_i for i ≤ upTo, whose computations have ended
		for ; next <= upTo; next++ {
			if away[next] {
				s := sent{index: next, start: max(link, end[next+lag])}
				s.end = s.start + in.Move[next]
				link = s.end
				transfers = append(transfers, s)
			}
		}
	}
	for l := 1; l <= in.N; l++ {
		enqueue(l - 2)
		t := o.arrives(transfers, in.Before[l]+need[l]-in.Memory)
		if math.IsInf(t, 1) {
			return nil, nil, nil, false
		}
		start[l] = max(end[l-1], t)
		end[l] = start[l] + u[l]
	}
	enqueue(in.N - 1)
	return start, end, transfers, true
}

// simulate returns the makespan; +Inf if the set does not fit. apart: the phases
// share no transfers.
func (o *ordered) simulate(away []bool, apart bool) float64 {
	in := o.in
	var ok bool
	if o.startF, o.endF, o.offloads, ok = o.phase(away, in.UF, in.NeedF, 0); !ok {
		return math.Inf(1)
	}
	if o.startB, o.endB, o.prefetches, ok = o.phase(away, in.UB, in.NeedB, 1); !ok {
		return math.Inf(1)
	}
	endF, endB := o.endF[in.N], o.endB[in.N]
	T := endF + endB
	m := len(o.offloads)
	if m == 0 {
		return T
	}
	last := o.offloads[m-1]
	doneF, doneB := last.end, o.prefetches[m-1].end
	if apart {
		return max(doneF, endF) + max(doneB, endB)
	}
	T = max(T, doneF+doneB, o.endF[last.index+1]+doneB)
	for l := 1; l <= in.N; l++ {
		if l > last.index+1 {
			// When F_ℓ ends so much has to be still on the host.
			T = max(T, o.endF[l]+o.arrives(o.prefetches, in.Before[l]+in.NeedF[l]-in.Memory))
			// When B_ℓ starts so much has to be gone.
			T = max(T, o.endB[l]+o.arrives(o.offloads, in.Before[l]+in.NeedB[l]-in.Memory))
		}
	}
	return T
}

// plan writes what was simulated with makespan T. T minus a time is rounded, so
// what follows starts no earlier than what precedes it has ended.
func (o *ordered) plan(T float64) *plan.Plan {
	in := o.in
	var ops []plan.Op
	free := 0.0
	add := func(op plan.Op, start, length float64) {
		op.Start = max(free, start)
		free = op.Start + length
		op.End = free
		ops = append(ops, op)
	}
	for l := 1; l <= in.N; l++ {
		add(plan.Op{Op: plan.OpFAll, Layer: l}, o.startF[l], in.UF[l])
	}
	for l := in.N; l >= 1; l-- {
		add(plan.Op{Op: plan.OpB, Layer: l}, T-o.endB[l], in.UB[l])
	}
	free = 0
	for _, s := range o.offloads {
		add(plan.Op{Op: plan.OpO, Tensor: plan.TensorAbar, Layer: s.index}, s.start, in.Move[s.index])
	}
	for k := len(o.prefetches) - 1; k >= 0; k-- {
		s := o.prefetches[k]
		add(plan.Op{Op: plan.OpP, Tensor: plan.TensorAbar, Layer: s.index}, T-s.end, in.Move[s.index])
	}
	return in.NewPlan("fractional", ops, T)
}

// sets calls f with every subset of ā_0..ā_{n-1}.
func sets(n int, f func(away []bool)) {
	away := make([]bool, n)
	for bits := range 1 << n {
		for i := range away {
			away[i] = bits>>i&1 != 0
		}
		f(away)
	}
}

func bools(n int, indices []int) []bool {
	away := make([]bool, n)
	for _, i := range indices {
		away[i] = true
	}
	return away
}
