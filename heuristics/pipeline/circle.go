package pipeline

import (
	"math"
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// A circle asks whether an allocation has a k-periodic pattern of period T (of k
// mini-batches) or less, by the decisions of whom comes before whom.
//
// Let x_o be when operation o runs, a step of the way of one of the k mini-batches; it
// runs again every T. Two
// operations o and p of one resource are apart if and only if for an integer
// q_op
//
//	x_o + d_o + q_op·T ≤ x_p  and  x_p + d_p ≤ x_o + (q_op+1)·T:
//
// the last o before p is of q_op periods later. All other constraints are
// differences, too. Mini-batches pass each step in their order: what they store is alike, so
// where one overtakes another, they change names. An operation follows the one before it on the
// way of a mini-batch, and starts within T of that one's end. For else the rest of the way could
// be one mini-batch earlier, which would store less: were that not possible, some mini-batch
// would start the next step before the one behind it ends this one, so that the k
// from the one behind on start it before they have waited for T. And the first starts T/k at most
// before the second, if mini-batches are counted from where that time is least. Memory is
// counted in the q: of layer ℓ Σ q_{F_ℓ,o} - q_{B_ℓ,o} mini-batches are stored when o starts. So the search is
// for integers q without a cycle of positive length; what has to hold of the
// differences is kept closed (longest paths), and gives each q its range.
//
// Of some resources only: a relaxation, the rest of the way takes time only.
type circle struct {
	in     *instance
	k      int
	period float64   // of k mini-batches
	n      int       // operations: of step s, in the order of the way, those of mini-batches 0..k-1 are s·k..s·k+k-1
	d      []float64 // their durations
	tasks  []task    // computations
	limit  []float64 // by processor: what there is for a.hold and own
	pairs  []pair
	levels []float64 // by depth of the search: x_p - x_o ≥ levels[o·n+p]
	ended  func() bool
	budget int // decisions that are left
	// x are the starts that were found.
	x []float64
}

// A task is what a computation stores: own while it runs, and hold of its layer
// for each mini-batch between forward and backward.
type task struct {
	step, processor   int
	own               float64
	forward, backward int // steps of its layer
	hold              float64
	first             bool // it is the forward: counts hold
	// waits is what its result takes until the next operation, if that is on the
	// same processor.
	waits float64
}

type pair struct{ o, p int }

// A part is an item of a circle.
type part struct {
	resource int
	cut      bool
	f, b     float64
	// Of computations: bytes while the forward and the backward run, and of each
	// mini-batch in flight.
	ownF, ownB, hold float64
	outF, outB       float64 // of each result that waits for the next part, on the same processor
	delay            float64 // the least from the start of F to the end of B; 0: as the parts say
	// What lies between this part and the next, after F and before B, beside
	// parts: time, and how many operations that may wait for others.
	gapF, gapB float64
	skipped    int
}

// newCircle makes a circle of parts in the order of the chain. fixed is what
// processors store all the time.
func (a *allocations) newCircle(parts []part, fixed []float64) *circle {
	in, k := a.in, a.k
	period, m := float64(k)*a.period, len(parts)
	steps := 2 * m
	n := steps * k
	c := &circle{
		in: in, ended: a.ended, budget: a.decide, k: k, period: period, n: n,
		d: make([]float64, n), limit: make([]float64, len(fixed)), levels: slices.Grow(a.levels[:0], n*n)[:n*n],
	}
	for r := range fixed {
		c.limit[r] = in.Memory - fixed[r]
	}
	resource := make([]int, steps)
	for i, x := range parts {
		f, b := i, steps-1-i
		for r := range k {
			c.d[f*k+r], c.d[b*k+r] = x.f, x.b
		}
		resource[f], resource[b] = x.resource, x.resource
		if !x.cut {
			c.tasks = append(c.tasks,
				task{step: f, processor: x.resource, own: x.ownF, forward: f, backward: b, hold: x.hold, first: true, waits: x.outF},
				task{step: b, processor: x.resource, own: x.ownB, forward: f, backward: b, hold: x.hold, waits: x.outB})
		}
	}
	for o := range n {
		for p := (o/k + 1) * k; p < n; p++ {
			// Two that take no time to speak of may run at one instant.
			if resource[o/k] == resource[p/k] && c.d[o]+c.d[p] > 4*slack*period {
				c.pairs = append(c.pairs, pair{o, p})
			}
		}
	}
	c.follow(parts)
	return c
}

// follow says what all patterns have in common: the steps of each mini-batch, and the
// mini-batches at each step, in their order.
func (c *circle) follow(parts []part) {
	n, k, m := c.n, c.k, len(parts)
	for o := range c.levels {
		c.levels[o] = math.Inf(-1)
	}
	for o := range n {
		c.levels[o*n+o] = 0
	}
	for s := range 2*m - 1 {
		x := &parts[min(s, max(2*m-2-s, 0))]
		gap, turns := x.gapF, 1+x.skipped
		switch {
		case s == m-1:
			gap, turns = x.gapF+x.gapB, 1+2*x.skipped
		case s >= m:
			gap = x.gapB
		}
		for o := s * k; o < (s+1)*k; o++ {
			c.levels[o*n+o+k] = c.d[o] + gap
			c.levels[(o+k)*n+o] = -(c.d[o] + gap + float64(turns)*c.period)
		}
	}
	for i, x := range parts {
		for r := range k {
			f, b := i*k+r, (2*m-1-i)*k+r
			c.levels[f*n+b] = max(c.levels[f*n+b], x.delay-x.b)
		}
	}
	if k == 1 {
		return
	}
	for o := 0; o < n; o += k {
		for r := range k - 1 {
			c.levels[(o+r)*n+o+r+1] = c.d[o]
		}
		c.levels[(o+k-1)*n+o] = max(c.levels[(o+k-1)*n+o], c.d[o]-c.period)
	}
	c.levels[n] = max(c.levels[n], -c.period/float64(k))
}

// What a search for a pattern ended with.
const (
	noPattern = iota
	aPattern
	unknown
)

// solve searches. Decisions are counted in budget; beyond it the answer is
// unknown.
func (c *circle) solve() int {
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
	if !c.possible(D) {
		return noPattern
	}
	switch found := c.decide(0); {
	case found:
		return aPattern
	case c.budget < 0:
		return unknown
	}
	return noPattern
}

// slack is the part of T that differences may be off by.
const slack = plan.Tolerance

func (c *circle) possible(D []float64) bool {
	for o := range c.n {
		if D[o*c.n+o] > slack*c.period {
			return false
		}
	}
	return true
}

// tighten adds x_p ≥ x_o + w to D and reports whether that may be. O(n²).
func (c *circle) tighten(D []float64, o, p int, w float64) bool {
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
			continue // the way by o and p is no longer than what is known
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

// least and most are the range of q_op.
func (c *circle) least(D []float64, o, p int) int {
	if o == p || c.k > 1 && o/c.k == p/c.k {
		return inOrder(o, p)
	}
	return int(math.Ceil((D[o*c.n+p]+c.d[p])/c.period - 1 - slack))
}

func (c *circle) most(D []float64, o, p int) int {
	if o == p || c.k > 1 && o/c.k == p/c.k {
		return inOrder(o, p)
	}
	return int(math.Floor((-D[p*c.n+o]-c.d[o])/c.period + slack))
}

// inOrder is q_op of one step: mini-batches pass it in their order, and the last o before o
// is of the period before.
func inOrder(o, p int) int {
	if o < p {
		return 0
	}
	return -1
}

// between is the least number of mini-batches that have run one step, but not another, when o
// starts.
func (c *circle) between(D []float64, step, other, o int) int {
	sum := 0
	for r := range c.k {
		sum += c.least(D, step*c.k+r, o) - c.most(D, other*c.k+r, o)
	}
	return sum
}

// set gives q_op one value.
func (c *circle) set(D []float64, o, p, q int) bool {
	return c.tighten(D, o, p, c.d[o]+float64(q)*c.period) && c.tighten(D, p, o, c.d[p]-float64(q+1)*c.period)
}

// decide completes the decisions of a level in all ways until one fits.
func (c *circle) decide(level int) bool {
	if c.budget--; c.budget%64 == 0 && c.ended() {
		c.budget = -1
	}
	if c.budget < 0 {
		return false
	}
	n := c.n
	D := c.levels[level*n*n : (level+1)*n*n]
	next, low, high := c.narrow(D)
	if next == dead {
		return false
	}
	if next == noneLeft {
		c.x = slices.Clone(D[:n])
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

// What narrow may return beside the pair to decide next.
const (
	dead     = -1
	noneLeft = -2
)

// narrow draws the conclusions from D until there are none, and returns the
// pair with the fewest values of more than one, and their range.
func (c *circle) narrow(D []float64) (next, low, high int) {
	for {
		next = noneLeft
		changed := false
		for k, x := range c.pairs {
			least, most := c.least(D, x.o, x.p), c.most(D, x.o, x.p)
			switch {
			case least > most:
				return dead, 0, 0
			case least == most:
				before := D[x.o*c.n+x.p] + D[x.p*c.n+x.o]
				if !c.set(D, x.o, x.p, least) {
					return dead, 0, 0
				}
				changed = changed || D[x.o*c.n+x.p]+D[x.p*c.n+x.o] > before+slack*c.period
			case next == noneLeft || most-least < high-low:
				next, low, high = k, least, most
			}
		}
		fits, more := c.memory(D)
		if !fits {
			return dead, 0, 0
		}
		if !changed && !more {
			return next, low, high
		}
	}
}

// memory reports whether what D says leaves the memory within its limit, and
// whether it learned more from that: how long a layer may be in flight.
func (c *circle) memory(D []float64) (fits, more bool) {
	if !c.in.Task {
		return c.stageMemory(D)
	}
	for i := range c.tasks {
		t := &c.tasks[i]
		for r := range c.k {
			o := t.step*c.k + r
			bytes, here := c.during(D, t, o)
			if bytes > c.limit[t.processor] {
				return false, false
			}
			if t.first && t.hold > 0 {
				room := c.limit[t.processor] - bytes + here
				if ok, new := c.atMost(D, t, r, view.Count(room, t.hold)+1); !ok {
					return false, false
				} else if new {
					more = true
				}
			}
		}
	}
	return true, more
}

// during is what is stored at least while operation o of a task runs, and of that what the
// others store of its own layer.
func (c *circle) during(D []float64, t *task, o int) (bytes, here float64) {
	bytes = t.own
	for j := range c.tasks {
		y := &c.tasks[j]
		if y.processor != t.processor {
			continue
		}
		if y.waits > 0 {
			waiting := c.between(D, y.step, y.step+1, o)
			if y.step+1 == t.step {
				waiting-- // it is the input
			}
			bytes += float64(max(0, waiting)) * y.waits
		}
		if !y.first || y.hold == 0 {
			continue
		}
		stored := float64(max(0, c.between(D, y.forward, y.backward, o), c.always(D, y))) * y.hold
		if y.step == t.step {
			here = stored
		}
		bytes += stored
	}
	return bytes, here
}

// always is how many mini-batches of a layer are in flight at any time, at least.
func (c *circle) always(D []float64, y *task) int {
	sum := 0
	for r := range c.k {
		sum += int(math.Ceil(c.flight(D, y, r)/c.period-slack)) - 1
	}
	return sum
}

// flight is how long one mini-batch of a layer is in flight, at least.
func (c *circle) flight(D []float64, y *task, r int) float64 {
	b := y.backward*c.k + r
	return D[(y.forward*c.k+r)*c.n+b] + c.d[b]
}

// flying is how many mini-batches of a layer are in flight at most, at least: behind some F, and
// no fewer than on average.
func (c *circle) flying(D []float64, y *task) int {
	sum, most := 0.0, 1
	for r := range c.k {
		sum += c.flight(D, y, r)
		most = max(most, c.between(D, y.forward, y.backward, y.forward*c.k+r)+1)
	}
	return max(most, int(math.Ceil(sum/c.period-slack)))
}

// atMost lets so many mini-batches be in flight when F of one of them runs: the one so many
// before it has ended.
func (c *circle) atMost(D []float64, t *task, r int, count float64) (ok, more bool) {
	if count > float64(c.n) {
		return true, false
	}
	turns := 0
	before := r - int(count)
	for ; before < 0; before += c.k {
		turns++
	}
	f, b := t.forward*c.k+r, t.backward*c.k+before
	was := D[b*c.n+f]
	ok = c.tighten(D, b, f, c.d[b]-float64(turns)*c.period)
	return ok, ok && D[b*c.n+f] > was+slack*c.period
}

// stageMemory is memory by the stage model: each layer at its most.
func (c *circle) stageMemory(D []float64) (fits, more bool) {
	room := slices.Clone(c.limit)
	for i := range c.tasks {
		if y := &c.tasks[i]; y.first {
			room[y.processor] -= y.hold * float64(c.flying(D, y))
		}
	}
	for _, x := range room {
		if x < 0 {
			return false, false
		}
	}
	for i := range c.tasks {
		y := &c.tasks[i]
		if !y.first || y.hold == 0 {
			continue
		}
		extra := view.Count(room[y.processor], y.hold)
		count := float64(c.flying(D, y)) + extra
		for r := range c.k {
			if ok, new := c.atMost(D, y, r, count); !ok {
				return false, false
			} else if new {
				more = true
			}
		}
	}
	return true, more
}

// parts are the layers of an allocation that are not light and the
// communications between them; of one processor only, or of all for none.
func (a *allocations) parts(only int) []part {
	in := a.in
	var list []part
	pass := func(f, b float64, operations int) {
		if k := len(list) - 1; k >= 0 { // before the first, nothing waits
			list[k].gapF += f
			list[k].gapB += b
			list[k].skipped += operations
		}
	}
	for l := 1; l <= in.N; l++ {
		r := a.owner[l]
		switch {
		case r == none:
			pass(in.UF[l], in.UB[l], 0)
		case only != none && r != only:
			pass(in.UF[l], in.UB[l], 1)
		default:
			list = append(list, part{
				resource: r, f: in.UF[l], b: in.UB[l], hold: a.hold[l],
				ownF: in.Kept[l] + in.A[l], ownB: in.D[l] + in.D[l-1], delay: a.delay[l],
			})
			x := &list[len(list)-1]
			if l == in.N || a.owner[l+1] == r {
				x.outF = in.A[l]
			}
			if l > 1 && a.owner[l-1] == r {
				x.outB = in.D[l-1]
			}
		}
		if l < in.N && a.owner[l] != a.owner[l+1] && a.owner[l] != none && a.owner[l+1] != none {
			if only != none {
				pass(a.cutF[l], a.cutB[l], 1)
			} else {
				x := in.Communication(l, a.owner[l], a.owner[l+1])
				list = append(list, part{resource: x.Resource, cut: true, f: x.F, b: x.B})
			}
		}
	}
	return list
}

// leaf asks the list scheduler for a pattern of a whole allocation, and keeps the allocation for settle. A
// pattern of a longer period is kept if it is better than what is known: few allocations are left at a
// short one, and the best patterns are of some of these.
func (a *allocations) leaf(used int) {
	x := a.listed(a.stages())
	switch {
	case x == nil:
	case x.Rate() <= a.period*(1+view.Rounding):
		a.found = x
		return
	default:
		a.better, a.below = x, x.Rate()
	}
	a.left = append(a.left, ray{owner: slices.Clone(a.owner[:a.in.N+1]), used: used})
}

// settle looks for patterns of the allocations that are left, or proofs that they have none.
func (a *allocations) settle() {
	for _, x := range a.left {
		if a.over() {
			return
		}
		a.along(x, func() { a.decided(x.used) })
	}
}

// decided looks for a pattern of a whole allocation, or a proof that it has none.
func (a *allocations) decided(used int) {
	a.mayFit(a.in.N, used) // it did; this is for its delays
	for r := range a.in.Procs {
		if len(a.on[r]) == 0 {
			continue
		}
		if _, answer := a.circle(a.parts(r), a.fixed); answer == noPattern {
			return
		}
	}
	switch _, answer := a.circle(a.parts(none), a.fixed); answer {
	case noPattern:
		return
	case unknown:
		a.short = true
	case aPattern:
		if a.found = a.whole(a.stages()); a.found != nil {
			return
		}
	}
	a.undecided = true
}

// circle makes and solves a circle.
func (a *allocations) circle(parts []part, fixed []float64) (*circle, int) {
	c := a.newCircle(parts, fixed)
	answer := c.solve()
	a.levels = c.levels
	spent := int64(a.decide - c.budget)
	a.decisions += spent
	a.budget -= 16 * spent
	return c, answer
}

// listed asks the list scheduler for what takes no more than the period, or is better than what is known.
func (a *allocations) listed(stages []plan.Stage) *view.Pattern {
	a.budget -= 128
	return a.in.schedule(view.Merged(stages), max(a.period*(1+view.Rounding), a.below*(1-leastGap)))
}

// whole looks for a pattern with all layers, light ones with the layer that they
// are on a processor with.
func (a *allocations) whole(stages []plan.Stage) *view.Pattern {
	var joined []plan.Stage
	for _, s := range stages {
		if k := len(joined) - 1; k >= 0 && joined[k].Processor == s.Processor && (a.light[s.From] || a.light[joined[k].To]) {
			joined[k].To = s.To
		} else {
			joined = append(joined, s)
		}
	}
	return a.inStages(joined)
}

// inStages looks for a pattern in which the layers of a stage are not
// interrupted.
func (a *allocations) inStages(joined []plan.Stage) *view.Pattern {
	in := a.in
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
		if l := x.From; l == x.To { // as it is; of several layers, the most
			parts[i].ownF, parts[i].ownB = in.Kept[l]+in.A[l], in.D[l]+in.D[l-1]
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
	c, answer := a.circle(parts, fixed)
	if answer != aPattern {
		return nil
	}
	m, k := len(items), a.k
	s := &view.Pattern{Period: c.period, K: k, Stages: joined, Items: items, F: make([]float64, m*k), B: make([]float64, m*k)}
	for i := range m {
		for r := range k {
			s.F[r*m+i], s.B[r*m+i] = c.x[i*k+r], c.x[(2*m-1-i)*k+r]
		}
	}
	// With the orders as they are the period may be less; but what happens at
	// one instant may be put in an order that takes more.
	least := *s
	if least.Retime() && least.Period <= c.period*(1+view.Instant) && in.Fits(least.Peak(in.Instance)) {
		return &least
	}
	if in.Fits(s.Peak(in.Instance)) {
		return s
	}
	return nil
}
