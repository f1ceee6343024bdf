package activationoffload

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/plan"
)

// moved is when a tensor is offloaded and prefetched.
type moved struct {
	off, back [2]float64 // starts and ends
	is        bool
}

// offloadTimes are the times of a plan, in the units of instance.
type offloadTimes struct {
	s     []float64 // of computation k
	moves []moved   // by tensor, i ≤ N−2
	near  float64   // maximum distance of two events of a tie
}

// times reads a plan in which F_1 starts at 0: of each tensor the first offload and the last
// prefetch before its use. Without what is between, the tensor remains on the host, so the plan
// remains valid.
func (in *instance) times(p *plan.Plan) (*offloadTimes, error) {
	if p == nil || p.Problem != plan.ActivationOffload {
		return nil, fmt.Errorf("%w: not a plan of activation offloading", formulation.ErrStart)
	}
	t := &offloadTimes{s: make([]float64, 2*in.N), moves: make([]moved, in.tensors()), near: plan.Tolerance / 2 * p.Claims.Makespan / in.unit}
	for k := range t.s {
		t.s[k] = math.NaN()
	}
	for q := range p.Ops {
		switch o := &p.Ops[q]; {
		case o.Op == plan.OpFAll && o.Layer >= 1 && o.Layer <= in.N:
			t.s[o.Layer-1] = o.Start / in.unit
		case o.Op == plan.OpB && o.Layer >= 1 && o.Layer <= in.N:
			t.s[2*in.N-o.Layer] = o.Start / in.unit
		}
	}
	for k, s := range t.s {
		if math.IsNaN(s) {
			op, layer := in.opOf(k)
			return nil, fmt.Errorf("%w: %s %d is missing", formulation.ErrStart, op, layer)
		}
	}
	t.s[0] = 0
	in.transfers(p, t)
	return t, nil
}

// transfers reads those of a plan.
func (in *instance) transfers(p *plan.Plan, t *offloadTimes) {
	for i := range t.moves {
		t.moves[i].off[0], t.moves[i].back[0] = math.Inf(1), math.Inf(-1)
	}
	for q := range p.Ops {
		o := &p.Ops[q]
		if o.Layer < 0 || o.Layer >= len(t.moves) {
			continue
		}
		m, start, end := &t.moves[o.Layer], o.Start/in.unit, o.End/in.unit
		switch {
		case o.Op == plan.OpO && start < m.off[0]:
			m.off = [2]float64{start, end}
		case o.Op == plan.OpP && start > m.back[0] && end <= t.s[in.last(o.Layer)+1]+t.near:
			m.back, m.is = [2]float64{start, end}, true
		}
	}
}

// instant returns the time of an event, see offload.
func (t *offloadTimes) instant(in *instance, j int) float64 {
	if j%2 == 0 {
		return t.s[j/2]
	}
	return t.s[j/2] + in.u[j/2]
}

// normal brings times to the normal form of offload.
func (in *instance) normal(t *offloadTimes) *offloadTimes {
	n := &offloadTimes{s: slices.Clone(t.s), moves: make([]moved, len(t.moves)), near: t.near}
	t = &offloadTimes{s: t.s, moves: slices.Clone(t.moves), near: t.near}
	for i := range t.moves { // a tensor that is on the host during no computation need not be moved
		m := &t.moves[i]
		k := in.last(i)
		m.is = m.is && m.back[0] >= t.s[in.first(i)]-t.near && m.off[1] <= t.s[k]+in.u[k]+t.near
	}
	for k := 1; k < in.N; k++ {
		if in.busy(k - 1) {
			n.s[k] = n.s[k-1] + in.u[k-1]
		}
	}
	for k := 2*in.N - 2; k >= in.N; k-- {
		if in.busy(k) {
			n.s[k] = n.s[k+1] - in.u[k]
		}
	}
	seen := make([]bool, len(t.moves))
	for i := range t.moves {
		if !seen[i] && in.movable(i) {
			in.normalClass(t, n, i, seen)
		}
	}
	return n
}

// normalClass assigns the transfers of tensors with the size of ā_i to those with the smallest
// indices.
func (in *instance) normalClass(t, n *offloadTimes, i int, seen []bool) {
	var class []int
	var off, back [][2]float64
	for j := i; j < len(t.moves); j++ {
		if in.Abar[j] != in.Abar[i] {
			continue
		}
		seen[j] = true
		class = append(class, j)
		if t.moves[j].is {
			off, back = append(off, t.moves[j].off), append(back, t.moves[j].back)
		}
	}
	by := func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) }
	slices.SortFunc(off, by)
	slices.SortFunc(back, by)
	for q := range off {
		if last := back[len(back)-1-q]; off[q][1] <= last[0]+t.near {
			n.moves[class[q]] = moved{off[q], last, true}
		}
	}
}
