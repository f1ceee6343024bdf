package weights

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/plan"
)

// timeline is a plan of weight offloading in normal form and in the units of
// the models. The start of B_L is time 0, and what happens in a gap has times
// between the end of its first operation and the start of its last one, which
// may be beyond the period T.
//
// Normal form: a weight is discarded once and prefetched once in each gap in
// which it is away, and uploaded once a cycle if it is ever away, before it is
// first discarded. Every valid plan can be brought to it without changing T:
// between two uses, only the first discard and the last prefetch count, since
// leaving out the stay between them (and the uploads in it, of a value that the
// host holds already) frees memory and links; and of the uploads after a
// backward only the first counts, since a discard needs one that has ended, and
// none of them frees anything.
type timeline struct {
	T    float64
	s    []float64 // 2L: start of operation j, s[0] = 0
	away []bool    // 2L, by gap
	del  []float64 // 2L, by gap: when the weight is discarded, if away
	pre  []float64 // 2L, by gap: start of the prefetch, if away
	up   []float64 // L: start of the upload, if a gap of the layer is away
}

func newTimeline(in *weightInstance) *timeline {
	return &timeline{
		s: make([]float64, in.n), away: make([]bool, in.n),
		del: make([]float64, in.n), pre: make([]float64, in.n), up: make([]float64, in.L),
	}
}

// uploads reports whether w_k is uploaded.
func (t *timeline) uploads(k int) bool { return t.away[2*k] || t.away[2*k+1] }

// window returns the times between which everything in gap g happens: the end
// of the operation before it and the start of the one after it.
func (t *timeline) window(in *weightInstance, g int) (from, to float64) {
	a, b := in.last(g), in.use(g)
	from, to = t.s[a]+in.u[a], t.s[b]
	if b < a {
		to += t.T
	}
	return from, to
}

// readTimeline brings a plan, which must be valid, to normal form.
func (in *weightInstance) readTimeline(p *plan.Plan) (*timeline, error) {
	switch {
	case p == nil || p.Problem != plan.WeightOffload:
		return nil, fmt.Errorf("%w: no plan of %s", formulation.ErrStart, plan.WeightOffload)
	case p.Period == nil || !(*p.Period > 0):
		return nil, fmt.Errorf("%w: the plan has no period", formulation.ErrStart)
	}
	t := newTimeline(in)
	t.T = *p.Period / in.time
	starts := make([]float64, in.n)
	for j := range starts {
		starts[j] = math.NaN()
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		if o.Layer < 1 || o.Layer > in.L {
			return nil, fmt.Errorf("%w: %s is of layer %d, the chain has layers 1 to %d", formulation.ErrStart, o, o.Layer, in.L)
		}
		switch o.Op {
		case plan.OpB:
			starts[in.B(o.Layer-1)] = o.Start / in.time
		case plan.OpF:
			starts[in.F(o.Layer-1)] = o.Start / in.time
		}
	}
	for j := range starts {
		if math.IsNaN(starts[j]) {
			return nil, fmt.Errorf("%w: %s is missing", formulation.ErrStart, in.opName(j))
		}
		if j > 0 {
			end := t.s[j-1] + in.u[j-1]
			t.s[j] = end + t.wrap(starts[j]-starts[0]-end)
		}
	}
	if last := in.n - 1; t.s[last]+in.u[last] > t.T*(1+plan.Tolerance) {
		return nil, fmt.Errorf("%w: computations are not in order", formulation.ErrStart)
	}
	return t, t.readTransfers(in, p, starts[0])
}

// readTransfers fills what concerns weights. begin is the plan's time of B_L.
func (t *timeline) readTransfers(in *weightInstance, p *plan.Plan, begin float64) error {
	for k := range t.up {
		t.up[k] = math.Inf(1)
	}
	for g := range t.del {
		t.del[g], t.pre[g] = math.Inf(1), math.Inf(-1)
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		k := o.Layer - 1
		if o.Tensor != plan.TensorW || in.w[k] == 0 {
			continue
		}
		at := o.Start/in.time - begin
		after := t.s[in.B(k)] + in.u[in.B(k)]
		switch o.Op {
		case plan.OpO:
			t.up[k] = min(t.up[k], after+t.wrap(at-after))
		case plan.OpD:
			g, x := t.gap(in, k, at)
			t.del[g] = min(t.del[g], x)
		case plan.OpP:
			g, x := t.gap(in, k, at)
			t.pre[g] = max(t.pre[g], x)
		}
	}
	for g := range t.away {
		k := g >> 1
		t.away[g] = !math.IsInf(t.del[g], 0)
		if t.away[g] == math.IsInf(t.pre[g], 0) || t.away[g] && math.IsInf(t.up[k], 0) {
			return fmt.Errorf("%w: w_%d is not discarded, uploaded and prefetched in turn", formulation.ErrStart, k+1)
		}
	}
	return nil
}

// gap returns in which gap of layer k the instant x lies, and x in the times
// of that gap. The end of a gap belongs to the next one: no weight is discarded
// or on its way then.
func (t *timeline) gap(in *weightInstance, k int, x float64) (g int, at float64) {
	from, to := t.window(in, 2*k)
	if at = from + t.wrap(x-from); at < to-plan.Tolerance*t.T {
		return 2 * k, at
	}
	from, _ = t.window(in, 2*k+1)
	return 2*k + 1, from + t.wrap(x-from)
}

// wrap returns x modulo T in [0, T), and 0 if x is a multiple of T but for the
// tolerance of plans.
func (t *timeline) wrap(x float64) float64 {
	x -= t.T * math.Floor(x/t.T)
	if x >= t.T*(1-plan.Tolerance) || x <= t.T*plan.Tolerance {
		return 0
	}
	return x
}

// at returns the start of operation j, counted on from B_L of this cycle:
// j ≥ 2L are operations of the next.
func (t *timeline) at(j int) float64 {
	if n := len(t.s); j >= n {
		return t.s[j-n] + t.T
	}
	return t.s[j]
}

// share calls add(j, amount) for each interval [start of operation j, start of
// j+1) from operation a to before operation b, and for what a transfer of w
// that starts at x sends in it. a < b may count on beyond 2L. What rounding
// leaves over goes to the last interval it touches.
func (t *timeline) share(a, b int, x, w float64, add func(j int, amount float64)) {
	left := w
	for j := a; j < b && left > 0; j++ {
		sent := min(left, t.at(j+1)-max(x, t.at(j)))
		if j == b-1 {
			sent = left
		}
		if sent > 0 {
			add(j%len(t.s), sent)
			left -= sent
		}
	}
}
