package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/plan"
)

// Pattern is a k-periodic schedule of items. For stages with r replicas k is a multiple of r.
// Mini-batch m of 0..k-1 runs the forward of item i at F[m·len(Items)+i] and its backward at
// B[same], in absolute time; mini-batch m+jk runs them jT later.
type Pattern struct {
	Period float64 // T for k mini-batches, seconds
	K      int
	Stages []plan.Stage
	Items  []Item
	F, B   []float64 // starts, seconds
}

// OneByOne returns the pattern of an allocation in which each mini-batch runs alone, which
// minimises memory ([Instance.Least]).
func (in *Instance) OneByOne(stages []plan.Stage) *Pattern {
	items := in.Items(stages)
	n := len(items)
	s := &Pattern{K: 1, Stages: stages, Items: items, F: make([]float64, n), B: make([]float64, n)}
	for i := range items {
		s.F[i] = s.Period
		s.Period += items[i].F
	}
	for i := n - 1; i >= 0; i-- {
		s.B[i] = s.Period
		s.Period += items[i].B
	}
	return s
}

// Rate returns T/k.
func (s *Pattern) Rate() float64 { return s.Period / float64(s.K) }

// run is an operation of a layer or communication.
type run struct {
	op       string
	layer    int
	item     int
	batch    int // 0..k-1
	resource int
	start    float64 // absolute, for that mini-batch
	length   float64
	step     int // its index in the order of one mini-batch
	// at is the start within a period, in [0,T), and shift is h. since is the start of the first
	// operation on the resource that ties with it.
	at, since float64
	shift     int
}

// runs returns the operations layer by layer: those of a stage follow each other without idle time.
func (s *Pattern) runs(in *Instance) []run {
	list := make([]run, 0, 2*s.K*(in.N+len(s.Items)))
	for m := range s.K {
		for i, x := range s.Items {
			f, b := s.F[m*len(s.Items)+i], s.B[m*len(s.Items)+i]
			resource := s.place(in, i, m)
			if x.Cut {
				list = append(list,
					run{op: plan.OpCF, layer: x.From, item: i, batch: m, resource: resource, start: f, length: x.F},
					run{op: plan.OpCB, layer: x.From, item: i, batch: m, resource: resource, start: b, length: x.B})
				continue
			}
			for l := x.From; l <= x.To; l++ {
				list = append(list, run{op: plan.OpF, layer: l, item: i, batch: m, resource: resource, start: f, length: in.UF[l]})
				f += in.UF[l]
			}
			for l := x.To; l >= x.From; l-- {
				list = append(list, run{op: plan.OpB, layer: l, item: i, batch: m, resource: resource, start: b, length: in.UB[l]})
				b += in.UB[l]
			}
			if x.Copies > 1 {
				list = append(list, run{op: plan.OpAR, layer: x.From, item: i, batch: m, resource: resource, start: b, length: x.Reduce})
			}
		}
	}
	return list
}

// place returns the resource of item i for a mini-batch.
func (s *Pattern) place(in *Instance, i, batch int) int {
	x := &s.Items[i]
	replica := func(stage *Item) int { return stage.Resource + batch%max(1, stage.Copies) }
	switch {
	case !x.Cut:
		return replica(x)
	case s.Items[i-1].Copies > 1 || s.Items[i+1].Copies > 1:
		return in.Communication(x.From, replica(&s.Items[i-1]), replica(&s.Items[i+1])).Resource
	}
	return x.Resource
}

// sequence returns the operations of a period in order of start. In a tie, operations of zero
// duration come first, older mini-batches before younger ones.
func (s *Pattern) sequence(in *Instance) []run {
	list := s.runs(in)
	for i := range list {
		r := &list[i]
		var turn int
		r.at, turn = turns(r.start-s.F[0], s.Period)
		r.shift = r.batch - s.K*turn
		r.step = r.layer
		if r.op != plan.OpF && r.op != plan.OpCF {
			r.step = 2*in.N + 1 - r.layer
		}
	}
	slices.SortStableFunc(list, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.at, b.at))
	})
	for from := 0; from < len(list); {
		since, to := list[from].at, from
		for to < len(list) && list[to].resource == list[from].resource && (to == from || list[to].at-list[to-1].at <= s.Period*Instant) {
			list[to].since = since
			to++
		}
		slices.SortStableFunc(list[from:to], func(a, b run) int {
			if x, y := a.length > s.Period*Instant, b.length > s.Period*Instant; x != y {
				if y {
					return -1
				}
				return 1
			} else if x {
				return cmp.Compare(a.at, b.at)
			}
			return cmp.Or(cmp.Compare(a.shift, b.shift), cmp.Compare(a.step, b.step))
		})
		from = to
	}
	slices.SortStableFunc(list, func(a, b run) int { return cmp.Compare(a.since, b.since) })
	return list
}

// Instant is the fraction of a period below which starts are considered simultaneous.
const Instant = plan.Tolerance

// turns returns t modulo T and the number of periods before it. The rest lies in [0,T); times
// within rounding before a multiple of T count as that multiple.
func turns(t, period float64) (rest float64, turn int) {
	q := math.Floor(t/period + Instant)
	rest = t - q*period
	if math.Abs(rest) <= period*Rounding {
		rest = 0
	}
	return rest, int(q)
}

// Pattern returns the pattern of a plan without replicas, each layer as a separate stage. It is the
// inverse of [Pattern.Plan].
func (in *Instance) Pattern(p *plan.Plan) *Pattern {
	s := &Pattern{Period: *p.Period, K: max(1, p.K), Stages: SplitLayers(p.Allocation)}
	s.Items = in.Items(s.Stages)
	n := len(s.Items)
	s.F, s.B = make([]float64, n*s.K), make([]float64, n*s.K)
	stage, cut := make([]int, in.N+1), make([]int, in.N+1)
	for i := range s.Items {
		if x := &s.Items[i]; x.Cut {
			cut[x.From] = i
		} else {
			stage[x.From] = i
		}
	}
	for _, o := range p.Ops {
		batch := ((o.Shift % s.K) + s.K) % s.K
		start := o.Start - float64((o.Shift-batch)/s.K)*s.Period
		switch v := batch * n; o.Op {
		case plan.OpF:
			s.F[v+stage[o.Layer]] = start
		case plan.OpB:
			s.B[v+stage[o.Layer]] = start
		case plan.OpCF:
			s.F[v+cut[o.Layer]] = start
		case plan.OpCB:
			s.B[v+cut[o.Layer]] = start
		}
	}
	return s
}

// SplitLayers returns s with each layer as a separate stage, at the same times. Layers of
// replicated stages remain together.
func (s *Pattern) SplitLayers(in *Instance) *Pattern {
	x := &Pattern{Period: s.Period, K: s.K, Stages: SplitLayers(s.Stages)}
	x.Items = in.Items(x.Stages)
	for v := range s.F {
		y, f, b := &s.Items[v%len(s.Items)], s.F[v], s.B[v]
		if y.Cut || y.Copies > 1 {
			x.F, x.B = append(x.F, f), append(x.B, b)
			continue
		}
		b += y.B
		for l := y.From; l <= y.To; l++ {
			b -= in.UB[l]
			x.F, x.B = append(x.F, f), append(x.B, b)
			f += in.UF[l]
		}
	}
	return x
}

// Plan returns s as a plan in which the first B_1 has shift 0.
func (s *Pattern) Plan(in *Instance, method string) *plan.Plan {
	period := s.Period
	p := plan.New(plan.Pipeline, method, in.Chain, in.Platform)
	p.Period, p.K, p.MemoryModel, p.Allocation = &period, s.K, in.Model, Merged(s.Stages)
	list := s.sequence(in)
	first := list[slices.IndexFunc(list, func(r run) bool { return r.op == plan.OpB && r.layer == 1 })].shift
	// Mini-batches, and with them the replicas, are renumbered from it.
	turned := func(batch int) int { return ((batch-first)%s.K + s.K) % s.K }
	p.Ops = make([]plan.Op, len(list))
	for i, r := range list {
		place := s.place(in, r.item, turned(r.batch))
		resource := fmt.Sprintf("gpu%d", place)
		if r.op == plan.OpCF || r.op == plan.OpCB {
			a, b := in.link(place)
			resource = fmt.Sprintf("link%d-%d", a, b)
		}
		p.Ops[i] = plan.Op{Op: r.op, Layer: r.layer, Start: r.at, End: r.at + r.length, Resource: resource, Shift: r.shift - first}
	}
	p.Claims = plan.Claims{Makespan: s.Rate(), PeakMemory: s.Peak(in)}
	return p
}
