package offload

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

// offloadTimes are the times of a plan, in the units of offloadInstance.
type offloadTimes struct {
	s     []float64 // of computation k
	moves []moved   // by tensor, i ≤ N−2
}

// times reads a plan: of each tensor the first offload and the last prefetch
// before its use. Leaving out what is between, the tensor stays away, so the
// plan stays valid.
func (in *offloadInstance) times(p *plan.Plan) (*offloadTimes, error) {
	if p == nil || p.Problem != plan.ActivationOffload {
		return nil, fmt.Errorf("%w: no plan of activation offloading", formulation.ErrStart)
	}
	t := &offloadTimes{s: make([]float64, 2*in.n), moves: make([]moved, max(0, in.n-1))}
	for k := range t.s {
		t.s[k] = math.NaN()
	}
	for i := range t.moves {
		t.moves[i].off[0], t.moves[i].back[0] = math.Inf(1), math.Inf(-1)
	}
	for q := range p.Ops {
		o := &p.Ops[q]
		start, end := o.Start/in.unit, o.End/in.unit
		switch {
		case o.Op == plan.OpFAll && o.Layer >= 1 && o.Layer <= in.n:
			t.s[o.Layer-1] = start
		case o.Op == plan.OpB && o.Layer >= 1 && o.Layer <= in.n:
			t.s[2*in.n-o.Layer] = start
		case (o.Op == plan.OpO || o.Op == plan.OpP) && o.Layer >= 0 && o.Layer < len(t.moves):
			m := &t.moves[o.Layer]
			if o.Op == plan.OpO && start < m.off[0] {
				m.off = [2]float64{start, end}
			}
			if o.Op == plan.OpP && start > m.back[0] {
				m.back, m.is = [2]float64{start, end}, true
			}
		}
	}
	for k, s := range t.s {
		if math.IsNaN(s) {
			op, layer := in.opOf(k)
			return nil, fmt.Errorf("%w: %s %d is missing", formulation.ErrStart, op, layer)
		}
	}
	return t, nil
}

// write makes a plan of times.
func (in *offloadInstance) write(t *offloadTimes, method string) *plan.Plan {
	p := plan.New(plan.ActivationOffload, method, in.c, in.p)
	end := 0.0 // of the last computation
	for k, s := range t.s {
		op, layer := in.opOf(k)
		l := &in.c.Layers[layer-1]
		length := l.ForwardTime
		if k >= in.n {
			length = l.BackwardTime
		}
		start := s * in.unit
		if start < end+Instantly*in.unit { // rounding must not reverse those that take no time
			start = end
		}
		end = start + length
		p.Ops = append(p.Ops, plan.Op{Op: op, Layer: layer, Start: start, End: end})
	}
	for i := range t.moves {
		m := &t.moves[i]
		if !m.is {
			continue
		}
		size := in.c.Input.Activation
		if i > 0 {
			size = in.c.Layers[i-1].Saved
		}
		for q, start := range [...]float64{m.off[0] * in.unit, m.back[0] * in.unit} {
			p.Ops = append(p.Ops, plan.Op{
				Op: [...]string{plan.OpO, plan.OpP}[q], Tensor: plan.TensorAbar, Layer: i,
				Start: start, End: start + size/in.p.Bandwidth,
			})
		}
	}
	slices.SortStableFunc(p.Ops, func(a, b plan.Op) int { return cmp.Compare(a.Start, b.Start) })
	p.Claims = plan.Claims{Makespan: end, PeakMemory: in.peak(t)}
	return p
}

// peak returns the most memory in use, bytes, which is when a computation or a
// prefetch starts. In the idle time before a computation less is in use than
// while it runs.
func (in *offloadInstance) peak(t *offloadTimes) float64 {
	peak := 0.0
	at := func(k int, x float64) { // at time x while computation k runs
		back := Instantly
		if in.u[k] <= Instantly { // it is over before prefetches of that instant begin
			back = -Instantly
		}
		use := in.need[k]
		for i := range t.moves {
			m := &t.moves[i]
			if m.is && in.first(i) <= k && k <= in.last(i) && m.off[1] <= x+Instantly && m.back[0] > x+back {
				use -= in.abar[i]
			}
		}
		peak = max(peak, use)
	}
	for k, s := range t.s {
		at(k, s)
		for i := range t.moves {
			if m := &t.moves[i]; m.is && m.back[0] > s && m.back[0] < s+in.u[k]-Instantly {
				at(k, m.back[0])
			}
		}
	}
	return peak * in.size
}

// instantly is how much apart two events can be at one instant.
const Instantly = 1000 * plan.Tolerance

// instant returns the time of an instant, see offload.
func (t *offloadTimes) instant(in *offloadInstance, j int) float64 {
	if j%2 == 0 {
		return t.s[j/2]
	}
	return t.s[j/2] + in.u[j/2]
}

// normal brings times to the normal form of offload.
func (in *offloadInstance) normal(t *offloadTimes) *offloadTimes {
	n := &offloadTimes{s: slices.Clone(t.s), moves: make([]moved, len(t.moves))}
	t = &offloadTimes{s: t.s, moves: slices.Clone(t.moves)}
	for i := range t.moves { // what is away during no computation need not move
		m := &t.moves[i]
		k := in.last(i)
		m.is = m.is && m.back[0] >= t.s[in.first(i)]-Instantly && m.off[1] <= t.s[k]+in.u[k]+Instantly
	}
	for k := 1; k < in.n; k++ {
		if in.busy(k - 1) {
			n.s[k] = n.s[k-1] + in.u[k-1]
		}
	}
	for k := 2*in.n - 2; k >= in.n; k-- {
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

// normalClass gives the transfers of tensors of the size of ā_i to those with
// the least numbers.
func (in *offloadInstance) normalClass(t, n *offloadTimes, i int, seen []bool) {
	var class []int
	var off, back [][2]float64
	for j := i; j < len(t.moves); j++ {
		if in.abar[j] != in.abar[i] {
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
		if last := back[len(back)-1-q]; off[q][1] <= last[0]+Instantly {
			n.moves[class[q]] = moved{off[q], last, true}
		}
	}
}

// times of the last run.
func (w *noWait) times(o *orders) *offloadTimes {
	t := &offloadTimes{s: make([]float64, 2*w.n), moves: make([]moved, max(0, w.n-1))}
	f, b := &w.forward, &w.backward
	end := f.end + w.gap + b.end
	for k := range w.n {
		t.s[k] = f.s[k]
		t.s[2*w.n-1-k] = end - b.s[k] - w.u[2*w.n-1-k]
	}
	for q, i := range o.O {
		t.moves[i].is = true
		t.moves[i].off = [2]float64{f.start[q], f.start[q] + w.move[i]}
	}
	for q, i := range o.P {
		t.moves[i].back = [2]float64{end - b.start[q] - w.move[i], end - b.start[q]}
		if t.moves[i].back[0] < t.s[i]+w.u[i]-Instantly { // F_{i+1} still uses ā_i: it is never away
			t.moves[i].is = false
		}
	}
	return t
}
