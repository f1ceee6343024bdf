package allocator

import (
	"cmp"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/instance/training"
	"workbench/model/plan"
	verifyswap "workbench/model/verify/swap"
	"workbench/model/verify/weightoffload"
)

// OfOffload is the [Tracer] of activation offloading, OfRematOffload that of rematerialization with offloading, on
// chains and training steps, both in the integral model.
func OfOffload(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error {
		b.offload(plan.As[*chain.Chain](in), p, true)
		return nil
	})
}

func OfRematOffload(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error {
		if g := plan.As[*training.Graph](in); g != nil {
			b.graph(g, p)
		} else {
			b.offload(plan.As[*chain.Chain](in), p, false)
		}
		return nil
	})
}

// OfWeights is the [Tracer] of weight offloading: [Periods] periods.
func OfWeights(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error { return b.weights(plan.As[*chain.Chain](in), p) })
}

// OfSwapping is the [Tracer] of swapping.
func OfSwapping(in plan.Instance, p *plan.Plan, _ int64) ([]*Trace, error) {
	return one(in, func(b *tracer) error { return b.swap(plan.As[*functions.Sequence](in), p) })
}

// offload records a valid plan with transfers; without recomputation it is simple.
func (b *tracer) offload(c *chain.Chain, p *plan.Plan, simple bool) {
	n := c.Len()
	v := &offloading{
		tracer: b, sizes: sizes{c}, p: p, n: n, simple: simple,
		tensors: make([]moving, 2*n+2), delta: vacant(n + 1), ran: make([]bool, n+2),
		jobs: make([]job, len(p.Ops)),
	}
	for i := range v.tensors {
		v.tensors[i].block = none
	}
	v.tensors[0].stored, v.tensors[0].block = true, b.allocate(0, size0(c), plan.TensorA, 0)
	for _, e := range edges(p) {
		if e.end {
			v.end(e.op, e.time)
		} else {
			v.start(e.op, e.time)
		}
	}
}

func size0(c *chain.Chain) float64 { return c.Input.Activation }

// offloading follows a plan with transfers. Tensor ids are ℓ for a_ℓ and N+1+ℓ
// for ā_ℓ; ā_0 is a_0.
type offloading struct {
	*tracer
	sizes
	p       *plan.Plan
	n       int
	simple  bool // activation offloading
	tensors []moving
	delta   []int32
	ran     []bool // F_ℓ has ended
	jobs    []job
}

// moving is the state of a tensor.
type moving struct {
	block  int32
	stored bool
	leave  int  // running offloads
	gone   bool // an offload has ended: the tensor is freed when nothing uses it
	users  int  // running computations that use it
}

// job is the memory of a running operation.
type job struct {
	out, temp int32
	reads     [2]int // tensors; -1: none
}

// edge is the start or the end of an operation.
type edge struct {
	time    float64
	op      int
	end     bool
	instant int
	phase   int8 // 0: ends; 1: starts, also operations of zero duration; 2: prefetches
}

// edges returns the starts and ends of all operations of a plan in order of time, with ties broken by the rule of
// the verifier.
func edges(p *plan.Plan) []edge {
	horizon := 0.0
	for k := range p.Ops {
		if o := &p.Ops[k]; o.Op != plan.OpO && o.Op != plan.OpP {
			horizon = max(horizon, o.End)
		}
	}
	eps := plan.Tolerance * horizon
	es := make([]edge, 0, 2*len(p.Ops))
	for k := range p.Ops {
		o := &p.Ops[k]
		es = append(es, edge{time: o.Start, op: k}, edge{time: max(o.Start, o.End), op: k, end: true})
	}
	slices.SortFunc(es, func(a, b edge) int { return cmp.Compare(a.time, b.time) })
	started, ended := make([]int, len(p.Ops)), make([]int, len(p.Ops))
	instant := 0
	for i := range es {
		if i > 0 && es[i].time-es[i-1].time > eps {
			instant++
		}
		es[i].instant = instant
		if es[i].end {
			ended[es[i].op] = instant
		} else {
			started[es[i].op] = instant
		}
	}
	for i := range es {
		e := &es[i]
		switch {
		case started[e.op] == ended[e.op]:
			e.phase = 1
		case e.end:
		case p.Ops[e.op].Op == plan.OpP:
			e.phase = 2
		default:
			e.phase = 1
		}
	}
	slices.SortFunc(es, func(a, b edge) int {
		last := 0
		if a.op == b.op && a.end != b.end { // the start first
			last = -1
			if a.end {
				last = 1
			}
		}
		return cmp.Or(cmp.Compare(a.instant, b.instant), cmp.Compare(a.phase, b.phase), cmp.Compare(a.op, b.op), last)
	})
	return es
}

func (v *offloading) id(tensor string, l int) int {
	if l == 0 || tensor == plan.TensorA {
		return l
	}
	return v.n + 1 + l
}

func (v *offloading) takeTensor(time float64, id int) int32 {
	if id > v.n {
		return v.allocate(time, v.sizes.abar(id-v.n-1), plan.TensorAbar, id-v.n-1)
	}
	return v.allocate(time, v.a(id), plan.TensorA, id)
}

func (v *offloading) start(k int, now float64) {
	o, x := &v.p.Ops[k], &v.jobs[k]
	*x = job{out: none, temp: none, reads: [2]int{-1, -1}}
	switch o.Op {
	case plan.OpO:
		v.tensors[v.id(o.Tensor, o.Layer)].leave++
	case plan.OpP:
		x.out = v.takeTensor(now, v.id(o.Tensor, o.Layer))
	case plan.OpD:
		v.drop(v.id(o.Tensor, o.Layer), now)
	case plan.OpB:
		l := o.Layer
		if l == v.n {
			v.delta[l] = v.allocate(now, v.sizes.delta(l), plan.TensorDelta, l)
		}
		v.use(x, v.id(plan.TensorAbar, l))
		v.use(x, v.input(l, false))
		x.out = v.allocate(now, v.sizes.delta(l-1), plan.TensorDelta, l-1)
		x.temp = v.allocate(now, v.c.Layers[l-1].BackwardOverhead, overhead, l)
	default:
		v.use(x, v.input(o.Layer, o.Op == plan.OpFNone))
		x.out = v.takeTensor(now, v.output(o))
		x.temp = v.allocate(now, v.c.Layers[o.Layer-1].Overhead(o.Op == plan.OpFAll), overhead, o.Layer)
	}
}

func (v *offloading) end(k int, now float64) {
	o, x := &v.p.Ops[k], &v.jobs[k]
	l := o.Layer
	switch o.Op {
	case plan.OpO:
		id := v.id(o.Tensor, l)
		t := &v.tensors[id]
		t.leave--
		if t.block != none { // a tensor of no bytes is freed only by its user
			t.gone = t.stored
		}
		v.letGo(id, now)
	case plan.OpP:
		v.store(v.id(o.Tensor, l), x.out, now)
	case plan.OpD:
	case plan.OpB:
		v.free(now, &x.temp)
		v.release(x, now)
		v.free(now, &v.delta[l])
		v.consume(v.id(plan.TensorAbar, l), now)
		if l == 1 || !v.simple {
			v.consume(l-1, now)
		}
		v.delta[l-1] = x.out
	default:
		v.free(now, &x.temp)
		v.ran[l] = true
		v.store(v.output(o), x.out, now)
		v.release(x, now)
		if v.simple {
			v.letGo(v.id(plan.TensorAbar, l-1), now)
		}
		if o.Op == plan.OpFNone {
			v.consume(l-1, now)
		}
	}
}

// output returns the tensor that F produces.
func (v *offloading) output(o *plan.Op) int {
	if o.Op == plan.OpFAll {
		return v.id(plan.TensorAbar, o.Layer)
	}
	return o.Layer
}

// input returns the tensor that a computation of layer ℓ reads: a_{ℓ-1} or, unless it must be a, ā_{ℓ-1}. If both
// are on the device, it is the one that is not being evicted.
func (v *offloading) input(l int, mustBeA bool) int {
	a, abar := l-1, v.id(plan.TensorAbar, l-1)
	if v.simple {
		return abar
	}
	leaving := func(id int) bool { return v.tensors[id].leave > 0 || v.tensors[id].gone }
	x, y := v.tensors[a].stored, v.tensors[abar].stored
	if mustBeA || !y || x && (!leaving(a) || leaving(abar)) {
		return a
	}
	return abar
}

func (v *offloading) use(x *job, id int) {
	x.reads[0], x.reads[1] = id, x.reads[0]
	v.tensors[id].users++
}

func (v *offloading) release(x *job, now float64) {
	for _, id := range x.reads {
		if id >= 0 {
			v.tensors[id].users--
			v.letGo(id, now)
		}
	}
}

// letGo frees a tensor that has been offloaded, unless it is needed.
func (v *offloading) letGo(id int, now float64) {
	t := &v.tensors[id]
	if t.users == 0 && t.leave == 0 && t.gone && !(v.simple && !v.usedForward(id)) {
		v.drop(id, now)
	}
}

// usedForward reports whether F_{ℓ+1} has used ā_ℓ.
func (v *offloading) usedForward(id int) bool {
	l := id
	if id > v.n {
		l = id - v.n - 1
	}
	return l == v.n || v.ran[l+1]
}

// store puts a tensor on the device; if it is there already, the second copy is freed.
func (v *offloading) store(id int, block int32, now float64) {
	t := &v.tensors[id]
	if t.stored {
		v.free(now, &block)
		return
	}
	t.stored, t.block = true, block
}

func (v *offloading) drop(id int, now float64) {
	t := &v.tensors[id]
	t.stored, t.gone = false, false
	v.free(now, &t.block)
}

// consume frees the consumed input of a computation, unless it is being offloaded.
func (v *offloading) consume(id int, now float64) {
	if v.tensors[id].leave == 0 {
		v.drop(id, now)
	}
}

// weights records a valid plan of weight offloading: Periods periods from time 0 on. Weights are allocated while
// they are resident, a^k from the start of F_k to the start of B_{k-1}, gradients of weights during their B ([001]
// (1)).
func (b *tracer) weights(c *chain.Chain, p *plan.Plan) error {
	c = c.Count(p.Platform.Model)
	period := *p.Period
	eps := plan.Tolerance * period
	residencies, err := weightoffload.Residencies(c, p)
	if err != nil {
		return err
	}
	forward, backward := make([]*plan.Op, c.Len()), make([]*plan.Op, c.Len())
	for k := range p.Ops {
		switch o := &p.Ops[k]; o.Op {
		case plan.OpF:
			forward[o.Layer-1] = o
		case plan.OpB:
			backward[o.Layer-1] = o
		}
	}
	var all []stay
	end := Periods * period
	always := func(bytes float64, tensor string, layer int) {
		all = append(all, stay{to: end, bytes: bytes, tensor: tensor, layer: layer})
	}
	// turns adds an interval in every period, and the part of it that extends beyond time 0.
	turns := func(s stay) {
		length := s.to - s.from
		for from := wrap(s.from, period) - period; from < end; from += period {
			if to := from + length; to > eps {
				turn := s
				turn.from, turn.to = max(from, 0), to
				all = append(all, turn)
			}
		}
	}
	always(c.Input.Activation, plan.TensorA, 0)
	always(c.SavedSize(1), plan.TensorA, 1)
	for _, r := range residencies {
		w := c.Layers[r.Layer-1].Weight
		if r.Op < 0 {
			always(w, plan.TensorW, r.Layer)
		} else {
			turns(stay{from: r.Start, to: r.End, bytes: w, tensor: plan.TensorW, layer: r.Layer, late: true})
		}
	}
	rest := c.TotalTime()
	for i := range c.Layers {
		l := &c.Layers[i]
		turns(stay{from: backward[i].Start, to: backward[i].End, bytes: l.Weight, tensor: "gradient of w", layer: i + 1})
		if i > 0 {
			gap := wrap(backward[i-1].Start-forward[i].Start, period)
			if gap <= eps || gap >= period-eps { // simultaneous: all, or nothing
				if gap = 0; rest > eps {
					gap = period
				}
			}
			turns(stay{from: forward[i].Start, to: forward[i].Start + gap, bytes: c.SavedSize(i + 1), tensor: plan.TensorA, layer: i + 1})
		}
		over, under := c.TransientSizes(i + 1)
		turns(stay{from: forward[i].Start, to: forward[i].End, bytes: over, tensor: "overhead", layer: i + 1})
		turns(stay{from: backward[i].Start, to: backward[i].End, bytes: under, tensor: "gradients and overhead", layer: i + 1})
		rest -= l.ForwardTime + l.BackwardTime
	}
	b.stays(all, end, eps)
	return nil
}

// swap records a valid plan of swapping.
func (b *tracer) swap(s *functions.Sequence, p *plan.Plan) error {
	events, err := verifyswap.Allocations(s, p)
	if err != nil {
		return err
	}
	held := vacant(len(s.Variables))
	for _, e := range events {
		if e.Free {
			b.free(e.Time, &held[e.Variable])
		} else {
			held[e.Variable] = b.allocate(e.Time, s.Variables[e.Variable].Size, s.Variables[e.Variable].ID, -1)
		}
	}
	return nil
}
