// Package weightoffload has the verifier of cyclic plans of weight offloading.
package weightoffload

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// Verify replays p, a cyclic plan of [001] §3, on c.
//
// The period is a circle: every event repeats after it, so the state in which
// a weight starts a period is the one in which its last event leaves it, and a
// weight without prefetches and discards never leaves the GPU. A weight of no
// bytes is everywhere at all times; transfers of it must take no time and mean
// nothing.
//
// Memory at an instant is the weights on the GPU or reserved by a running
// prefetch, |w_i| more during B_i for its gradient, and Σ_{k≤i} |a^k| from the
// start of F_i or B_i to the start of the next computation.
//
// Instants closer than 1e-9 of the period are simultaneous; ends and releases
// then come before starts and reservations, prefetches last. But the weight of a computation is
// there before it starts, and with it what the one before holds until then. A computation
// that takes no time still needs its memory, and of several at one instant each
// counts the weights that a later one needs, though they go at that instant,
// too: there is no order of the instant in which they would be gone before.
//
// The error wraps [plan.ErrUnreadable] where there is nothing to replay.
// O(n log n) in the number of operations.
func Verify(c *chain.Chain, p *plan.Plan) (*plan.Report, error) {
	v, err := readCycle(c, p)
	if err != nil {
		return nil, err
	}
	v.checkComputations()
	v.checkLink(plan.OpP, "prefetch")
	v.checkLink(plan.OpO, "upload")
	for i := range v.layers {
		v.checkWeight(i)
	}
	v.checkMemory()

	r := v.report
	r.Makespan = v.Period
	replay.SortViolations(r.Violations)
	r.ClaimErrors = replay.CompareClaims(v.plan, r)
	return r.Converted(c.Unit, p.Unit), nil
}

// weightCycle is a plan of weight offloading, sorted out for its replay.
type weightCycle struct {
	replay.Circle
	chain  *chain.Chain
	plan   *plan.Plan
	layers []layerEvents // of layer i+1
	report *plan.Report
}

// layerEvents are the operations of one layer in the order of the plan.
type layerEvents struct {
	forward, backward         []replay.Arc
	prefetch, upload, discard []replay.Arc

	// Where the weight is; set by findStays.
	permanent bool         // it never leaves the GPU
	stays     []stay       // else: on the GPU, in order of start
	reserved  []replay.Arc // the same times from the start of the prefetch: memory held
}

// A stay is a time during which a weight is on the GPU: from the end of a
// prefetch to a discard, start in [0, period).
type stay struct {
	start, end float64
	discard    int     // index of the operation that ends it
	saved      float64 // when the last upload in it starts; -Inf: there is none
}

// readCycle sorts the operations of p by layer and reports those that mean
// nothing and those that do not take their time.
func readCycle(c *chain.Chain, p *plan.Plan) (*weightCycle, error) {
	fail := func(format string, args ...any) (*weightCycle, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{plan.ErrUnreadable}, args...)...)
	}
	switch {
	case p == nil:
		return fail("no plan")
	case c == nil || c.Len() == 0:
		return fail("no instance: the chain has no layers")
	case p.Problem != plan.WeightOffload:
		return fail("problem is %q, not %q", p.Problem, plan.WeightOffload)
	case p.Period == nil:
		return fail("period is missing; a cyclic plan has one")
	case !(*p.Period > 0) || math.IsInf(*p.Period, 0):
		return fail("period is %g; it must be a positive number of seconds", *p.Period)
	case !(p.Platform.Memory > 0):
		return fail("platform.memory is %g; it must be a positive number of bytes", p.Platform.Memory)
	}
	p = p.Converted(c.Unit)
	c = c.Count(p.Platform.Model)
	v := &weightCycle{
		Circle: replay.Circle{Period: *p.Period, Eps: plan.Tolerance * *p.Period},
		chain:  c, plan: p,
		layers: make([]layerEvents, c.Len()),
		report: &plan.Report{PeakOp: -1},
	}
	beta := p.Platform.Bandwidth
	for k := range p.Ops {
		o := &p.Ops[k]
		if (o.Op == plan.OpP || o.Op == plan.OpO) && (!(beta > 0) || math.IsInf(beta, 0)) {
			return fail("platform.bandwidth is %g; it must be a positive number of bytes per second", beta)
		}
		v.readOp(k, o)
	}
	return v, nil
}

// readOp files operation k under its layer, or reports why it cannot.
func (v *weightCycle) readOp(k int, o *plan.Op) {
	known, transfer := false, false
	switch o.Op {
	case plan.OpF, plan.OpB:
		known = o.Tensor == ""
	case plan.OpP, plan.OpO, plan.OpD:
		known, transfer = o.Tensor == plan.TensorW, true
	}
	switch {
	case !known && transfer:
		v.broken(plan.RuleKind, k, o.Start, 0, "%s moves tensor %q; weight offloading moves %q only", o.Op, o.Tensor, plan.TensorW)
		return
	case !known && o.Tensor != "" && (o.Op == plan.OpF || o.Op == plan.OpB):
		v.broken(plan.RuleKind, k, o.Start, 0, "%s has tensor %q; a computation has none", o.Op, o.Tensor)
		return
	case !known:
		v.broken(plan.RuleKind, k, o.Start, 0, "operation %q is unknown; there are F, B, P, O and D", o.Op)
		return
	case o.Layer < 1 || o.Layer > len(v.layers):
		v.broken(plan.RuleLayer, k, o.Start, 0, "%s is of layer %d; the chain has layers 1 to %d", o.Op, o.Layer, len(v.layers))
		return
	case !plan.Finite(o.Start) || !plan.Finite(o.End):
		v.broken(plan.RuleTime, k, 0, 0, "%s runs from %g to %g; both must be finite", o, o.Start, o.End)
		return
	case o.End < o.Start-v.Eps:
		v.broken(plan.RuleTime, k, o.Start, o.Start-o.End, "%s ends %g s before it starts", o, o.Start-o.End)
		return
	}

	l, e := &v.chain.Layers[o.Layer-1], &v.layers[o.Layer-1]
	a := v.Arc(o.Start, max(o.Start, o.End), k)
	var want float64
	var file *[]replay.Arc
	switch o.Op {
	case plan.OpF:
		want, file = l.ForwardTime, &e.forward
	case plan.OpB:
		want, file = l.BackwardTime, &e.backward
	case plan.OpP:
		want, file = l.Weight/v.plan.Platform.Bandwidth, &e.prefetch
	case plan.OpO:
		want, file = l.Weight/v.plan.Platform.Bandwidth, &e.upload
	case plan.OpD:
		want, file = 0, &e.discard
	}
	if d := o.End - o.Start; math.Abs(d-want) > v.Eps {
		v.broken(plan.RuleDuration, k, a.Start, d-want, "%s takes %.10g s; the instance says %.10g s", o, d, want)
	}
	if a.Length() > v.Period+v.Eps {
		v.broken(plan.RulePeriod, k, a.Start, a.Length()-v.Period, "%s takes %.10g s, longer than the period of %.10g s", o, a.Length(), v.Period)
		a.End = a.Start + v.Period
	}
	*file = append(*file, a)
}

// checkComputations checks that B_L..B_1, F_1..F_L run once each, in this
// order around the circle, one at a time.
func (v *weightCycle) checkComputations() {
	if total := v.chain.TotalTime(); total > v.Period+v.Eps {
		v.broken(plan.RulePeriod, -1, 0, total-v.Period, "the computations take %.10g s, longer than the period of %.10g s", total, v.Period)
	}
	n := len(v.layers)
	order := make([]replay.Arc, 0, 2*n) // the paper's
	all := make([]replay.Arc, 0, 2*n)
	take := func(kind string, i int, arcs []replay.Arc) {
		if len(arcs) == 0 {
			v.broken(plan.RuleMissing, -1, 0, 0, "%s_%d is missing", kind, i+1)
			return
		}
		for _, a := range arcs[1:] {
			v.broken(plan.RuleRepeated, a.Op, a.Start, 0, "%s_%d occurs a second time; each computation runs once a period", kind, i+1)
		}
		order = append(order, arcs[0])
		all = append(all, arcs...)
	}
	for i := n - 1; i >= 0; i-- {
		take(plan.OpB, i, v.layers[i].backward)
	}
	for i := range n {
		take(plan.OpF, i, v.layers[i].forward)
	}

	found := len(v.report.Violations)
	v.Overlaps(all, func(a, b replay.Arc) {
		v.broken(plan.RuleComputeOverlap, b.Op, b.Start, a.End-b.Start, "%s starts %.10g s before %s ends", v.name(b), a.End-b.Start, v.name(a))
	})
	if v.turns(order) <= 1 {
		return
	}
	v.findDisorder(order)
	if len(v.report.Violations) == found {
		v.broken(plan.RuleOrder, -1, 0, 0, "the computations do not follow each other in the order B_%d..B_1, F_1..F_%d within one period", n, n)
	}
}

// findDisorder goes around the circle once from the first computation and
// reports each that is followed by one that should come before it. Of
// simultaneous ones those that should come first do.
func (v *weightCycle) findDisorder(order []replay.Arc) {
	type computation struct {
		replay.Arc
		place int // in the paper's order
		since int // how many instants with starts after the first computation
	}
	cs := make([]computation, len(order))
	for k, a := range order {
		cs[k] = computation{Arc: a, place: k}
	}
	slices.SortFunc(cs, func(a, b computation) int { return replay.ByStart(a.Arc, b.Arc) })
	slices.SortFunc(order, replay.ByStart)
	instant := v.Simultaneous(order)
	first := instant[slices.IndexFunc(cs, func(c computation) bool { return c.place == 0 })]
	for k := range cs {
		c := &cs[k]
		c.since = (instant[k] - first + len(cs)) % len(cs)
		if c.since == 0 && c.place >= len(cs)/2 && c.Length() <= v.Eps {
			c.since = len(cs) // it ends the turn
		}
	}
	slices.SortFunc(cs, func(a, b computation) int {
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.place, b.place))
	})
	n := len(v.layers)
	for k := 1; k < len(cs); k++ {
		if a, b := &cs[k-1], &cs[k]; a.place > b.place {
			v.broken(plan.RuleOrder, a.Op, a.Start, 0, "%s comes before %s; the order is B_%d..B_1, F_1..F_%d", v.name(a.Arc), v.name(b.Arc), n, n)
		}
	}
}

// turns returns how often the arcs go around the circle if each starts after
// the one before it has ended and the first again after the last. Once: they
// are in order and do not overlap. Not at all: they take no time and are
// simultaneous.
func (v *weightCycle) turns(arcs []replay.Arc) int {
	sum := 0.0
	for k, a := range arcs {
		gap := v.Wrap(arcs[(k+1)%len(arcs)].Start - a.End)
		if gap > v.Period-v.Eps {
			gap -= v.Period
		}
		sum += a.Length() + gap
	}
	return int(math.Round(sum / v.Period))
}

// checkLink checks that the transfers of one kind run one at a time.
func (v *weightCycle) checkLink(kind, what string) {
	var arcs []replay.Arc
	for i := range v.layers {
		if v.size(i) == 0 {
			continue
		}
		if kind == plan.OpP {
			arcs = append(arcs, v.layers[i].prefetch...)
		} else {
			arcs = append(arcs, v.layers[i].upload...)
		}
	}
	v.Overlaps(arcs, func(a, b replay.Arc) {
		v.broken(plan.RuleLinkOverlap, b.Op, b.Start, a.End-b.Start,
			"%s starts %.10g s before %s ends; the %s link carries one transfer at a time",
			v.name(b), a.End-b.Start, v.name(a), what)
	})
}

// checkWeight checks where w_{i+1} is, whenever something happens to it.
func (v *weightCycle) checkWeight(i int) {
	e := &v.layers[i]
	v.findStays(i)
	if v.size(i) == 0 {
		return
	}
	for _, a := range e.forward {
		v.checkUse(i, a, plan.RuleAbsent)
	}
	for _, a := range e.upload {
		for _, b := range e.backward {
			if v.Meet(a, b) {
				v.broken(plan.RuleUploadBackward, a.Op, a.Start, 0, "%s overlaps %s, which changes the weight", v.name(a), v.name(b))
			}
		}
		for _, s := range v.checkUse(i, a, plan.RuleUploadAbsent) {
			s.saved = max(s.saved, a.Start+s.turn)
		}
	}
	// A weight that came with a prefetch and was not changed since is still on
	// the host; changed, it is there only after an upload.
	for _, b := range e.backward {
		stays := v.checkUse(i, b, plan.RuleAbsent)
		stale := func(s visit) bool {
			changed := b.End + s.turn
			return s.saved < changed-v.Eps && changed <= s.end+v.Eps
		}
		if len(stays) > 0 && !slices.ContainsFunc(stays, func(s visit) bool { return !stale(s) }) {
			s := stays[0]
			v.broken(plan.RuleHostStale, s.discard, v.Wrap(s.end), s.end-(b.End+s.turn),
				"D w_%d discards the value that B_%d made %.10g s before; no upload of it has ended", i+1, i+1, s.end-(b.End+s.turn))
		}
	}
}

// findStays finds when w_{i+1} is on the GPU and reports prefetches and
// discards at the wrong time.
func (v *weightCycle) findStays(i int) {
	e := &v.layers[i]
	if v.size(i) == 0 || len(e.prefetch)+len(e.discard) == 0 {
		e.permanent = true
		return
	}
	switch {
	case len(e.discard) == 0:
		e.permanent = true
		for _, a := range e.prefetch {
			v.broken(plan.RulePrefetch, a.Op, a.Start, v.size(i), "%s fetches a weight that is never discarded", v.name(a))
		}
		return
	case len(e.prefetch) == 0:
		for _, a := range e.discard {
			v.broken(plan.RuleDiscardAbsent, a.Op, a.Start, v.size(i), "%s discards a weight that is never prefetched", v.name(a))
		}
		return
	}
	v.followWeight(i, v.comings(e))
}

// A coming of a weight to the GPU, or its going.
type coming struct {
	replay.Arc
	key   float64 // orders them
	fetch bool    // else a discard
}

// comings returns the prefetches and discards of a layer in order of time.
func (v *weightCycle) comings(e *layerEvents) []coming {
	events := make([]coming, 0, len(e.prefetch)+len(e.discard))
	for _, a := range e.prefetch {
		// A prefetch counts from its end, a little earlier so that a discard
		// simultaneous with the end follows it; one simultaneous with the
		// start goes before.
		events = append(events, coming{Arc: a, key: v.Wrap(a.End - min(v.Eps, a.Length()/2)), fetch: true})
	}
	for _, a := range e.discard {
		events = append(events, coming{Arc: a, key: a.Start})
	}
	slices.SortFunc(events, func(a, b coming) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.Op, b.Op))
	})
	return events
}

// followWeight goes around the circle once, from a discard after which
// w_{i+1} is gone, and files each stay. There are prefetches and discards
// among the events.
func (v *weightCycle) followWeight(i int, events []coming) {
	from := 0 // the discard of a weight that is there
	for before := len(events) - 1; events[from].fetch || !events[before].fetch; from++ {
		before = from
	}
	gone, since := true, events[from].key
	var fetched replay.Arc
	for k := range events {
		x := events[(from+1+k)%len(events)]
		turn := 0.0
		if from+1+k >= len(events) {
			turn = v.Period
		}
		now := x.key + turn
		switch {
		case x.fetch && !gone:
			v.broken(plan.RulePrefetch, x.Op, x.Start, v.size(i), "%s fetches a weight that is on the GPU already", v.name(x.Arc))
		case x.fetch:
			end := now + min(v.Eps, x.Length()/2)
			fetched, gone = replay.Arc{Start: end - x.Length(), End: end, Op: x.Op}, false
			if fetched.Start < since-v.Eps {
				v.broken(plan.RulePrefetch, x.Op, x.Start, v.size(i), "%s starts %.10g s before the weight is discarded", v.name(x.Arc),
					since-fetched.Start)
			}
		case gone:
			v.broken(plan.RuleDiscardAbsent, x.Op, x.Start, v.size(i), "%s discards a weight that is not on the GPU", v.name(x.Arc))
		default:
			gone, since = true, now
			v.addStay(i, fetched, now, x.Op)
		}
	}
	slices.SortFunc(v.layers[i].stays, func(a, b stay) int { return cmp.Compare(a.start, b.start) })
}

// addStay records that w_{i+1}, fetched by a prefetch, stays until end.
func (v *weightCycle) addStay(i int, fetched replay.Arc, end float64, discard int) {
	e := &v.layers[i]
	s := v.Wrap(fetched.End)
	e.stays = append(e.stays, stay{start: s, end: s + max(0, end-fetched.End), discard: discard, saved: math.Inf(-1)})
	e.reserved = append(e.reserved, v.Arc(fetched.Start, end, fetched.Op))
}

// A visit is a use of a weight during a stay. turn is what to add to the times
// of the use to be in the stay's turn of the circle.
type visit struct {
	*stay
	turn float64
}

// checkUse reports a use of w_{i+1} while it is not on the GPU, under the
// rule absent, or while it is discarded. It returns the stays that the use may
// be in, the last one first: more than one only if they meet at the instant of
// the use, any order of which will do that makes the plan valid; none if the
// weight is absent or never leaves.
func (v *weightCycle) checkUse(i int, a replay.Arc, absent string) []visit {
	e := &v.layers[i]
	if e.permanent {
		return nil
	}
	if len(e.stays) > 0 {
		// From the last stay that starts before the use, perhaps a turn before.
		last, turn := v.lastStay(e.stays, a.Start)
		var in []visit
		for k, t := last, turn; a.End+t <= e.stays[k].end+v.Eps; k-- {
			in = append(in, visit{&e.stays[k], t})
			if len(in) > len(e.stays) { // once around, to the last one a turn before
				break
			}
			if k == 0 {
				k, t = len(e.stays), t+v.Period
			}
		}
		if len(in) > 0 {
			return in
		}
		if s := &e.stays[last]; a.Start+turn < s.end-v.Eps {
			v.broken(plan.RuleDiscardUsed, s.discard, v.Wrap(s.end), a.End+turn-s.end,
				"D w_%d discards a weight that %s uses for another %.10g s", i+1, v.name(a), a.End+turn-s.end)
			return []visit{{s, turn}}
		}
	}
	v.broken(absent, a.Op, a.Start, v.size(i), "%s needs w_%d, which is not on the GPU", v.name(a), i+1)
	return nil
}

// lastStay returns the index of the last stay that starts at t or before, and
// what to add to t to be in its turn of the circle. stays must be sorted and
// not empty.
func (v *weightCycle) lastStay(stays []stay, t float64) (last int, turn float64) {
	before := func(t float64) int {
		k, _ := slices.BinarySearchFunc(stays, t+v.Eps, func(s stay, t float64) int { return cmp.Compare(s.start, t) })
		return k
	}
	// t just before the end of a turn may be simultaneous with the next one's
	// beginning.
	if k := before(t - v.Period); k > 0 {
		return k - 1, -v.Period
	}
	if k := before(t); k > 0 {
		return k - 1, 0
	}
	return len(stays) - 1, v.Period
}

func (v *weightCycle) size(i int) float64 { return v.chain.Layers[i].Weight }

// name names the operation of an arc.
func (v *weightCycle) name(a replay.Arc) string { return v.plan.Ops[a.Op].String() }

// broken adds a violation.
func (v *weightCycle) broken(rule string, op int, time, amount float64, format string, args ...any) {
	if !plan.Finite(time) {
		time = 0
	}
	v.report.Violations = append(v.report.Violations, plan.Violation{
		Rule: rule, Op: op, Time: v.Wrap(time), Amount: amount, Detail: fmt.Sprintf(format, args...),
	})
}
