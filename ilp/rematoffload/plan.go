package rematoffload

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/ilp/offload"
	"workbench/model/plan"
)

// tensor returns the number of the tensor of a transfer or discard, -1 if there
// is none.
func (f *rematOffload) tensor(o *plan.Op) int {
	switch {
	case o.Layer < 0 || o.Layer > f.n || o.Tensor != plan.TensorA && o.Tensor != plan.TensorAbar:
		return -1
	case o.Tensor == plan.TensorAbar && o.Layer > 0:
		return f.abar(o.Layer)
	case o.Layer < f.n:
		return o.Layer
	}
	return -1
}

// start gives every column its value in the plan.
func (f *rematOffload) start(p *plan.Plan) ([]float64, error) {
	if p == nil || p.Problem != plan.RematOffload {
		return nil, fmt.Errorf("%w: no plan of rematerialization with offloading", formulation.ErrStart)
	}
	r := newStageReader(f, p)
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.x, nil
}

// stageReader follows a plan from instant to instant.
type stageReader struct {
	f      *rematOffload
	device []plan.Op // computations and discards, in order
	link   []plan.Op // transfers, by start
	x      []float64

	stage   int // -1 before the first instant
	at      []float64
	stored  []bool
	fetched []bool // by transfer: its start has been seen
	done    []bool // by transfer
}

func newStageReader(f *rematOffload, p *plan.Plan) *stageReader {
	r := &stageReader{f: f, x: make([]float64, f.m.NumCols()), stage: -1, stored: make([]bool, 2*f.n+1)}
	for _, o := range p.Ops {
		o.Start, o.End = o.Start/f.unit, o.End/f.unit
		if o.Op == plan.OpO || o.Op == plan.OpP {
			if v := f.tensor(&o); v >= 0 && f.movable(v) {
				r.link = append(r.link, o)
			}
		} else {
			r.device = append(r.device, o)
		}
	}
	slices.SortStableFunc(r.link, func(a, b plan.Op) int { return cmp.Compare(a.Start, b.Start) })
	r.fetched, r.done = make([]bool, len(r.link)), make([]bool, len(r.link))
	r.stored[0] = true
	return r
}

func (r *stageReader) set(c column, value float64) {
	if c.ok {
		r.x[c.v.Index()] = value
	}
}

// read goes through the computations.
func (r *stageReader) read() error {
	f := r.f
	for i := range r.device {
		o := &r.device[i]
		if o.Layer < 1 || o.Layer > f.n {
			if o.Op != plan.OpD {
				return fmt.Errorf("%w: operation %s: there are layers 1..%d", formulation.ErrStart, o, f.n)
			}
		}
		r.events(o.Start)
		switch o.Op {
		case plan.OpD:
			if v := f.tensor(o); v >= 0 {
				r.stored[v] = false
			}
		case plan.OpFAll, plan.OpFCk, plan.OpFNone:
			made := o.Layer
			if o.Op == plan.OpFAll {
				made = f.abar(o.Layer)
			}
			if o.Layer == r.stage+2 && r.stage+1 < f.n {
				r.instant(o.Start)
				if o.Op == plan.OpFAll {
					r.x[f.first.At(r.stage).Index()] = 1
				}
			} else if made != f.n && r.stage >= 0 {
				r.set(f.R[r.stage][made], 1)
			}
			if made != f.n {
				r.stored[made] = true
			}
			if o.Op == plan.OpFNone {
				r.stored[o.Layer-1] = false
			}
		case plan.OpB:
			if r.stage+1 != 2*f.n-o.Layer {
				return fmt.Errorf("%w: %s comes too early or late", formulation.ErrStart, o)
			}
			r.instant(o.Start)
			r.stored[f.abar(o.Layer)] = false
			if o.Layer > 0 {
				r.stored[o.Layer-1] = false
			}
		}
	}
	if r.stage != f.stages()-1 {
		return fmt.Errorf("%w: only %d of %d computations", formulation.ErrStart, r.stage+1, f.stages())
	}
	r.amounts()
	return nil
}

// events takes note of the transfers that ended by time x, or began before it.
func (r *stageReader) events(x float64) {
	for i := range r.link {
		o := &r.link[i]
		v := r.f.tensor(o)
		if o.Op == plan.OpP && !r.fetched[i] && o.Start < x-offload.Instantly {
			r.fetched[i] = true
			r.stored[v] = true
		}
		if !r.done[i] && o.End <= x+offload.Instantly {
			r.done[i] = true
			if r.stored[v] = o.Op == plan.OpP; o.Op == plan.OpP {
				r.fetched[i] = true
			}
		}
	}
}

// instant begins the next stage.
func (r *stageReader) instant(x float64) {
	r.stage++
	r.at = append(r.at, x)
	for v, s := range r.stored {
		if s {
			r.set(r.f.S[r.stage][v], 1)
		}
	}
}

// amounts sets what transfers carry in each stage, what is coming, and the idle
// time.
func (r *stageReader) amounts() {
	f := r.f
	for i := range r.link {
		o := &r.link[i]
		v := f.tensor(o)
		began := false
		for j := range f.stages() - 1 {
			if o.Op == plan.OpP && !began && o.Start < r.at[j+1]-offload.Instantly {
				began = true
				r.set(f.q[j][v], 1)
			}
			if began && o.End > r.at[j+1]+offload.Instantly {
				r.set(f.coming[j+1][v], (o.End-r.at[j+1])/(o.End-o.Start))
			}
			part := (min(o.End, r.at[j+1]) - max(o.Start, r.at[j])) / (o.End - o.Start)
			if part <= 0 {
				continue
			}
			if c := f.O[j][v]; o.Op == plan.OpO && c.ok {
				r.x[c.v.Index()] = min(1, r.x[c.v.Index()]+part)
			}
		}
	}
	get := func(c column) float64 {
		if c.ok {
			return r.x[c.v.Index()]
		}
		return 0
	}
	for j := range f.idle.Len() {
		for v, c := range f.P[j] {
			r.set(c, get(f.coming[j][v])+get(f.q[j][v])-get(f.coming[j+1][v]))
		}
		work := f.u[j]
		for v, c := range f.R[j] {
			i, _ := f.layer(v)
			work += f.uF[i] * get(c)
		}
		r.x[f.idle.At(j).Index()] = max(0, r.at[j+1]-r.at[j]-work)
	}
}

// plan makes a plan of a solution, timed anew, or says that its order of
// computations does not fit: the model limits memory at instants only.
func (f *rematOffload) plan(x []float64) (*plan.Plan, error) {
	is := func(g [][]column, j, v int) bool {
		return j < len(g) && g[j][v].ok && x[g[j][v].v.Index()] > 0.5
	}
	t := &pager{f: f, peak: f.bytes[0], stored: make([]bool, 2*f.n+1), ready: make([]float64, 2*f.n+1), host: make([]float64, 2*f.n+1), memory: f.bytes[0]}
	for v := range t.host {
		t.host[v] = math.Inf(1)
	}
	t.stored[0] = true
	// leave sends v away, or discards it, after its last use in stage j.
	leave := func(j, v int) {
		if !t.stored[v] || is(f.S, j+1, v) {
			return
		}
		for k := j; k < f.stages(); k++ {
			if is(f.q, k, v) && math.IsInf(t.host[v], 1) {
				t.offload(v)
				return
			}
			if is(f.R, k, v) && k > j {
				break
			}
		}
		t.discard(v)
	}
	for j := range f.stages() {
		if j < f.n {
			t.forward(j+1, x[f.first.At(j).Index()] > 0.5)
		} else {
			t.backward(f.top(j))
		}
		if j == f.stages()-1 {
			break
		}
		reads := func(i int) bool { // whether F_{i+1} runs again in this stage
			return i < f.n && (is(f.R, j, i+1) && i+1 < f.n || is(f.R, j, f.abar(i+1)))
		}
		for v := range t.stored {
			if i, _ := f.layer(v); v != f.n && !reads(i) {
				leave(j, v)
			}
		}
		for l := 1; l <= f.n; l++ {
			for _, v := range f.of(l - 1) {
				if is(f.q, j, v) && reads(l-1) && !t.stored[v] {
					t.prefetch(v)
				}
			}
			if l < f.n && is(f.R, j, l) {
				t.forward(l, false)
			}
			if is(f.R, j, f.abar(l)) {
				t.forward(l, true)
			}
			for _, v := range f.of(l - 1) {
				leave(j, v)
			}
		}
		for v := range t.stored {
			if is(f.q, j, v) && is(f.S, j+1, v) && !t.stored[v] {
				t.prefetch(v)
			}
		}
	}
	if t.err != nil {
		return nil, t.err
	}
	p := plan.New(plan.RematOffload, "remat-offload-milp", f.c, f.p)
	p.Ops = t.ops
	slices.SortStableFunc(p.Ops, func(a, b plan.Op) int { return cmp.Compare(a.Start, b.Start) })
	p.Claims.Makespan = t.device
	p.Claims.PeakMemory = t.peak * f.size
	return p, nil
}

// pager times a sequence of computations, discards and transfers, each as early
// as those before it allow.
type pager struct {
	f            *rematOffload
	ops          []plan.Op
	device, link float64 // seconds: end of the last computation, of the last transfer
	now          float64 // start of the last event
	stored       []bool
	ready        []float64 // seconds: from when a tensor can be read
	host         []float64 // from when the host has it; +Inf: never
	memory, peak float64   // once the last computation has ended
	until        float64   // what is in use beside until then
	leaving      []leaving // offloads that still hold memory, by time
	err          error
}

type leaving struct {
	v  int
	at float64
}

func (t *pager) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%w: "+format, append([]any{plan.ErrNoPlan}, args...)...)
	}
}

// room waits from time x on until so much more fits.
func (t *pager) room(x, more float64) float64 {
	for {
		for len(t.leaving) > 0 && t.leaving[0].at <= x {
			t.memory -= t.f.bytes[t.leaving[0].v]
			t.leaving = t.leaving[1:]
		}
		if t.memory+more <= 1000 {
			t.peak = max(t.peak, t.memory+more)
			return x
		}
		if len(t.leaving) == 0 {
			t.fail("the order of a solution needs %g of %g bytes", (t.memory+more)*t.f.size, t.f.p.Memory)
			return x
		}
		x = t.leaving[0].at
	}
}

// input returns the tensor of layer i that a computation reads.
func (t *pager) input(i int) int {
	best := -1
	for _, v := range t.f.of(i) {
		if t.stored[v] && (best < 0 || t.ready[v] < t.ready[best]) {
			best = v
		}
	}
	if best < 0 {
		t.fail("a solution lacks a_%d", i)
		return 0
	}
	return best
}

func (t *pager) forward(l int, all bool) {
	f := t.f
	layer := &f.c.Layers[l-1]
	in := t.input(l - 1)
	op, v, size := plan.OpFCk, l, layer.Activation/f.size
	if all {
		op, v, size = plan.OpFAll, f.abar(l), layer.Saved/f.size
	}
	start := t.room(max(t.device, t.now, t.ready[in]), size+layer.ForwardOverhead/f.size)
	t.compute(op, l, start, layer.ForwardTime)
	t.until = layer.ForwardOverhead / f.size
	if v == f.n { // a_N is of no use
		t.until += size
		t.ops = append(t.ops, plan.Op{Op: plan.OpD, Tensor: plan.TensorA, Layer: l, Start: t.device, End: t.device})
		return
	}
	if t.stored[v] {
		t.fail("a solution makes a tensor of layer %d that is stored", l)
	}
	t.stored[v], t.ready[v] = true, t.device
	t.memory += size
}

func (t *pager) backward(l int) {
	f := t.f
	layer := &f.c.Layers[l-1]
	in, saved, gradient := t.input(l-1), f.abar(l), f.c.Input.Gradient
	if l > 1 {
		gradient = f.c.Layers[l-2].Gradient
	}
	if !t.stored[saved] {
		t.fail("a solution lacks abar_%d", l)
		return
	}
	if l == f.n {
		t.memory += layer.Gradient / f.size
	}
	start := t.room(max(t.device, t.now, t.ready[in], t.ready[saved]), (gradient+layer.BackwardOverhead)/f.size)
	t.compute(plan.OpB, l, start, layer.BackwardTime)
	t.until = (layer.BackwardOverhead + layer.Gradient) / f.size
	t.memory += (gradient - layer.Gradient) / f.size
	t.drop(saved)
	if t.stored[l-1] {
		t.drop(l - 1)
	}
}

func (t *pager) compute(op string, l int, start, duration float64) {
	t.now, t.device = start, start+duration
	t.ops = append(t.ops, plan.Op{Op: op, Layer: l, Start: start, End: t.device})
}

func (t *pager) drop(v int) {
	t.stored[v] = false
	t.memory -= t.f.bytes[v]
	t.until += t.f.bytes[v]
}

func (t *pager) transferOp(op string, v int, start, end float64) {
	i, saved := t.f.layer(v)
	tensor := plan.TensorA
	if saved {
		tensor = plan.TensorAbar
	}
	t.ops = append(t.ops, plan.Op{Op: op, Tensor: tensor, Layer: i, Start: start, End: end})
}

func (t *pager) discard(v int) {
	t.transferOp(plan.OpD, v, t.device, t.device)
	t.drop(v)
}

// offload sends v. Its last reader has started and holds it until it ends.
func (t *pager) offload(v int) {
	start := max(t.link, t.ready[v], t.now)
	t.link = start + t.f.move[v]*t.f.unit
	t.transferOp(plan.OpO, v, start, t.link)
	t.stored[v] = false
	t.host[v] = t.link
	t.leaving = append(t.leaving, leaving{v, max(t.link, t.device)})
}

func (t *pager) prefetch(v int) {
	if math.IsInf(t.host[v], 1) {
		t.fail("a solution fetches what was not sent")
		return
	}
	start := max(t.link, t.host[v], t.now)
	if start = t.room(start, t.f.bytes[v]); start < t.device {
		if t.memory+t.until+t.f.bytes[v] > 1000 {
			start = t.room(t.device, t.f.bytes[v])
		} else {
			t.peak = max(t.peak, t.memory+t.until+t.f.bytes[v])
		}
	}
	t.link = start + t.f.move[v]*t.f.unit
	t.transferOp(plan.OpP, v, start, t.link)
	t.now = start
	t.stored[v], t.ready[v] = true, t.link
	t.memory += t.f.bytes[v]
}
