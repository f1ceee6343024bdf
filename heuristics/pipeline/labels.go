package pipeline

import (
	"math"
	"slices"

	view "workbench/model/problem/pipeline"
)

// labelSearch decides by label-setting with dominance whether processors that are empty at first can start a
// mini-batch every period, for ever. If they cannot, no pattern of that period exists, for any k: take a pattern of
// k mini-batches in k·T and of its mini-batches one, m, for which start − m·T is largest. Each one j behind it starts
// by j·T after it, and without those before m the rest stays valid.
//
// A label says at which step each mini-batch inside is, and when processors and mini-batches are free, relative to
// the next deadline. Labels are extended in the order of starts. What a processor stores depends on the order of its
// own operations alone, and mini-batches pass each step in their order, so of two labels at the same position one
// that is no earlier in any time is dominated. The search is feasible if a label comes back to the position of an
// ancestor and is earlier in every time; infeasible if no label is left. docs/pipeline-proofs.md has the proofs.
//
// It is a relaxation: times are rounded down to gridUnits a period, links carry any number of tensors at a time, and
// a step of several layers may be interrupted.
type labelSearch struct {
	network
	store *labelStore
	stop  func() bool
	made  int // labels

	latest    []int32   // by step: when it has to start, after the deadline of its mini-batch
	lead      []int32   // by step: minimum time from the start of the first one to its own
	next      [][]int   // by step and processor: the next step there
	elsewhere bool      // the first step takes memory on another processor, of first forwards that are delays
	options   [][]start // by processor, of the label that is extended
	until     []int32   // by processor: when it starts an option at the latest, if nothing else starts before
	soonest   int32     // when any option can start
	running   []int     // scratch
	child     label
}

// network is what mini-batches pass: steps, each a run of forwards or of backwards on one processor.
type network struct {
	steps  []step
	room   []float64   // bytes by processor, for what mini-batches store
	stored [][]float64 // by number of completed steps and processor: bytes of one mini-batch
}

// step is a sequence of consecutive layers of a mini-batch on one processor. The processor may run
// other steps in between, which delay its end. Its timing is left open, so what it stores is the
// minimum from its first layer on, and what it needs is that of its first layer.
type step struct {
	on, layers  int
	time        int32 // units
	first, last int32 // of these, its first layer and its last
	delay       int32 // minimum units from its end to the next step
	need        float64
}

// verdict is the result of a search for a pattern.
type verdict int

const (
	infeasible verdict = iota
	feasible
	unknown
)

const (
	// gridUnits is the number of units of a period, to which times are rounded down.
	gridUnits = 16384
	// mostInside is the maximum number of mini-batches of a label; a search that needs more is
	// unknown.
	mostInside = 12
	// mostRunning is the maximum number of running steps on a processor whose order of ends
	// relative to a new one is branched on.
	mostRunning = 3
	// stopEvery is the number of extended labels between checks for a stop.
	stopEvery = 1 << 10
)

// start is a step that may be the next one on its processor.
type start struct {
	batch, step int   // batch: index among those inside, -1 for a new one
	ready       bool  // it is the next step of its mini-batch anywhere
	at          int32 // when it can start
	by          int32 // if it is ready and the next there, it need not start later
}

// run extends at most as many labels.
func (c *labelSearch) run(most int) verdict {
	if len(c.steps) < 2 || len(c.steps) > 255 {
		return unknown
	}
	if !c.findDeadlines() {
		return infeasible
	}
	c.findLeads()
	w := c.store
	w.reset(len(c.room))
	x := &label{id: noLabel} // empty, and the first mini-batch is due now
	for range 1 + len(c.room) {
		x.times = append(x.times, gridUnits)
	}
	for k := 1; ; k++ {
		c.extend(x)
		switch {
		case w.repeated:
			return feasible
		case w.overflow:
			return unknown
		case !w.pop(x):
			return infeasible
		case x.inside == mostInside || c.made > most || k%stopEvery == 0 && c.stop():
			return unknown
		}
	}
}

// findLeads tabulates what steps lie ahead. O(steps·P).
func (c *labelSearch) findLeads() {
	n, procs := len(c.steps), len(c.room)
	c.lead, c.next = make([]int32, n+1), make([][]int, n+1)
	for p, s := range c.steps {
		c.lead[p+1] = c.lead[p] + s.time + s.delay
	}
	c.next[n] = slices.Repeat([]int{n}, procs)
	for p := n - 1; p >= 0; p-- {
		c.next[p] = slices.Clone(c.next[p+1])
		c.next[p][c.steps[p].on] = p
	}
	for r, held := range c.stored[1] {
		c.elsewhere = c.elsewhere || held > 0 && r != c.steps[0].on
	}
	c.options, c.until = make([][]start, procs), make([]int32, procs)
}

// findDeadlines finds by when each step has to start, after the deadline of its mini-batch: to be on time for the next
// step, and for the mini-batch that finds no room on a processor before. It reports false if there is no such time.
func (c *labelSearch) findDeadlines() bool {
	n := len(c.steps)
	c.latest = slices.Repeat([]int32{math.MaxInt32}, n)
	c.latest[0] = 0
	for range 2 * n {
		changed := false
		lower := func(p int, t int32) {
			if t < c.latest[p] {
				c.latest[p], changed = t, true
			}
		}
		for p := n - 1; p >= 0; p-- {
			s, t := &c.steps[p], c.latest[p]
			if t == math.MaxInt32 {
				continue
			}
			if p > 0 {
				lower(p-1, t-c.steps[p-1].time-c.steps[p-1].delay)
			}
			held, last := c.stored[p+1][s.on], p+1
			for last < n-1 && c.stored[last+1][s.on] >= held {
				last++
			}
			if count := 1 + view.Count(c.room[s.on]-s.need, held); count >= 1 && count < mostInside && last < n {
				lower(last, t+int32(count)*gridUnits)
			}
		}
		if !changed {
			return true
		}
	}
	return false
}

// extend tries every step of x that may be the next to start. Processors depend on each other only
// by the mini-batches that arrive, so
//
//   - if nothing that a processor has to do fits, it is in a deadlock, and x has no successor;
//   - an option that is the only one on its processor starts as early as possible, and nothing
//     else is tried:
//     whatever follows, it can as well be started first;
//   - otherwise some option is the first of all, and none starts after another processor has
//     started one.
func (c *labelSearch) extend(x *label) {
	c.soonest = math.MaxInt32
	var alone *start
	for r := range c.options {
		busy, needed := c.list(x, r)
		if needed && len(c.options[r]) == 0 {
			return
		}
		c.prune(x, r, busy)
		if k := c.options[r]; len(k) == 1 && c.canBeFirst(x, &k[0], r) {
			alone = &k[0]
		}
	}
	if alone != nil {
		c.start(x, alone, alone.at, c.soonest)
		return
	}
	for r, k := range c.options {
		until := int32(math.MaxInt32)
		for other, t := range c.until {
			if other != r {
				until = min(until, t)
			}
		}
		for i := range k {
			if k[i].ready {
				c.starts(x, &k[i], until)
			}
		}
	}
}

// list lists the options of processor r: of each mini-batch its next step there, if it fits now and those ahead have
// started it. That others start elsewhere changes nothing of it, except that a new mini-batch may take memory here
// (see elsewhere). What r runs ends by busy.
func (c *labelSearch) list(x *label, r int) (busy int32, needed bool) {
	procs := len(c.room)
	k := c.options[r][:0]
	free := max(x.times[0], x.times[1+r])
	busy = free
	for i := range x.inside {
		busy = max(busy, c.end(x, i, r))
	}
	ahead := len(c.steps) // the next step here of those ahead
	for m := x.inside - 1; m >= -1; m-- {
		p, t := 0, x.times[0]
		if m >= 0 {
			p, t = int(x.position[m]), x.times[1+procs+m]
		}
		q := c.next[p][r]
		if q >= ahead {
			continue
		}
		ahead = q
		room := c.room[r]
		for i, p := range x.position[:x.inside] {
			if i != m {
				room -= c.stored[p][r]
			}
		}
		if c.steps[q].need <= room {
			t = max(t+c.lead[q]-c.lead[p], free)
			o := start{batch: m, step: q, ready: p == q, at: t, by: max(t, busy)}
			if m < 0 && c.elsewhere {
				o.by = math.MaxInt32
			}
			k = append(k, o)
		}
	}
	c.options[r] = k
	return busy, ahead < len(c.steps)
}

// prune removes options of processor r before which another one that is ready and stores no more
// can be completed: any continuation that starts with one of them is no worse with that one first.
// It also computes by when r starts one of the others if nothing else starts before: one that is
// not ready takes the steps before it from then on.
func (c *labelSearch) prune(x *label, r int, busy int32) {
	k := c.options[r]
	over := int32(math.MaxInt32)
	for _, o := range k {
		if time := c.steps[o.step].time; o.ready && o.by == o.at && time > 0 && c.stored[o.step+1][r] <= c.stored[o.step][r] {
			over = min(over, o.at+time)
		}
	}
	c.until[r] = math.MinInt32
	n := 0
	for _, o := range k {
		if o.at >= over {
			continue
		}
		k[n] = o
		n++
		switch {
		case o.ready:
			c.until[r], c.soonest = max(c.until[r], o.by), min(c.soonest, o.at)
		case over < math.MaxInt32:
			c.until[r] = max(c.until[r], over-1-c.timeUntilReady(x, o))
		default:
			c.until[r] = math.MaxInt32
		}
	}
	if n == 0 {
		c.until[r] = math.MaxInt32
	}
	c.options[r] = k[:n]
}

// canBeFirst reports whether the only option on processor r can be started before earlier starts
// elsewhere. It must not hide what its mini-batch runs, nor that a new one may allocate memory
// here.
func (c *labelSearch) canBeFirst(x *label, o *start, r int) bool {
	if !o.ready || o.by > o.at || c.stored[1][r] > 0 && r != c.steps[0].on {
		return false
	}
	if o.batch < 0 {
		return true
	}
	on := c.steps[x.position[o.batch]-1].on
	return c.end(x, o.batch, on) <= max(x.times[0], x.times[1+on])
}

// timeUntilReady returns the time that a mini-batch takes until an option of it is ready.
func (c *labelSearch) timeUntilReady(x *label, o start) int32 {
	if o.batch < 0 {
		return c.lead[o.step]
	}
	return c.lead[o.step] - c.lead[x.position[o.batch]]
}

// end is when what mini-batch i started last ends on a processor, long ago if it is elsewhere.
func (c *labelSearch) end(x *label, i, on int) int32 {
	s := &c.steps[x.position[i]-1]
	if s.on != on {
		return math.MinInt32
	}
	return x.times[1+len(c.room)+i] - s.delay
}

// starts starts an option as early as possible, or when a step that runs on that processor ends,
// but not after until.
func (c *labelSearch) starts(x *label, o *start, until int32) {
	if o.at <= until {
		c.start(x, o, o.at, o.at)
	}
	for i := range x.inside {
		if t := c.end(x, i, c.steps[o.step].on); t > o.at && t <= until && i != o.batch {
			c.start(x, o, t, t)
		}
	}
}

// start starts an option at t; nothing else starts before now. Some of the steps that run on the
// processor then end before it, so it waits for all their remaining time; the others end after it.
// Those that run the same step end before.
func (c *labelSearch) start(x *label, o *start, t, now int32) {
	if o.batch < 0 && t > gridUnits {
		return
	}
	s := &c.steps[o.step]
	running, same := c.running[:0], 0
	for i, p := range x.position[:x.inside] {
		if i != o.batch && c.end(x, i, s.on) > t {
			if int(p)-1 == o.step {
				same |= 1 << len(running)
			}
			running = append(running, i)
		}
	}
	c.running = running
	switch {
	case len(running) > mostRunning:
		c.follow(x, o, t, now, -1)
	case s.layers == 1:
		c.follow(x, o, t, now, 0) // a single layer is not interrupted
	default:
		for before := range 1 << len(running) {
			if before&same == same {
				c.follow(x, o, t, now, before)
			}
		}
	}
}

// follow adds the label after an option if the running steps in before end before it. If they are
// too many, -1, each is as early as possible in either order.
func (c *labelSearch) follow(x *label, o *start, t, now int32, before int) {
	c.made++
	s, procs, y := &c.steps[o.step], len(c.room), &c.child
	y.times = append(y.times[:0], x.times...)
	end := t + s.time
	for k, i := range c.running {
		p := 1 + procs + i
		switch z := &c.steps[x.position[i]-1]; {
		case before < 0:
			y.times[p] += s.first
		case before>>k&1 == 1:
			end = max(end, c.end(x, i, s.on)+s.time)
			y.times[p] += s.first
		default:
			y.times[p] = max(y.times[p]+s.time, t+s.time+z.last+z.delay)
		}
	}
	y.times[0], y.times[1+s.on] = now, t+s.first
	c.advance(x, y, o, end+s.delay)
	if !c.late(y) {
		c.store.insert(y, x.id, c.priority(y))
	}
}

// advance moves the mini-batch of an option, which is ready again at ready, one step further, from
// the position of x to that of y. Times are relative to the deadline of the newest mini-batch, and
// nothing starts before the latest start.
func (c *labelSearch) advance(x, y *label, o *start, ready int32) {
	y.position, y.inside = x.position, x.inside
	m, shift := 1+len(c.room)+o.batch, int32(0)
	switch {
	case o.batch < 0:
		copy(y.position[1:], x.position[:x.inside])
		y.position[0] = 1
		y.inside++
		y.times = slices.Insert(y.times, m+1, ready)
		shift = gridUnits
	case o.step+1 == len(c.steps): // the oldest mini-batch completes
		y.inside--
		y.position[y.inside] = 0
		y.times = y.times[:m]
	default:
		y.position[o.batch]++
		y.times[m] = ready
	}
	now := y.times[0]
	for i, t := range y.times {
		y.times[i] = max(t, now) - shift
	}
}

// late reports whether a mini-batch can no longer start its next step in time.
func (c *labelSearch) late(x *label) bool {
	for m, p := range x.position[:x.inside] {
		t := max(x.times[1+len(c.room)+m], x.times[1+c.steps[p].on])
		if by := c.latest[p]; by < math.MaxInt32 && t > by-int32(m)*gridUnits {
			return true
		}
	}
	return false
}

// priority returns by how much x is late. Labels with the smallest lateness are extended first.
func (c *labelSearch) priority(x *label) int32 {
	sum := x.times[0]
	for _, p := range x.position[:x.inside] {
		sum += gridUnits - gridUnits*int32(p)/int32(len(c.steps))
	}
	return sum
}
