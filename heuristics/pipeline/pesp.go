package pipeline

import (
	"math"
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// pesp decides whether an allocation has a 1-periodic pattern of period T or less: a periodic event scheduling problem
// (Serafini and Ukovich 1989) with memory, by branch and bound over the integers of its disjunctions.
//
// Let x_o be when operation o starts, a step of the way of a mini-batch; it starts again every T. Two operations o and p
// of one resource do not overlap if and only if for an integer q_op
//
//	x_o + d_o + q_op·T ≤ x_p  and  x_p + d_p ≤ x_o + (q_op+1)·T:
//
// the last o before p is of q_op periods later. All other constraints are differences, too. An operation follows the one
// before it on the way of a mini-batch, and starts within T of that one's end: else the rest of the way could be a
// period earlier, which would store less. Memory is counted in the q: of layer ℓ, q_{F_ℓ,o} - q_{B_ℓ,o} mini-batches are
// stored when o starts. So the search is for integers q without a cycle of positive length. What has to hold of the
// differences is kept closed under longest paths, and gives each q its range (constraint propagation).
//
// Of some resources only it is a relaxation: the rest of the way takes time only.
type pesp struct {
	task   bool // model of memory
	period float64
	n      int        // operations, in the order of a mini-batch
	d      []float64  // their durations
	tasks  []pespTask // computations
	limit  []float64  // by processor: bytes for hold and own
	pairs  []pair
	levels []float64 // by depth of the search: x_p - x_o ≥ levels[o·n+p]
	stop   func() bool
	budget int       // decisions that are left
	starts []float64 // that were found
}

// pespTask is the memory of a computation: own bytes while it runs, and hold bytes of its layer for
// each mini-batch between forward and backward.
type pespTask struct {
	op, processor     int
	own               float64
	forward, backward int // operations of its layer
	hold              float64
	isForward         bool
	waits             float64 // bytes of its result until the next operation, if that is on the same processor
}

// pair is two operations of a resource.
type pair struct{ o, p int }

// part is a layer, a stage or a communication of a pattern.
type part struct {
	resource         int
	cut              bool
	f, b             float64
	ownF, ownB, hold float64 // bytes: while the forward and the backward run, of each mini-batch in flight
	outF, outB       float64 // bytes of each result that waits for the next part, on the same processor
	delay            float64 // minimum time from the start of F to the end of B; 0: as the parts say
	// What lies between this part and the next one, after F and before B, in addition to parts: seconds, and how many
	// operations may wait for others.
	gapF, gapB float64
	skipped    int
}

// newPESP returns the problem of parts in chain order. fixed is the memory that processors always
// hold.
func (e *enumeration) newPESP(parts []part, fixed []float64) *pesp {
	n := 2 * len(parts)
	c := &pesp{
		task: e.in.Task, stop: e.stop, budget: e.pespBudget, period: e.period, n: n,
		d: make([]float64, n), limit: make([]float64, len(fixed)), levels: slices.Grow(e.levels[:0], n*n)[:n*n],
	}
	for r := range fixed {
		c.limit[r] = e.in.Memory - fixed[r]
	}
	resource := make([]int, n)
	for i, x := range parts {
		f, b := i, n-1-i
		c.d[f], c.d[b], resource[f], resource[b] = x.f, x.b, x.resource, x.resource
		if !x.cut {
			c.tasks = append(c.tasks,
				pespTask{op: f, processor: x.resource, own: x.ownF, forward: f, backward: b, hold: x.hold, isForward: true, waits: x.outF},
				pespTask{op: b, processor: x.resource, own: x.ownB, forward: f, backward: b, hold: x.hold, waits: x.outB})
		}
	}
	for o := range n {
		for p := o + 1; p < n; p++ {
			// Two that take next to no time may run at the same time.
			if resource[o] == resource[p] && c.d[o]+c.d[p] > 4*slack*c.period {
				c.pairs = append(c.pairs, pair{o, p})
			}
		}
	}
	c.precedences(parts)
	return c
}

// precedences fills in the differences that all patterns have in common.
func (c *pesp) precedences(parts []part) {
	n, m := c.n, len(parts)
	for o := range c.levels {
		c.levels[o] = math.Inf(-1)
	}
	for o := range n {
		c.levels[o*n+o] = 0
	}
	for s := range n - 1 {
		x := &parts[min(s, max(n-2-s, 0))]
		gap, turns := x.gapF, 1+x.skipped
		switch {
		case s == m-1:
			gap, turns = x.gapF+x.gapB, 1+2*x.skipped
		case s >= m:
			gap = x.gapB
		}
		c.levels[s*n+s+1] = c.d[s] + gap
		c.levels[(s+1)*n+s] = -(c.d[s] + gap + float64(turns)*c.period)
	}
	for i, x := range parts {
		f, b := i, n-1-i
		c.levels[f*n+b] = max(c.levels[f*n+b], x.delay-x.b)
	}
}

// solve searches. Decisions are counted in the budget; beyond it the answer is unknown.
func (c *pesp) solve() verdict {
	n := c.n
	D := c.levels[:n*n]
	for k := range n { // Floyd and Warshall
		for o := range n {
			from := D[o*n+k]
			if math.IsInf(from, -1) {
				continue
			}
			for p := range n {
				D[o*n+p] = max(D[o*n+p], from+D[k*n+p])
			}
		}
	}
	for o := range n {
		if D[o*n+o] > slack*c.period {
			return infeasible
		}
	}
	switch found := c.decide(0); {
	case found:
		return feasible
	case c.budget < 0:
		return unknown
	}
	return infeasible
}

// slack is the tolerance of differences, as a fraction of T.
const slack = plan.Tolerance

// tighten adds x_p ≥ x_o + w to D and reports whether that is possible. O(n²).
func (c *pesp) tighten(D []float64, o, p int, w float64) bool {
	n := c.n
	if w <= D[o*n+p]+slack/16*c.period {
		return true
	}
	if w+D[p*n+o] > slack*c.period {
		return false
	}
	row := D[p*n : p*n+n]
	for a := range n {
		from := D[a*n+o] + w
		if from <= D[a*n+p] {
			continue // the path by o and p is no longer than what is known
		}
		to := D[a*n : a*n+n]
		for b, x := range row {
			if x += from; x > to[b] {
				to[b] = x
			}
		}
	}
	return true
}

// low and high are the range of q_op; q_oo is -1, since the last o before o is of the period before.
func (c *pesp) low(D []float64, o, p int) int {
	if o == p {
		return -1
	}
	return int(math.Ceil((D[o*c.n+p]+c.d[p])/c.period - 1 - slack))
}

func (c *pesp) high(D []float64, o, p int) int {
	if o == p {
		return -1
	}
	return int(math.Floor((-D[p*c.n+o]-c.d[o])/c.period + slack))
}

// minBetween returns the minimum number of mini-batches that have run one operation, but not
// another, when o starts.
func (c *pesp) minBetween(D []float64, op, other, o int) int {
	return c.low(D, op, o) - c.high(D, other, o)
}

// set gives q_op one value.
func (c *pesp) set(D []float64, o, p, q int) bool {
	return c.tighten(D, o, p, c.d[o]+float64(q)*c.period) && c.tighten(D, p, o, c.d[p]-float64(q+1)*c.period)
}

// decide completes the decisions of a level in all ways until one fits.
func (c *pesp) decide(level int) bool {
	if c.budget--; c.budget%64 == 0 && c.stop() {
		c.budget = -1
	}
	if c.budget < 0 {
		return false
	}
	n := c.n
	D := c.levels[level*n*n : (level+1)*n*n]
	next, low, high := c.propagate(D)
	if next == contradiction {
		return false
	}
	if next == allDecided {
		c.starts = slices.Clone(D[:n])
		return true
	}
	o, p := c.pairs[next].o, c.pairs[next].p
	for q := low; q <= high; q++ {
		c.levels = append(c.levels[:(level+1)*n*n], c.levels[level*n*n:(level+1)*n*n]...)
		if c.set(c.levels[(level+1)*n*n:], o, p, q) && c.decide(level+1) {
			return true
		}
		if c.budget < 0 {
			return false
		}
	}
	return false
}

// What propagate may return instead of the pair to decide next.
const (
	contradiction = -1
	allDecided    = -2
)

// propagate draws the conclusions from D until there are none, and returns the pair with the smallest range of more than
// one value, and that range.
func (c *pesp) propagate(D []float64) (next, low, high int) {
	for {
		next = allDecided
		changed := false
		for k, x := range c.pairs {
			from, to := c.low(D, x.o, x.p), c.high(D, x.o, x.p)
			switch {
			case from > to:
				return contradiction, 0, 0
			case from == to:
				before := D[x.o*c.n+x.p] + D[x.p*c.n+x.o]
				if !c.set(D, x.o, x.p, from) {
					return contradiction, 0, 0
				}
				changed = changed || D[x.o*c.n+x.p]+D[x.p*c.n+x.o] > before+slack*c.period
			case next == allDecided || to-from < high-low:
				next, low, high = k, from, to
			}
		}
		fits, more := c.memory(D)
		if !fits {
			return contradiction, 0, 0
		}
		if !changed && !more {
			return next, low, high
		}
	}
}

// memory reports whether what D implies fits in memory, and whether it tightened D by limits on how
// long a layer may be in flight.
func (c *pesp) memory(D []float64) (fits, more bool) {
	if !c.task {
		return c.stageMemory(D)
	}
	for i := range c.tasks {
		t := &c.tasks[i]
		bytes, here := c.during(D, t)
		if bytes > c.limit[t.processor] {
			return false, false
		}
		if t.isForward && t.hold > 0 {
			ok, learned := c.atMost(D, t, view.Count(c.limit[t.processor]-bytes+here, t.hold)+1)
			if !ok {
				return false, false
			}
			more = more || learned
		}
	}
	return true, more
}

// during returns the minimum bytes that are stored while a task runs, and of these what other
// mini-batches store of its own layer.
func (c *pesp) during(D []float64, t *pespTask) (bytes, here float64) {
	bytes = t.own
	for j := range c.tasks {
		y := &c.tasks[j]
		if y.processor != t.processor {
			continue
		}
		if y.waits > 0 {
			waiting := c.minBetween(D, y.op, y.op+1, t.op)
			if y.op+1 == t.op {
				waiting-- // it is the input
			}
			bytes += float64(max(0, waiting)) * y.waits
		}
		if !y.isForward || y.hold == 0 {
			continue
		}
		always := int(math.Ceil(c.flight(D, y)/c.period-slack)) - 1 // in flight at any time
		stored := float64(max(0, c.minBetween(D, y.forward, y.backward, t.op), always)) * y.hold
		if y.op == t.op {
			here = stored
		}
		bytes += stored
	}
	return bytes, here
}

// flight returns the minimum time that a mini-batch of a layer is in flight.
func (c *pesp) flight(D []float64, y *pespTask) float64 {
	return D[y.forward*c.n+y.backward] + c.d[y.backward]
}

// inFlight returns the minimum number of mini-batches of a layer in flight at the peak: after F,
// and at least the average.
func (c *pesp) inFlight(D []float64, y *pespTask) int {
	return max(1, c.minBetween(D, y.forward, y.backward, y.forward)+1, int(math.Ceil(c.flight(D, y)/c.period-slack)))
}

// atMost lets at most that many mini-batches be in flight when F runs: the one as many before it has ended.
func (c *pesp) atMost(D []float64, t *pespTask, count float64) (ok, more bool) {
	if count > float64(c.n) {
		return true, false
	}
	f, b := t.forward, t.backward
	was := D[b*c.n+f]
	ok = c.tighten(D, b, f, c.d[b]-count*c.period)
	return ok, ok && D[b*c.n+f] > was+slack*c.period
}

// stageMemory is memory by the stage model: each layer at its peak.
func (c *pesp) stageMemory(D []float64) (fits, more bool) {
	room := slices.Clone(c.limit)
	for i := range c.tasks {
		if y := &c.tasks[i]; y.isForward {
			room[y.processor] -= y.hold * float64(c.inFlight(D, y))
		}
	}
	for _, x := range room {
		if x < 0 {
			return false, false
		}
	}
	for i := range c.tasks {
		y := &c.tasks[i]
		if !y.isForward || y.hold == 0 {
			continue
		}
		ok, learned := c.atMost(D, y, float64(c.inFlight(D, y))+view.Count(room[y.processor], y.hold))
		if !ok {
			return false, false
		}
		more = more || learned
	}
	return true, more
}

// solve makes and solves the PESP of parts.
func (e *enumeration) solve(parts []part, fixed []float64) (*pesp, verdict) {
	c := e.newPESP(parts, fixed)
	answer := c.solve()
	e.levels = c.levels
	spent := int64(e.pespBudget - c.budget)
	e.decisions += spent
	e.budget -= 16 * spent
	return c, answer
}

// parts are the layers of an allocation that are not negligible and the communications between them; of one processor
// only, or of all for noProcessor.
func (e *enumeration) parts(only int) []part {
	in := e.in
	var list []part
	pass := func(f, b float64, operations int) {
		if k := len(list) - 1; k >= 0 { // before the first, nothing waits
			list[k].gapF += f
			list[k].gapB += b
			list[k].skipped += operations
		}
	}
	for l := 1; l <= in.N; l++ {
		r := e.owner[l]
		switch {
		case r == noProcessor:
			pass(in.UF[l], in.UB[l], 0)
		case only != noProcessor && r != only:
			pass(in.UF[l], in.UB[l], 1)
		default:
			x := part{
				resource: r, f: in.UF[l], b: in.UB[l], hold: e.hold[l],
				ownF: in.Kept[l] + in.OwnF[l], ownB: in.OwnB[l], delay: e.delay[l],
			}
			if l == in.N || e.owner[l+1] == r {
				x.outF = in.A[l]
			}
			if l > 1 && e.owner[l-1] == r {
				x.outB = in.D[l-1]
			}
			list = append(list, x)
		}
		if l < in.N && e.owner[l] != e.owner[l+1] && e.owner[l] != noProcessor && e.owner[l+1] != noProcessor {
			if only != noProcessor {
				pass(e.cutF[l], e.cutB[l], 1)
			} else {
				x := in.Communication(l, e.owner[l], e.owner[l+1])
				list = append(list, part{resource: x.Resource, cut: true, f: x.F, b: x.B})
			}
		}
	}
	return list
}

// byLayers looks for a pattern with all layers, negligible ones together with the layer whose processor they share.
func (e *enumeration) byLayers(stages []plan.Stage) *view.Pattern {
	var joined []plan.Stage
	for _, s := range stages {
		if k := len(joined) - 1; k >= 0 && joined[k].Processor == s.Processor && (e.negligible[s.From] || e.negligible[joined[k].To]) {
			joined[k].To = s.To
		} else {
			joined = append(joined, s)
		}
	}
	return e.byStages(joined)
}

// byStages looks for a pattern in which the layers of a stage are not interrupted.
func (e *enumeration) byStages(joined []plan.Stage) *view.Pattern {
	in := e.in
	fixed := make([]float64, in.Platform.Processors)
	items := in.Items(joined)
	parts := make([]part, len(items))
	for i, x := range items {
		parts[i] = part{resource: x.Resource, cut: x.Cut, f: x.F, b: x.B}
		if x.Cut {
			continue
		}
		parts[i].hold = in.Inputs(x.From, x.To)
		parts[i].ownF = in.Peak(x.From, x.To)
		parts[i].ownB = parts[i].ownF - parts[i].hold
		if l := x.From; l == x.To { // of several layers, the peak
			parts[i].ownF, parts[i].ownB = in.Kept[l]+in.OwnF[l], in.OwnB[l]
		}
		fixed[x.Resource] += in.Weights[x.To] - in.Weights[x.From-1]
		switch {
		case i == 0:
		case items[i-1].Cut:
			fixed[x.Resource] += in.Buffer[x.From-1]
		default:
			parts[i].outB = in.D[x.From-1]
		}
		if i < len(items)-1 && items[i+1].Cut {
			fixed[x.Resource] += in.Buffer[x.To]
		} else {
			parts[i].outF = in.A[x.To]
		}
	}
	c, answer := e.solve(parts, fixed)
	if answer != feasible {
		return nil
	}
	m := len(items)
	s := &view.Pattern{Period: c.period, K: 1, Stages: joined, Items: items, F: c.starts[:m:m], B: make([]float64, m)}
	for i := range m {
		s.B[i] = c.starts[2*m-1-i]
	}
	// With the orders as they are the period may be shorter; but what happens at the same time may be put in an order
	// that takes longer.
	shortest := *s
	if shortest.Retime() && shortest.Period <= c.period*(1+view.Instant) && in.Fits(shortest.Peak(in.Instance)) {
		return &shortest
	}
	if in.Fits(s.Peak(in.Instance)) {
		return s
	}
	return nil
}
