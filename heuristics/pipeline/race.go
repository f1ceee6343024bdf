package pipeline

import (
	"container/heap"
	"math"
	"slices"

	view "workbench/model/pipeline"
	"workbench/model/plan"
)

// A race asks, for every k, whether an allocation has a pattern of period T a mini-batch. Let m
// be one of its mini-batches for which start - m·T is largest: each one j behind it starts by j·T
// after it. Without those before m the rest stays valid. So processors that are empty can start
// mini-batch j by j·T, for all j ≥ 0. A race tries all ways to do that. If each comes to an end, T
// is too short; if one comes back to where it was, and earlier, nothing is excluded.
//
// It is run in the order of starts. What a processor stores depends on the order of its own
// operations alone, and mini-batches pass each operation in their order (see circle). So where
// everybody is counts, and when processors and mini-batches are free, relative to the next deadline;
// and of two ways to the same places, one that is no earlier anywhere need not go on.
//
// Links carry as many tensors at a time as one likes. Layers that are light or not placed are
// delays, and so are first forwards that take next to no time: else mini-batches would pile up
// that hold little.
// Layers in a row are one step (see step).
type race struct {
	in     *instance
	unit   float64   // seconds; a period has raceGrain
	room   []float64 // by processor, beside weights and buffers
	steps  []step
	stored [][]float64 // behind so many steps, by processor, of one mini-batch
	ways   map[places][]*runner
	queue  runners
	made   int
	latest []int32 // by step, see schedule
	again  bool    // a way came back, earlier
}

const (
	// raceGrain is the number of units of a period; all times are rounded down to them.
	raceGrain = 2048
	// raceDelay is the part of a period that first forwards may take and be delays.
	raceDelay = 0.05
	// mostInside is how many mini-batches are followed; where more fit, nothing is excluded.
	mostInside = 12
	// mostBegun is how many steps that are begun on a processor end before another or behind it, each by itself.
	mostBegun = 3
)

// A step is what one processor does of a mini-batch: forwards, or backwards, of layers in a row.
// Between them it may do others, for which the step ends later. When is left open, so what it
// stores is the least from its first layer on, and what it needs is that of its first.
type step struct {
	on          int
	layers      int
	exact       float64 // seconds it takes
	time        int32   // it takes, in units
	first, last int32   // of that, its first layer and its last
	wait        float64 // seconds from its end to the next step at least
	delay       int32   // the same in units
	need        float64 // bytes, of this mini-batch, while the first layer runs
}

// places are those of the mini-batches inside, the newest first: how many steps each has begun.
type places [mostInside]uint8

// A runner is a way to some places. Times are relative to the next deadline: of the latest start,
// 0; when what each processor does at one go ends, 1+p; when each mini-batch can begin its next
// step, 1+P+m.
type runner struct {
	places
	inside int
	times  []int32
	from   *runner
	beaten bool
	behind int32
}

// runners are a heap by the latest start: who is ahead goes on first.
type runners []*runner

func (q runners) Len() int           { return len(q) }
func (q runners) Less(i, k int) bool { return q[i].behind < q[k].behind }
func (q runners) Swap(i, k int)      { q[i], q[k] = q[k], q[i] }
func (q *runners) Push(x any)        { *q = append(*q, x.(*runner)) }
func (q *runners) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// newRace is the race of layers 1..n as they are placed; the others take v at least. Steps have at
// most so many layers. O(n·P).
func (a *allocations) newRace(n int, v float64, wide int) *race {
	in := a.in
	c := &race{in: in, unit: a.period * (1 + safe) / raceGrain, ways: map[places][]*runner{}}
	for range in.Procs {
		c.room = append(c.room, in.Memory)
	}
	for l := 1; l <= n; l++ {
		if r := a.owner[l]; r != none {
			c.room[r] -= in.Copies * in.W[l]
			if a.owner[l-1] != r {
				c.room[r] -= a.buffer[l-1]
			}
			if l < in.N && (l == n || a.owner[l+1] != r) {
				c.room[r] -= a.buffer[l]
			}
		}
	}
	held := make([]float64, in.Procs)
	c.stored = append(c.stored, slices.Clone(held))
	next := func(l, r int) bool { return l >= 1 && l <= n && a.owner[l] == r } // on the same processor
	began := 0.0
	for l := 1; l <= n; l++ {
		r := a.owner[l]
		if r == none {
			c.delay(in.UF[l])
			continue
		}
		held[r] += a.hold[l]
		if began += in.UF[l]; len(c.steps) == 0 && began <= raceDelay*a.period && (next(l+1, r) || held[r] <= raceDelay*in.Memory) {
			continue
		}
		own, waits := 0.0, 0.0
		if in.Task {
			own = in.A[l]
			if next(l+1, r) {
				waits = own
			}
		}
		// What a run holds in the end is a step of its own, since others count it for long.
		c.add(r, in.UF[l], held, own, waits, next(l-1, r) && next(l+1, r), wide)
		if l < n {
			c.delay(a.cutF[l] * a.crosses(l))
		}
	}
	c.delay(v)
	for l := n; l >= 1; l-- {
		r := a.owner[l]
		if r == none {
			c.delay(in.UB[l])
			continue
		}
		own, waits := 0.0, 0.0
		if in.Task {
			own = a.hold[l] + in.D[l] + in.D[l-1]
			if next(l-1, r) {
				waits = in.D[l-1]
			}
		} else {
			own = a.hold[l]
		}
		held[r] -= a.hold[l]
		c.add(r, in.UB[l], held, own, waits, next(l+1, r) && l > 1, wide)
		if l > 1 {
			c.delay(a.cutB[l-1] * a.crosses(l-1))
		}
	}
	return c
}

// crosses is 1 if layers l and l+1 are on two processors, else 0.
func (a *allocations) crosses(l int) float64 {
	if a.owner[l] == a.owner[l+1] {
		return 0
	}
	return 1
}

// delay adds time before the next step.
func (c *race) delay(t float64) {
	if k := len(c.steps) - 1; k >= 0 {
		c.steps[k].wait += max(0, t-2*plan.Tolerance*raceGrain*c.unit)
		c.steps[k].delay = int32(c.steps[k].wait / c.unit)
	}
}

// add appends a layer to the last step, or a new one. Beside what is held it needs own, and behind it something waits.
// Its time is less by what the verifier forgives.
func (c *race) add(r int, time float64, held []float64, own, waits float64, join bool, wide int) {
	time = max(0, time-2*plan.Tolerance*raceGrain*c.unit)
	units := int32(time / c.unit)
	behind := slices.Clone(held)
	behind[r] += waits
	if k := len(c.steps) - 1; join && k >= 0 && c.steps[k].layers < wide {
		s := &c.steps[k]
		s.layers++
		s.exact += time
		s.time, s.last = int32(s.exact/c.unit), units
		c.stored[k+1][r] = min(c.stored[k+1][r], behind[r])
		return
	}
	c.steps = append(c.steps, step{on: r, layers: 1, exact: time, time: units, first: units, last: units, need: held[r] + own})
	c.stored = append(c.stored, behind)
}

// What a race ends with.
const (
	lost = iota // there is no pattern
	goesOn
	unfinished
)

// run tries at most so many ways.
func (c *race) run(most int) int {
	if len(c.steps) < 2 || len(c.steps) > 255 {
		return unfinished
	}
	if !c.schedule() {
		return lost
	}
	heap.Push(&c.queue, &runner{times: make([]int32, 1+c.in.Procs)}) // it is there once
	for c.queue.Len() > 0 {
		x := heap.Pop(&c.queue).(*runner)
		if x.beaten {
			continue
		}
		if x.inside == mostInside || c.made > most {
			return unfinished
		}
		for m := -1; m < x.inside; m++ {
			c.moves(x, m)
			if c.again {
				return goesOn
			}
		}
	}
	return lost
}

// moves tries the next step of mini-batch m, of a new one for -1. It may begin as soon as it can, or when one that is
// begun on that processor ends.
func (c *race) moves(x *runner, m int) {
	P, place := c.in.Procs, 0
	if m >= 0 {
		place = int(x.places[m])
	}
	if m+1 < x.inside && int(x.places[m+1]) <= place { // mini-batches pass each step in their order
		return
	}
	s := &c.steps[place]
	room := c.room[s.on]
	t := max(x.times[0], x.times[1+s.on])
	if m >= 0 {
		t = max(t, x.times[1+P+m])
	}
	var begun [mostInside]int
	n := 0
	for i, p := range x.places[:x.inside] {
		if i == m {
			continue
		}
		room -= c.stored[p][s.on]
		if c.end(x, i, s.on) > t {
			begun[n] = i
			n++
		}
	}
	if s.need > room {
		return
	}
	c.begin(x, m, s, t, begun[:n])
	for _, i := range begun[:n] {
		c.begin(x, m, s, c.end(x, i, s.on), begun[:n])
	}
}

// end is when what mini-batch i has begun on a processor ends, 0 if it is elsewhere.
func (c *race) end(x *runner, i, on int) int32 {
	s := &c.steps[x.places[i]-1]
	if s.on != on {
		return -1 << 31
	}
	return x.times[1+c.in.Procs+i] - s.delay
}

// begin begins step s of mini-batch m at t. Of those begun on the processor that have not ended by then
// some end before s, so that s has to wait for all that they still take, and the others behind it. What has begun
// the same step ends before.
func (c *race) begin(x *runner, m int, s *step, t int32, begun []int) {
	if m < 0 && x.from != nil && t > raceGrain {
		return
	}
	var left []int
	same := 0
	for _, i := range begun {
		if c.end(x, i, s.on) > t {
			if &c.steps[x.places[i]-1] == s {
				same |= 1 << len(left)
			}
			left = append(left, i)
		}
	}
	switch {
	case len(left) > mostBegun:
		c.follow(x, m, s, t, left, -1)
	case s.layers == 1:
		c.follow(x, m, s, t, left, 0) // it is at one go
	default:
		for before := range 1 << len(left) {
			if before&same == same {
				c.follow(x, m, s, t, left, before)
			}
		}
	}
}

// follow is what follows if those of left that are in before end before s. Where they are too many, -1, they
// are as early as it may be either way.
func (c *race) follow(x *runner, m int, s *step, t int32, left []int, before int) {
	y := c.next(x, m)
	end := t + s.time
	for k, i := range left {
		p := 1 + c.in.Procs + i // as numbered in y
		if m < i {
			p += y.inside - x.inside
		}
		switch z := &c.steps[x.places[i]-1]; {
		case before < 0:
			y.times[p] += s.first
		case before>>k&1 == 1:
			end = max(end, c.end(x, i, s.on)+s.time)
			y.times[p] += s.first
		default:
			y.times[p] = max(y.times[p]+s.time, t+s.time+z.last+z.delay)
		}
	}
	y.times[0], y.times[1+s.on] = t, t+s.first
	if y.inside >= x.inside {
		y.times[1+c.in.Procs+max(m, 0)] = end + s.delay
	}
	c.finish(x, y)
}

// next is x with mini-batch m a step further.
func (c *race) next(x *runner, m int) *runner {
	c.made++
	P := c.in.Procs
	y := &runner{places: x.places, inside: x.inside, from: x}
	switch {
	case m < 0:
		y.inside++
		copy(y.places[1:], x.places[:x.inside])
		y.places[0] = 1
		y.times = make([]int32, 1+P+y.inside)
		copy(y.times, x.times[:1+P])
		copy(y.times[2+P:], x.times[1+P:])
	case int(x.places[m])+1 == len(c.steps):
		y.inside--
		copy(y.places[m:], x.places[m+1:])
		y.places[y.inside] = 0
		y.times = slices.Delete(slices.Clone(x.times), 1+P+m, 2+P+m)
	default:
		y.places[m]++
		y.times = slices.Clone(x.times)
	}
	return y
}

// finish makes the times of y, which comes of x, relative to the next deadline. Nothing starts before the latest start.
func (c *race) finish(x, y *runner) {
	shift := int32(0)
	if x.from != nil && y.inside > x.inside {
		shift = raceGrain
	}
	now := y.times[0]
	for i, t := range y.times {
		y.times[i] = max(t, now) - shift
	}
	y.behind = y.times[0]
	for _, p := range y.places[:y.inside] {
		y.behind += raceGrain - raceGrain*int32(p)/int32(len(c.steps))
	}
	if !c.late(y) {
		c.arrive(y)
	}
}

// schedule finds by when each step is to begin, after the deadline of its mini-batch: to be on time for the
// next step, and for the mini-batch that finds no room on a processor before it has begun. It reports false if there is no
// such time.
func (c *race) schedule() bool {
	n := len(c.steps)
	c.latest = make([]int32, n)
	for p := 1; p < n; p++ {
		c.latest[p] = math.MaxInt32
	}
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
				lower(last, t+int32(count)*raceGrain)
			}
		}
		if !changed {
			return true
		}
	}
	return false
}

// late reports whether a mini-batch can no longer begin its next step in time.
func (c *race) late(x *runner) bool {
	for m, p := range x.places[:x.inside] {
		if t := c.latest[p]; t < math.MaxInt32 && x.times[1+c.in.Procs+m] > t-int32(m)*raceGrain {
			return true
		}
	}
	return false
}

// noLater reports whether no time of x is later than that of y.
func (x *runner) noLater(y *runner) bool {
	for i, t := range x.times {
		if t > y.times[i] {
			return false
		}
	}
	return true
}

// arrive queues x, unless another is there that is no later.
func (c *race) arrive(x *runner) {
	here := c.ways[x.places]
	for _, y := range here {
		if y.noLater(x) {
			return
		}
	}
	kept := here[:0]
	for _, y := range here {
		if y.beaten = x.noLater(y); !y.beaten {
			kept = append(kept, y)
		}
	}
	if len(kept) < len(here) {
		for y := x.from; y != nil && !c.again; y = y.from {
			c.again = y.places == x.places && x.noLater(y)
		}
	}
	c.ways[x.places] = append(kept, x)
	heap.Push(&c.queue, x)
}

// raceWidths are the numbers of layers of a step that are tried one after the other: fewer tell more and
// take longer.
var raceWidths = [...]int{64, 6, 3, 1}

// raceMost is how many ways of an allocation are tried.
const raceMost = 1 << 21

// mayGoOn reports whether no race excludes the whole allocation. If one does, it looks for the shortest beginning
// that is excluded, too, and whatever continues that on another processor need not be looked at.
func (a *allocations) mayGoOn() bool {
	for _, wide := range raceWidths {
		answer, made := a.raceOf(a.in.N, wide, raceMost)
		if answer == goesOn {
			continue
		}
		if answer == lost {
			for n := a.runBefore(a.in.N); n > 0 && answer == lost; n = a.runBefore(n) {
				if answer, _ = a.raceOf(n, wide, 8*made+raceMost>>8); answer == lost {
					a.back = n + 1
				}
			}
			return false
		}
		return true
	}
	return true
}

// raceOf runs the race of layers 1..n.
func (a *allocations) raceOf(n, wide, most int) (answer, made int) {
	v := 0.0
	if n < a.in.N {
		v = a.through(n, a.least[n+1])
	}
	c := a.newRace(n, v, wide)
	answer = c.run(int(min(int64(most), max(0, a.budget))))
	a.budget -= int64(c.made) // a way costs as much as a node
	return answer, c.made
}

// runBefore is the end of the run before that of layer n.
func (a *allocations) runBefore(n int) int {
	r := a.owner[n]
	for n > 0 && a.owner[n] == r {
		n--
	}
	return n
}
