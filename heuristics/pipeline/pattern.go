package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	view "workbench/model/pipeline"
	"workbench/model/plan"
)

// A pattern is a k-periodic schedule of items: mini-batch m of 0..k-1 runs the
// forward of item i at f[m·len(items)+i] and its backward at b[same], and
// mini-batch m+jk does so jT later.
type pattern struct {
	period float64 // T of k mini-batches, seconds
	k      int
	stages []plan.Stage
	items  []item
	f, b   []float64
}

// rate returns T/k.
func (s *pattern) rate() float64 { return s.period / float64(s.k) }

// A run is an operation of a layer or communication.
type run struct {
	op       string
	layer    int
	batch    int // 0..k-1
	resource int
	start    float64 // absolute, of that mini-batch
	length   float64
	step     int // its number on the way of a mini-batch
	// Within a period: when it starts, in [0,T), and the shift h; the first of
	// its resource that starts at that instant does so at since.
	at, since float64
	shift     int
}

// runs lists the operations layer by layer: those of a stage follow each other
// without idle time.
func (s *pattern) runs(in *instance) []run {
	list := make([]run, 0, 2*s.k*(in.N+len(s.items)))
	for m := range s.k {
		for i, x := range s.items {
			f, b := s.f[m*len(s.items)+i], s.b[m*len(s.items)+i]
			if x.cut {
				list = append(list,
					run{op: plan.OpCF, layer: x.from, batch: m, resource: x.resource, start: f, length: x.f},
					run{op: plan.OpCB, layer: x.from, batch: m, resource: x.resource, start: b, length: x.b})
				continue
			}
			for l := x.from; l <= x.to; l++ {
				list = append(list, run{op: plan.OpF, layer: l, batch: m, resource: x.resource, start: f, length: in.UF[l]})
				f += in.UF[l]
			}
			for l := x.to; l >= x.from; l-- {
				list = append(list, run{op: plan.OpB, layer: l, batch: m, resource: x.resource, start: b, length: in.UB[l]})
				b += in.UB[l]
			}
		}
	}
	return list
}

// sequence lists the operations of a period in order of start. Of those that
// start at one instant the ones that take no time come first, older
// mini-batches before younger ones.
func (s *pattern) sequence(in *instance) []run {
	list := s.runs(in)
	for i := range list {
		r := &list[i]
		var turn int
		r.at, turn = turns(r.start-s.f[0], s.period)
		r.shift = r.batch - s.k*turn
		r.step = r.layer
		if r.op == plan.OpB || r.op == plan.OpCB {
			r.step = 2*in.N + 1 - r.layer
		}
	}
	slices.SortStableFunc(list, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.at, b.at))
	})
	for from := 0; from < len(list); {
		since, to := list[from].at, from
		for to < len(list) && list[to].resource == list[from].resource && (to == from || list[to].at-list[to-1].at <= s.period*instant) {
			list[to].since = since
			to++
		}
		slices.SortStableFunc(list[from:to], func(a, b run) int {
			if x, y := a.length > s.period*instant, b.length > s.period*instant; x != y {
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

// instant is the part of a period below which starts are simultaneous.
const instant = plan.Tolerance

// turns returns t modulo T and the number of periods before it. The rest lies
// in [0,T), but times a rounding before a multiple of T are of that one.
func turns(t, period float64) (rest float64, turn int) {
	q := math.Floor(t/period + instant)
	rest = t - q*period
	if math.Abs(rest) <= period*view.Rounding {
		rest = 0
	}
	return rest, int(q)
}

// plan writes s, the first B_1 with shift 0.
func (s *pattern) plan(in *instance, method string) *plan.Plan {
	period := s.period
	p := plan.NewPattern(method, in.Chain, in.Platform)
	p.Period, p.K, p.MemoryModel, p.Allocation = &period, s.k, in.Model, merged(s.stages)
	list := s.sequence(in)
	first := list[slices.IndexFunc(list, func(r run) bool { return r.op == plan.OpB && r.layer == 1 })].shift
	p.Ops = make([]plan.Op, len(list))
	for i, r := range list {
		resource := fmt.Sprintf("gpu%d", r.resource)
		if r.op == plan.OpCF || r.op == plan.OpCB {
			a, b := in.link(r.resource)
			resource = fmt.Sprintf("link%d-%d", a, b)
		}
		p.Ops[i] = plan.Op{Op: r.op, Layer: r.layer, Start: r.at, End: r.at + r.length, Resource: resource, Shift: r.shift - first}
	}
	p.Claims = plan.Claims{Makespan: s.rate(), PeakMemory: s.peak(in)}
	return p
}
